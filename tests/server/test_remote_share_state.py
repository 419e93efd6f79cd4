"""Simulated brokers lead share partitions whose state is on a real broker: they read and write it by requests. The real
broker is a script around the state machine of a share coordinator."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.broker.share_state.combiner import Batch
from klamm.broker.share_state.offset import ShareGroupOffset, SharePartitionKey
from klamm.broker.share_state.questions import Delete, Initialize, Question, Summarize, Write
from klamm.broker.share_state.states import DONE, ShareStates, StateWrite
from klamm.protocol.api import Api
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.configs import incremental_alter_configs
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.share_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from klamm.protocol.messages.shares import share_acknowledge, share_fetch
from klamm.protocol.uuid import Uuid
from klamm.server.server import Server
from tests.behaviour.player import Line
from tests.broker.data.batches import batch, record
from tests.server.mixed_clusters import REAL, RealBroker, mixed

GROUP, MEMBER = "g", "AAAAAAAAAAAAAAAAAAAAAQ"
CONFIGS_OF_TOPIC = {"share.coordinator.state.topic.num.partitions": 1}
ACCEPT, RELEASE = 1, 2


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


class _Reply:
    """A waiter that keeps its answer."""

    def __init__(self) -> None:
        self.response: Any = None

    def resolve(self, response: object) -> None:
        self.response = response

    refuse = resolve


class ShareCoordinator(RealBroker):
    """A real broker with the state of share partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ShareStates(lambda: SimpleNamespace(with_id=lambda _: SimpleNamespace(partitions=100)), 500)
        self.asked: list[tuple[str, list[int]]] = []
        """The name of the API and the partitions, of each request."""
        self.code = 0
        """The error of each partition in place of an answer."""
        self._arrived = trio.Event()

    @property
    def served(self) -> Mapping[Api[Any, Any], int]:
        return {messages.API: messages.API.latest_stable for messages, _ in _RESULTS.values()}

    async def arrived(self, name: str, count: int) -> None:
        """Wait until so many requests have arrived."""
        while [asked for asked, _ in self.asked].count(name) < count:
            await self._arrived.wait()

    def run(self, operation: Callable[[_Reply], Outbox]) -> Any:
        reply = _Reply()
        out = operation(reply)
        for at, one in enumerate(out.records):
            self.states.replay(one.key, one.value, Written(at, 0))
        for found in out.replies:
            found.waiter.resolve(found.response)
        return reply.response

    def answer(self, api: Api[Any, Any], request: Any) -> Any:
        self.asked.append((api.name, [one.partition for topic in request.topics for one in topic.partitions]))
        arrived, self._arrived = self._arrived, trio.Event()
        arrived.set()
        messages, topic_type = _RESULTS[api.name]
        results = []
        for topic in request.topics:
            found = [
                messages.PartitionResult(
                    partition=one.partition, **self._result(request.group_id, topic.topic_id, one, api.name)
                )
                for one in topic.partitions
            ]
            results.append(getattr(messages, topic_type)(topic_id=topic.topic_id, partitions=found))
        return api.response(results=results)

    def _result(self, group_id: str, topic_id: Uuid, one: Any, name: str) -> dict[str, Any]:
        if self.code:
            return {"error_code": self.code, "error_message": "so"}
        key = SharePartitionKey(group_id, topic_id, one.partition)
        found = self.run(lambda reply: _OPERATIONS[name](self.states, key, one, reply))
        if isinstance(found, ApiError):
            return {"error_code": found.code, "error_message": found.message}
        if not isinstance(found, ShareGroupOffset):
            return {}
        values: dict[str, Any] = {"state_epoch": found.state_epoch, "start_offset": found.start_offset}
        if name == "ReadShareGroupState":
            batches = [read_share_group_state.StateBatch(**batch.fields) for batch in found.batches]
            return {**values, "state_batches": batches}
        return {**values, "leader_epoch": found.leader_epoch, "delivery_complete_count": found.delivery_complete_count}


