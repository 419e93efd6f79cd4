"""Asks share coordinators on real brokers: InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState,
DeleteShareGroupState and ReadShareGroupStateSummary (83 to 87).

As in Kafka's PersisterStateManager, one request of an API about a group is in flight to a broker, and the questions
that arrive meanwhile are one request afterwards. A request has each share partition once, so that two writes of a
leader keep their order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from klamm.broker.outgoing import Outgoing, error_of
from klamm.broker.share_state.offset import UNINITIALIZED, ShareGroupOffset, SharePartitionKey, batches_of
from klamm.broker.share_state.questions import Delete, Initialize, Question, Read, Summarize, Write
from klamm.broker.share_state.states import DONE
from klamm.protocol.api import Api
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.share_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from klamm.protocol.uuid import Uuid

MAX_PARTITIONS: Final = 100
"""Share partitions of one request, so that an answer with 10,000 batches for each of them is still read."""
MAX_WAITING: Final = 100_000
"""Questions that wait for an answer. More get COORDINATOR_NOT_AVAILABLE at once."""
Replied: TypeAlias = Callable[[object], None]
"""Gets what a question is answered."""


class _Form(NamedTuple):
    """The request that asks one kind of question."""

    api: Api[Any, Any]
    data: Callable[[int, Any], Any]
    """The data of a partition: its index, the question."""
    topic: Callable[[Uuid, Sequence[Any]], Any]
    request: Callable[[str, Sequence[Any]], Message]
    answer: Callable[[Any], object] = lambda _: DONE
    """What the result of a partition without an error says."""


def _write_data(partition: int, question: Write) -> write_share_group_state.PartitionData:
    state = question.state
    return write_share_group_state.PartitionData(
        partition=partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=[write_share_group_state.StateBatch(**batch.fields) for batch in state.batches],
    )


def _read_state(result: read_share_group_state.PartitionResult) -> ShareGroupOffset:
    batches = batches_of(result.state_batches)
    return ShareGroupOffset(0, result.state_epoch, 0, result.start_offset, UNINITIALIZED, batches)


def _summary(result: read_share_group_state_summary.PartitionResult) -> ShareGroupOffset:
    return ShareGroupOffset(
        0, result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
    )


_FORMS: Final[Mapping[type[Question], _Form]] = {
    Initialize: _Form(
        initialize_share_group_state.API,
        lambda partition, asked: initialize_share_group_state.PartitionData(
            partition=partition, state_epoch=asked.state_epoch, start_offset=asked.start_offset
        ),
        lambda topic_id, data: initialize_share_group_state.InitializeStateData(topic_id=topic_id, partitions=data),
        lambda group_id, topics: initialize_share_group_state.InitializeShareGroupStateRequest(
            group_id=group_id, topics=topics
        ),
    ),
    Read: _Form(
        read_share_group_state.API,
        lambda partition, asked: read_share_group_state.PartitionData(
            partition=partition, leader_epoch=asked.leader_epoch
        ),
        lambda topic_id, data: read_share_group_state.ReadStateData(topic_id=topic_id, partitions=data),
        lambda group_id, topics: read_share_group_state.ReadShareGroupStateRequest(group_id=group_id, topics=topics),
        _read_state,
    ),
    Write: _Form(
        write_share_group_state.API,
        _write_data,
        lambda topic_id, data: write_share_group_state.WriteStateData(topic_id=topic_id, partitions=data),
        lambda group_id, topics: write_share_group_state.WriteShareGroupStateRequest(group_id=group_id, topics=topics),
    ),
    Delete: _Form(
        delete_share_group_state.API,
        lambda partition, _: delete_share_group_state.PartitionData(partition=partition),
        lambda topic_id, data: delete_share_group_state.DeleteStateData(topic_id=topic_id, partitions=data),
        lambda group_id, topics: delete_share_group_state.DeleteShareGroupStateRequest(
            group_id=group_id, topics=topics
        ),
    ),
    Summarize: _Form(
        read_share_group_state_summary.API,
        lambda partition, asked: read_share_group_state_summary.PartitionData(
            partition=partition, leader_epoch=asked.leader_epoch
        ),
        lambda topic_id, data: read_share_group_state_summary.ReadStateSummaryData(topic_id=topic_id, partitions=data),
        lambda group_id, topics: read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
            group_id=group_id, topics=topics
        ),
        _summary,
    ),
}


class _Waiting(NamedTuple):
    key: SharePartitionKey
    question: Question
    replied: Replied


class _Line(NamedTuple):
    """What is asked one request after the other: the broker, the kind of question, and the group."""

    broker_id: int
    kind: type[Question]
    group_id: str


class RemoteStates:
    """The share coordinators on real brokers."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._waiting: dict[_Line, list[_Waiting]] = {}
        """The questions of each line that has a request in flight, without those of the request."""
        self._count = 0

    def ask(self, broker_id: int, key: SharePartitionKey, question: Question, replied: Replied) -> None:
        """Ask a broker. `replied` is called once, with what `question` says; COORDINATOR_NOT_AVAILABLE if there is no
        answer."""
        if self._count >= MAX_WAITING:
            replied(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        self._count += 1
        line, waiting = _Line(broker_id, type(question), key.group_id), _Waiting(key, question, replied)
        if line in self._waiting:
            self._waiting[line].append(waiting)
            return
        self._waiting[line] = [waiting]
        self._send(line)

    def _send(self, line: _Line) -> None:
        """Send a request with what waits in a line, or end the line."""
        waiting = self._waiting[line]
        if not waiting:
            del self._waiting[line]
            return
        sent: dict[SharePartitionKey, _Waiting] = {}
        left = []
        for one in waiting:
            if one.key in sent or len(sent) >= MAX_PARTITIONS:
                left.append(one)
            else:
                sent[one.key] = one
        self._waiting[line] = left
        form = _FORMS[line.kind]
        by_topic: dict[Uuid, list[Any]] = {}
        for key, one in sent.items():
            by_topic.setdefault(key.topic_id, []).append(form.data(key.partition, one.question))
        body = form.request(line.group_id, [form.topic(topic_id, data) for topic_id, data in by_topic.items()])

        def answered(answer: Any) -> None:
            if answer is None:
                self._fail(line, sent.values())
                return
            self._count -= len(sent)
            found = dict(_results(form, line.group_id, answer))
            for key, one in sent.items():
                one.replied(found.get(key, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)))
            self._send(line)

        self._outgoing.ask(line.broker_id, form.api, body, answered)

    def _fail(self, line: _Line, sent: Iterable[_Waiting]) -> None:
        """There is no answer, so what waits behind the request is not sent either: who asked tries again later."""
        failed = [*sent, *self._waiting.pop(line)]
        self._count -= len(failed)
        for one in failed:
            one.replied(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _results(form: _Form, group_id: str, answer: Any) -> Iterator[tuple[SharePartitionKey, object]]:
    for topic in answer.results:
        for one in topic.partitions:
            key = SharePartitionKey(group_id, topic.topic_id, one.partition)
            code = error_of(one.error_code)
            yield key, ApiError(code, one.error_message) if code else form.answer(one)
