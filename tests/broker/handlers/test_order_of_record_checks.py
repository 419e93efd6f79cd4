"""Which of two faults of a request about records decides the answer: the one that Apache Kafka checks first. Each API
has a list of faults in the order of the checks, as the handlers' module docstrings cite it from Kafka. Every fault is
tried alone, and every two that one request can have at once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.controller.authorizer import AclOperation, AclResourceType, PatternType
from klamm.controller.data_limits import DataLimits
from klamm.controller.outcome import NoReply
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.data.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.data.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.partitions.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.data.batches import CONTROL, TRANSACTIONAL, batch
from tests.broker.handlers.data_requests import ALL, fetch, produce
from tests.controller.handlers.cluster import START_MS
from tests.controller.handlers.guarded_cluster import ALICE, DENY, GuardedCluster, entry

HOUR_MS = 3_600_000
FIRST = batch(timestamp_ms=START_MS, producer_id=7, producer_epoch=1, base_sequence=0)
ROOM = 2 * (len(FIRST) + ENTRY_BYTES)
TRANSACTION = AclResourceType.TRANSACTIONAL_ID


class Fault(NamedTuple):
    what: str
    code: ErrorCode
    fields: dict[str, Any]


def fault(what: str, code: ErrorCode, **fields: Any) -> Fault:
    return Fault(what, code, fields)


def alone_and_together(faults: Sequence[Fault]) -> list[Any]:
    """A request for each fault, and for each two that do not need different values of one field."""
    alone = [pytest.param(one.code, one.fields, id=one.what) for one in faults]
    return alone + [
        pytest.param(first.code, {**first.fields, **second.fields}, id=f"{first.what}, {second.what}")
        for first, second in combinations(faults, 2)
        if all(first.fields[name] == second.fields[name] for name in first.fields.keys() & second.fields.keys())
    ]


def new_cluster() -> GuardedCluster:
    """Topics led by broker 1 in epoch 1, all records of t; brokers 2 and 3 have replicas, broker 4 none. Two of three
    replicas are in sync, which is too few for t. Partition 0 of `t` has the batch FIRST, partition 1 is full. Alice may
    do anything with topics and transactions, except with those called secret."""
    cluster = GuardedCluster(4, data_limits=DataLimits(memory_bytes=ROOM, file_bytes=0))
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    few = [CreatableTopicConfig(name="min.insync.replicas", value="3")]
    for name, configs in (("t", few), ("secret", []), ("compacted", compacted), ("__consumer_offsets", [])):
        assert cluster.create_at(name, [2, 1, 3], [2, 1, 3], configs=configs).error_code == 0
    cluster.shut_down(2)
    cluster.come_back(2)
    assert produce(cluster, FIRST).error_code == 0
    assert produce(cluster, batch(), partition=1).error_code == 0
    cluster.lose(3)
    cluster.grant(
        entry(AclOperation.ALL, "*"),
        entry(AclOperation.ALL, "*", TRANSACTION),
        entry(AclOperation.ALL, "secret", pattern=PatternType.PREFIXED, permission=DENY),
        entry(AclOperation.ALL, "secret", TRANSACTION, permission=DENY),
        entry(AclOperation.TWO_PHASE_COMMIT, "one phase", TRANSACTION, permission=DENY),
    )
    return cluster


@pytest.fixture(scope="module")
def cluster() -> GuardedCluster:
    """No request of these tests changes it: each one is refused or has no effect."""
    return new_cluster()


def code_of(cluster: GuardedCluster, request: Any, **fields: Any) -> int:
    """The error code of the only partition in the request."""
    with cluster.asking(ALICE):
        answer = cluster.ask(request, **fields)
    code: int = answer.topics[0].partitions[0].error_code
    return code


UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_RIGHT = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DENIED = [
    fault("a secret topic", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_name="secret"),
    fault("a secret topic that is not there", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_name="secretly"),
]
NO_TOPIC = fault("an unknown topic", UNKNOWN, topic_name="nope")
NO_PARTITION = fault("an unknown partition", UNKNOWN, partition=2)
NO_REPLICA = fault("no replica", ErrorCode.NOT_LEADER_OR_FOLLOWER, broker_id=4)
EPOCHS = [
    fault("an older epoch", ErrorCode.FENCED_LEADER_EPOCH, current_leader_epoch=0),
    fault("a newer epoch", ErrorCode.UNKNOWN_LEADER_EPOCH, current_leader_epoch=2),
]
A_FOLLOWER = fault("a follower", ErrorCode.NOT_LEADER_OR_FOLLOWER, broker_id=2)
INTERNAL = fault("an internal topic", ErrorCode.INVALID_TOPIC_EXCEPTION, topic_name="__consumer_offsets")

PRODUCE = [
    fault("a length of 5", ErrorCode.CORRUPT_MESSAGE, batch_length=5),
    fault("magic 3", ErrorCode.CORRUPT_MESSAGE, batch_magic=3),
    fault("no transaction", NO_RIGHT, batch_attributes=TRANSACTIONAL, transactional_id=None),
    fault("a secret transaction", NO_RIGHT, batch_attributes=TRANSACTIONAL, transactional_id="secret"),
    fault(
        "control records of a secret transaction",
        NO_RIGHT,
        batch_attributes=TRANSACTIONAL | CONTROL,
        transactional_id="secret",
    ),
    *DENIED,
    NO_TOPIC,
    NO_PARTITION,
    fault("magic 1", ErrorCode.INVALID_RECORD, batch_magic=1),
    fault("broken bytes behind it", ErrorCode.CORRUPT_MESSAGE, behind=batch(magic=3)),
    fault("another batch behind it", ErrorCode.INVALID_RECORD, behind=batch()),
    fault("acks of 2", ErrorCode.INVALID_REQUIRED_ACKS, acks=2),
    INTERNAL,
    NO_REPLICA,
    A_FOLLOWER,
    fault("too few in sync", ErrorCode.NOT_ENOUGH_REPLICAS, acks=ALL),
    fault("a base offset", ErrorCode.INVALID_RECORD, batch_base_offset=5),
    fault("too large", ErrorCode.MESSAGE_TOO_LARGE, batch_payload=bytes(1_048_588)),
    fault("a wrong checksum", ErrorCode.CORRUPT_MESSAGE, batch_crc=7),
    fault("codec 5", ErrorCode.UNKNOWN_SERVER_ERROR, batch_attributes=5),
    fault("a wrong count", ErrorCode.INVALID_RECORD, batch_record_count=3),
    fault("control records", ErrorCode.INVALID_RECORD, batch_attributes=CONTROL),
    fault("no sequence number", ErrorCode.INVALID_RECORD, batch_producer_id=7, batch_base_sequence=-1),
    fault("a payload of no records", ErrorCode.INVALID_RECORD, batch_payload=b"no records"),
    fault("a time to come", ErrorCode.INVALID_TIMESTAMP, batch_timestamp_ms=START_MS + 2 * HOUR_MS),
    fault("a transaction", ErrorCode.NOT_ENOUGH_REPLICAS, batch_attributes=TRANSACTIONAL, transactional_id="x"),
    fault(
        "an older producer",
        ErrorCode.INVALID_PRODUCER_EPOCH,
        batch_producer_id=7,
        batch_producer_epoch=0,
        batch_base_sequence=1,
    ),
    fault(
        "a gap",
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        batch_producer_id=7,
        batch_producer_epoch=1,
        batch_base_sequence=3,
    ),
    fault("nothing but the room", ErrorCode.KAFKA_STORAGE_ERROR),
]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(PRODUCE))
def test_the_first_fault_of_a_batch_counts(cluster: GuardedCluster, code: int, fields: dict[str, Any]) -> None:
    made: dict[str, Any] = {"timestamp_ms": START_MS}
    made |= {name.removeprefix("batch_"): value for name, value in fields.items() if name.startswith("batch_")}
    requested = {name: value for name, value in fields.items() if name != "behind" and not name.startswith("batch_")}
    records = batch(2, **made) + fields.get("behind", b"")
    if code == NO_RIGHT and "batch_magic" in fields:  # it is not seen to be transactional
        code = ErrorCode.INVALID_RECORD
    with cluster.asking(ALICE):
        answer = produce(cluster, records, **{"acks": 1, "version": 12, **requested})
    assert (answer.error_code, answer.base_offset) == (code, -1)


def test_a_repeated_batch_is_told_of_though_there_is_no_room_for_it(cluster: GuardedCluster) -> None:
    answer = produce(cluster, FIRST, acks=1)
    assert (answer.error_code, answer.base_offset) == (0, 0)


FETCH = [
    fault("a replica without the right", ErrorCode.TOPIC_AUTHORIZATION_FAILED, replica_id=2),
    *DENIED,
    NO_TOPIC,
    NO_PARTITION,
    fault("an isolation level of 2", ErrorCode.INVALID_REQUEST, isolation_level=2),
    NO_REPLICA,
    *EPOCHS,
    A_FOLLOWER,
    fault("behind the end", ErrorCode.OFFSET_OUT_OF_RANGE, offset=5),
]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(FETCH))
def test_the_first_fault_of_a_fetch_counts(cluster: GuardedCluster, code: int, fields: dict[str, Any]) -> None:
    requested = {"version": 10, "offset": 0, **fields}
    with cluster.asking(ALICE):
        (found,) = fetch(cluster, requested.pop("offset"), **requested)
    assert found.error_code == code


BY_ID = [
    fault("an unknown topic", ErrorCode.UNKNOWN_TOPIC_ID, topic_name="nope"),
    NO_PARTITION,
    fault("an isolation level of 2", ErrorCode.INVALID_REQUEST, isolation_level=2),
    *[fault(f"replica {replica_id}", ErrorCode.NOT_LEADER_OR_FOLLOWER, replica_id=replica_id) for replica_id in (0, 2)],
    NO_REPLICA,
    *EPOCHS,
    fault("an epoch that nobody knows", ErrorCode.OFFSET_OUT_OF_RANGE, last_fetched_epoch=5),
    fault("behind the end", ErrorCode.OFFSET_OUT_OF_RANGE, offset=5),
]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(BY_ID))
def test_the_first_fault_of_a_fetch_by_id_counts(cluster: GuardedCluster, code: int, fields: dict[str, Any]) -> None:
    """A replica that sends a known epoch gets the error that this one is unknown, whatever the epoch."""
    requested = {"version": 14, "offset": 0, **fields}
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and {"replica_id", "current_leader_epoch"} <= fields.keys():
        code = ErrorCode.UNKNOWN_LEADER_EPOCH
    (found,) = fetch(cluster, requested.pop("offset"), **requested)
    assert found.error_code == code


LIST_OFFSETS = [
    *DENIED,
    fault("an isolation level of 2", ErrorCode.INVALID_REQUEST, isolation_level=2),
    fault("twice", ErrorCode.INVALID_REQUEST, times=2),
    fault("an unknown question", ErrorCode.UNSUPPORTED_VERSION, timestamp=-7),
    NO_TOPIC,
    NO_PARTITION,
    NO_REPLICA,
    *EPOCHS,
    A_FOLLOWER,
    fault("nothing", ErrorCode.NONE),
]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(LIST_OFFSETS))
def test_the_first_fault_of_a_question_for_an_offset_counts(
    cluster: GuardedCluster, code: int, fields: dict[str, Any]
) -> None:
    requested = {"topic_name": "t", "partition": 0, "broker_id": 1, "isolation_level": 0, "times": 1, **fields}
    partition = ListOffsetsPartition(
        partition_index=requested["partition"],
        timestamp=requested.get("timestamp", -1),
        current_leader_epoch=requested.get("current_leader_epoch", -1),
    )
    topics = [ListOffsetsTopic(name=requested["topic_name"], partitions=[partition] * requested["times"])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=requested["isolation_level"], topics=topics)
    assert code_of(cluster, request, broker_id=requested["broker_id"]) == code


EPOCH_ENDS = [*DENIED, NO_TOPIC, NO_PARTITION, NO_REPLICA, *EPOCHS, A_FOLLOWER, fault("nothing", ErrorCode.NONE)]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(EPOCH_ENDS))
def test_the_first_fault_of_a_question_for_an_epoch_counts(
    cluster: GuardedCluster, code: int, fields: dict[str, Any]
) -> None:
    requested = {"topic_name": "t", "partition": 0, "broker_id": 1, "current_leader_epoch": -1, **fields}
    partition = OffsetForLeaderPartition(
        partition=requested["partition"], current_leader_epoch=requested["current_leader_epoch"], leader_epoch=0
    )
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=requested["topic_name"], partitions=[partition])]
    )
    assert code_of(cluster, request, broker_id=requested["broker_id"]) == code


DELETE_RECORDS = [
    *DENIED,
    NO_TOPIC,
    INTERNAL,
    NO_PARTITION,
    NO_REPLICA,
    A_FOLLOWER,
    fault("a compacted topic", ErrorCode.POLICY_VIOLATION, topic_name="compacted"),
    fault("behind the end", ErrorCode.OFFSET_OUT_OF_RANGE, offset=5),
    fault("nothing", ErrorCode.NONE),
]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(DELETE_RECORDS))
def test_the_first_fault_of_a_deletion_counts(cluster: GuardedCluster, code: int, fields: dict[str, Any]) -> None:
    requested = {"topic_name": "t", "partition": 0, "broker_id": 1, "offset": 0, **fields}
    partition = DeleteRecordsPartition(partition_index=requested["partition"], offset=requested["offset"])
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=requested["topic_name"], partitions=[partition])])
    assert code_of(cluster, request, broker_id=requested["broker_id"]) == code


DESCRIBE_PRODUCERS = [*DENIED, NO_TOPIC, NO_PARTITION, NO_REPLICA, fault("nothing", ErrorCode.NONE)]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(DESCRIBE_PRODUCERS))
def test_the_first_fault_of_a_question_for_producers_counts(
    cluster: GuardedCluster, code: int, fields: dict[str, Any]
) -> None:
    requested = {"topic_name": "t", "partition": 0, "broker_id": 1, **fields}
    topic = TopicRequest(name=requested["topic_name"], partition_indexes=[requested["partition"]])
    assert code_of(cluster, DescribeProducersRequest(topics=[topic]), broker_id=requested["broker_id"]) == code


INIT_PRODUCER_ID = [
    fault("a secret transaction", NO_RIGHT, transactional_id="secret"),
    fault("one phase only", NO_RIGHT, transactional_id="one phase", enable2_pc=True),
    fault("an id without an epoch", ErrorCode.INVALID_REQUEST, producer_id=5, producer_epoch=-1),
    fault("an epoch without an id", ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=5),
    fault("an empty id", ErrorCode.INVALID_REQUEST, transactional_id=""),
    fault("two phases", NO_RIGHT, enable2_pc=True),
    fault("what was prepared", ErrorCode.UNSUPPORTED_VERSION, keep_prepared_txn=True),
    fault("no time", ErrorCode.INVALID_TRANSACTION_TIMEOUT, transaction_timeout_ms=0),
    fault("too much time", ErrorCode.INVALID_TRANSACTION_TIMEOUT, transaction_timeout_ms=900_001),
    fault("nothing", ErrorCode.NOT_COORDINATOR),
]


@pytest.mark.parametrize(("code", "fields"), alone_and_together(INIT_PRODUCER_ID))
def test_the_first_fault_of_a_transactional_producer_counts(
    cluster: GuardedCluster, code: int, fields: dict[str, Any]
) -> None:
    values = {"transactional_id": "x", "transaction_timeout_ms": 1, **fields}
    with cluster.asking(ALICE):
        answer = cluster.ask(InitProducerIdRequest(**values), version=6)
    assert (answer.error_code, answer.producer_id) == (code, -1)


def test_a_transaction_without_the_right_to_it_is_refused_with_all_that_is_in_the_request() -> None:
    cluster = new_cluster()
    plain, transactional = batch(timestamp_ms=START_MS), batch(timestamp_ms=START_MS, attributes=TRANSACTIONAL)
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)])
        for name, records in (("compacted", plain), ("nope", plain), ("t", transactional))
    ]
    request = ProduceRequest(transactional_id="secret", acks=1, timeout_ms=1_000, topic_data=topics)
    with cluster.asking(ALICE):
        answer = cluster.ask(request, version=12)
        with pytest.raises(NoReply):
            cluster.ask(replace(request, acks=0), version=12)
    assert [topic.partition_responses[0].error_code for topic in answer.responses] == [NO_RIGHT] * 3
    request = replace(request, topic_data=topics[1:2])
    with cluster.asking(ALICE):
        answer = cluster.ask(request, version=12)
    assert answer.responses[0].partition_responses[0].error_code == UNKNOWN
