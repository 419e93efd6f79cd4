"""What a cluster is, in plain Python: brokers, topics and partitions as objects, one rule after the other.

The model decides on its own what becomes of every partition; what each profile answers is decided in `judgement`. It
knows nothing of columns, records, replay or the controller's code. What is up to chance (ids, automatic placement) it
is told.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from klamm.controller.settings import Profile
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import START_MS
from tests.simulation.model_configs import MIN_ISR, UNLIMITED_TOPICS, ModelConfigs
from tests.simulation.model_log import ModelLog

SESSION_MS = 9_000
LEADERS_MS = 300_000
"""How often leaders are elected that no event brings about."""
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
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    log: ModelLog | None = field(default=None, compare=False)
    """Its records, once there were any."""
    unclean_elections: int = field(default=0, compare=False)
    """How often somebody came to lead who may lack records."""

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def lists(self) -> "Lists":
        return self.replicas, self.adding, self.removing


Lists = tuple[list[int], list[int], list[int]]
"""Replicas, and which of them are being added and removed."""


@dataclass
class ModelTopic:
    topic_id: Uuid
    partitions: list[ModelPartition]
    min_isr: int | None
    """Its own; None: it takes what all have."""
    unclean: bool


@dataclass
class ModelBroker:
    epoch: int
    life: int
    fenced: bool = True
    leaving: bool = False
    cordoned: bool = False
    last_contact_ms: int = 0
    heard: bool = False
    shutdown_offset: int = 0

    @property
    def live(self) -> bool:
        return not self.fenced and not self.leaving


@dataclass
class Model:
    """The cluster as it should be."""

    profile: Profile
    configs: ModelConfigs
    racks: Sequence[str | None]
    topics: dict[str, ModelTopic] = field(default_factory=dict)
    brokers: dict[int, ModelBroker] = field(default_factory=dict)
    look_at_leaders_ms: int = START_MS + LEADERS_MS
    """When leaders are elected that no event brings about."""

    def live(self) -> list[int]:
        return sorted(broker_id for broker_id, broker in self.brokers.items() if broker.live)

    def usable(self) -> list[int]:
        """The brokers that replicas may be placed on."""
        return sorted(
            broker_id
            for broker_id, broker in self.brokers.items()
            if not broker.cordoned and (broker.live or (self.profile == "kafka" and broker.fenced))
        )

    def rack(self, broker_id: int) -> str | None:
        return self.racks[(broker_id - 1) % len(self.racks)]

    def held(self) -> Counter[int]:
        """Replicas on each broker, as far as limits count them."""
        return Counter(
            replica
            for name, topic in self.topics.items()
            for partition in topic.partitions
            for replica in partition.replicas
            if name not in UNLIMITED_TOPICS and replica >= 0
        )

    def partition_count(self) -> int:
        """Partitions, as far as limits count them."""
        return sum(len(topic.partitions) for name, topic in self.topics.items() if name not in UNLIMITED_TOPICS)

    # What becomes of partitions

    def make(self, name: str, topic_id: Uuid, rows: Iterable[Sequence[int]], configs: Mapping[str, str]) -> None:
        self.topics[name] = ModelTopic(
            topic_id,
            [],
            min_isr=int(configs[MIN_ISR]) if MIN_ISR in configs else None,
            unclean=configs.get("unclean.leader.election.enable") == "true",
        )
        self.enlarge(name, rows)

    def enlarge(self, name: str, rows: Iterable[Sequence[int]]) -> None:
        for row in rows:
            isr = [replica for replica in row if replica >= 0 and self.brokers[replica].live]
            self.topics[name].partitions.append(ModelPartition(list(row), isr, isr[0]))

    def lose(self, broker_id: int, *, distrusted: bool = False) -> None:
        """A broker may no longer lead nor be in sync; a distrusted one is not even eligible any more."""
        able = [live for live in self.live() if live != broker_id]
        for topic in self.topics.values():
            for partition in topic.partitions:
                if broker_id in partition.isr or (distrusted and broker_id in partition.eligible):
                    isr = [replica for replica in partition.isr if replica != broker_id]
                    self._change(topic, partition, isr, able, [broker_id] if distrusted else [])

    def regain(self, broker_id: int) -> None:
        """A broker may lead again, and does where nobody else could."""
        able = [*self.live(), broker_id]
        for topic in self.topics.values():
            for partition in topic.partitions:
                if partition.leader == NOBODY and broker_id in partition.replicas:
                    self._change(topic, partition, partition.isr, able, [])

    def catch_up(self) -> None:
        """Live replicas of partitions with a leader join the ISR, which the leader lists by ids that are this small. A
        leader that was elected uncleanly has recovered."""
        able = self.live()
        for topic in self.topics.values():
            for partition in topic.partitions:
                joining = [one for one in partition.replicas if one in able and one not in partition.isr]
                if partition.leader != NOBODY and joining:
                    self._change(topic, partition, sorted([*partition.isr, *joining]), able, [], recovered=True)

    def fill(self) -> None:
        """Live brokers take the places of placeholders (KIP-409), within the cluster-wide limit."""
        limit, held = self.configs.limits(None).replicas, self.held()
        for broker_id in self.live():
            if self.brokers[broker_id].cordoned:
                continue
            waiting = [
                (name, partition)
                for name, topic in self.topics.items()
                for partition in topic.partitions
                if min(partition.replicas) < 0 and broker_id not in partition.replicas and not partition.moving
            ]
            for name, partition in sorted(waiting, key=lambda one: sum(replica >= 0 for replica in one[1].replicas)):
                if name not in UNLIMITED_TOPICS:
                    if held[broker_id] >= limit:
                        continue
                    held[broker_id] += 1
                leftmost = next(at for at, replica in enumerate(partition.replicas) if replica < 0)
                partition.replicas[leftmost] = broker_id
                partition.partition_epoch += 1

    def set_min_isr(self, name: str | None, value: int | None) -> None:
        """A topic has another minimum ISR, or all that have none of their own: who was eligible is so no more."""
        if name is not None:
            self.topics[name].min_isr = value
        for topic in self.topics.values() if name is None else (self.topics[name],):
            for partition in topic.partitions:
                if partition.eligible or partition.last_leader:
                    partition.eligible, partition.last_leader = [], []
                    partition.partition_epoch += 1

    def fence(self, broker_id: int) -> None:
        self.brokers[broker_id].fenced = True
        self.lose(broker_id)
        self.brokers_changed()

    def brokers_changed(self) -> None:
        """Whoever came or went may matter to those who replicate."""

    def restart(self) -> None:
        """What was not logged is gone."""

    def pass_time(self, now_ms: int) -> None:
        """Sessions end, then replicas catch up."""
        for broker_id in sorted(self.brokers):
            broker = self.brokers[broker_id]
            if not broker.fenced and now_ms - broker.last_contact_ms >= SESSION_MS:
                self.fence(broker_id)
        if now_ms >= self.look_at_leaders_ms:
            self.look_at_leaders_ms = now_ms + LEADERS_MS
            self.look_at_leaders()
        self.catch_up()

    def look_at_leaders(self) -> None:
        """Unclean elections where topics have come to allow them, and the first replicas lead again."""
        able = self.live()
        for topic in self.topics.values():
            for partition in topic.partitions:
                first = partition.replicas[0]
                if partition.leader == NOBODY:
                    if topic.unclean:
                        self._change(topic, partition, partition.isr, able, [])
                elif partition.leader != first and first in partition.isr and first in able:
                    self._change(topic, partition, partition.isr, able, [], preferred=True)

    def leads(self, broker_id: int) -> bool:
        return any(partition.leader == broker_id for topic in self.topics.values() for partition in topic.partitions)

    def min_isr_of(self, topic: ModelTopic) -> int:
        return self.configs.min_isr() if topic.min_isr is None else topic.min_isr

    def _change(
        self,
        topic: ModelTopic,
        partition: ModelPartition,
        isr: list[int],
        able: Collection[int],
        distrusted: Collection[int] = (),
        *,
        to: Lists | None = None,
        preferred: bool = False,
        unclean: bool | None = None,
        recovered: bool = False,
    ) -> bool:
        """Give a partition another ISR, other replicas, and the leader that follows from it; returns whether anything
        changed. Whether unclean elections are allowed says the topic, if nothing else is said."""
        before = ModelPartition(**vars(partition))
        partition.replicas, partition.adding, partition.removing = to or partition.lists
        partition.recovering = partition.recovering and not recovered
        if is_complete(partition, isr):
            isr = [replica for replica in isr if replica not in partition.removing]
            partition.replicas = [replica for replica in partition.replicas if replica not in partition.removing]
            partition.adding, partition.removing = [], []
        eligible: list[int] = []
        if len(isr) < min(self.min_isr_of(topic), len(before.replicas)):
            held = {*partition.eligible, *partition.isr} - {*isr, *distrusted}
            eligible = sorted(held.intersection(partition.replicas))
        leader = _elect(partition, isr or eligible, able, preferred)
        if leader in eligible:
            isr, eligible = [leader], [replica for replica in eligible if replica != leader]
        if leader == NOBODY:
            leader = _elect_unclean(
                partition, isr or eligible, able, anybody=topic.unclean if unclean is None else unclean
            )
            if leader != NOBODY:
                isr, eligible, partition.recovering = [leader], [], True
                partition.unclean_elections += 1
        if leader != NOBODY:
            partition.last_leader = []
        elif partition.leader != NOBODY:
            partition.last_leader = [partition.leader]
        partition.isr, partition.eligible = isr, eligible
        # Who is no replica any more is to notice, though the same one leads.
        partition.leader_epoch += leader != partition.leader or not set(before.replicas) <= set(partition.replicas)
        partition.leader = leader
        if partition == before:
            return False
        partition.partition_epoch += 1
        return True


def is_complete(partition: ModelPartition, isr: list[int]) -> bool:
    """Whether a move is done: all that it adds are in sync, and, if it removes more than it adds, all that stay."""
    if not partition.moving:
        return False
    staying = [replica for replica in partition.replicas if replica not in partition.removing]
    awaited = [*partition.adding, *(staying if len(partition.adding) < len(partition.removing) else [])]
    in_sync = [replica for replica in isr if replica not in partition.removing]
    return bool(in_sync) and all(replica in in_sync for replica in awaited)


def _elect(partition: ModelPartition, candidates: list[int], able: Collection[int], preferred: bool) -> int:
    able = [replica for replica in partition.replicas if replica in candidates and replica in able]
    if partition.leader in able and not (preferred and partition.replicas[0] in able):
        return partition.leader
    return able[0] if able else NOBODY


def _elect_unclean(partition: ModelPartition, candidates: list[int], able: Collection[int], *, anybody: bool) -> int:
    able = [replica for replica in partition.replicas if replica in able]
    if not candidates and partition.last_leader and partition.last_leader[0] in able:
        return partition.last_leader[0]
    return able[0] if able and anybody else NOBODY
