"""DescribeTransactions (65) and ListTransactions (66) (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Callable, Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.regex import InvalidRegex, compile_regex
from klamm.broker.handlers.transactions.submission import submit_each
from klamm.broker.transactions.transaction import Transaction, TransactionState
from klamm.broker.transactions.transactions import Filters
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.protocol.messages.transactions import describe_transactions as described
from klamm.protocol.messages.transactions import list_transactions as listed

NOT_AUTHORIZED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_NAMES = {state.value: state for state in TransactionState}


def handle_describe_transactions(
    brokers: SimulatedBrokers,
    _image: MetadataImage,
    request: described.DescribeTransactionsRequest,
    context: RequestContext,
) -> Outcome:
    """State, producer and partitions of each transactional id. An id is described once, and returned as often as it is
    named, as long as the answer has room."""
    may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
    distinct = list(dict.fromkeys(request.transactional_ids))
    asked = [name for name in distinct if name and may_describe(name)]

    def finish(results: list[Transaction | ErrorCode]) -> described.DescribeTransactionsResponse:
        found = dict(zip(asked, results, strict=True))
        by_name = {}
        for name in distinct:
            refusal = ErrorCode.INVALID_REQUEST if may_describe(name) else NOT_AUTHORIZED
            state = _described(context, name, found.get(name, refusal))
            by_name[name] = state, encoded_at_most(state)
        room, states = AnswerRoom(), []
        for name in request.transactional_ids:
            state, size = by_name[name]
            has_room = room.take(name, size)
            states.append(state if has_room else _described(context, name, NO_ROOM.code))
        return described.DescribeTransactionsResponse(transaction_states=states)

    parts = [
        (
            name,
            lambda transactions, waiter, _now_ms, name=name: transactions.describe(name, waiter),
            lambda code: code,
        )
        for name in asked
    ]
    return submit_each(brokers, context, parts, finish)


def _described(context: RequestContext, name: str, found: Transaction | ErrorCode) -> described.TransactionState:
    if isinstance(found, ErrorCode):
        return described.TransactionState(error_code=found, transactional_id=name)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        by_topic.setdefault(topic, []).append(partition)
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, by_topic)
    return described.TransactionState(
        transactional_id=name,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            described.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
            if topic not in denied
        ],
    )


def handle_list_transactions(
    brokers: SimulatedBrokers, image: MetadataImage, request: listed.ListTransactionsRequest, context: RequestContext
) -> Outcome:
    """The transactional ids that this broker coordinates and the filters let pass."""
    unknown = [name for name in request.state_filters if name not in _NAMES]
    states = frozenset(_NAMES[name] for name in request.state_filters if name in _NAMES)
    matches = _matcher(request.transactional_id_pattern)
    if matches is None:
        return Outcome(listed.ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
    filters = Filters(states, frozenset(request.producer_id_filters), request.duration_filter, matches)
    nothing_passes = bool(unknown) and not states
    indexes = brokers.coordinators.led_partitions(image, context.requester.asked_broker_id, TRANSACTION_STATE)

    def finish(results: Sequence[list[Transaction] | ErrorCode]) -> listed.ListTransactionsResponse:
        code = next((one for one in results if isinstance(one, ErrorCode)), ErrorCode.NONE)
        may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
        found = [
            listed.TransactionState(
                transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.value
            )
            for of_shard in results
            if not isinstance(of_shard, ErrorCode)
            for one in of_shard
            if may_describe(one.transactional_id)
        ]
        return listed.ListTransactionsResponse(
            error_code=code,
            unknown_state_filters=[] if code else unknown,
            transaction_states=[] if code or nothing_passes else found,
        )

    parts = [
        (
            index,
            lambda transactions, waiter, now_ms: transactions.list(filters, waiter, now_ms),
            lambda code: code,
        )
        for index in indexes
    ]
    return submit_each(brokers, context, parts, finish)


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """Whether a transactional id matches the pattern as a whole; None: the pattern is invalid."""
    if not pattern:
        return lambda _name: True
    try:
        return compile_regex(pattern).fullmatch
    except InvalidRegex:
        return None
