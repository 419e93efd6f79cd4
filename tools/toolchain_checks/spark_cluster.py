"""A standalone Spark cluster on this machine: a master and workers of one core each, in processes that end with their
block. PySpark's package has no start scripts, so `spark-class` starts the same classes.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.program import ended_group
from tools.toolchain_checks.report import CheckFailed

START_SECONDS = 600.0
POLL_SECONDS = 0.05
WORKERS = 2
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds: no second compiler, one thread that collects garbage."""
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running standalone cluster."""

    master: str
    folder: Path
    workers: tuple[int, ...]
    """Process ids."""

    def executors(self) -> list[int]:
        """The processes that work for an application now."""
        found = []
        for place in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if b"CoarseGrainedExecutorBackend" in (place / "cmdline").read_bytes():
                    parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                    if parent in self.workers:
                        found.append(int(place.name))
        return sorted(found)

    def executors_started(self) -> int:
        """The number of executors so far, of all applications."""
        return sum(1 for _ in self.folder.glob("work-*/app-*/*"))


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A master and two workers on loopback; their logs are in `folder`. CheckFailed if they do not start."""
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    folder.mkdir(parents=True)
    port = free_ports(2 * (WORKERS + 1))
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, *what: str) -> "subprocess.Popen[bytes]":
            command = [program, *what[:1], "--host", "127.0.0.1", *what[1:]]
            return stack.enter_context(_process(command, folder / f"{name}.log"))

        def await_words(name: str, process: "subprocess.Popen[bytes]", words: str) -> None:
            await_true(_tells(folder / f"{name}.log", words), process, f"the Spark {name} to be ready")

        first = start("master", f"{_DEPLOY}.master.Master", "--port", str(port), "--webui-port", str(port + 1))
        # A worker that finds no master tries again only after seconds.
        await_words("master", first, "I have been elected leader")
        workers = {}
        for number in range(1, WORKERS + 1):
            places = ["--port", str(port + 2 * number), "--webui-port", str(port + 2 * number + 1)]
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
            workers[f"worker-{number}"] = start(f"worker-{number}", f"{_DEPLOY}.worker.Worker", *places, *room, master)
        for name, process in workers.items():
            await_words(name, process, "Successfully registered with master")
        yield SparkCluster(master, folder, tuple(process.pid for process in workers.values()))


@contextmanager
def _process(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
            },
            start_new_session=True,
        )
        with ended_group(process):  # Executors are in their worker's process group.
            yield process


def _tells(log: Path, words: str) -> Callable[[], bool]:
    return lambda: words in log.read_text(errors="replace")


def await_true(is_so: Callable[[], bool], process: "subprocess.Popen[bytes]", what: str) -> None:
    """Wait until a condition is true. Raises CheckFailed if the process ends before, or after minutes."""
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if process.poll() is not None:
            raise CheckFailed(f"waiting for {what}: the process ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise CheckFailed(f"waiting for {what}: it took more than {START_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
