"""Questions to share coordinators on real brokers as requests: what they have, how many there are, what is bounded."""

from typing import Any

import pytest

from klamm.broker.outgoing import Outgoing, OutgoingRequest
from klamm.broker.share_state import remote
from klamm.broker.share_state.combiner import Batch
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.broker.share_state.questions import Question, Read, Write
from klamm.broker.share_state.remote import MAX_PARTITIONS, RemoteStates
from klamm.broker.share_state.states import DONE, StateWrite
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.share_state import read_share_group_state, write_share_group_state
from klamm.protocol.uuid import Uuid

TOPIC = Uuid(bytes(15) + b"\7")
UNAVAILABLE = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Sent:
    """The requests that are left for the server, and the answers to their questions."""

    def __init__(self) -> None:
        self.requests: list[OutgoingRequest] = []
        outgoing = Outgoing()
        outgoing.send = self.requests.append
        self.states = RemoteStates(outgoing)
        self.answers: list[tuple[int, object]] = []

    def ask(self, partition: int, question: Question, broker_id: int = 9, group: str = "g") -> None:
        key = SharePartitionKey(group, TOPIC, partition)
        self.states.ask(broker_id, key, question, lambda answer: self.answers.append((partition, answer)))

    @property
    def partitions(self) -> list[list[int]]:
        """Those of each request."""
        return [[one.partition for one in request.body.topics[0].partitions] for request in self.requests]  # type: ignore[attr-defined]

    def answer(self, request: OutgoingRequest) -> None:
        """Every partition of a write is done."""
        asked: Any = request.body
        results = [
            write_share_group_state.WriteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    write_share_group_state.PartitionResult(partition=one.partition) for one in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
        request.answered(write_share_group_state.WriteShareGroupStateResponse(results=results))


def write(start_offset: int = 5) -> Write:
    return Write(StateWrite(3, 4, start_offset, 6, (Batch(7, 8, 2, 1),)))


def test_a_write_has_all_that_the_leader_says() -> None:
    sent = Sent()
    sent.ask(1, write())
    (request,) = sent.requests
    assert (request.broker_id, request.api.name) == (9, "WriteShareGroupState")
    assert request.body == write_share_group_state.WriteShareGroupStateRequest(
        group_id="g",
        topics=[
            write_share_group_state.WriteStateData(
                topic_id=TOPIC,
                partitions=[
                    write_share_group_state.PartitionData(
                        partition=1,
                        state_epoch=3,
                        leader_epoch=4,
                        start_offset=5,
                        delivery_complete_count=6,
                        state_batches=[
                            write_share_group_state.StateBatch(
                                first_offset=7, last_offset=8, delivery_state=2, delivery_count=1
                            )
                        ],
                    )
                ],
            )
        ],
    )


def test_a_request_has_so_many_partitions_and_the_rest_follows() -> None:
    sent = Sent()
    sent.ask(0, write())
    for partition in range(1, MAX_PARTITIONS + 3):
        sent.ask(partition, write())
    assert sent.partitions == [[0]]
    sent.answer(sent.requests[0])
    assert sent.partitions[1] == list(range(1, MAX_PARTITIONS + 1))
    sent.answer(sent.requests[1])
    assert sent.partitions[2] == [MAX_PARTITIONS + 1, MAX_PARTITIONS + 2]
    sent.answer(sent.requests[2])
    assert len(sent.requests) == 3
    assert sent.answers == [(partition, DONE) for partition in range(MAX_PARTITIONS + 3)]


def test_other_brokers_groups_and_apis_do_not_wait_for_each_other() -> None:
    sent = Sent()
    sent.ask(0, write())
    sent.ask(0, write(), broker_id=8)
    sent.ask(0, write(), group="other")
    sent.ask(0, Read(0))
    sent.ask(0, write())  # waits
    assert [(one.broker_id, one.api, one.body.group_id) for one in sent.requests] == [  # type: ignore[attr-defined]
        (9, write_share_group_state.API, "g"),
        (8, write_share_group_state.API, "g"),
        (9, write_share_group_state.API, "other"),
        (9, read_share_group_state.API, "g"),
    ]


def test_without_an_answer_all_that_waits_for_it_fails_and_the_next_question_is_sent() -> None:
    sent = Sent()
    for partition in range(3):
        sent.ask(partition, write())
    sent.requests[0].answered(None)
    assert sent.answers == [(partition, UNAVAILABLE) for partition in range(3)]
    sent.ask(5, write())
    assert sent.partitions == [[0], [5]]


@pytest.mark.parametrize("is_answered", [True, False])
def test_what_waits_is_bounded_until_it_is_answered(monkeypatch: pytest.MonkeyPatch, is_answered: bool) -> None:
    monkeypatch.setattr(remote, "MAX_WAITING", 2)
    sent = Sent()
    for partition in range(3):
        sent.ask(partition, write(), group=f"g{partition}")
    assert sent.answers == [(2, UNAVAILABLE)]
    for request in sent.requests[:2]:
        if is_answered:
            sent.answer(request)
        else:
            request.answered(None)
    for partition in range(3):
        sent.ask(partition, write(), group=f"g{partition}")
    assert len(sent.requests) == 4
    assert sent.answers[-1] == (2, UNAVAILABLE)
