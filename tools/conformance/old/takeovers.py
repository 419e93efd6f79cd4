"""Controllers of former releases of Apache Kafka take over metadata logs that Klamm wrote at their metadata.version.

Klamm makes topics, changes their partitions and configs, and stops. The release's DumpLogSegments reads the log, its
controller becomes active on a copy of it and appends records, and Klamm starts again with that copy.
"""

import re
import shutil
import time
from pathlib import Path

import trio

import klamm
from klamm import AdminClient, ConfigAlteration, ConfigResource
from klamm.controller.log.data_dir import LOG_FOLDER
from tools.toolchain_checks.java_process import Java, JavaProcess
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import CheckFailed

SECONDS = 240.0
APPEND_SECONDS = 3.0
"""A controller appends a record each half second, as its config says."""
RACKS = ("a", "b", "c")
_ACTIVE = "Becoming the active controller at epoch"
_BAD = re.compile(r"isvalid: false|[Ss]kipping|invalid bytes|Exception")
_FAULT = re.compile(r"\bfault\b(?!Handler)|\bERROR\b|\bFATAL\b")


def take_over(jars: str, release: str, level: int, folder: Path) -> str:
    """Play one takeover. Returns what was found, in one line; raises CheckFailed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_log(folder / "data", release, level)
    records = _dump(jars, folder / "data" / LOG_FOLDER)
    copy = folder / "copy"
    shutil.copytree(folder / "data", copy)
    before = _size(copy)
    with Java("java", jars, folder).running(
        "controller", "kafka.Kafka", [str(_properties(folder, copy))], _LOGGED
    ) as it:
        it.wait_for("it was active", lambda: _ACTIVE in _told(it) or None, SECONDS)
        time.sleep(APPEND_SECONDS)
        faults = [line for line in _told(it).splitlines() if _FAULT.search(line)]
    if faults or _size(copy) <= before:
        raise CheckFailed(faults[0] if faults else "the controller appended no record")
    with klamm.ServerProcess(brokers=3, racks=RACKS, kafka_version=release, data_dir=copy, control=True) as server:
        server.create_topic("after", 1, 3)
    return f"{records} records at level {level}: dumped, taken over and started again"


_LOGGED = {"org.slf4j.simpleLogger.log.org.apache.kafka": "info"}


def _told(process: JavaProcess) -> str:
    return process.errors.read_text(encoding="utf-8", errors="replace")


def _size(data_dir: Path) -> int:
    return sum(file.stat().st_size for file in (data_dir / LOG_FOLDER).glob("*.log"))


def _write_log(data_dir: Path, release: str, level: int) -> None:
    with klamm.ServerProcess(
        brokers=3, racks=RACKS, kafka_version=release, metadata_version=str(level), data_dir=data_dir, control=True
    ) as server:
        for number in range(6):
            server.create_topic(f"t{number}", 3, 3, {"retention.ms": 1000} if number % 2 else None)
        server.delete_topic("t5")
        server.stop_broker(2)
        server.create_topic("while-down", 2, 2)
        server.start_broker(2)
        server.move_leader("t1", 0, server.isr("t1", 0)[-1])
        follower = next(one for one in server.isr("t2", 0) if one != server.leader("t2", 0))
        server.shrink_isr("t2", 0, follower)
        trio.run(_alter, server.bootstrap_servers)
        server.wait_for_reassignments()


async def _alter(bootstrap_servers: str) -> None:
    async with AdminClient(bootstrap_servers) as admin:
        await admin.incremental_alter_configs(
            {
                ConfigResource.topic("t0"): [ConfigAlteration("max.message.bytes", "77777")],
                ConfigResource.broker(): [ConfigAlteration("log.retention.ms", "5")],
            }
        )
        await admin.alter_partition_reassignments({("t3", 0): (1, 2)})


def _dump(jars: str, log: Path) -> int:
    files = ",".join(map(str, sorted(log.glob("*.log"))))
    arguments = ["--cluster-metadata-decoder", "--files", files]
    output = run_program(["java", "-Xmx200m", "-cp", jars, "kafka.tools.DumpLogSegments", *arguments], SECONDS)
    bad = [line for line in output.splitlines() if _BAD.search(line)]
    if bad:
        raise CheckFailed(bad[0])
    return output.count("| offset:")


def _properties(folder: Path, data_dir: Path) -> Path:
    address = f"127.0.0.1:{free_ports(1)}"
    config = {
        "process.roles": "controller",
        "node.id": "3000",
        "controller.quorum.voters": f"3000@{address}",
        "listeners": f"CONTROLLER://{address}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": str(data_dir),
        "broker.session.timeout.ms": "3600000",
        "metadata.max.idle.interval.ms": "500",
    }
    path = folder / "controller.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in config.items()), encoding="utf-8")
    return path
