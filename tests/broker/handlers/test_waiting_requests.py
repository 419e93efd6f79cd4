"""Requests about records that wait: no answer becomes complete before the time at which the server tries it again,
unless one of its partitions was touched. Otherwise the server would hold a complete answer until its deadline."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from klamm.controller.data_limits import DataLimits
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs import incremental_alter_configs
from klamm.protocol.messages.data.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.data.batches import batch
from tests.broker.data.watching import Watcher
from tests.broker.handlers.data_requests import ALL, Asked, fetch_request, produce_request
from tests.controller.handlers.cluster import DrivenCluster

BROKERS = (1, 2, 3)
TOPIC_CONFIG = 2
PARTITIONS = [[1, 2, 3], [2, 3, 1]]


class Waiters:
    """A cluster of three brokers, topic t, and the requests that wait for its partitions."""

    def __init__(self, rate: int) -> None:
        self.cluster = DrivenCluster(3, data_limits=DataLimits(replication_rate=rate))
        self.watcher = Watcher(self.cluster.data.watches)
        self.create()
        self.waiting: list[tuple[str, Asked]] = []
        self.codes: set[tuple[str, int]] = set()
        """The kinds of answers that requests got after they had to wait."""

    def create(self) -> None:
        assert self.cluster.create_at("t", *PARTITIONS).error_code == 0

    @property
    def now_ms(self) -> int:
        return self.cluster.clock.now_ms

    def is_up(self, broker_id: int) -> bool:
        return self.cluster.image.brokers[broker_id].live and broker_id not in self.cluster.data.down

    def leader(self, index: int) -> int | None:
        leader = self.cluster.partitions("t")[index].leader
        return leader if leader > 0 and self.is_up(leader) else None

    def look(self) -> None:
        """Try all. The server only tries those whose time has come, or whose partitions were touched."""
        touched = self.watcher.take()
        still = []
        for kind, requested in self.waiting:
            waits = requested.waiting
            is_woken = self.now_ms >= waits.retry_at_ms or not touched.isdisjoint(waits.keys)
            response = requested.look()
            if response is None:
                still.append((kind, requested))
                continue
            assert is_woken, f"{kind} is answered, and nobody would have looked"
            topic = response.responses[0]
            partitions = topic.partition_responses if kind == "produce" else topic.partitions
            self.codes |= {(kind, one.error_code) for one in partitions}
        self.waiting = still
        self.say_who_is_awaited()

    def say_who_is_awaited(self) -> None:
        self.watcher.watch(key for _, requested in self.waiting for key in requested.waiting.keys)

    # Steps

    def ask(self, kind: str, request: Any, broker_id: int) -> None:
        requested = Asked(self.cluster, request, broker_id=broker_id)
        if requested.look() is None:
            assert isinstance(requested.waiting, DelayedAnswer)
            self.waiting.append((kind, requested))
        self.say_who_is_awaited()

    def produce(self, index: int, records: int, acks: int, timeout_ms: int) -> None:
        leader = self.leader(index)
        if leader is not None:
            request = produce_request(self.cluster, batch(records), partition=index, acks=acks, timeout_ms=timeout_ms)
            self.ask("produce", request, leader)

    def fetch(self, index: int, back: int, broker_id: int, min_bytes: int, max_wait_ms: int) -> None:
        """A Fetch of one partition, or of both, from some records before the end of a replica."""
        if not self.is_up(broker_id):
            return
        topic_id = self.cluster.image.topics_by_name["t"].topic_id
        offsets = []
        for one in (index, *([1] if index == 0 and back % 2 else [])):
            log = self.cluster.data.find(topic_id, one)
            end = log.log_end_offset(broker_id, self.now_ms) if log else 0
            offsets.append(max(end - back, log.log.log_start_offset if log else 0))
        request = fetch_request(self.cluster, *offsets, partition=index, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
        self.ask("fetch", request, broker_id)

    def wait(self, ms: int) -> None:
        self.cluster.clock.advance(ms)

    def wait_till_just_before(self) -> None:
        """Let time pass until one millisecond before the first waiting request is tried."""
        if self.waiting:
            first = min(requested.waiting.retry_at_ms for _, requested in self.waiting)
            self.cluster.clock.advance(max(0, first - 1 - self.now_ms))

    def tick(self) -> None:
        self.cluster.tick()

    def set_down(self, down: set[int]) -> None:
        self.cluster.set_down(down)

    def lose(self, broker_id: int) -> None:
        if self.cluster.image.brokers[broker_id].live:
            down = [one for one in BROKERS if not self.cluster.image.brokers[one].live]
            self.cluster.pass_time(9_000, silent=[*down, broker_id])

    def return_or_leave(self, broker_id: int) -> None:
        if self.cluster.image.brokers[broker_id].live:
            self.cluster.shut_down(broker_id)
        else:
            self.cluster.come_back(broker_id)

    def set_min_isr(self, value: int) -> None:
        config = incremental_alter_configs.AlterableConfig(name="min.insync.replicas", value=str(value))
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_CONFIG, resource_name="t", configs=[config]
        )
        answer = self.cluster.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0

    def delete_records(self, index: int) -> None:
        leader = self.leader(index)
        if leader is not None:
            partitions = [DeleteRecordsPartition(partition_index=index, offset=-1)]
            request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)])
            assert self.cluster.ask(request, broker_id=leader).topics[0].partitions[0].error_code == 0

    def replace_topic(self) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000)
        if sum(map(self.is_up, BROKERS)) == len(BROKERS):
            assert self.cluster.ask(request).responses[0].error_code == 0
            self.create()


INDEX = st.integers(0, 1)
BROKER = st.sampled_from(BROKERS)
TIMES = st.sampled_from([1, 50, 1_000, 60_000])
STEPS: list[tuple[int, str, list[st.SearchStrategy[Any]]]] = [
    (6, "produce", [INDEX, st.sampled_from([1, 10, 200, 3_000]), st.sampled_from([ALL, ALL, 1]), TIMES]),
    (6, "fetch", [INDEX, st.sampled_from([0, 0, 1, 10, 250]), BROKER, st.sampled_from([1, 1, 100, 5_000]), TIMES]),
    (4, "wait", [st.sampled_from([1, 9, 10, 99, 500, 2_000])]),
    (4, "wait_till_just_before", []),
    (2, "tick", []),
    (2, "set_down", [st.sets(BROKER, max_size=2)]),
    (1, "lose", [BROKER]),
    (2, "return_or_leave", [BROKER]),
    (2, "set_min_isr", [st.integers(1, 3)]),
    (1, "delete_records", [INDEX]),
    (1, "replace_topic", []),
]
"""How often each step is drawn, and its arguments."""
STEP = st.sampled_from([step for weight, *step in STEPS for _ in range(weight)]).flatmap(
    lambda step: st.tuples(st.just(step[0]), *step[1])
)


DELETED = [("produce", 0, 200, ALL, 60_000), ("fetch", 0, 0, 1, 1, 60_000), ("replace_topic",)]
TOO_FEW = [("lose", 2), ("set_min_isr", 2), ("produce", 0, 200, ALL, 60_000), ("lose", 3)]
"""The last two in sync have the batch before one of them leaves the ISR."""
OUT_OF_RANGE = [("produce", 0, 1, 1, 1), ("wait", 99), ("fetch", 0, 1, 1, 100, 1_000), ("delete_records", 0)]
REACHED = {
    ("fetch", ErrorCode.NONE),
    ("fetch", ErrorCode.OFFSET_OUT_OF_RANGE),
    ("fetch", ErrorCode.INCONSISTENT_TOPIC_ID),
    ("produce", ErrorCode.NONE),
    ("produce", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ("produce", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("produce", ErrorCode.REQUEST_TIMED_OUT),
    ("produce", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


def test_nobody_s_answer_is_there_unless_somebody_looks() -> None:
    codes: set[tuple[str, int]] = set()

    @given(rate=st.sampled_from([10, 100, 1_000]), steps=st.lists(STEP, min_size=20, max_size=50))
    @example(100, DELETED)
    @example(100, TOO_FEW)
    # Records were deleted, and a consumer that waited for more of them was not woken.
    @example(100, OUT_OF_RANGE)
    def play(rate: int, steps: list[Any]) -> None:
        waiters = Waiters(rate)
        for name, *arguments in steps:
            getattr(waiters, name)(*arguments)
            waiters.look()
        codes.update(waiters.codes)

    play()
    assert codes >= REACHED, "whatever may come of waiting has come"


def test_an_answer_that_waited_is_durable_with_all_that_it_saw() -> None:
    """Other clients' records may have been written while it waited; it must not leave before they are durable."""
    cluster = DrivenCluster(1)
    assert cluster.create_at("t", [1]).error_code == 0
    call = cluster.call(fetch_request(cluster, 0, max_wait_ms=500))
    waiting = cluster.controller.submit(call)
    assert isinstance(waiting.response, DelayedAnswer)
    assert cluster.create_at("other", [1]).error_code == 0
    cluster.clock.advance(500)
    answer = cluster.controller.try_complete(call, waiting)
    assert not isinstance(answer.response, DelayedAnswer)
    assert answer.durable_at == cluster.log.end_offset > waiting.durable_at
