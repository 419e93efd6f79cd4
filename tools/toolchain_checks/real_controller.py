"""A real 4.3 controller on a copy of Klamm's data directory: its log messages, its answers, and its snapshot. It must
become the leader of the log, and find no fault in it: it exits on a record that it cannot replay, and logs a fault of
its other readers. It takes a snapshot after every change, so the first one has its image of Klamm's log. Its sessions
are long, so that it does not fence the brokers that stopped with Klamm's server."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from klamm import AdminClient, ConfigResource, ConfigSource, ErrorCode, NewPartitions, NewTopic
from klamm.admin.connection import open_connection
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from klamm.protocol.record_batch import decode_batches
from klamm.server.addresses import Address
from tools.toolchain_checks.cluster_state import ClusterState, state_of_snapshot
from tools.toolchain_checks.java_process import Java, JavaProcess
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.report import CheckFailed, expect, expect_none
from tools.toolchain_checks.story import DELETED, Ending

START_SECONDS = 240.0
ASK_SECONDS = 240.0
CONTROLLER_ENDPOINT = 2
_ACTIVE = re.compile(r"Becoming the active controller at epoch (\d+), next write offset (\d+)")
_FAULT = re.compile(r"\bfault\b", re.IGNORECASE)
_LOGGED = {
    f"org.slf4j.simpleLogger.log.org.apache.kafka.{name}": "info"
    for name in ("controller.QuorumController", "image.publisher.SnapshotEmitter")
}


@dataclass(frozen=True, slots=True)
class RealController:
    """The running controller."""

    process: JavaProcess
    address: Address
    log_folder: Path
    found: frozenset[Path]
    """The snapshots that existed before it started."""

    def await_active(self) -> tuple[int, int]:
        """Wait until it is the active controller. Returns its epoch, and the offset of its first own record."""

        def look() -> tuple[int, int] | None:
            match = _ACTIVE.search(self._told())
            return (int(match[1]), int(match[2])) if match else None

        return self.process.wait_for("it became the active controller", look, START_SECONDS)

    def await_snapshot(self) -> ClusterState:
        """The content of its first snapshot."""

        def look() -> Path | None:
            # It is written under another name and moved when it is complete.
            return min(set(self.log_folder.glob("*.checkpoint")) - self.found, default=None)

        snapshot = self.process.wait_for("it wrote a snapshot", look, START_SECONDS)
        batches = decode_batches(snapshot.read_bytes())
        return state_of_snapshot(record for batch in batches if not batch.is_control for record in batch.records)

    def faults(self) -> list[str]:
        """The faults that it has logged."""
        return [line for line in self._told().splitlines() if _FAULT.search(line)]

    def _told(self) -> str:
        return self.process.errors.read_text(encoding="utf-8", errors="replace")


@contextmanager
def real_controller(java: Java, data_dir: Path, name: str = "controller") -> Iterator[RealController]:
    """A controller that is starting on a copy of the data directory."""
    copy = java.folder / f"{name}-data"
    shutil.copytree(data_dir, copy)
    address = Address("127.0.0.1", free_ports(1))
    config = {
        "process.roles": "controller",
        "node.id": "3000",
        "controller.quorum.voters": f"3000@{address}",
        "listeners": f"CONTROLLER://{address}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": str(copy),
        "broker.session.timeout.ms": "3600000",
        "metadata.max.idle.interval.ms": "0",
        "metadata.log.max.record.bytes.between.snapshots": "1",
    }
    properties = java.folder / f"{name}.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()), encoding="utf-8")
    found = frozenset((copy / LOG_FOLDER).glob("*.checkpoint"))
    with java.running(name, "kafka.Kafka", [str(properties)], _LOGGED) as process:
        yield RealController(process, address, copy / LOG_FOLDER, found)


def ask_who(controller: RealController) -> DescribeClusterResponse:
    """Its description of the cluster and the controllers."""
    return trio.run(_ask_who, controller.address)


async def _ask_who(address: Address) -> DescribeClusterResponse:
    with trio.fail_after(ASK_SECONDS):
        connection = await open_connection(address, "toolchain", 1 << 20)
        try:
            request = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINT)
            version = connection.version_of(describe_cluster.API)
            return await connection.exchange(describe_cluster.API, version, request)
        finally:
            await connection.aclose()


def ask_about_topics(controller: RealController, ending: Ending) -> None:
    """It refuses to create existing topics, and knows each topic's number of partitions and configs."""
    trio.run(_ask_about_topics, str(controller.address), ending)


async def _ask_about_topics(address: str, ending: Ending) -> None:
    names = [topic.topic_name or "" for topic in ending.topics]
    found: list[str] = []
    async with AdminClient(address, request_timeout_seconds=ASK_SECONDS) as admin:
        found += [
            f"to make {made.topic_name} once more is answered {made.error}"
            for made in await admin.create_topics(names, validate_only=True)
            if made.error is None or made.error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        ]
        enlarged = [NewPartitions(topic.topic_name or "", len(topic.partitions)) for topic in ending.topics]
        counts = {topic.topic_name: len(topic.partitions) for topic in ending.topics}
        for result in await admin.create_partitions(enlarged, validate_only=True):
            said = (result.error.message or "") if result.error else "NONE"
            if f" {counts[result.topic_name]} partition" not in said:
                found.append(f"{result.topic_name} has {counts[result.topic_name]} partitions, it says: {said}")
        for described in await admin.describe_configs(ConfigResource.topic(name) for name in names):
            described.raise_for_error()
            entries = described.configs.values()
            own = {e.name: e.value for e in entries if e.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
            if own != ending.configs[described.resource.name]:
                found.append(f"{described.resource}: we have {ending.configs[described.resource.name]}, it has {own}")
    expect_none(found, "answers that are not ours")


def have_it_work(controller: RealController, ending: Ending) -> None:
    """It places a topic on Klamm's brokers, and deletes one of Klamm's topics by its id."""
    trio.run(_have_it_work, str(controller.address), ending)


async def _have_it_work(address: str, ending: Ending) -> None:
    async with AdminClient(address, request_timeout_seconds=ASK_SECONDS) as admin:
        (made,) = await admin.create_topics([NewTopic(DELETED, 6, 3)])
        made.raise_for_error()
        topic_id = ending.topics[0].topic_id
        if topic_id is None:
            raise CheckFailed("our topics have no ids")
        (deleted,) = await admin.delete_topics([topic_id])
        deleted.raise_for_error()
        (gone,) = await admin.create_topics([NewTopic(ending.topics[0].topic_name or "", 1, 1)], validate_only=True)
        expect(gone.error is None, f"the deleted topic's name is not free: {gone.error}")
