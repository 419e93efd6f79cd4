"""The cluster as it should be while replicas move and records are replicated: `model` with records and time.

What a reassignment makes of replica lists is decided here, partition by partition; when it is complete, in `model`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsTopic
from klamm.protocol.uuid import Uuid
from tests.broker.data.model_log import Numbered
from tests.simulation.judgement import Asked, Codes
from tests.simulation.model import NOBODY, Model, ModelPartition, ModelTopic, is_complete
from tests.simulation.model_configs import NO_LIMIT, UNLIMITED_TOPICS
from tests.simulation.model_log import ModelLog

Place = tuple[Uuid, int]
PREFERRED, UNCLEAN = 0, 1


@dataclass
class MovingModel(Model):
    """Brokers may be down before anybody knows, and replicas lag behind."""

    rate: int = 1_000_000
    lag_time_max_ms: int = 30_000
    clock: Callable[[], int] = lambda: 0
    down: set[int] = field(default_factory=set)
    is_deciding: bool = False
    """Whether a request is being decided: replicas follow its whole batch, not each of its records."""

    @contextmanager
    def one_batch(self) -> Iterator[None]:
        """Decide a request that may name a partition twice. Afterwards the replicas follow what it has become."""
        self.is_deciding = True
        yield
        self.is_deciding = False
        self.brokers_changed()

    def places(self) -> Iterator[tuple[Place, ModelTopic, ModelPartition]]:
        for topic in self.topics.values():
            for index, partition in enumerate(topic.partitions):
                yield (topic.topic_id, index), topic, partition

    def find(self, name: str, index: int) -> ModelPartition | None:
        topic = self.topics.get(name)
        return topic.partitions[index] if topic and 0 <= index < len(topic.partitions) else None

    # Records

    def fetches(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker_id not in self.down

    def follow(self, topic: ModelTopic, partition: ModelPartition) -> None:
        if partition.log and not self.is_deciding:
            partition.log.follow_election(partition, self.fetches, self.clock(), self.needed_in_sync(topic, partition))

    def brokers_changed(self) -> None:
        for _, topic, partition in self.places():
            self.follow(topic, partition)

    def set_min_isr(self, name: str | None, value: int | None) -> None:
        super().set_min_isr(name, value)
        self.brokers_changed()

    def restart(self) -> None:
        """Records are gone."""
        for _, topic, partition in self.places():
            if partition.log:
                partition.log.restart()
                self.follow(topic, partition)
            if partition.leader == NOBODY and set(self.live()) & set(partition.replicas):
                # A start looks at all who wait, also where an unclean election has been allowed meanwhile.
                self._change(topic, partition, partition.isr, self.live())

    def log_of(self, topic: ModelTopic, partition: ModelPartition) -> ModelLog:
        if partition.log is None:
            partition.log = ModelLog(rate=self.rate, seen_unclean=partition.unclean_elections)
            self.follow(topic, partition)
        return partition.log

    def needed_in_sync(self, topic: ModelTopic, partition: ModelPartition) -> int:
        return min(self.min_isr_of(topic), len(partition.replicas))

    def _change(self, topic: ModelTopic, partition: ModelPartition, *how: Any, **else_: Any) -> bool:
        changed = super()._change(topic, partition, *how, **else_)
        self.follow(topic, partition)
        return changed

    def fill(self) -> None:
        super().fill()
        self.brokers_changed()

    # Time

    def pass_time(self, now_ms: int) -> None:
        super().pass_time(now_ms)
        self.fill()

    def catch_up(self) -> None:
        """Replicas that have everything join; of those that lack records the first look alone decides."""
        self.fill()
        grew = self._grow_without_records()
        able = self.live()
        for _, topic, partition in self.places():
            if partition.log:
                now_ms = self.clock()
                leaving = partition.log.leaving(now_ms, self.lag_time_max_ms)
                joining = [replica for replica in partition.log.joining(now_ms) if replica in able]
                if leaving or joining:
                    isr = [replica for replica in partition.isr if replica not in leaving]
                    self._change(topic, partition, sorted([*isr, *joining]), able, recovered=True)
        while grew:
            self.fill()
            grew = self._grow_without_records()

    def _grow_without_records(self) -> bool:
        grew, able = False, self.live()
        for _, topic, partition in self.places():
            joining = [
                replica
                for replica in partition.replicas
                if replica in able and replica not in partition.isr and replica not in self.down
            ]
            if partition.log is not None:
                joining = []
            awaits_nobody = sum(replica >= 0 for replica in partition.replicas) == len(partition.isr)
            ends = awaits_nobody and is_complete(partition, partition.isr)
            if (joining or ends) and partition.leader != NOBODY and partition.leader not in self.down:
                isr = sorted([*partition.isr, *joining]) if joining else partition.isr
                grew |= self._change(topic, partition, isr, able, recovered=True)
        return grew

    # Moves

    def move(
        self, name: str, index: int, target: Sequence[int] | None, asked: int | None, *, allow_factor: bool = True
    ) -> ErrorCode:
        """Begin a move, or, without a target, take one back."""
        partition = self.find(name, index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if target is None:
            return self._take_back(self.topics[name], partition)
        if not target or len(set(target)) < len(target) or any(replica not in self.brokers for replica in target):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        present = [replica for replica in partition.replicas if replica not in partition.removing]
        if not allow_factor and len(present) != len(target):
            return ErrorCode.INVALID_REPLICATION_FACTOR
        adding = [replica for replica in target if replica not in partition.replicas]
        limit = NO_LIMIT if name in UNLIMITED_TOPICS else self.configs.limits(asked).replicas
        held = self.held()
        if any(held[replica] >= limit for replica in adding):
            return ErrorCode.POLICY_VIOLATION
        going = [replica for replica in partition.replicas if replica not in target]
        going = sorted(replica for replica in going if replica >= 0) + [replica for replica in going if replica < 0]
        # Without any of its own, Kafka leaves to a second target what the first one adds or removes.
        to = [*target, *going], sorted(adding) or partition.adding, going or partition.removing
        self._change(self.topics[name], partition, partition.isr, self.live(), to=to, unclean=False)
        return ErrorCode.NONE

    def _take_back(self, topic: ModelTopic, partition: ModelPartition) -> ErrorCode:
        if not partition.moving:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        replicas = [replica for replica in partition.replicas if replica not in partition.adding]
        isr = [replica for replica in partition.isr if replica not in partition.adding]
        if not isr:
            if not topic.unclean:
                return ErrorCode.INVALID_REPLICA_ASSIGNMENT
            isr = [replica for replica in replicas[:1] if replica in self.live()]
            partition.unclean_elections += len(isr)
        self._change(topic, partition, isr, self.live(), to=(replicas, [], []))
        return ErrorCode.NONE

    def elect(self, name: str, indexes: Sequence[int], election_type: int) -> list[ErrorCode]:
        """A code for each; who is named twice is elected twice, since both are decided by what was before."""
        codes: dict[int, ErrorCode] = {}
        for index in indexes:
            if codes.get(index) is ErrorCode.NONE:
                partition = self.topics[name].partitions[index]
                partition.leader_epoch += 1
                partition.partition_epoch += 1
                self.follow(self.topics[name], partition)
            else:
                codes[index] = self._elect(name, index, election_type)
        return [codes[index] for index in indexes]

    def _elect(self, name: str, index: int, election_type: int) -> ErrorCode:
        partition = self.find(name, index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        preferred = election_type == PREFERRED
        if partition.leader == partition.replicas[0] if preferred else partition.leader != NOBODY:
            return ErrorCode.ELECTION_NOT_NEEDED
        topic, able = self.topics[name], self.live()
        if self._change(topic, partition, partition.isr, able, preferred=preferred, unclean=not preferred):
            return ErrorCode.NONE
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

    def in_need(self, election_type: int) -> dict[str, list[int]]:
        """Of each topic the partitions for which an election could do something."""
        return {
            name: [
                index
                for index, partition in enumerate(topic.partitions)
                if (partition.leader != partition.replicas[0] if election_type == PREFERRED else partition.leader < 0)
            ]
            for name, topic in self.topics.items()
        }


def judge_number(log: ModelLog | None, producer_id: int, first: int, last: int) -> ErrorCode | Numbered:
    """What a leader makes of a batch that a producer numbered: an error, where it is already, or NONE."""
    known = log.producers.get(producer_id, []) if log else []
    for one in known:
        if (one.first, one.last) == (first, last):
            return one
    if known and first != known[-1].last + 1:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return ErrorCode.NONE


class MovingAsked(Asked):
    """One request, where replicas may be moving."""

    def judge_growth(self, topic: CreatePartitionsTopic) -> Codes:
        known = self.model.topics.get(topic.name)
        grows = known is not None and topic.count > len(known.partitions)
        if known and grows and self.model.profile == "kip" and any(partition.moving for partition in known.partitions):
            return frozenset({ErrorCode.REASSIGNMENT_IN_PROGRESS})
        return super().judge_growth(topic)