_RESULTS: dict[str, tuple[Any, str]] = {
    "InitializeShareGroupState": (initialize_share_group_state, "InitializeStateResult"),
    "ReadShareGroupState": (read_share_group_state, "ReadStateResult"),
    "WriteShareGroupState": (write_share_group_state, "WriteStateResult"),
    "DeleteShareGroupState": (delete_share_group_state, "DeleteStateResult"),
    "ReadShareGroupStateSummary": (read_share_group_state_summary, "ReadStateSummaryResult"),
}
_OPERATIONS: dict[str, Callable[[ShareStates, SharePartitionKey, Any, _Reply], Outbox]] = {
    "InitializeShareGroupState": lambda states, key, one, reply: states.initialize(
        key, one.state_epoch, one.start_offset, reply, 0
    ),
    "ReadShareGroupState": lambda states, key, one, reply: states.read(key, one.leader_epoch, reply, 0),
    "WriteShareGroupState": lambda states, key, one, reply: states.write(
        key,
        StateWrite(
            one.state_epoch,
            one.leader_epoch,
            one.start_offset,
            one.delivery_complete_count,
            tuple(
                Batch(found.first_offset, found.last_offset, found.delivery_state, found.delivery_count)
                for found in one.state_batches
            ),
        ),
        reply,
        0,
    ),
    "DeleteShareGroupState": lambda states, key, _, reply: states.delete(key, reply),
    "ReadShareGroupStateSummary": lambda states, key, _, reply: states.summarize(key, reply),
}


class Member:
    """A member of the group that reads partitions of `t` from the simulated broker. The group is on the real broker,
    which leaders do not ask about members."""

    def __init__(self, server: Server, line: Line) -> None:
        self.line = line
        self.epoch = 0
        self.topic_id = server.brokers.controller.image.topics_by_name["t"].topic_id

    async def fetch(self, *partitions: int) -> Any:
        topics = [
            share_fetch.FetchTopic(
                topic_id=self.topic_id,
                partitions=[share_fetch.FetchPartition(partition_index=index) for index in partitions or (0,)],
            )
        ]
        request = share_fetch.ShareFetchRequest(
            group_id=GROUP,
            member_id=MEMBER,
            share_session_epoch=self.epoch,
            max_wait_ms=100_000,
            min_bytes=1,
            max_bytes=10**6,
            max_records=100,
            batch_size=100,
            topics=topics if self.epoch == 0 else [],
        )
        answer = await self.line.ask(share_fetch.API, share_fetch.API.latest_stable, request)
        assert answer.error_code == 0
        self.epoch += 1
        return [one for topic in answer.responses for one in topic.partitions]

    async def acknowledge(self, first: int, last: int, kind: int, partition: int = 0) -> Any:
        acks = [share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])]
        one = share_acknowledge.AcknowledgePartition(partition_index=partition, acknowledgement_batches=acks)
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=MEMBER,
            share_session_epoch=self.epoch,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=[one])],
        )
        answer = await self.line.ask(share_acknowledge.API, share_acknowledge.API.latest_stable, request)
        self.epoch += 1
        assert answer.error_code == 0
        return answer.responses[0].partitions[0].error_code


