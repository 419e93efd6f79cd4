"""The leader of a metadata quorum, as an observer talks to it: Fetch and FetchSnapshot, and nothing that changes the
cluster.

Brokers of Apache Kafka read the metadata log in the same way (KIP-595, KIP-630). Where the log is with another
controller, the answer names it; clusters older than 3.7 do not say at which address, so the next of the given addresses
is tried.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import trio

from klamm.admin.connection import Connection
from klamm.admin.errors import NotSupportedByBroker
from klamm.admin.streams import ConnectionLost
from klamm.controller.log.errors import os_errors_as_log_errors
from klamm.controller.log.snapshot_files import PART_SUFFIX, SUFFIX, SnapshotFile, check_snapshot, snapshot_path
from klamm.controller.metadata_log_reader import SnapshotId
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.raft import fetch_snapshot
from klamm.protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID
from klamm.server.addresses import Address
from klamm.twin.follower_identity import FollowerIdentity

FIRST_VERSION_WITH_IDS: Final = 13
FIRST_VERSION_OF_RAFT: Final = 12
FETCH_WAIT_MS: Final = 500
ANSWER_SECONDS: Final = 30.0
FETCH_BYTES: Final = 8 << 20
SNAPSHOT_PART_BYTES: Final = 4 << 20
CONTROLLERS: Final = 2
"""DescribeCluster: the end points of controllers, not of brokers."""
_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE})
_OTHER_EPOCH: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
_NO_METADATA_LOG: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class NotTheLeader(Exception):
    """Another controller leads, or none; `at` is where, if the answer says it."""

    def __init__(self, reason: str, at: Address | None = None) -> None:
        super().__init__(reason)
        self.at = at


class NotFollowable(Exception):
    """The cluster can never be followed like this; the text is one line."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a copy goes."""

    offset: int
    epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the leader says to a position: at most one of `diverging`, `snapshot` and `records` is there."""

    records: bytes
    high_watermark: int
    diverging: tuple[int, int] | None = None
    """The largest epoch that both logs have, and where it ends in the leader's."""
    snapshot: SnapshotId | None = None


