"""Requests that take several steps: other clients are served between the steps, requests that would change something
wait, and no client sees a part of the result. All in memory, so that the test decides what happens between two
steps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.core import Answer, Controller
from klamm.controller.long_decision import LongDecision
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.transactions import init_producer_id
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.topics import TopicRecord
from klamm.server.turns import TURNS_BETWEEN_STEPS
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    correlation_ids,
    create_topic,
    open_test_server,
    request_frame,
)

MANY = 40
NAMES = [f"t{number:02d}" for number in range(MANY)]


class InSteps(Controller):
    """Decides two topics per step."""

    items_at_once = 2


class FailingAtTheEnd(InSteps):
    """Fails when everything is planned."""

    def commit(self, decision: LongDecision) -> Answer:
        raise ZeroDivisionError("planted")


def many(*names: str, **fields: Any) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names or NAMES]
    return CreateTopicsRequest(topics=topics, **{"timeout_ms": 1000, **fields})


def frame(correlation_id: int, request: CreateTopicsRequest) -> bytes:
    return request_frame(create_topics.API, 7, correlation_id, request)


def made_by_metadata(name: str, correlation_id: int = 1) -> bytes:
    """A Metadata request that creates a topic. The server learns only by deciding it that it changes something."""
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
    return request_frame(metadata.API, 12, correlation_id, request)


@asynccontextmanager
async def under_way(
    controller_class: type[Controller] = InSteps,
) -> AsyncIterator[tuple[RunningServer, Peer]]:
    """A server in the middle of a long request, and the client that sent it."""
    has_bugs = controller_class is FailingAtTheEnd
    async with open_test_server(controller_class=controller_class, has_bugs=has_bugs) as running:
        peer = running.connect_in_memory()
        await peer.ask(create_topics.API, 7, create_topic("old", 1))
        await peer.send(frame(1, many()))
        await until_deciding(running)
        yield running, peer


async def some_rounds() -> None:
    for _ in range(2 * TURNS_BETWEEN_STEPS):
        await trio.lowlevel.checkpoint()


async def until_deciding(running: RunningServer) -> None:
    with trio.fail_after(60):
        while not running.controller.is_deciding:
            await trio.lowlevel.checkpoint()


def topics_in_batches(running: RunningServer) -> list[list[str]]:
    """The new topics of each batch that creates any."""
    batches = decode_batches(running.log.log_bytes())
    made = [[record.name for record in batch.records if isinstance(record, TopicRecord)] for batch in batches]
    return [names for names in made if names]


async def test_others_are_served_meanwhile_and_see_nothing_of_it(autojump_clock: MockClock) -> None:
    async with under_way() as (running, peer):
        other = running.connect_in_memory()
        served = 0
        while running.controller.is_deciding:
            described = await other.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
            if running.controller.is_deciding:
                assert [topic.name for topic in described.topics] == ["old"]
                served += 1
        assert served > MANY // (2 * TURNS_BETWEEN_STEPS), "between steps there is time for several"
        answered = await peer.receive()
        assert answered is not None
        assert [topic.error_code for topic in decode_response(create_topics.API, 7, answered)[1].topics] == [0] * MANY
        assert topics_in_batches(running) == [["old"], NAMES], "one request is one batch"
        assert len((await other.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))).topics) == 1 + MANY


async def test_whoever_would_change_something_waits_and_sees_all_of_it(autojump_clock: MockClock) -> None:
    async with under_way() as (running, peer):
        others = [running.connect_in_memory() for _ in range(4)]
        produced = init_producer_id.InitProducerIdRequest(transactional_id=None)
        state = delete_topics.DeleteTopicState(name="old")
        deletion = delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=1000)
        await others[0].send(request_frame(create_topics.API, 7, 2, many(NAMES[0], "mine", "second", "third")))
        await others[1].send(request_frame(delete_topics.API, 6, 3, deletion))
        await others[2].send(made_by_metadata("auto", 4))
        await others[3].send(request_frame(init_producer_id.API, 4, 5, produced))
        assert running.controller.is_deciding
        frames = [await other.receive() for other in (peer, *others)]
        assert [id_ for each in frames if each for id_ in correlation_ids([each])] == [1, 2, 3, 4, 5]
        created = decode_response(create_topics.API, 7, frames[1] or b"")[1].topics
        assert [topic.error_code for topic in created] == [ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0, 0]
        deleted = decode_response(delete_topics.API, 6, frames[2] or b"")[1].responses
        assert [topic.error_code for topic in deleted] == [0]
        assert topics_in_batches(running)[:2] == [["old"], NAMES]
        assert sorted(topics_in_batches(running)[2:]) == [["auto"], ["mine", "second", "third"]]
        again = await others[3].ask(init_producer_id.API, 4, produced)
        first = decode_response(init_producer_id.API, 4, frames[4] or b"")[1]
        assert (first.producer_id, again.producer_id) == (0, 1)
        assert running.controller.image.next_producer_id == 1000
        assert "bug" not in running.stderr.getvalue()


async def test_what_was_asked_before_and_after_on_the_same_connection_keeps_its_order(
    autojump_clock: MockClock,
) -> None:
    async with open_test_server(controller_class=InSteps) as running:
        peer, other = running.connect_in_memory(), running.connect_in_memory()
        await peer.send(
            api_versions_frame(1) + frame(2, many()) + api_versions_frame(3) + frame(4, many("u", "v", "w"))
        )
        await until_deciding(running)
        first = await peer.receive()
        assert running.controller.is_deciding, "what was asked before does not wait for it"
        assert await other.is_served()
        answers = [first, *[await peer.receive() for _ in range(3)]]
        assert correlation_ids([answer for answer in answers if answer]) == [1, 2, 3, 4]


async def test_who_leaves_in_the_middle_leaves_nothing_half(autojump_clock: MockClock) -> None:
    """A request that waited is then decided, with the random numbers that it would have got without the long
    request."""
    async with open_test_server(controller_class=InSteps) as running:
        other = running.connect_in_memory()
        await other.ask(create_topics.API, 7, create_topic("old", 1))
        await other.send(made_by_metadata("mine"))
        assert await other.receive()
        expected = running.controller.image.topics_by_name["mine"].topic_id
    async with under_way() as (running, _peer):
        written = running.log.log_bytes()
        (connection,) = [one for one in running.server.admission.connections if one.client.broker_id == 1]
        other = running.connect_in_memory()
        await other.send(made_by_metadata("mine"))
        await some_rounds()
        await until_deciding(running)  # The long request is still being decided, and the other one waits again.
        connection.close()
        assert await other.receive() is not None
        assert not running.controller.is_deciding
        assert running.log.log_bytes().startswith(written)
        assert topics_in_batches(running) == [["old"], ["mine"]]
        assert running.controller.image.topics_by_name["mine"].topic_id == expected
        await trio.sleep(30)
        assert not running.controller.image.brokers[1].fenced, "time goes on"


async def test_a_server_that_stops_lets_it_come_to_its_end(autojump_clock: MockClock) -> None:
    """Over a socket, because a server that stops waits for the connections that it has accepted."""
    async with open_test_server(controller_class=InSteps) as running:
        peer = await running.connect()
        await peer.ask(create_topics.API, 7, create_topic("old", 1))
        await peer.send(frame(1, many()))
        await until_deciding(running)
    assert topics_in_batches(running) == [["old"], NAMES]


async def test_a_bug_in_the_middle_costs_that_request_alone(autojump_clock: MockClock) -> None:
    async with under_way(FailingAtTheEnd) as (running, peer):
        answered = await peer.receive()
        assert answered is not None
        response = decode_response(create_topics.API, 7, answered)[1]
        assert {topic.error_code for topic in response.topics} == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert "ZeroDivisionError: planted" in running.stderr.getvalue()
        assert not running.controller.is_deciding
        assert list(running.controller.image.topics_by_name) == ["old"]
        await peer.ask(create_topics.API, 7, create_topic("after", 1))
        assert "after" in running.controller.image.topics_by_name
        assert await peer.is_served()


@pytest.mark.parametrize("fields", [{"validate_only": True}, {}])
async def test_steps_have_the_same_result_as_the_whole(autojump_clock: MockClock, fields: dict[str, Any]) -> None:
    logs, answers = [], []
    for controller_class in (Controller, InSteps):
        async with open_test_server(controller_class=controller_class) as running:
            peer = running.connect_in_memory()
            registered = running.log.end_offset
            await peer.ask(create_topics.API, 7, create_topic(NAMES[7], 1))
            names = [*NAMES, "no way", NAMES[3]]
            await peer.send(frame(9, many(*names, **fields)))
            other = running.connect_in_memory()
            await some_rounds()
            await other.send(made_by_metadata("auto"))
            answers.append(await peer.receive())
            assert await other.receive()
            batches = list(decode_batches(running.log.log_bytes()))
            logs.append([batch.contents for batch in batches if batch.base_offset >= registered])
    assert answers[0] == answers[1]
    assert str(logs[0]) == str(logs[1])
    assert len(logs[0]) == (2 if fields else 3)


async def test_brokers_come_and_go_when_it_is_over(autojump_clock: MockClock) -> None:
    async with under_way() as (running, _peer):
        broker_id = await running.server.add_broker()
        assert topics_in_batches(running) == [["old"], NAMES]
        assert not running.controller.image.brokers[broker_id].fenced
        assert await running.connect_in_memory().ask(api_versions.API, 3, api_versions.ApiVersionsRequest())