async def begin(server: Server, line: Line, coordinator: ShareCoordinator, *partitions: int) -> Member:
    """Both partitions have five records, and the real group coordinator has initialized the group's `partitions`."""
    find = find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=[f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    await line.ask(find_coordinator.API, 6, find)
    (found,) = (await line.ask(find_coordinator.API, 6, find)).coordinators
    assert found.node_id == REAL
    data = [
        produce.PartitionProduceData(index=index, records=batch([record(at) for at in range(5)])) for index in (0, 1)
    ]
    written = produce.ProduceRequest(acks=1, topic_data=[produce.TopicProduceData(name="t", partition_data=data)])
    await line.ask(produce.API, 12, written)
    setting = incremental_alter_configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[setting])
    altered = await line.ask(
        incremental_alter_configs.API, 1, incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert altered.responses[0].error_code == 0
    member = Member(server, line)
    for index in partitions or (0,):
        key = SharePartitionKey(GROUP, member.topic_id, index)
        coordinator.run(lambda reply, key=key: coordinator.states.initialize(key, 3, -1, reply, 0))  # type: ignore[misc]
    return member


async def asked(server: Server, *questions: tuple[SharePartitionKey, Question]) -> list[object]:
    """What the simulated broker's own coordinators and leaders learn, if they ask all at once."""
    answers: list[object] = []
    complete = trio.Event()

    def answered(_image: object, answer: object, _now_ms: int) -> None:
        answers.append(answer)
        if len(answers) == len(questions):
            complete.set()

    for key, question in questions:
        server.brokers.shares.persister.ask(key, question, answered)
    with trio.fail_after(60):
        await complete.wait()
    return answers


def state_of(coordinator: ShareCoordinator, member: Member, partition: int = 0) -> ShareGroupOffset:
    return coordinator.states.by_key[SharePartitionKey(GROUP, member.topic_id, partition)]


async def test_records_are_delivered_and_acknowledged_by_the_state_on_a_real_broker(clock: MockClock) -> None:
    coordinator = ShareCoordinator()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator)
        (fetched,) = await member.fetch()
        assert [(one.first_offset, one.last_offset) for one in fetched.acquired_records] == [(0, 4)]
        assert coordinator.asked == [("ReadShareGroupState", [0])]
        assert await member.acknowledge(0, 1, ACCEPT) == 0
        state = state_of(coordinator, member)
        assert (state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count) == (
            3,
            0,
            0,  # a write has the start offset from before it
            2,
        )
        assert await member.acknowledge(3, 3, ACCEPT) == 0
        assert await member.acknowledge(4, 4, RELEASE) == 0
        state = state_of(coordinator, member)
        assert (state.start_offset, state.delivery_complete_count) == (2, 1)
        assert state.batches == (Batch(3, 3, 2, 1), Batch(4, 4, 0, 1))
        assert [name for name, _ in coordinator.asked[1:]] == ["WriteShareGroupState"] * 3
        assert coordinator.connections == 1


async def test_another_leader_goes_on_where_the_state_on_the_real_broker_is(clock: MockClock) -> None:
    """The simulated broker forgets what it knew when the connections of the group's members close."""
    coordinator = ShareCoordinator()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator)
        other = Member(server, await Line.open(server.bootstrap_servers))
        await other.fetch()
        assert await other.acknowledge(0, 1, ACCEPT) == 0
        await other.line.close()
        with trio.fail_after(60):
            await coordinator.arrived("WriteShareGroupState", 2)  # what it had acquired is released
        (fetched,) = await member.fetch()
        assert [(one.first_offset, one.last_offset, one.delivery_count) for one in fetched.acquired_records] == [
            (2, 4, 2)
        ]
        assert [name for name, _ in coordinator.asked].count("ReadShareGroupState") == 2


async def test_what_is_asked_about_a_group_meanwhile_is_one_request(clock: MockClock) -> None:
    coordinator = ShareCoordinator()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator, 0, 1)
        await member.fetch(0, 1)
        await coordinator.arrived("ReadShareGroupState", 2)
        assert coordinator.asked == [("ReadShareGroupState", [0]), ("ReadShareGroupState", [1])]
        coordinator.asked.clear()
        keys = [SharePartitionKey(GROUP, member.topic_id, index) for index in (0, 1, 0, 1)]
        writes = [Write(StateWrite(3, 0, at, 0, ())) for at in range(4)]
        assert await asked(server, *zip(keys, writes, strict=True)) == [DONE] * 4
        # A partition is once in a request, so that its writes keep their order.
        assert coordinator.asked == [
            ("WriteShareGroupState", [0]),
            ("WriteShareGroupState", [1, 0]),
            ("WriteShareGroupState", [1]),
        ]
        assert [state_of(coordinator, member, index).start_offset for index in (0, 1)] == [2, 3]


