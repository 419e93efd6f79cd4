"""A long request between its steps: the image on which it is decided does not change, and a cancelled request has no
effect."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.controller.busy import Busy
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.handlers.partitions import alter_partition_reassignments
from klamm.controller.long_decision import LongDecision
from klamm.protocol.codec.requests import encode_request, read_request
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.partitions.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.controller.handlers.cluster import APIS, ENOUGH_TIME_MS, SESSION_MS, DrivenCluster
from tests.controller.handlers.reassignment_requests import moved
from tests.controller.image_facts import image_facts

TOPICS = 9


def new_topics(first: int = 0) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=f"t{number}", num_partitions=2, replication_factor=2)
        for number in range(first, first + TOPICS)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS)


def moves() -> AlterPartitionReassignmentsRequest:
    """Reassignments to another order of replicas and to other replicas, in turn."""
    return AlterPartitionReassignmentsRequest(
        timeout_ms=ENOUGH_TIME_MS, topics=[moved("old", *[[1, 2], [2, 3], [3]] * (TOPICS // 3))]
    )


LONG: dict[str, Callable[[], Message]] = {"topics": new_topics, "moves": moves}


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "items_at_once", 2)
    monkeypatch.setattr(alter_partition_reassignments, "COLUMNS_PER_ITEM", 1)
    monkeypatch.setattr(alter_partition_reassignments, "READ_AT_ONCE", 1)


def started() -> DrivenCluster:
    cluster = DrivenCluster()
    assert cluster.create_at("old", *[[2, 1]] * TOPICS).error_code == 0
    return cluster


def call(request: Message) -> Call:
    api = APIS[type(request)]
    _, _, read = read_request(encode_request(api, api.latest_stable, 1, "test", request))
    return Call(api, api.latest_stable, read, "broker" if "broker" in api.listeners else "controller", 1, "test")


def begin(cluster: DrivenCluster, request: Message) -> LongDecision:
    decision = cluster.controller.begin(call(request))
    assert isinstance(decision, LongDecision), "it takes more than one step"
    assert cluster.controller.is_deciding
    return decision


def facts(cluster: DrivenCluster) -> tuple[Any, ...]:
    """All that a request may change."""
    return image_facts(cluster.image), cluster.log.log_bytes(), cluster.controller.rng.bit_generator.state


@pytest.mark.parametrize("kind", LONG)
def test_in_steps_a_request_has_the_same_result_as_at_once(kind: str) -> None:
    whole, parts = started(), started()
    expected = whole.controller.submit(call(LONG[kind]()))
    decision, before = begin(parts, LONG[kind]()), facts(parts)[:2]
    steps = 0
    while decision.advance():
        steps += 1
        assert facts(parts)[:2] == before, "nothing of it is there"
    answer = parts.controller.commit(decision)
    assert steps > 2
    assert not parts.controller.is_deciding
    assert answer == expected
    assert facts(parts) == facts(whole)


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("steps", [0, 1, 100])
def test_a_request_that_is_given_up_has_never_been(kind: str, steps: int) -> None:
    cluster = started()
    before = facts(cluster)
    decision = begin(cluster, LONG[kind]())
    for _ in range(steps):
        if not decision.advance():
            break
    cluster.controller.abandon(decision)
    assert facts(cluster) == before
    assert not cluster.controller.is_deciding
    cluster.controller.abandon(decision)
    other = started()
    assert cluster.controller.submit(call(new_topics())) == other.controller.submit(call(new_topics()))
    assert facts(cluster) == facts(other)


def test_giving_up_a_request_that_is_over_undoes_nothing() -> None:
    cluster = started()
    decision = begin(cluster, new_topics())
    assert len(list(iter(decision.advance, False))) > 2
    cluster.controller.commit(decision)
    after = facts(cluster)
    cluster.controller.abandon(decision)
    assert facts(cluster) == after


@pytest.mark.parametrize(
    "request_",
    [
        CreateTopicsRequest(
            topics=[CreatableTopic(name="other", num_partitions=1, replication_factor=1)], timeout_ms=ENOUGH_TIME_MS
        ),
        DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=ENOUGH_TIME_MS),
        UnregisterBrokerRequest(broker_id=3),
        InitProducerIdRequest(transactional_id=None),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_that_would_change_something_has_to_wait(request_: Message) -> None:
    """It does not use the random generator either: the long request is decided as if the other one had not come."""
    cluster, alone = started(), started()
    decision, expected = begin(cluster, new_topics()), begin(alone, new_topics())
    before = facts(cluster)
    with pytest.raises(Busy):
        cluster.controller.submit(call(request_))
    assert facts(cluster) == before
    while decision.advance():
        pass
    while expected.advance():
        pass
    assert cluster.controller.commit(decision) == alone.controller.commit(expected)
    assert facts(cluster) == facts(alone)
    assert isinstance(cluster.controller.submit(call(request_)), Answer)


def test_two_long_requests_are_not_decided_at_once() -> None:
    cluster = started()
    decision = begin(cluster, new_topics())
    with pytest.raises(Busy):
        cluster.controller.begin(call(new_topics(TOPICS)))
    cluster.controller.abandon(decision)
    begin(cluster, new_topics(TOPICS))


def test_requests_that_change_nothing_are_answered_meanwhile() -> None:
    cluster = started()
    begin(cluster, new_topics())
    answer = cluster.controller.submit(call(MetadataRequest(topics=None)))
    assert [topic.name for topic in answer.response.topics] == ["old"]  # type: ignore[union-attr]
    refused = cluster.controller.submit(call(CreateTopicsRequest(topics=[CreatableTopic(name="old")], timeout_ms=1)))
    assert refused.record_offsets is None


def test_time_brings_nothing_while_a_long_request_is_decided() -> None:
    """Sessions that have ended and work that is left wait for its end."""
    cluster = started()
    decision = begin(cluster, new_topics())
    before = facts(cluster)[:2]
    cluster.clock.advance(SESSION_MS)
    cluster.set_down({2})
    while decision.advance():
        cluster.tick()
        cluster.controller.work()
        assert facts(cluster)[:2] == before
    cluster.controller.commit(decision)
    cluster.tick()
    assert all(broker.fenced for broker in cluster.image.brokers.values())


def test_a_request_with_effects_alone_is_decided_meanwhile() -> None:
    """A producer id from the block that its broker has: no record is written, and the long request continues."""
    cluster = started()
    assert isinstance(cluster.controller.submit(call(InitProducerIdRequest(transactional_id=None))), Answer)
    decision = begin(cluster, new_topics())
    before = facts(cluster)
    ids = []
    for _ in range(2):
        response = cluster.controller.submit(call(InitProducerIdRequest(transactional_id=None))).response
        assert isinstance(response, InitProducerIdResponse)
        ids.append(response.producer_id)
    assert (ids, facts(cluster)) == ([1, 2], before)
    while decision.advance():
        pass
    assert cluster.controller.commit(decision).record_offsets is not None


@pytest.mark.parametrize("topics", [1, 2, 3])
def test_a_request_of_one_step_is_answered_at_once_and_a_longer_one_has_done_its_first(topics: int) -> None:
    """A step decides two topics here."""
    cluster = started()
    request = new_topics()
    request.topics = request.topics[:topics]
    found = cluster.controller.begin(call(request))
    assert isinstance(found, LongDecision) is (topics > 2)
    assert cluster.controller.is_deciding is (topics > 2)
    steps = 0
    while isinstance(found, LongDecision):
        found = cluster.controller.advance(found)
        steps += 1
    assert list(cluster.image.topics_by_name) == ["old", "t0", "t1", "t2"][: topics + 1]
    if topics > 2:
        whole = started().controller.begin(call(request))
        assert isinstance(whole, LongDecision)
        assert whole.outcome is None, "planned, but for the first step, in later ones"


def test_while_others_wait_for_their_turn_what_may_pause_waits_behind_them_and_the_rest_does_not() -> None:
    cluster = started()
    for request in (new_topics(), moves()):
        with pytest.raises(Busy):
            cluster.controller.begin(call(request), others_wait=True)
        assert not cluster.controller.is_deciding
    answer = cluster.controller.begin(call(MetadataRequest(topics=None)), others_wait=True)
    assert isinstance(answer, Answer)


def test_background_work_waits_for_the_end_of_a_long_request() -> None:
    cluster = started()
    cluster.controller._background._may_have_returned = True
    cluster.controller._background._losing = True
    decision = begin(cluster, new_topics())
    before = facts(cluster)
    cluster.controller.work()
    cluster.controller.tick()
    assert facts(cluster) == before
    assert cluster.controller._background.losses_pending
    cluster.controller.abandon(decision)
    cluster.controller.work()
    assert not cluster.controller._background.losses_pending


@pytest.mark.parametrize("kind", LONG)
def test_in_a_thread_a_request_comes_to_what_it_does_at_once(kind: str) -> None:
    whole, other = started(), started()
    expected = whole.controller.submit(call(LONG[kind]()))
    decision = other.controller.begin_large(call(LONG[kind]()), may_be_interrupted=True)
    before = facts(other)
    decision.run()
    assert facts(other) == before, "nothing of it is there, and its random numbers are its own"
    assert other.controller.finish(decision) == expected
    assert facts(other) == facts(whole)


def test_a_session_that_expires_interrupts_what_is_decided_in_a_thread() -> None:
    cluster = started()
    first = cluster.controller.begin_large(call(new_topics()), may_be_interrupted=True)
    cluster.clock.advance(SESSION_MS)
    cluster.controller.tick()
    assert first.is_interrupted
    assert any(broker.fenced for broker in cluster.image.brokers.values())
    last = cluster.controller.begin_large(call(new_topics(100)), may_be_interrupted=False)
    cluster.controller.tick()
    assert not last.is_interrupted
