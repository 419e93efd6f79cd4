"""AlterReplicaLogDirs (34): the broker that was asked moves its replicas between its log directories (KIP-113).

The answer says whether the move begins. A directory that is named for a replica which does not exist yet is used when
it is created, and the answer is REPLICA_NOT_AVAILABLE. Order of the checks: ReplicaManager.alterReplicaLogDirs of
Apache Kafka 4.3.
"""

from collections.abc import Iterator
from dataclasses import field

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.log_dirs.directories import LogDir, LogDirs
from klamm.broker.log_dirs.moves import MAX_MOVES
from klamm.broker.log_dirs.placed_replicas import MAX_PREFERRED
from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

MAX_DIRECTORY_NAME = 255
"""The longest name of a file."""
_FUTURE_SUFFIX = len("-.") + 32 + len("-future")


@dataclass(slots=True)
class ReplicasMoved:
    """The effect: moves that begin or end, and directories for later replicas, of one broker."""

    brokers: SimulatedBrokers
    broker_id: int
    begins: dict[LogKey, Uuid] = field(default_factory=dict)
    ends: list[LogKey] = field(default_factory=list)
    preferred: dict[tuple[str, int], str] = field(default_factory=dict)

    def apply(self, _soft: SoftState, now_ms: int) -> None:
        work = self.brokers.log_dir_work
        for key in self.ends:
            work.moves.cancel(self.broker_id, key)
        for key, directory_id in self.begins.items():
            work.moves.begin(self.broker_id, key, directory_id, self.brokers.data.find(*key), now_ms)
        for (topic_name, index), path in self.preferred.items():
            work.placed.prefer(self.broker_id, topic_name, index, path)


def handle_alter_replica_log_dirs(
    brokers: SimulatedBrokers, image: MetadataImage, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> Outcome:
    """A code for each replica. If a replica is named twice, the last directory counts."""
    if context.refuse_cluster(AclOperation.ALTER):
        return Outcome(refuse_moves(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    wanted = _wanted(request)
    broker_id = -1 if context.requester.asked_broker_id is None else context.requester.asked_broker_id
    broker = brokers.by_id.get(broker_id)
    moved = ReplicasMoved(brokers, broker_id)
    codes = {
        (topic, index): ErrorCode.LOG_DIR_NOT_FOUND
        if broker is None
        else _move(moved, image, broker.log_dirs, (topic, index), path)
        for (topic, index), path in wanted.items()
    }
    return Outcome(_answer(codes), effects=[moved])


def refuse_moves(request: AlterReplicaLogDirsRequest, code: ErrorCode) -> AlterReplicaLogDirsResponse:
    """The response that refuses each replica with one error code."""
    return _answer(dict.fromkeys(_wanted(request), code))


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    """The directory of each replica, by topic name and partition."""

    def named() -> Iterator[tuple[tuple[str, int], str]]:
        for directory in request.dirs:
            for topic in directory.topics:
                for index in topic.partitions:
                    yield (topic.name, index), directory.path

    return dict(named())


def _answer(codes: dict[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (name, index), code in codes.items():
        topics.setdefault(name, []).append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in topics.items()]
    )


def _move(
    moved: ReplicasMoved, image: MetadataImage, log_dirs: LogDirs, replica: tuple[str, int], path: str
) -> ErrorCode:
    topic_name, index = replica
    if len(topic_name) + len(str(index)) + _FUTURE_SUFFIX > MAX_DIRECTORY_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    target = log_dirs.at(path)
    if target is None or not target.is_online:
        return ErrorCode.LOG_DIR_NOT_FOUND if target is None else ErrorCode.KAFKA_STORAGE_ERROR
    if target.is_cordoned:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    topic = image.topics_by_name.get(topic_name)
    if topic is None or not 0 <= index < image.partition_count(topic):
        return _prefer(moved, replica, path) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    key = topic.topic_id, index
    place = moved.brokers.log_dir_work.placed.directory_of(image, moved.broker_id, key)
    if place is None:
        return _prefer(moved, replica, path) or ErrorCode.REPLICA_NOT_AVAILABLE
    present = log_dirs.find(place)
    if present is None or not present.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return _begin(moved, log_dirs, key, present, target)


def _begin(moved: ReplicasMoved, log_dirs: LogDirs, key: LogKey, present: LogDir, target: LogDir) -> ErrorCode:
    """Move a replica that is there. A move into another directory that is in progress ends."""
    moves = moved.brokers.log_dir_work.moves
    future = moves.find(moved.broker_id, key)
    if future is not None and future.directory_id == target.directory_id:
        return ErrorCode.NONE
    if future is not None:
        moved.ends.append(key)
    if present is target:
        return ErrorCode.NONE
    if log_dirs.offline_ids:
        return ErrorCode.KAFKA_STORAGE_ERROR  # Kafka creates no replica again while a directory may hold another one
    if len(moves) + len(moved.begins) >= MAX_MOVES:
        return ErrorCode.POLICY_VIOLATION
    moved.begins[key] = target.directory_id
    return ErrorCode.NONE


def _prefer(moved: ReplicasMoved, replica: tuple[str, int], path: str) -> ErrorCode:
    """Note the directory for a replica that does not exist yet; POLICY_VIOLATION if there are too many of them."""
    if moved.brokers.log_dir_work.placed.preferred_count + len(moved.preferred) >= MAX_PREFERRED:
        return ErrorCode.POLICY_VIOLATION
    moved.preferred[replica] = path
    return ErrorCode.NONE
