"""The stories of docs/clients.md told by client libraries of other languages: the programs of scripts/conformance.

Each plays against a cluster of its own, whose brokers it stops and starts by the control interface. It ends with exit
code 0 if all answers were as they should be, else with one line that says which was not. What is built or fetched for
them is kept in the cache beside Kafka's jars.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from klamm.server_process import ServerProcess
from scripts.toolchain_checks.java_process import Java
from scripts.toolchain_checks.kafka_jars import cache, find_program, kept_folder
from scripts.toolchain_checks.report import CheckFailed, Report

STORY_SECONDS = 240.0
BUILD_SECONDS = 900.0
TOLD_CHARACTERS = 3000
REPLICATION_RATE = "1000"
"""Records a second: a move of those that were written first can be seen."""
_PROGRAMS = Path(__file__).resolve().parent.parent / "conformance"
_CONFIGS = (
    "num.partitions=3",
    "default.replication.factor=2",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)


def check_client_stories(report: Report, java: Java | None) -> None:
    """Every library's story; Java's needs the jars, the others do not."""
    claim = "topics made during a rolling restart, limits, ACLs, and records that move are what they should be to {}"
    if java is not None:
        with report.check(claim.format("Java's clients")):
            _tell_in_java(java)
    with report.check(claim.format("kadm (franz-go)")):
        _tell_in_go()
    with report.check(claim.format("kafkajs")):
        _tell_in_node()


def _tell_in_java(java: Java) -> None:
    sources = sorted((_PROGRAMS / "java").glob("*.java"))
    classes = kept_folder(
        f"conformance-java-{_fingerprint(*sources, beside=java.class_path)}",
        lambda folder: _build(
            [
                *(find_program("javac", "default-jdk-headless"), "-Xlint:all", "-Werror", "-d", str(folder)),
                *("-cp", java.class_path, *map(str, sources)),
            ]
        ),
    )
    with_program = replace(java, class_path=os.pathsep.join((str(classes), java.class_path)))
    with _cluster() as server:
        arguments = (server.bootstrap_servers, server.control_url)
        with_program.run("RollingRestart", "RollingRestart", arguments, STORY_SECONDS)


def _tell_in_go() -> None:
    program = cache() / "conformance-go"
    cache().mkdir(parents=True, exist_ok=True)
    # Go itself knows what has to be built again.
    _build([find_program("go", "golang-go"), "build", "-o", str(program), "."], _PROGRAMS / "go")
    with _cluster() as server:
        _run([str(program), server.bootstrap_servers, server.control_url], STORY_SECONDS)


def _tell_in_node() -> None:
    node = find_program("node", "nodejs")

    def install(folder: Path) -> None:
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            (folder / name).write_bytes((_PROGRAMS / "node" / name).read_bytes())
        _build([find_program("npm", "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)

    packages = kept_folder(f"conformance-node-{_fingerprint(_PROGRAMS / 'node' / 'package-lock.json')}", install)
    with _cluster() as server:
        story = [node, str(_PROGRAMS / "node" / "rolling_restart.js"), server.bootstrap_servers, server.control_url]
        _run(story, STORY_SECONDS, {"NODE_PATH": str(packages / "node_modules")})


@contextmanager
def _cluster() -> Iterator[ServerProcess]:
    sets = [part for config in _CONFIGS for part in ("--set", config)]
    arguments = ("--brokers", "3", "--racks", "a,b,c", "--replication-rate", REPLICATION_RATE, "--seed", "7")
    with ServerProcess(*arguments, *sets, control=True) as server:
        yield server


def _fingerprint(*files: Path, beside: str = "") -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + beside.encode()).hexdigest()[:12]


def _build(command: Sequence[str], folder: Path | None = None) -> None:
    _run(command, BUILD_SECONDS, folder=folder)


def _run(
    command: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None, folder: Path | None = None
) -> None:
    """Run a program to its end; `CheckFailed` with what it said unless its exit code is 0."""
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, **(variables or {})},
        )
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{command[0]} did not end within {seconds:.0f} s") from None
    if done.returncode:
        told = (done.stdout + done.stderr)[-TOLD_CHARACTERS:].strip()
        raise CheckFailed(f"{command[0]} ended with exit code {done.returncode}\n{told}")
