"""What a cluster is, in plain Python: brokers, topics and partitions as objects, one rule after the other.

The model decides on its own what each profile answers and what becomes of every partition. It knows nothing of
columns, records, replay or the controller's code. What is up to chance (ids, automatic placement) it is told.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.settings import Profile
from protocol.errors import ErrorCode
from protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.uuid import Uuid

SESSION_MS = 9_000
NUM_PARTITIONS, REPLICATION_FACTOR = 2, 2
NOBODY = -1


@dataclass
class ModelPartition:
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    eligible: list[int] = field(default_factory=list)
    last_leader: list[int] = field(default_factory=list)
    recovering: bool = False


@dataclass
class ModelTopic:
    topic_id: Uuid
    partitions: list[ModelPartition]
    min_isr: int
    unclean: bool


@dataclass
class ModelBroker:
    epoch: int
    life: int
    fenced: bool = True
    leaving: bool = False
    last_contact_ms: int = 0
    heard: bool = True
    shutdown_offset: int = 0

    @property
    def live(self) -> bool:
        return not self.fenced and not self.leaving


@dataclass
class Model:
    """The cluster as it should be."""

    min_isr: int
    profile: Profile
    topics: dict[str, ModelTopic] = field(default_factory=dict)
    brokers: dict[int, ModelBroker] = field(default_factory=dict)

    def live(self) -> list[int]:
        return sorted(broker_id for broker_id, broker in self.brokers.items() if broker.live)

    # What requests are answered

    def judge_creation(self, request: CreateTopicsRequest, version: int) -> list[tuple[str, int]]:
        """The name and code of each answer: one per name, or when there is no time at all one per entry."""
        if request.timeout_ms <= 0:
            return [(topic.name, int(ErrorCode.REQUEST_TIMED_OUT)) for topic in request.topics]
        times = Counter(topic.name for topic in request.topics)
        codes = {
            topic.name: int(ErrorCode.INVALID_REQUEST if times[topic.name] > 1 else self._judge_topic(topic, version))
            for topic in request.topics
        }
        return list(codes.items())

    def _judge_topic(self, topic: CreatableTopic, version: int) -> ErrorCode:
        name = topic.name
        if name == "__cluster_metadata":
            return ErrorCode.INVALID_REQUEST
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if name in self.topics:
            return ErrorCode.TOPIC_ALREADY_EXISTS
        if any(name.replace(".", "_") == other.replace(".", "_") for other in self.topics):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if any(config.name == "no.such" for config in topic.configs):
            return ErrorCode.INVALID_CONFIG
        return self._judge_manual_topic(topic) if topic.assignments else self._judge_counts(topic, version)

    def _judge_counts(self, topic: CreatableTopic, version: int) -> ErrorCode:
        old = version < 4 and self.profile == "kip"
        if old and topic.num_partitions == -1:
            return ErrorCode.INVALID_PARTITIONS
        if old and topic.replication_factor == -1:
            return ErrorCode.INVALID_REPLICATION_FACTOR
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            return ErrorCode.INVALID_REPLICATION_FACTOR
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            return ErrorCode.INVALID_PARTITIONS
        wanted = REPLICATION_FACTOR if topic.replication_factor == -1 else topic.replication_factor
        return self._judge_placement(wanted)

    def usable(self) -> list[int]:
        """The brokers that replicas may be placed on."""
        if self.profile == "kip":
            return self.live()
        return sorted(broker_id for broker_id, broker in self.brokers.items() if broker.fenced or broker.live)

    def _judge_placement(self, replication_factor: int) -> ErrorCode:
        enough = self.live() and replication_factor <= len(self.usable())
        return ErrorCode.NONE if enough else ErrorCode.INVALID_REPLICATION_FACTOR

    def _judge_manual_topic(self, topic: CreatableTopic) -> ErrorCode:
        if topic.replication_factor != -1 or topic.num_partitions != -1:
            return ErrorCode.INVALID_REQUEST
        indexes = [assignment.partition_index for assignment in topic.assignments]
        rows = [assignment.broker_ids for assignment in topic.assignments]
        if sorted(indexes) != list(range(len(rows))) or not self._rows_are_good(rows, len(rows[0])):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        return ErrorCode.NONE

    def _rows_are_good(self, rows: Iterable[Sequence[int]], replication_factor: int) -> bool:
        return all(
            len(row) == replication_factor == len(set(row))
            and all(broker_id in self.brokers for broker_id in row)
            and any(self.brokers[broker_id].live for broker_id in row)
            for row in rows
        )

    def judge_enlargement(self, request: CreatePartitionsRequest) -> dict[str, int]:
        """The code of each name."""
        times = Counter(topic.name for topic in request.topics)
        codes = {}
        for topic in request.topics:
            if times[topic.name] > 1:
                codes[topic.name] = ErrorCode.INVALID_REQUEST
            elif request.timeout_ms <= 0:
                codes[topic.name] = ErrorCode.REQUEST_TIMED_OUT
            else:
                codes[topic.name] = self._judge_growth(topic)
        return {name: int(code) for name, code in codes.items()}

    def _judge_growth(self, topic: CreatePartitionsTopic) -> ErrorCode:
        known = self.topics.get(topic.name)
        kip = self.profile == "kip"
        if known is None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION if kip else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        adding = topic.count - len(known.partitions)
        if adding <= 0:
            return ErrorCode.INVALID_PARTITIONS
        replication_factor = len(known.partitions[0].replicas)
        if topic.assignments is None:
            return self._judge_placement(replication_factor)
        if len(topic.assignments) != adding:
            return ErrorCode.INVALID_REQUEST if kip else ErrorCode.INVALID_REPLICA_ASSIGNMENT
        good = self._rows_are_good([assignment.broker_ids for assignment in topic.assignments], replication_factor)
        return ErrorCode.NONE if good else ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def judge_deletion(self, names: Sequence[str]) -> dict[str, int]:
        """The code of each name."""
        times = Counter(names)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {
            name: int(
                ErrorCode.INVALID_REQUEST if times[name] > 1 else ErrorCode.NONE if name in self.topics else unknown
            )
            for name in names
        }

    # What becomes of partitions

    def make(self, name: str, topic_id: Uuid, rows: Iterable[Sequence[int]], configs: Mapping[str, str]) -> None:
        self.topics[name] = ModelTopic(
            topic_id,
            [],
            min_isr=int(configs.get("min.insync.replicas", self.min_isr)),
            unclean=configs.get("unclean.leader.election.enable") == "true",
        )
        self.enlarge(name, rows)

    def enlarge(self, name: str, rows: Iterable[Sequence[int]]) -> None:
        for row in rows:
            isr = [replica for replica in row if self.brokers[replica].live]
            self.topics[name].partitions.append(ModelPartition(list(row), isr, isr[0]))

    def lose(self, broker_id: int, *, distrusted: bool = False) -> None:
        """A broker may no longer lead nor be in sync; a distrusted one is not even eligible any more."""
        able = [live for live in self.live() if live != broker_id]
        for topic in self.topics.values():
            for partition in topic.partitions:
                if broker_id in partition.isr or (distrusted and broker_id in partition.eligible):
                    isr = [replica for replica in partition.isr if replica != broker_id]
                    _change(topic, partition, isr, able, [broker_id] if distrusted else [])

    def regain(self, broker_id: int) -> None:
        """A broker may lead again, and does where nobody else could."""
        able = [*self.live(), broker_id]
        for topic in self.topics.values():
            for partition in topic.partitions:
                if partition.leader == NOBODY and broker_id in partition.replicas:
                    _change(topic, partition, partition.isr, able, [])

    def catch_up(self) -> None:
        """Live replicas of partitions with a leader join the ISR."""
        able = self.live()
        for topic in self.topics.values():
            for partition in topic.partitions:
                joining = [one for one in partition.replicas if one in able and one not in partition.isr]
                if partition.leader != NOBODY and joining:
                    _change(topic, partition, [*partition.isr, *joining], able, [])

    def fence(self, broker_id: int) -> None:
        self.lose(broker_id)
        self.brokers[broker_id].fenced = True

    def pass_time(self, now_ms: int) -> None:
        """Sessions end, then replicas catch up."""
        for broker_id in sorted(self.brokers):
            broker = self.brokers[broker_id]
            if not broker.fenced and now_ms - broker.last_contact_ms >= SESSION_MS:
                self.fence(broker_id)
        self.catch_up()


def _change(
    topic: ModelTopic, partition: ModelPartition, isr: list[int], able: Collection[int], distrusted: Collection[int]
) -> None:
    """Give a partition another ISR, and the leader that follows from it."""
    before = ModelPartition(**vars(partition))
    eligible: list[int] = []
    if len(isr) < min(topic.min_isr, len(partition.replicas)):
        held = {*partition.eligible, *partition.isr} - {*isr, *distrusted}
        eligible = [replica for replica in partition.replicas if replica in held]
    leader = _elect(partition, isr or eligible, able)
    if leader in eligible:
        isr, eligible = [leader], [replica for replica in eligible if replica != leader]
    if leader == NOBODY:
        leader = _elect_unclean(topic, partition, isr or eligible, able)
        if leader != NOBODY:
            isr, eligible, partition.recovering = [leader], [], True
    if leader != NOBODY:
        partition.last_leader = []
    elif partition.leader != NOBODY and not isr:
        partition.last_leader = [partition.leader]
    partition.isr, partition.eligible = isr, eligible
    partition.leader, partition.leader_epoch = leader, partition.leader_epoch + (leader != partition.leader)
    if partition != before:
        partition.partition_epoch += 1


def _elect(partition: ModelPartition, candidates: list[int], able: Collection[int]) -> int:
    if partition.leader in candidates and partition.leader in able:
        return partition.leader
    return next((replica for replica in partition.replicas if replica in candidates and replica in able), NOBODY)


def _elect_unclean(topic: ModelTopic, partition: ModelPartition, candidates: list[int], able: Collection[int]) -> int:
    if not candidates and partition.last_leader and partition.last_leader[0] in able:
        return partition.last_leader[0]
    return next((replica for replica in partition.replicas if topic.unclean and replica in able), NOBODY)
