"""AddPartitionsToTxn (24) and AddOffsetsToTxn (25): partitions become a part of a producer's transaction.

Up to version 3 clients add the partitions of one transaction. From version 4 on brokers do, for several transactions,
or they only verify that partitions were added (KIP-890).
"""

from collections.abc import Iterable, Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.coordinators import partition_of
from klamm.broker.handlers.transactions.submission import Operation, for_version, submit_each, submit_one
from klamm.broker.transactions.transactions import Producer, TopicPartition
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from klamm.protocol.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_VERSION_OF_BROKERS = 4
FIRST_VERSION_WITH_ABORTABLE = 5
VERSION_OF_ADDING_BROKERS = 2
"""The transaction version of clients for which brokers add partitions."""
Codes = dict[TopicPartition, ErrorCode]


def handle_add_partitions_to_txn(
    brokers: SimulatedBrokers, image: MetadataImage, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Outcome:
    """For each partition whether it is added, or verified. If one cannot be added, none of its transaction is."""
    if context.api_version < FIRST_VERSION_OF_BROKERS:
        return _add_for_client(brokers, image, request, context)
    if not context.authorize_cluster(AclOperation.CLUSTER_ACTION):
        return Outcome(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    parts = []
    found: list[tuple[str, Sequence[TopicPartition], Codes | None]] = []
    for one in request.transactions:
        places = [(topic.name, partition) for topic in one.topics for partition in topic.partitions]
        refused = None if one.verify_only else _refuse(image, context, places, check_rights=False)
        if not one.transactional_id:
            refused = dict.fromkeys(places, ErrorCode.INVALID_REQUEST)
        found.append((one.transactional_id, places, refused))
        if refused is None:
            parts.append((one.transactional_id, _operation(one, places), lambda code: code))

    def finish(results: list[ErrorCode | list[ErrorCode]]) -> AddPartitionsToTxnResponse:
        left = iter(results)
        answers = [
            _result(name, places, _codes(places, next(left), context.api_version) if refused is None else refused)
            for name, places, refused in found
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=answers)

    return submit_each(brokers, context, parts, finish)


def _operation(one: AddPartitionsToTxnTransaction, places: Sequence[TopicPartition]) -> Operation:
    producer = Producer(one.transactional_id, one.producer_id, one.producer_epoch)
    if one.verify_only:
        return lambda transactions, waiter, _now_ms: transactions.verify(producer, places, waiter)
    return lambda transactions, waiter, now_ms: transactions.add_partitions(
        producer, places, waiter, now_ms, version=VERSION_OF_ADDING_BROKERS
    )


def _codes(places: Sequence[TopicPartition], result: ErrorCode | list[ErrorCode], api_version: int) -> Codes:
    if isinstance(result, ErrorCode):
        return dict.fromkeys(places, result)
    lacks = ErrorCode.TRANSACTION_ABORTABLE if api_version >= FIRST_VERSION_WITH_ABORTABLE else None
    return {
        place: code if code is ErrorCode.NONE else lacks or ErrorCode.INVALID_TXN_STATE
        for place, code in zip(places, result, strict=True)
    }


def _result(name: str, places: Sequence[TopicPartition], codes: Codes) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=name,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=codes[topic, partition]
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in _by_topic(places).items()
        ],
    )


def _add_for_client(
    brokers: SimulatedBrokers, image: MetadataImage, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Outcome:
    name = request.v3_and_below_transactional_id
    places = [(topic.name, partition) for topic in request.v3_and_below_topics for partition in topic.partitions]
    if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return Outcome(_client_response(dict.fromkeys(places, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)))
    refused = _refuse(image, context, places, check_rights=True)
    if refused is not None:
        return Outcome(_client_response(refused))
    if not name:
        return Outcome(_client_response(dict.fromkeys(places, ErrorCode.INVALID_REQUEST)))
    producer = Producer(name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)

    def finish(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return _client_response(dict.fromkeys(places, for_version(code, context.api_version)))

    return submit_one(
        brokers,
        context,
        name,
        lambda transactions, waiter, now_ms: transactions.add_partitions(producer, places, waiter, now_ms),
        finish,
    )


def _refuse(
    image: MetadataImage, context: RequestContext, places: Sequence[TopicPartition], *, check_rights: bool
) -> Codes | None:
    """The codes of all partitions if one of them cannot be added; else None."""
    codes: Codes = {}
    denied: frozenset[str] = frozenset()
    if check_rights:
        denied = context.denied(AclOperation.WRITE, AclResourceType.TOPIC, dict.fromkeys(topic for topic, _ in places))
    for name, partition in places:
        topic = image.topics_by_name.get(name)
        if name in denied or (check_rights and name in INTERNAL_TOPICS):
            codes[name, partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or not 0 <= partition < image.partition_count(topic):
            codes[name, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not codes:
        return None
    return {place: codes.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED) for place in places}


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in dict.fromkeys(places):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _client_response(codes: Codes) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=[
                    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=codes[topic, partition]
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in _by_topic(codes).items()
        ]
    )


def handle_add_offsets_to_txn(
    brokers: SimulatedBrokers, image: MetadataImage, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Outcome:
    """Adds the partition of `__consumer_offsets` that the group belongs to."""
    name = request.transactional_id
    if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return Outcome(AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return Outcome(AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not name:
        return Outcome(AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
    topic = image.topics_by_name.get(CONSUMER_OFFSETS)
    if topic is None:
        count = context.settings.static_int("offsets.topic.num.partitions", context.requester.asked_broker_id)
    else:
        count = image.partition_count(topic)
    producer = Producer(name, request.producer_id, request.producer_epoch)
    place = CONSUMER_OFFSETS, partition_of(request.group_id, count)
    return submit_one(
        brokers,
        context,
        name,
        lambda transactions, waiter, now_ms: transactions.add_partitions(producer, [place], waiter, now_ms),
        lambda code: AddOffsetsToTxnResponse(error_code=for_version(code, context.api_version)),
    )
