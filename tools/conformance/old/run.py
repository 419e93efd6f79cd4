#!/usr/bin/env python3
"""Clients of other years tell their stories against `klamm serve --kafka-version 2.1` (docs/old-versions.md).

    python tools/conformance/old/run.py [NAME …]     java, python, node, go, rust, librdkafka, tables, messages,
                                                  takeovers; by default all

Downloads the clients with Maven, pip, npm, Go and Cargo into a cache, once, and builds them there (librdkafka with make
and a C compiler). `tables` compares what `kafka-broker-api-versions` of each release prints with spec/releases.tsv,
`messages` our bytes in the versions that 4.0 removed with those of Kafka's own classes. In `takeovers`, controllers of
former releases take over our metadata logs. Prints a line for each story;
exits 1 at the first that fails.
"""

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))

import klamm  # noqa: E402
from klamm.protocol import Api  # noqa: E402
from tools.conformance.old import takeovers as takeovers_of_logs  # noqa: E402
from tools.fuzzing.codec_cases import all_kinds, declaration  # noqa: E402
from tools.fuzzing.values import Values  # noqa: E402
from tools.toolchain_checks import message_classes  # noqa: E402
from tools.toolchain_checks.java_process import Java  # noqa: E402
from tools.toolchain_checks.kafka_jars import cache  # noqa: E402
from tools.toolchain_checks.program import run_program  # noqa: E402
from tools.toolchain_checks.report import CheckFailed  # noqa: E402

