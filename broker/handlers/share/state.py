"""The share coordinator's own APIs (83 to 87): InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState,
DeleteShareGroupState and ReadShareGroupStateSummary. Brokers send them to each other in Kafka.

They need CLUSTER_ACTION on the cluster, and go to the coordinator of each share partition. A request without a group
id, without topics or with a topic without partitions has an empty answer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.handlers.share.share_version import Begin
from klamm.broker.handlers.share.texts import text_of
from klamm.broker.share_state.offset import ShareGroupOffset, SharePartitionKey, batches_of
from klamm.broker.share_state.states import ShareStates, StateWrite
from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import SHARE_GROUP_STATE
from klamm.protocol.messages.share_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from klamm.protocol.uuid import Uuid

MAX_PARTITIONS: Final = 10_000
"""Share partitions of one request. Kafka has no such limit. Each of more is refused with INVALID_REQUEST."""
Run = Callable[[ShareStates, SharePartitionKey, Any, Waiter, int], Outbox]
"""The operation about one share partition: the state machine, its key, its data in the request, waiter, time in ms."""


@dataclass(frozen=True, slots=True)
class _StateApi:
    """What differs between the five APIs."""

    what: str
    """What it does, for the text of a refusal."""
    run: Run
    result: Callable[[int, object], Any]
    """Makes the result of one partition of what the operation replied."""
    topic: Callable[[Uuid, Sequence[Any]], Any]
    """Makes the results of one topic."""
    response: Callable[[Sequence[Any]], Message]
    wants_partitions: bool = True
    """Whether a topic without partitions makes the answer empty."""


def _handle(
    api: _StateApi,
    brokers: SimulatedBrokers,
    group_id: str,
    topics: Iterable[Any],
    context: RequestContext,
) -> Outcome:
    asked: dict[tuple[Uuid, int], Any] = {
        (topic.topic_id, one.partition): one for topic in topics for one in topic.partitions
    }
    places = list(asked)
    if not context.authorize_cluster(AclOperation.CLUSTER_ACTION):
        return _refuse_all(api, places, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not group_id.strip() or (api.wants_partitions and any(not topic.partitions for topic in topics)):
        return Outcome(api.response([]))
    if len(places) > MAX_PARTITIONS:
        return _refuse_all(api, places, ApiError(ErrorCode.INVALID_REQUEST, f"More than {MAX_PARTITIONS} partitions."))

    def finish(results: list[Any]) -> Message:
        return _response(api, places, results)

    answer = brokers.coordinators.new_answer(len(places), finish)
    parts = [
        Part(answer, number, lambda code, index=place[1]: api.result(index, _unavailable(api, code)))  # type: ignore[misc]
        for number, place in enumerate(places)
    ]
    asked_broker_id = context.requester.asked_broker_id

    def begin(image: MetadataImage, now_ms: int) -> None:
        for place, part in zip(places, parts, strict=True):
            _submit(
                api, brokers, image, (SharePartitionKey(group_id, *place), asked_broker_id), asked[place], part, now_ms
            )

    return Outcome(answer, effects=[Begin(begin)])


def _submit(
    api: _StateApi,
    brokers: SimulatedBrokers,
    image: MetadataImage,
    where: tuple[SharePartitionKey, int | None],
    data: Any,
    part: Part,
    now_ms: int,
) -> None:
    key, broker_id = where
    waiter = _Result(api, key.partition, part)
    brokers.coordinators.submit(
        image,
        (SHARE_GROUP_STATE, str(key), broker_id),
        part,
        lambda states: api.run(states, key, data, waiter, now_ms),
        now_ms,
    )


def _unavailable(api: _StateApi, code: ErrorCode) -> ApiError:
    return ApiError(code, f"Unable to {api.what}: {text_of(code)}")


def _refuse_all(api: _StateApi, places: Sequence[tuple[Uuid, int]], error: ApiError) -> Outcome:
    return Outcome(_response(api, places, [api.result(place[1], error) for place in places]))


def _response(api: _StateApi, places: Sequence[tuple[Uuid, int]], results: Sequence[Any]) -> Message:
    by_topic: dict[Uuid, list[Any]] = {}
    for (topic_id, _), result in zip(places, results, strict=True):
        by_topic.setdefault(topic_id, []).append(result)
    return api.response([api.topic(topic_id, found) for topic_id, found in by_topic.items()])


class _Result:
    """A `Waiter` that gives a part what its API answers."""

    def __init__(self, api: _StateApi, partition: int, part: Part) -> None:
        self._api = api
        self._partition = partition
        self._part = part

    def resolve(self, response: object) -> None:
        self._part.resolve(self._api.result(self._partition, response))

    def refuse(self, code: ErrorCode) -> None:
        self._part.refuse(code)


def _plain(make: Callable[..., Any]) -> Callable[[int, object], Any]:
    """Results that say only whether it was done."""

    def result(partition: int, replied: object) -> Any:
        if isinstance(replied, ApiError):
            return make(partition=partition, error_code=replied.code, error_message=text_of(replied))
        return make(partition=partition)

    return result


def _read_result(partition: int, replied: object) -> read_share_group_state.PartitionResult:
    if not isinstance(replied, ShareGroupOffset):
        assert isinstance(replied, ApiError)
        return read_share_group_state.PartitionResult(
            partition=partition, error_code=replied.code, error_message=text_of(replied)
        )
    return read_share_group_state.PartitionResult(
        partition=partition,
        state_epoch=replied.state_epoch,
        start_offset=replied.start_offset,
        state_batches=[read_share_group_state.StateBatch(**batch.fields) for batch in replied.batches],
    )


def _summary_result(partition: int, replied: object) -> read_share_group_state_summary.PartitionResult:
    if not isinstance(replied, ShareGroupOffset):
        assert isinstance(replied, ApiError)
        return read_share_group_state_summary.PartitionResult(
            partition=partition, error_code=replied.code, error_message=text_of(replied)
        )
    return read_share_group_state_summary.PartitionResult(
        partition=partition,
        state_epoch=replied.state_epoch,
        leader_epoch=replied.leader_epoch,
        start_offset=replied.start_offset,
        delivery_complete_count=replied.delivery_complete_count,
    )


def state_write_of(data: write_share_group_state.PartitionData) -> StateWrite:
    """What a request has to write."""
    return StateWrite(
        data.state_epoch,
        data.leader_epoch,
        data.start_offset,
        data.delivery_complete_count,
        batches_of(data.state_batches),
    )


_INITIALIZE: Final = _StateApi(
    "initialize share group state",
    lambda states, key, data, waiter, now_ms: states.initialize(
        key, data.state_epoch, data.start_offset, waiter, now_ms
    ),
    _plain(initialize_share_group_state.PartitionResult),
    lambda topic_id, found: initialize_share_group_state.InitializeStateResult(topic_id=topic_id, partitions=found),
    lambda topics: initialize_share_group_state.InitializeShareGroupStateResponse(results=topics),
    wants_partitions=False,
)
_READ: Final = _StateApi(
    "read share group state",
    lambda states, key, data, waiter, now_ms: states.read(key, data.leader_epoch, waiter, now_ms),
    _read_result,
    lambda topic_id, found: read_share_group_state.ReadStateResult(topic_id=topic_id, partitions=found),
    lambda topics: read_share_group_state.ReadShareGroupStateResponse(results=topics),
)
_WRITE: Final = _StateApi(
    "write share group state",
    lambda states, key, data, waiter, now_ms: states.write(key, state_write_of(data), waiter, now_ms),
    _plain(write_share_group_state.PartitionResult),
    lambda topic_id, found: write_share_group_state.WriteStateResult(topic_id=topic_id, partitions=found),
    lambda topics: write_share_group_state.WriteShareGroupStateResponse(results=topics),
)
_DELETE: Final = _StateApi(
    "delete share group state",
    lambda states, key, _data, waiter, _now_ms: states.delete(key, waiter),
    _plain(delete_share_group_state.PartitionResult),
    lambda topic_id, found: delete_share_group_state.DeleteStateResult(topic_id=topic_id, partitions=found),
    lambda topics: delete_share_group_state.DeleteShareGroupStateResponse(results=topics),
)
_SUMMARIZE: Final = _StateApi(
    "read share group state summary",
    lambda states, key, _data, waiter, _now_ms: states.summarize(key, waiter),
    _summary_result,
    lambda topic_id, found: read_share_group_state_summary.ReadStateSummaryResult(topic_id=topic_id, partitions=found),
    lambda topics: read_share_group_state_summary.ReadShareGroupStateSummaryResponse(results=topics),
)


def handle_initialize_share_group_state(
    brokers: SimulatedBrokers,
    _image: MetadataImage,
    request: initialize_share_group_state.InitializeShareGroupStateRequest,
    context: RequestContext,
) -> Outcome:
    """A share partition begins at an offset, or where its leader chooses (-1)."""
    return _handle(_INITIALIZE, brokers, request.group_id, request.topics, context)


def handle_read_share_group_state(
    brokers: SimulatedBrokers,
    _image: MetadataImage,
    request: read_share_group_state.ReadShareGroupStateRequest,
    context: RequestContext,
) -> Outcome:
    """A leader takes over a share partition."""
    return _handle(_READ, brokers, request.group_id, request.topics, context)


def handle_write_share_group_state(
    brokers: SimulatedBrokers,
    _image: MetadataImage,
    request: write_share_group_state.WriteShareGroupStateRequest,
    context: RequestContext,
) -> Outcome:
    """A leader has new state of a share partition."""
    return _handle(_WRITE, brokers, request.group_id, request.topics, context)


def handle_delete_share_group_state(
    brokers: SimulatedBrokers,
    _image: MetadataImage,
    request: delete_share_group_state.DeleteShareGroupStateRequest,
    context: RequestContext,
) -> Outcome:
    """The state of share partitions is forgotten."""
    return _handle(_DELETE, brokers, request.group_id, request.topics, context)


def handle_read_share_group_state_summary(
    brokers: SimulatedBrokers,
    _image: MetadataImage,
    request: read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    context: RequestContext,
) -> Outcome:
    """Start offset and epochs of share partitions."""
    return _handle(_SUMMARIZE, brokers, request.group_id, request.topics, context)