@pytest.mark.parametrize(("code", "attempts", "expected"), [
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_COORDINATOR, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.FENCED_LEADER_EPOCH, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1, ErrorCode.UNKNOWN_SERVER_ERROR),
    (9_999, 1, ErrorCode.UNKNOWN_SERVER_ERROR),
])  # fmt: skip
async def test_errors_of_the_coordinator_are_retried_or_shown_as_kafkas_leaders_do(
    clock: MockClock, code: int, attempts: int, expected: ErrorCode
) -> None:
    coordinator = ShareCoordinator()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator)
        coordinator.code = code
        (fetched,) = await member.fetch()
        assert (fetched.error_code, len(coordinator.asked)) == (expected, attempts)
        coordinator.code = 0
        (fetched,) = await member.fetch()
        assert (fetched.error_code, len(fetched.acquired_records)) == (0, 1)


async def test_a_coordinator_without_an_answer_is_asked_again(clock: MockClock) -> None:
    coordinator = ShareCoordinator()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, stderr):
        member = await begin(server, line, coordinator)
        answers = iter([None])
        coordinator.answers = lambda answer: next(answers, answer)
        (fetched,) = await member.fetch()
        assert (fetched.error_code, len(coordinator.asked), coordinator.connections) == (0, 2, 2)
        assert "a real broker gives no answer" in stderr.getvalue()


def stored(**values: int) -> read_share_group_state.StateBatch:
    return read_share_group_state.StateBatch(delivery_count=1, **values)


@pytest.mark.parametrize("state", [
    {"state_batches": [stored(first_offset=0, last_offset=3, delivery_state=3)]},
    {"state_batches": [stored(first_offset=0, last_offset=3, delivery_state=77)]},
    {"state_batches": [stored(first_offset=3, last_offset=0)]},
    {"start_offset": 2, "state_batches": [stored(first_offset=0, last_offset=3)]},
])  # fmt: skip
async def test_impossible_state_is_an_error_of_the_partition_alone(clock: MockClock, state: dict[str, Any]) -> None:
    class Impossible(ShareCoordinator):
        def _result(self, group_id: str, topic_id: Uuid, one: Any, name: str) -> dict[str, Any]:
            if name != "ReadShareGroupState":
                return {}
            return {"start_offset": 0, **(state if one.partition == 0 else {})}

    coordinator = Impossible()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator, 0, 1)
        (found,) = await member.fetch()
        assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        other = Member(server, await Line.open(server.bootstrap_servers))
        (found,) = await other.fetch(1)
        assert (found.error_code, len(found.acquired_records)) == (0, 1)
        await other.line.close()


async def test_a_partition_that_the_answer_lacks_is_an_error(clock: MockClock) -> None:
    class Silent(ShareCoordinator):
        def answer(self, api: Api[Any, Any], request: Any) -> Any:
            return api.response()

    coordinator = Silent()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator)
        (fetched,) = await member.fetch()
        assert fetched.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(("question", "name", "expected"), [
    (Initialize(4, 2), "InitializeShareGroupState", DONE),
    (Summarize(), "ReadShareGroupStateSummary", ShareGroupOffset(0, 3, 0, 1, 2)),
    (Delete(), "DeleteShareGroupState", DONE),
])  # fmt: skip
async def test_group_coordinators_here_ask_a_share_coordinator_elsewhere(
    clock: MockClock, question: Question, name: str, expected: object
) -> None:
    coordinator = ShareCoordinator()
    async with mixed(coordinator, CONFIGS_OF_TOPIC) as (server, line, _):
        member = await begin(server, line, coordinator)
        key = SharePartitionKey(GROUP, member.topic_id, 0)
        coordinator.run(lambda reply: coordinator.states.write(key, StateWrite(3, 0, 1, 2, ()), reply, 0))
        assert await asked(server, (key, question)) == [expected]
        assert coordinator.asked == [(name, [0])]
        state = coordinator.states.by_key.get(key)
        if name == "InitializeShareGroupState":
            assert state is not None
            assert (state.state_epoch, state.start_offset) == (4, 2)
        if name == "DeleteShareGroupState":
            assert state is None
