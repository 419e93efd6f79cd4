"""The part of the machine that is records: producers write them, consumers read them, and some answers wait."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from klamm.broker.data.watches import Watches
from klamm.controller.core import Controller
from klamm.controller.outcome import NoReply
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.replica_status import ReplicaStatusRequest, ReplicaStatusRequestEntry
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.data.batches import batch
from tests.broker.data.model_log import ModelBatch, Numbered
from tests.broker.data.watching import Watcher
from tests.broker.handlers.data_requests import ALL, Asked, fetch_request, produce_request
from tests.simulation.model import NOBODY, ModelPartition, ModelTopic
from tests.simulation.model_configs import UNLIMITED_TOPICS
from tests.simulation.model_log import ModelLog
from tests.simulation.model_moves import Place, judge_number
from tests.simulation.move_rules import MoveRules, moving_asked
from tests.simulation.strategies import BROKER_IDS, picks, seldom

WAIT_MS = 5_000


@dataclass
class Producer:
    """An idempotent producer: per partition the number of its next record, and its last batch."""

    producer_id: int
    next: dict[Place, int]
    last: dict[Place, tuple[int, int, bytes]]


@dataclass
class Waiting:
    """A request without an answer yet."""

    asked: Asked
    controller: Controller
    broker_id: int
    place: Place
    deadline_ms: int
    written: ModelBatch | None
    """What acks=all is waited for; None: a consumer waits."""
    leader_epoch: int
    offset: int = 0


class RecordRules(MoveRules):
    """What producers and consumers do."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: list[Producer] = []
        self.waiting: list[Waiting] = []
        self.touched: set[Place] = set()
        self.watcher = Watcher(Watches())
        self.batches = 0

    def _place(self, pick: int, index: int) -> tuple[str, int, ModelTopic, ModelPartition]:
        name = self._picked(pick)
        topic = self.model.topics[name]
        index %= len(topic.partitions)
        return name, index, topic, topic.partitions[index]

    @rule(broker_id=st.sampled_from(BROKER_IDS))
    def init_producer_id(self, broker_id: int) -> None:
        response = self.cluster.ask(InitProducerIdRequest(transactional_id=None), broker_id=broker_id)
        assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
        assert response.producer_id not in [one.producer_id for one in self.producers], "nobody had it before"
        self.producers.append(Producer(response.producer_id, {}, {}))

    # Producers

    @moving_asked
    @rule(
        pick=picks,
        index=st.integers(0, 2),
        acks=st.sampled_from([ALL, ALL, ALL, 1, 0]),
        count=st.sampled_from([1, 2, 5, 20]),
        producer=st.none() | st.integers(0, 2),
        # The next number, the last batch again, or one that leaves a gap.
        number=st.sampled_from(["next", "next", "again", "gap"]),
        elsewhere=seldom,
    )
    def produce(
        self,
        pick: int,
        index: int = 0,
        acks: int = ALL,
        count: int = 1,
        producer: int | None = None,
        number: str = "next",
        elsewhere: bool = False,
    ) -> None:
        name, index, topic, partition = self._place(pick, index)
        place = topic.topic_id, index
        broker_id = partition.leader % 5 + 1 if elsewhere or partition.leader == NOBODY else partition.leader
        if not self.is_up(broker_id):
            return
        self.batches += 1
        data, first = batch(count, value=b"%d" % self.batches), None
        who = self.producers[producer % len(self.producers)] if producer is not None and self.producers else None
        if who:
            first = who.next.get(place, 0) + (number == "gap")
            if number == "again" and place in who.last:
                first, count, data = who.last[place]
            else:
                numbers = {"producer_id": who.producer_id, "producer_epoch": 0, "base_sequence": first}
                data = batch(count, value=b"%d" % self.batches, **numbers)
        expected = self._judge_batch(
            name, topic, partition, broker_id, acks, who.producer_id if who else None, first, count
        )
        request = produce_request(self.cluster, data, topic_name=name, partition=index, acks=acks, timeout_ms=WAIT_MS)
        try:
            answer = Asked(self.cluster, request, broker_id=broker_id)
        except NoReply:
            assert acks == 0
            assert isinstance(expected, ErrorCode)
            assert expected
            return
        assert answer.wants_no_answer == (acks == 0)
        if isinstance(expected, ErrorCode) and expected:
            self._check_answer(answer, expected, -1)
            return
        log = self.model.log_of(topic, partition)
        if isinstance(expected, Numbered):
            [written] = [one for one in log.batches if one.base_offset == expected.base_offset]
        else:
            written = log.append(data, count, self.cluster.clock.now_ms)
            if who and first is not None:
                who.next[place], who.last[place] = first + count, (first, count, data)
                log.number(who.producer_id, first, written)
        if acks == ALL:
            deadline_ms = self.cluster.clock.now_ms + WAIT_MS
            self._wait(
                Waiting(answer, self.cluster.controller, broker_id, place, deadline_ms, written, log.leader_epoch)
            )
        elif acks:
            self._check_answer(answer, ErrorCode.NONE, written.base_offset)

    def _judge_batch(
        self,
        name: str,
        topic: ModelTopic,
        partition: ModelPartition,
        broker_id: int,
        acks: int,
        producer_id: int | None,
        first: int | None,
        count: int,
    ) -> ErrorCode | Numbered:
        if name in (*UNLIMITED_TOPICS, "__share_group_state"):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if partition.leader != broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == ALL and len(partition.isr) < self.model.needed_in_sync(topic, partition):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if producer_id is None or first is None:
            return ErrorCode.NONE
        return judge_number(partition.log, producer_id, first, first + count - 1)

    def _check_answer(self, answer: Asked, code: ErrorCode, base_offset: int) -> None:
        response = answer.look()
        if response is not None:
            [partition] = response.responses[0].partition_responses
            assert (partition.error_code, partition.base_offset) == (code, base_offset)
        else:
            assert answer.wants_no_answer

    # Consumers

    @moving_asked
    @rule(pick=picks, index=st.integers(0, 2), back=st.integers(0, 30), wait=st.booleans())
    def consume(self, pick: int, index: int, back: int, wait: bool) -> None:
        """From the end, or from somewhat before it; who waits, waits for whatever comes."""
        name, index, topic, partition = self._place(pick, index)
        broker_id, now_ms = partition.leader, self.cluster.clock.now_ms
        if broker_id == NOBODY or not self.is_up(broker_id):
            return
        log = partition.log or ModelLog()
        offset = max(log.start, log.committed(now_ms) - back)
        wait_ms = WAIT_MS if wait else 0
        request = fetch_request(self.cluster, offset, topic_name=name, partition=index, max_wait_ms=wait_ms)
        answer = Asked(self.cluster, request, broker_id=broker_id)
        waiting = Waiting(
            answer, self.cluster.controller, broker_id, (topic.topic_id, index), now_ms + wait_ms, None, 0, offset
        )
        self._wait(waiting)

    @moving_asked
    @rule(pick=picks)
    def ask_how_far_replicas_are(self, pick: int) -> None:
        name = self._picked(pick)
        for index, partition in enumerate(self.model.topics[name].partitions):
            self._ask_how_far(name, index, partition)

    def _ask_how_far(self, name: str, index: int, partition: ModelPartition) -> None:
        broker_id = max(partition.leader, 1)
        entries = [ReplicaStatusRequestEntry(topic=name, partition_id=index, broker=one) for one in partition.replicas]
        response = self.cluster.ask(ReplicaStatusRequest(replica_status_requests=entries), broker_id=broker_id)
        for entry in response.replica_status:
            code, lag = ErrorCode.NONE, 0
            if partition.leader == NOBODY:
                code, lag = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            elif entry.broker not in self.model.brokers:
                code, lag = ErrorCode.UNKNOWN_MEMBER_ID, -1
            elif partition.log:
                lag = partition.log.lag(entry.broker, self.cluster.clock.now_ms)
            assert (entry.error_code, entry.lag) == (code, lag)
            assert entry.lag >= 0 or entry.error_code

    # Who waits

    def _wait(self, waiting: Waiting) -> None:
        """Answered at once, or when it is looked at later."""
        if not self._is_over(waiting, waiting.asked.look()):
            self.waiting.append(waiting)
            self._say_who_is_awaited()

    def _say_who_is_awaited(self) -> None:
        self.watcher.move_to(self.cluster.data.watches)
        self.watcher.watch(one.place for one in self.waiting)

    def look_at_those_who_wait(self) -> None:
        """Nobody's answer is there without a sign that it might be: the time, or something became of a partition."""
        self.touched |= self.watcher.take()
        still = []
        for one in self.waiting:
            if one.controller is self.cluster.controller:
                waits = one.asked.waiting
                woken = self.cluster.clock.now_ms >= waits.retry_at_ms or self.touched & set(waits.keys)
                if self._is_over(one, one.asked.look()):
                    assert woken, "nobody would have looked"
                else:
                    still.append(one)
        self.waiting, self.touched = still, set()
        self._say_who_is_awaited()

    def _is_over(self, one: Waiting, response: Any) -> bool:
        """Whether the answer is there: as the model says, and when it does."""
        expected = self._produced(one) if one.written else self._consumed(one)
        if expected is None:
            assert response is None
            return False
        assert response is not None
        code, content = expected
        if one.written is None:
            [fetched] = response.responses[0].partitions
            assert (fetched.error_code, fetched.records) == (code, content)
            return True
        [produced] = response.responses[0].partition_responses
        assert (produced.error_code, produced.base_offset) == (code, one.written.base_offset)
        if code == ErrorCode.NONE:
            log = self._log(one.place)
            assert log is not None
            if one.written not in log.acknowledged:
                log.acknowledged.append(one.written)
        return True

    def _find(self, place: Place) -> tuple[ModelTopic, ModelPartition] | None:
        return next(((topic, found) for key, topic, found in self.model.places() if key == place), None)

    def _log(self, place: Place) -> ModelLog | None:
        found = self._find(place)
        return found[1].log if found else None

    def _produced(self, one: Waiting) -> tuple[ErrorCode, bytes] | None:
        found, now_ms = self._find(one.place), self.cluster.clock.now_ms
        if found is None or one.written is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b""
        topic, partition = found
        log = self.model.log_of(topic, partition)
        held = log.leader_epoch == one.leader_epoch or (
            one.written in log.batches and one.written.leader_epoch == one.leader_epoch
        )
        if partition.leader != one.broker_id or not held:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        if log.committed(now_ms) < one.written.end:
            return (ErrorCode.REQUEST_TIMED_OUT, b"") if now_ms >= one.deadline_ms else None
        few = len(partition.isr) < self.model.needed_in_sync(topic, partition)
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if few else ErrorCode.NONE, b""

    def _consumed(self, one: Waiting) -> tuple[ErrorCode, bytes] | None:
        found, now_ms = self._find(one.place), self.cluster.clock.now_ms
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID, b""
        partition = found[1]
        log = partition.log or ModelLog()
        if one.broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        end = log.has(one.broker_id, now_ms) if partition.log else 0
        if not log.start <= one.offset <= end:
            return ErrorCode.OFFSET_OUT_OF_RANGE, b""
        committed = min(log.committed(now_ms), end)
        ready = b"".join(each.data for each in log.batches if one.offset < each.end <= committed)
        return (ErrorCode.NONE, ready) if ready or now_ms >= one.deadline_ms else None