class Leader:
    """A connection to the leader, with its epoch."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.epoch = 0
        self.leader_id = -1
        self._endpoints: dict[int, Address] = {}

    async def cluster_id(self) -> str | None:
        """The cluster's id; None: a controller older than 3.7 does not say it. Raises NotFollowable for a broker."""
        try:
            version = self.connection.version_of(describe_cluster.API)
        except NotSupportedByBroker:
            return None
        if version < 1:
            return None
        request = describe_cluster.DescribeClusterRequest(endpoint_type=CONTROLLERS)
        answer = await self._ask(describe_cluster.API, version, request)
        if answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
            raise self._is_a_broker()
        return None if answer.error_code else answer.cluster_id

    async def fetch_behind(self, position: Position, identity: FollowerIdentity) -> Fetched:
        """Wait at most half a second for records behind a position. Raises NotTheLeader, NotFollowable and
        ConnectionLost."""
        version = self._version()
        request = self._fetch_request(version, position, identity)
        answer = await self._ask(fetch.API, version, request)
        self._endpoints |= {node.node_id: Address(node.host, node.port) for node in answer.node_endpoints}
        if answer.error_code:
            raise self._refusal(answer.error_code, identity)
        data = answer.responses[0].partitions[0]
        if data.error_code in _OTHER_EPOCH and data.current_leader.leader_epoch > self.epoch:
            self._follow_epoch(data.current_leader)
            return await self.fetch_behind(position, identity)
        if data.error_code in _NO_METADATA_LOG:
            raise self._is_a_broker()
        if data.error_code:
            raise self._moved(data)
        if data.current_leader.leader_epoch > self.epoch:
            self._follow_epoch(data.current_leader)
        found = Fetched(bytes(data.records or b""), data.high_watermark)
        if data.diverging_epoch.epoch >= 0:
            return replace(found, diverging=(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))
        if data.snapshot_id.end_offset >= 0:
            return replace(found, snapshot=SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch))
        return found

    def _follow_epoch(self, current: Any) -> None:
        self.epoch, self.leader_id = current.leader_epoch, current.leader_id

    def _version(self) -> int:
        version = self.connection.version_of(fetch.API)
        if version < FIRST_VERSION_OF_RAFT:
            raise NotFollowable(
                f"{self.connection.address} serves Fetch up to version {version}: it is no controller of a cluster "
                "without ZooKeeper"
            )
        return version

    def _fetch_request(self, version: int, position: Position, identity: FollowerIdentity) -> fetch.FetchRequest:
        partition = fetch.FetchPartition(
            # Apache Kafka refuses an epoch below that of the copy as INVALID_REQUEST, also before it names its own.
            current_leader_epoch=self.epoch or position.epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.epoch,
            replica_directory_id=identity.directory_id,
            high_watermark=position.high_watermark,
        )
        has_ids = version >= FIRST_VERSION_WITH_IDS
        topic = fetch.FetchTopic(
            topic="" if has_ids else METADATA_TOPIC,
            topic_id=METADATA_TOPIC_ID if has_ids else ZERO_UUID,
            partitions=[partition],
        )
        request = fetch.FetchRequest(
            cluster_id=identity.cluster_id or None,
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=FETCH_BYTES,
            session_epoch=-1,
            topics=[topic],
        )
        if version >= 15:
            request.replica_state = fetch.ReplicaState(replica_id=identity.replica_id)
        else:
            request.replica_id = identity.replica_id
        return request

    def _is_a_broker(self) -> NotFollowable:
        at = self.connection.address
        return NotFollowable(f"{at} is a broker, not a controller: klamm clone copies from brokers")

    def _refusal(self, code: int, identity: FollowerIdentity) -> Exception:
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            return NotFollowable(f"{self.connection.address} is not of cluster {identity.cluster_id}")
        if code in _ELSEWHERE:
            return NotTheLeader(f"{self.connection.address} does not lead")
        return NotTheLeader(f"{self.connection.address} answers {_name_of(code)}")

    def _moved(self, data: Any) -> Exception:
        current = data.current_leader
        if current.leader_id >= 0 and data.error_code in _ELSEWHERE:
            at = self._endpoints.get(current.leader_id)
            return NotTheLeader(f"controller {current.leader_id} leads", at)
        return NotTheLeader(f"{self.connection.address} answers {_name_of(data.error_code)}")

    async def fetch_snapshot(
        self, snapshot: SnapshotId, folder: Path, identity: FollowerIdentity, on_part: Callable[[], None] = lambda: None
    ) -> SnapshotFile:
        """Fetch a snapshot whole, check it, and give it its name. Calls `on_part` after each part. Raises what
        `fetch_behind` raises, CorruptSnapshot and LogError."""
        path = snapshot_path(folder, snapshot.end_offset, snapshot.epoch)
        part = path.with_name(path.name.removesuffix(SUFFIX) + PART_SUFFIX)
        with os_errors_as_log_errors("write", part), part.open("wb") as file:
            size, position = 1, 0
            while position < size:
                found = await self._snapshot_part(snapshot, position, identity)
                size, data = found.size, bytes(found.unaligned_records or b"")
                if not data and position < size:
                    raise ConnectionLost(f"{self.connection.address} sent no byte of snapshot {path.name}")
                file.write(data)
                position += len(data)
                on_part()
            file.flush()
            await trio.to_thread.run_sync(os.fsync, file.fileno())
        with suppress(OSError):
            path.unlink()
        part.replace(path)
        whole = SnapshotFile(snapshot.end_offset, snapshot.epoch, path)
        try:
            await trio.to_thread.run_sync(check_snapshot, whole)
        except BaseException:
            path.unlink()
            raise
        return whole

    async def _ask(self, api: Api[Any, Any], version: int, request: Message) -> Any:
        try:
            with trio.fail_after(ANSWER_SECONDS):
                return await self.connection.exchange(api, version, request)
        except trio.TooSlowError:
            raise ConnectionLost(f"{self.connection.address} does not answer within {ANSWER_SECONDS:g} s") from None

    async def _snapshot_part(self, snapshot: SnapshotId, position: int, identity: FollowerIdentity) -> Any:
        version = self.connection.version_of(fetch_snapshot.API)
        wanted = fetch_snapshot.PartitionSnapshot(
            current_leader_epoch=self.epoch,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            position=position,
            replica_directory_id=identity.directory_id,
        )
        request = fetch_snapshot.FetchSnapshotRequest(
            cluster_id=identity.cluster_id or None,
            replica_id=identity.replica_id,
            max_bytes=SNAPSHOT_PART_BYTES,
            topics=[fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[wanted])],
        )
        answer = await self._ask(fetch_snapshot.API, version, request)
        if answer.error_code:
            raise self._refusal(answer.error_code, identity)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise NotTheLeader(f"{self.connection.address} answers {_name_of(found.error_code)} to FetchSnapshot")
        return found


def _name_of(code: int) -> str:
    with suppress(ValueError):
        return ErrorCode(code).name
    return f"error {code}"