SECONDS = 300.0
BUILD_SECONDS = 1_200.0
JARS = ("kafka-clients:0.11.0.3", "kafka_2.12:2.1.1", "kafka_2.13:2.8.2", "kafka_2.13:3.9.1")
RELEASES = {
    "2.1": JARS[1], "2.4": "kafka_2.12:2.4.1",
    **{full.rpartition(".")[0]: f"kafka_2.13:{full}" for full in ("2.8.2", "3.0.2", "3.3.2", "3.6.2", "3.9.1")},
    **{full.rpartition(".")[0]: f"kafka-tools:{full}" for full in ("4.0.0", "4.1.1", "4.2.0", "4.3.0")},
}  # fmt: skip
"""The jars with the tools of each release."""
FIRST_WITHOUT_OLD_PRODUCE = "4.0"
"""From this release on, brokers list Produce from version 0, though they serve it from 3 on only."""
_CRATE = """[package]
name = "old"
version = "0.1.0"
[dependencies]
rdkafka-sys = "=1.0.0"
"""
OWN_APIS = 10_000
"""Klamm's own APIs have such keys."""
TAKEOVERS = (("3.3", 7), ("3.6", 8), ("3.6", 11), ("3.6", 14), ("3.9", 15), ("3.9", 17), ("3.9", 20), ("3.9", 21))
"""The releases of controllers, each with the metadata.version of the log."""
NOT_LISTED = {71, 72}
"""Client metrics, which are listed on request."""
DRAWN, CHANGED = 20, 40
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>klamm</groupId>
<artifactId>old</artifactId><version>1</version><packaging>pom</packaging><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency><dependency>
<groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency></dependencies>
</project>
"""


def jars_of(coordinates: str) -> str:
    """The class path of a release."""
    folder = work() / coordinates.replace(":", "-")
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        name, _, version = coordinates.partition(":")
        (folder / "pom.xml").write_text(_POM.format(name=name, version=version))
        maven = ["mvn", "-B", "-q", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
        run_program([*maven, f"-DoutputDirectory={folder / 'jars'}"], BUILD_SECONDS)
        (folder / "done").touch()
    return f"{folder / 'jars'}/*"


def work() -> Path:
    """Where the clients are kept."""
    folder = cache() / "old-clients"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compiled(source: Path, jars: str, name: str) -> str:
    """The class path of a Java program with its jars."""
    folder = work() / name
    folder.mkdir(exist_ok=True)
    run_program(["javac", "-nowarn", "-d", str(folder), "-cp", jars, str(source)], BUILD_SECONDS)
    return f"{jars}:{folder}"


@contextmanager
def serving(release: str) -> Iterator[str]:
    with klamm.ServerProcess(
        brokers=1, kafka_version=release, configs={"group.initial.rebalance.delay.ms": 0}
    ) as server:
        yield server.bootstrap_servers


def told(command: list[str]) -> None:
    sys.stdout.write(run_program(command, SECONDS))
    sys.stdout.flush()


def java() -> None:
    with serving("2.1") as servers:
        for coordinates in JARS[:3]:
            name = coordinates.replace(":", "-")
            path = compiled(HERE / "OldClients.java", jars_of(coordinates), f"classes-{name}")
            told(["java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "OldClients",
                servers, name])  # fmt: skip


def python() -> None:
    folder = work() / "python"
    if not (folder / "done").exists():
        run_program([shutil.which("python3.11") or sys.executable, "-m", "venv", str(folder)], BUILD_SECONDS)
        packages = ("kafka-python==1.4.7", "pykafka==2.8.0", "six", "lz4", "python-snappy", "xxhash")
        run_program([str(folder / "bin/pip"), "install", "-q", *packages], BUILD_SECONDS)
        (folder / "done").touch()
    with serving("2.1") as servers:
        for story in ("kafka_python_story.py", "pykafka_story.py"):
            told([str(folder / "bin/python"), str(HERE / story), servers])


def node() -> None:
    folder = work() / "node"
    if not (folder / "node_modules").exists():
        folder.mkdir(exist_ok=True)
        run_program(["npm", "install", "--omit=optional", "--prefix", str(folder), "kafka-node@5.0.0"], BUILD_SECONDS)
    shutil.copy(HERE / "story.js", folder)
    with serving("2.1") as servers:
        told(["node", str(folder / "story.js"), servers])


def go() -> None:
    folder = work() / "sarama"
    shutil.copytree(HERE / "sarama", folder, dirs_exist_ok=True)
    for step in (["go", "mod", "tidy"], ["go", "build", "-o", "story", "."]):
        subprocess.run(step, cwd=folder, check=True, timeout=BUILD_SECONDS, capture_output=True)
    with serving("2.1") as servers:
        told([str(folder / "story"), servers])


def rust() -> None:
    folder = work() / "rust"
    shutil.copytree(HERE / "rust", folder, dirs_exist_ok=True)
    subprocess.run(["cargo", "build", "-q"], cwd=folder, check=True, timeout=BUILD_SECONDS, capture_output=True)
    with serving("2.1") as servers:
        told([str(folder / "target/debug/story"), servers])


def librdkafka() -> None:
    """librdkafka 1.0.0, whose sources are in the crate rdkafka-sys 1.0.0."""
    folder = work() / "librdkafka"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "src").mkdir(parents=True)
        (folder / "src" / "lib.rs").touch()
        (folder / "Cargo.toml").write_text(_CRATE)
        manifest = run_program(
            ["cargo", "metadata", "--format-version", "1", "--manifest-path", str(folder / "Cargo.toml")], BUILD_SECONDS
        )
        crates = {one["name"]: Path(one["manifest_path"]).parent for one in json.loads(manifest)["packages"]}
        shutil.copytree(crates["rdkafka-sys"] / "librdkafka", folder / "librdkafka")
        for step in (["bash", "./configure", "--disable-ssl", "--disable-gssapi"], ["make", "-j2", "libs"]):
            subprocess.run(step, cwd=folder / "librdkafka", check=True, timeout=BUILD_SECONDS, capture_output=True)
        (folder / "done").touch()
    library = folder / "librdkafka" / "src"
    linked = [f"-I{library}", f"-L{library}", "-lrdkafka", f"-Wl,-rpath,{library}"]
    story = folder / "story"
    run_program(["cc", "-Wall", "-o", str(story), str(HERE / "librdkafka_story.c"), *linked], BUILD_SECONDS)
    with serving("2.1") as servers:
        for version in ([], ["0.11.0"], ["0.10.0"], ["0.9.0"], ["0.8.2"]):
            told([str(story), servers, *version])


def tables() -> None:
    with (ROOT / "spec" / "releases.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    for release, coordinates in RELEASES.items():
        full, listener = coordinates.partition(":")[2], "zkBroker" if release < "3.1" else "broker"
        expected = {
            int(row["api_key"]): (int(row["min_version"]), int(row["max_version"]))
            for row in rows
            if (row["release"], row["listener"]) == (full, listener) and int(row["api_key"]) not in NOT_LISTED
        }
        if release >= FIRST_WITHOUT_OLD_PRODUCE:
            expected[0] = 0, expected[0][1]
        package = "org.apache.kafka.tools" if coordinates.startswith("kafka-tools") else "kafka.admin"
        command = ["java", "-Xmx256m", "-cp", jars_of(coordinates), f"{package}.BrokerApiVersionsCommand"]
        with serving(release) as servers:
            output = run_program([*command, "--bootstrap-server", servers], SECONDS)
        printed = {
            int(key): (int(first), int(last or first))
            for key, first, last in re.findall(r"\w+\((\d+)\): (\d+)(?: to (\d+))?", output)
            if int(key) < OWN_APIS
        }
        if printed != expected:
            raise CheckFailed(f"{release}: {sorted(set(printed.items()) ^ set(expected.items()))}")
        print(f"kafka-broker-api-versions {full} prints {len(printed)} APIs as against the real broker")


def takeovers() -> None:
    for release, level in TAKEOVERS:
        full = RELEASES[release].partition(":")[2]
        told = takeovers_of_logs.take_over(jars_of(RELEASES[release]), release, level, work() / f"takeover-{level}")
        print(f"a controller of {full}: {told}", flush=True)


def messages() -> None:
    """Our bytes in the removed versions, and those of Kafka's classes."""
    source = ROOT / "tools/conformance/java/Messages.java"
    java_of = Java("java", compiled(source, jars_of(JARS[3]), "classes-messages"), work())
    chance = Random(43)
    values = Values(chance, ())
    schemas = list(_removed())
    drawn = [(each, message_classes.drawn(each, values)) for each in schemas for _ in range(DRAWN)]
    changed = [(each, message_classes.changed(each, values, chance)) for each in schemas for _ in range(CHANGED)]
    for name, cases in (("drawn", drawn), ("changed", changed)):
        differences = message_classes.differences(java_of, name, cases)
        if differences:
            raise CheckFailed("\n".join(differences[:5]))
        print(f"Kafka 3.9.1's classes make of {len(cases)} {name} messages of {len(schemas)} versions what we make")


def _removed() -> Iterator[message_classes.Schema]:
    for kind, key in all_kinds():
        api = declaration(kind, key)
        if isinstance(api, Api):
            message_class = api.request if kind == "request" else api.response
            for version in range(api.versions.start, min(api.removed_before, api.versions.stop)):
                java_class = message_classes.java_class(kind, message_class.__name__)
                yield message_classes.Schema(java_class, message_class, version, api.flexible(version))


STORIES: dict[str, Callable[[], None]] = {
    "java": java, "python": python, "node": node, "go": go, "rust": rust, "librdkafka": librdkafka, "tables": tables,
    "messages": messages, "takeovers": takeovers,
}  # fmt: skip


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in STORIES]
    if unknown:
        print(f"there is no story {unknown[0]!r}; there are {', '.join(STORIES)}", file=sys.stderr)
        return 2
    try:
        for name in names or STORIES:
            STORIES[name]()
    except (CheckFailed, subprocess.SubprocessError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
