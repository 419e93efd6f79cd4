"""The part of the machine that is topics: they are made, by hand, automatically and by being asked for, grow and go."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.topics.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.simulation.broker_rules import BrokerRules
from tests.simulation.judgement import (
    NUM_PARTITIONS,
    REPLICATION_FACTOR,
    Asked,
    judge_deletion,
    wanted_counts,
)
from tests.simulation.placements import check_placement
from tests.simulation.strategies import (
    BROKER_IDS,
    asked,
    creations,
    enlargements,
    good_creations,
    good_names,
    names,
    picks,
    seldom,
    timeouts,
)

DELETE_VERSION_BY_NAMES = 5
MOST_PARTITIONS = 12


class TopicRules(BrokerRules):
    """What administrators, and clients by the way, do to topics."""

    @rule(topics=creations, version=st.integers(2, 7), timeout_ms=timeouts, validate_only=seldom, broker_id=asked)
    def create_topics(
        self,
        topics: Sequence[CreatableTopic],
        version: int,
        timeout_ms: int,
        validate_only: bool,
        broker_id: int | None,
    ) -> None:
        request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, version=version, broker_id=broker_id)
        ids = {record.name: record.topic_id for record in written if isinstance(record, TopicRecord)}
        by_name: dict[str, list[CreatableTopic]] = {}
        for topic in topics:
            by_name.setdefault(topic.name, []).append(topic)
        # What is refused whatever its content needs no time.
        if timeout_ms <= 0 and any(len(by_name[name]) == 1 for name in by_name.keys() - {"__cluster_metadata"}):
            assert [result.error_code for result in response.topics] == [ErrorCode.REQUEST_TIMED_OUT] * len(topics)
            assert written == []
            return
        assert [result.name for result in response.topics] == list(by_name)
        so_far, made = self._asked(broker_id), {}
        for result in response.topics:
            topic, *others = by_name[result.name]
            if others:
                assert result.error_code == ErrorCode.INVALID_REQUEST
                continue
            assert result.error_code in so_far.judge_creation(topic, version)
            self._check_refusal(so_far, result)
            if result.error_code:
                continue
            rows = None if validate_only else self._placed(written, ids[topic.name], 0)
            self._check_creation(so_far, topic, rows)
            if rows is not None:
                made[topic.name] = rows
        assert list(ids) == list(made), "what is answered is logged, what failed leaves no trace"
        assert {record.resource_name for record in written if isinstance(record, ConfigRecord)} <= made.keys()
        assert bool(written) == bool(made)
        for name, rows in made.items():
            given = {config.name: config.value or "" for config in by_name[name][0].configs}
            self.model.make(name, ids[name], rows, given)

    def _asked(self, broker_id: int | None) -> Asked:
        self.simulated.asked = broker_id
        return Asked(self.model, broker_id)

    def _check_refusal(self, so_far: Asked, result: Any) -> None:
        """Both limits are named with their values (KIP-578)."""
        if result.error_code == ErrorCode.POLICY_VIOLATION:
            assert str(so_far.limits(result.name)) in result.error_message

    def _check_creation(self, so_far: Asked, topic: CreatableTopic, rows: list[list[int]] | None) -> None:
        if topic.assignments:
            by_hand = [list(assignment.broker_ids) for assignment in topic.assignments]
            assert rows is None or rows == by_hand
            so_far.take(topic.name, by_hand, len(by_hand))
            return
        partitions, replication_factor = wanted_counts(topic)
        if rows is not None:
            assert len(rows) == partitions
            check_placement(so_far, topic.name, rows, replication_factor)
        so_far.take(topic.name, rows, partitions)

    def _placed(self, written: Sequence[Any], topic_id: bytes, first: int) -> list[list[int]]:
        """The replicas that the log gives to new partitions of a topic, index by index."""
        records = [one for one in written if isinstance(one, PartitionRecord) and one.topic_id == topic_id]
        assert [record.partition_id for record in records] == list(range(first, first + len(records)))
        return [list(record.replicas) for record in records]

    @rule(topics=good_creations, broker_id=asked, validate_only=seldom)
    def create_good_topics(
        self, topics: Sequence[CreatableTopic], broker_id: int | None = 1, validate_only: bool = False
    ) -> None:
        self.create_topics(topics, version=7, timeout_ms=1000, validate_only=validate_only, broker_id=broker_id)

    @rule(
        chosen=st.lists(names | good_names, max_size=3, unique=True), broker_id=st.integers(1, 3), allowed=st.booleans()
    )
    def ask_for_topics(self, chosen: list[str], broker_id: int, allowed: bool) -> None:
        """Metadata makes what is not there."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in chosen], allow_auto_topic_creation=allowed
        )
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, broker_id=broker_id)
        assert [topic.name for topic in response.topics] == chosen
        ids = {record.name: record.topic_id for record in written if isinstance(record, TopicRecord)}
        so_far, made = self._asked(broker_id), {}
        for topic in response.topics:
            if topic.name in self.model.topics:
                assert topic.error_code == ErrorCode.NONE
            elif allowed:
                assert topic.error_code in so_far.judge_auto_creation(topic.name)
            if topic.name in ids:
                assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                rows = made[topic.name] = self._placed(written, ids[topic.name], 0)
                assert len(rows) == NUM_PARTITIONS
                check_placement(so_far, topic.name, rows, REPLICATION_FACTOR)
                so_far.take(topic.name, rows, len(rows))
            else:
                assert not allowed or topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert allowed or not written
        for name, rows in made.items():
            self.model.make(name, ids[name], rows, {})

    @rule(wanted=enlargements, version=st.integers(0, 3), timeout_ms=timeouts, validate_only=seldom, broker_id=asked)
    def create_partitions(
        self,
        wanted: Sequence[tuple[str, int, Any]],
        version: int,
        timeout_ms: int,
        validate_only: bool,
        broker_id: int | None,
    ) -> None:
        topics = []
        for name, more, given in wanted:
            known = self.model.topics.get(name)
            assignments = given and [CreatePartitionsAssignment(broker_ids=row) for row in given]
            count = more + (len(known.partitions) if known else 0)
            topics.append(CreatePartitionsTopic(name=name, count=count, assignments=assignments))
        request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, version=version, broker_id=broker_id)
        assert all(isinstance(record, PartitionRecord) for record in written)
        by_name: dict[str, list[CreatePartitionsTopic]] = {}
        for topic in topics:
            by_name.setdefault(topic.name, []).append(topic)
        if timeout_ms <= 0 and any(len(same) == 1 for same in by_name.values()):
            assert [result.error_code for result in response.results] == [ErrorCode.REQUEST_TIMED_OUT] * len(topics)
            assert written == []
            return
        assert [result.name for result in response.results] == list(by_name)
        so_far = self._asked(broker_id)
        added: dict[str, list[list[int]]] = {}
        for result in response.results:
            topic, *others = by_name[result.name]
            if others:
                assert result.error_code == ErrorCode.INVALID_REQUEST
                continue
            assert result.error_code in so_far.judge_growth(topic)
            self._check_refusal(so_far, result)
            if not result.error_code:
                rows = self._check_growth(so_far, topic, None if validate_only else written)
                added |= {} if rows is None else {topic.name: rows}
        assert len(written) == sum(map(len, added.values()))
        for name, rows in added.items():
            self.model.enlarge(name, rows)

    def _check_growth(
        self, so_far: Asked, topic: CreatePartitionsTopic, written: Sequence[Any] | None
    ) -> list[list[int]] | None:
        known = self.model.topics[topic.name]
        first = len(known.partitions)
        rows = None if written is None else self._placed(written, known.topic_id, first)
        assert rows is None or len(rows) == topic.count - first
        if topic.assignments is not None:
            by_hand = [list(assignment.broker_ids) for assignment in topic.assignments]
            assert rows is None or rows == by_hand
            so_far.take(topic.name, by_hand, len(by_hand))
            return rows
        if rows is not None:
            check_placement(so_far, topic.name, rows, len(known.partitions[0].replicas))
        so_far.take(topic.name, rows, topic.count - first)
        return rows

    @precondition(lambda self: hasattr(self, "model") and self.model.topics)
    @rule(
        picks=st.lists(picks, min_size=1, max_size=3, unique=True),
        more=st.integers(1, 6),
        row=st.none() | st.permutations(BROKER_IDS),
        broker_id=asked,
    )
    def enlarge_topics(
        self, picks: Sequence[int], more: int, row: Sequence[int] | None = None, broker_id: int | None = 1
    ) -> None:
        """Topics that there are, automatically or all on the first live brokers of `row`."""
        wanted: dict[str, tuple[str, int, Any]] = {}
        for pick in picks:
            name = self._picked(pick)
            by_hand = None
            if row is not None:
                chosen = sorted(row, key=lambda one: one not in self.model.live())
                by_hand = [chosen[: len(self.model.topics[name].partitions[0].replicas)]] * more
            wanted[name] = (name, more, by_hand)
        self.create_partitions(
            list(wanted.values()), version=3, timeout_ms=1000, validate_only=False, broker_id=broker_id
        )

    @precondition(lambda self: hasattr(self, "model") and self.model.live())
    @rule(
        name=good_names,
        row=st.permutations(BROKER_IDS),
        replication_factor=st.integers(1, 3),
        partitions=st.integers(1, 4),
        broker_id=asked,
    )
    def create_by_hand(
        self, name: str, row: Sequence[int], replication_factor: int, partitions: int, broker_id: int | None = 1
    ) -> None:
        """All partitions on the same brokers, of which some live."""
        chosen = sorted(
            set(row) & self.model.brokers.keys(), key=lambda one: (one not in self.model.live(), row.index(one))
        )
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=chosen[:replication_factor])
            for index in range(partitions)
        ]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
        self.create_good_topics([topic], broker_id)

    @precondition(lambda self: hasattr(self, "model") and self.model.live())
    @rule(
        name=good_names,
        pick=picks,
        of_broker=st.booleans(),
        replication_factor=st.sampled_from([None, 1, 2, 3]),
        beyond=st.booleans(),
        broker_id=asked,
    )
    def go_to_the_limit(
        self,
        name: str,
        pick: int,
        of_broker: bool,
        replication_factor: int | None,
        beyond: bool,
        broker_id: int | None = 1,
    ) -> None:
        """As many partitions as a broker or the cluster has room for, or one more; by hand if no factor is given."""
        so_far, live = Asked(self.model, broker_id), self.model.live()
        target = live[pick % len(live)]
        left = so_far.limits(name).partitions - self.model.partition_count()
        partitions = (so_far.room(name)[target] if of_broker else left) + beyond
        if not 1 <= partitions <= MOST_PARTITIONS:
            return
        by_hand = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[target]) for index in range(partitions)
        ]
        topic = (
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=by_hand)
            if replication_factor is None
            else CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
        )
        self.create_good_topics([topic], broker_id)

    def _picked(self, pick: int) -> str:
        """Some topic that there is."""
        return sorted(self.model.topics)[pick % len(self.model.topics)]

    @precondition(lambda self: hasattr(self, "model") and self.model.topics)
    @rule(picks=st.lists(picks, min_size=1, max_size=2))
    def delete_good_topics(self, picks: Sequence[int]) -> None:
        self.delete_topics(sorted({self._picked(pick) for pick in picks}))

    @rule(chosen=st.lists(names | good_names, min_size=1, max_size=3), version=st.integers(1, 6))
    def delete_topics(self, chosen: list[str], version: int = 6) -> None:
        expected = judge_deletion(self.model, chosen)
        if version <= DELETE_VERSION_BY_NAMES:
            request = DeleteTopicsRequest(topic_names=chosen, timeout_ms=1000)
        else:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in chosen], timeout_ms=1000)
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, version=version)
        assert {result.name: result.error_code for result in response.responses} == expected
        removed = [record.topic_id for record in written if isinstance(record, RemoveTopicRecord)]
        assert removed == [self.model.topics.pop(name).topic_id for name, code in expected.items() if not code]
        # What is left of it may make room for placeholders.
        assert removed or not written
        self.model.fill()
