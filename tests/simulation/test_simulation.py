"""Random administrators, random losses: the real controller beside a model in plain Python, step by step.

Requests are good and bad ones mixed; brokers arrive, fall silent, stop, return and are forgotten; the controller
restarts. After every step the invariants hold and the answers were those of the model. At the end the log, replayed
in batches of any size, gives the image, and the same calls on another cluster give the same bytes.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.metadata.image import MetadataImage
from controller.metadata.replay import replay
from controller.settings import PROFILES, Profile
from protocol.errors import ErrorCode
from protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.records.brokers import RegisterBrokerRecord
from protocol.records.configs import ConfigRecord
from protocol.records.partitions import PartitionRecord
from protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.image_facts import image_facts
from tests.simulation.invariants import INVARIANTS, Simulated
from tests.simulation.model import NUM_PARTITIONS, REPLICATION_FACTOR, SESSION_MS, Model, ModelBroker
from tests.simulation.strategies import (
    BROKER_IDS,
    broker_ids,
    creations,
    enlargements,
    good_configs,
    good_names,
    names,
    seldom,
    some_broker_ids,
    timeouts,
)
from tests.simulation.traced_cluster import TracedCluster

RACKS = ("a", "b", "c")
DELETE_VERSION_BY_NAMES = 5


class ClusterMachine(RuleBasedStateMachine):
    """One history."""

    @initialize(
        profile=st.sampled_from(PROFILES),
        seed=st.integers(0, 2**16),
        brokers=st.integers(0, 5),
        min_isr=st.integers(1, 2),
        sizes=st.lists(st.tuples(st.integers(1, 10), st.integers(1, 3)), max_size=3),
    )
    def begin(self, profile: Profile, seed: int, brokers: int, min_isr: int, sizes: list[tuple[int, int]]) -> None:
        static = {
            "num.partitions": str(NUM_PARTITIONS),
            "default.replication.factor": str(REPLICATION_FACTOR),
            "min.insync.replicas": str(min_isr),
        }
        self.cluster = TracedCluster(racks=RACKS, profile=profile, seed=seed, configs=static)
        self.model = Model(min_isr, profile)
        self.simulated = Simulated(self.cluster, self.model)
        for broker_id in BROKER_IDS[:brokers]:
            self.come_up(broker_id, clean=False)
        for number, (partitions, replication_factor) in enumerate(sizes):
            self.create_good_topic(f"first-{number}", partitions, replication_factor, [])

    # Topics

    @rule(topics=creations, version=st.integers(2, 7), timeout_ms=timeouts, validate_only=seldom)
    def create_topics(
        self, topics: Sequence[CreatableTopic], version: int, timeout_ms: int, validate_only: bool
    ) -> None:
        request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        expected = self.model.judge_creation(request, version)
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, version=version)
        assert [(result.name, result.error_code) for result in response.topics] == expected
        made = [name for name, code in expected if not code and not validate_only]
        ids = {record.name: record.topic_id for record in written if isinstance(record, TopicRecord)}
        assert list(ids) == made, "what is answered is logged, what failed leaves no trace"
        assert {record.resource_name for record in written if isinstance(record, ConfigRecord)} <= set(made)
        assert bool(written) == bool(made)
        for topic in topics:
            if topic.name in ids and topic.name in made:
                placed = self._placed(written, ids[topic.name], 0)
                self._check_creation(topic, placed)
                given = {config.name: config.value or "" for config in topic.configs}
                self.model.make(topic.name, ids[topic.name], placed, given)

    @rule(
        name=good_names,
        partitions=st.integers(1, 10),
        replication_factor=st.integers(1, 3),
        given=good_configs,
    )
    def create_good_topic(
        self, name: str, partitions: int, replication_factor: int, given: list[CreatableTopicConfig]
    ) -> None:
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=given
        )
        self.create_topics([topic], version=7, timeout_ms=1000, validate_only=False)

    def _placed(self, written: Sequence[Any], topic_id: bytes, first: int) -> list[list[int]]:
        """The replicas that the log gives to new partitions of a topic, index by index."""
        records = [one for one in written if isinstance(one, PartitionRecord) and one.topic_id == topic_id]
        assert [record.partition_id for record in records] == list(range(first, first + len(records)))
        return [list(record.replicas) for record in records]

    def _check_creation(self, topic: CreatableTopic, placed: list[list[int]]) -> None:
        if topic.assignments:
            assert placed == [list(assignment.broker_ids) for assignment in topic.assignments]
            return
        assert len(placed) == (NUM_PARTITIONS if topic.num_partitions == -1 else topic.num_partitions)
        wanted = REPLICATION_FACTOR if topic.replication_factor == -1 else topic.replication_factor
        self._check_placement(placed, wanted)

    def _check_placement(self, placed: list[list[int]], replication_factor: int) -> None:
        live, usable = self.model.live(), self.model.usable()
        for row in placed:
            assert len(row) == len(set(row)) == replication_factor
            assert set(row) <= set(usable)
            # A fenced broker, which only Kafka's own placement uses, may follow when its rack's turn comes, never lead.
            assert row[0] in live
            assert len(_racks(row)) == min(len(_racks(usable)), replication_factor)

    @rule(wanted=enlargements, version=st.integers(0, 3), timeout_ms=timeouts, validate_only=seldom)
    def create_partitions(
        self, wanted: Sequence[tuple[str, int, Any]], version: int, timeout_ms: int, validate_only: bool
    ) -> None:
        topics = []
        for name, more, given in wanted:
            known = self.model.topics.get(name)
            assignments = given and [CreatePartitionsAssignment(broker_ids=row) for row in given]
            count = more + (len(known.partitions) if known else 0)
            topics.append(CreatePartitionsTopic(name=name, count=count, assignments=assignments))
        request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        expected = self.model.judge_enlargement(request)
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, version=version)
        assert [(result.name, result.error_code) for result in response.results] == list(expected.items())
        assert all(isinstance(record, PartitionRecord) for record in written)
        added = 0
        for topic in topics:
            if expected[topic.name] or validate_only:
                continue
            known = self.model.topics[topic.name]
            first = len(known.partitions)
            placed = self._placed(written, known.topic_id, first)
            assert len(placed) == topic.count - first
            if topic.assignments is None:
                self._check_placement(placed, len(known.partitions[0].replicas))
            else:
                assert placed == [list(assignment.broker_ids) for assignment in topic.assignments]
            added += len(placed)
            self.model.enlarge(topic.name, placed)
        assert len(written) == added

    @rule(chosen=st.lists(names, min_size=1, max_size=3), version=st.integers(1, 6))
    def delete_topics(self, chosen: list[str], version: int) -> None:
        expected = self.model.judge_deletion(chosen)
        if version <= DELETE_VERSION_BY_NAMES:
            request = DeleteTopicsRequest(topic_names=chosen, timeout_ms=1000)
        else:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in chosen], timeout_ms=1000)
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, version=version)
        assert {result.name: result.error_code for result in response.responses} == expected
        removed = [record.topic_id for record in written if isinstance(record, RemoveTopicRecord)]
        assert len(removed) == len(written)
        assert removed == [self.model.topics.pop(name).topic_id for name, code in expected.items() if not code]

    # Brokers

    @rule(broker_id=broker_ids, again=seldom, clean=st.booleans())
    def register(self, broker_id: int, again: bool, clean: bool) -> None:
        """A new life of a broker, or the same one once more."""
        now_ms, known = self.cluster.clock.now_ms, self.model.brokers.get(broker_id)
        same = known is not None and again
        last_life = self.cluster.lives.get(broker_id, 0)
        self.cluster.lives[broker_id] = known.life if known and same else last_life + 1
        previous = known.epoch if known and clean else -1
        with self.cluster.writing() as written:
            response = self.cluster.register(broker_id, previous_broker_epoch=previous)
        if known and not same and known.live and known.heard and now_ms - known.last_contact_ms < SESSION_MS:
            assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            assert written == []
            self.cluster.lives[broker_id] = last_life
            return
        assert response.error_code == ErrorCode.NONE
        assert isinstance(written[-1], RegisterBrokerRecord)
        if known and same:
            assert response.broker_epoch == known.epoch
            known.last_contact_ms, known.heard = now_ms, True
            return
        assert response.broker_epoch == self.cluster.log.end_offset - 1, "the epoch is the record's offset"
        self.model.lose(broker_id, distrusted=not (known and clean))
        life = self.cluster.lives[broker_id]
        self.model.brokers[broker_id] = ModelBroker(response.broker_epoch, life, last_contact_ms=now_ms)

    @rule(
        broker_id=broker_ids,
        lag=st.sampled_from([0, 0, 0, 1, 1000]),
        want_fence=seldom,
        want_shut_down=seldom,
        stale=seldom,
    )
    def heartbeat(self, broker_id: int, lag: int, want_fence: bool, want_shut_down: bool, stale: bool) -> None:
        known = self.model.brokers.get(broker_id)
        seen = self.cluster.log.end_offset - 1 - lag
        response = self.cluster.heartbeat(
            broker_id,
            current_metadata_offset=seen,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            broker_epoch=(known.epoch if known else -1) - stale,
        )
        if known is None or stale:
            assert response.error_code == (
                ErrorCode.BROKER_ID_NOT_REGISTERED if known is None else ErrorCode.STALE_BROKER_EPOCH
            )
            return
        known.last_contact_ms, known.heard = self.cluster.clock.now_ms, True
        may_stop = self._heard(broker_id, known, seen, want_fence, want_shut_down)
        assert (response.error_code, response.is_caught_up, response.is_fenced, response.should_shut_down) == (
            ErrorCode.NONE,
            seen >= known.epoch,
            known.fenced,
            may_stop,
        )

    def _heard(self, broker_id: int, known: ModelBroker, seen: int, want_fence: bool, want_shut_down: bool) -> bool:
        """What a heartbeat makes of a broker; whether it may stop."""
        if known.fenced:
            if not want_shut_down and not want_fence and not known.leaving and seen >= known.epoch:
                known.fenced = False
                self.model.regain(broker_id)
            return want_shut_down
        if known.leaving:
            if want_shut_down and seen + 1 >= known.shutdown_offset:
                self.model.fence(broker_id)
                return True
            return False
        if want_shut_down:
            known.leaving = True
            self.model.lose(broker_id)
            known.shutdown_offset = self.cluster.log.end_offset
        elif want_fence:
            self.model.fence(broker_id)
        return False

    @rule(broker_id=broker_ids, clean=st.booleans())
    def come_up(self, broker_id: int, clean: bool) -> None:
        """A broker registers, reads what there is, serves and catches up."""
        self.register(broker_id, again=False, clean=clean)
        self._beat(broker_id)
        self.pass_time(0)

    @rule(silent=some_broker_ids)
    def fall_silent(self, silent: set[int]) -> None:
        """Some brokers are not heard of for a session; the others are."""
        self.cluster.clock.advance(SESSION_MS)
        for broker_id, broker in list(self.model.brokers.items()):
            if broker_id not in silent and not broker.fenced:
                self._beat(broker_id)
        self.pass_time(0)

    @rule(broker_id=broker_ids)
    def shut_down(self, broker_id: int) -> None:
        for _ in range(2):
            self.heartbeat(broker_id, lag=0, want_fence=False, want_shut_down=True, stale=False)

    def _beat(self, broker_id: int) -> None:
        self.heartbeat(broker_id, lag=0, want_fence=False, want_shut_down=False, stale=False)

    @rule()
    def all_beat(self) -> None:
        for broker_id, broker in list(self.model.brokers.items()):
            if not broker.leaving:
                self._beat(broker_id)

    @rule(milliseconds=st.sampled_from([0, 1, 4_000, SESSION_MS - 1, SESSION_MS, 60_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.cluster.clock.advance(milliseconds)
        self.cluster.tick()
        self.model.pass_time(self.cluster.clock.now_ms)

    @rule(broker_id=st.sampled_from([2, 5, 9]))
    def unregister(self, broker_id: int) -> None:
        known = self.model.brokers.get(broker_id)
        response = self.cluster.ask(UnregisterBrokerRequest(broker_id=broker_id))
        assert response.error_code == (ErrorCode.NONE if known else ErrorCode.BROKER_ID_NOT_REGISTERED)
        if known:
            self.model.lose(broker_id)
            del self.model.brokers[broker_id]

    @rule()
    def restart_the_controller(self) -> None:
        """Sessions are forgotten: whoever was unfenced has one more to be heard again."""
        self.cluster.restart()
        for broker in self.model.brokers.values():
            broker.last_contact_ms, broker.heard, broker.shutdown_offset = self.cluster.clock.now_ms, False, 0

    # What holds

    @invariant()
    def everything_holds(self) -> None:
        if not hasattr(self, "simulated"):
            return
        shadow = self.simulated.shadow
        new = self.cluster.records(shadow.next_offset)
        first = self.cluster.log.end_offset - len(new)
        # The same records in other batches than those in which they were written.
        for at in range(0, len(new), 3):
            replay(shadow, new[at : at + 3], first + at)
        for holds in INVARIANTS:
            holds(self.simulated)

    def teardown(self) -> None:
        if not hasattr(self, "simulated"):
            return
        records = self.cluster.records()
        image, first = MetadataImage(), self.cluster.log.end_offset - len(records)
        for at, record in enumerate(records):
            replay(image, [record], first + at)
        assert image_facts(image) == image_facts(self.cluster.image)
        assert self.cluster.done_again().log.log_bytes() == self.cluster.log.log_bytes()


def _racks(chosen: Sequence[int]) -> set[str]:
    return {RACKS[(broker_id - 1) % len(RACKS)] for broker_id in chosen}


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(stateful_step_count=40)
