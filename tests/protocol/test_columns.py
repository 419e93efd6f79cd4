"""Columns are sequences of messages, and their bytes are those of the messages one by one."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import Columns, Message, ProtocolError, Ragged, Uuid, decode_message, encode_message
from protocol.codec.columns import build_record_rows, build_rows
from protocol.codec.schema import schema
from protocol.codec.streams import Buffer
from protocol.messages.topics.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from protocol.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.record_batch import decode_batch, encode_batch
from protocol.records.brokers import BrokerRegistrationChangeRecord
from protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from tests.protocol.column_strategies import runs

RUNS: list[tuple[type[Message], int, bool]] = [
    *((MetadataResponsePartition, version, version >= 9) for version in range(14)),
    (DescribeTopicPartitionsResponsePartition, 0, True),
    *((PartitionRecord, version, True) for version in range(3)),
    *((PartitionChangeRecord, version, True) for version in range(3)),
    *((BrokerRegistrationChangeRecord, version, True) for version in range(4)),
]
RECORD_RUNS = [key for key in RUNS if key[0].__name__.endswith("Record")]


def named(key: tuple[type[Message], int, bool]) -> str:
    return f"{key[0].__name__}-v{key[1]}"


@pytest.mark.parametrize("schema_key", RUNS, ids=named)
@given(data=st.data())
def test_rows_at_once_have_the_bytes_of_the_messages(
    schema_key: tuple[type[Message], int, bool], data: st.DataObject
) -> None:
    message_class, version, flexible = schema_key
    columns = data.draw(runs(message_class, version, flexible))
    one_by_one = b"".join(encode_message(row, version, flexible) for row in columns)
    for _ in range(2):  # the second time the layout may be known
        at_once = Buffer(b"before")
        assert build_rows(at_once, schema(message_class, version, flexible), columns)
        assert bytes(at_once) == b"before" + one_by_one


@pytest.mark.parametrize("schema_key", RECORD_RUNS, ids=named)
@given(data=st.data())
def test_records_at_once_have_the_bytes_of_the_records(
    schema_key: tuple[type[Message], int, bool], data: st.DataObject
) -> None:
    message_class, version, flexible = schema_key
    columns = data.draw(runs(message_class, version, flexible))
    first_delta = data.draw(st.sampled_from([0, 60, 64, 8189, 8192, 1048573]))
    prefix = data.draw(st.binary(min_size=1, max_size=3))
    expected = b""
    for delta, row in enumerate(columns, first_delta):
        expected += plain_record(delta, prefix + encode_message(row, version, flexible))
    at_once = Buffer()
    assert build_record_rows(at_once, schema(message_class, version, flexible), columns, first_delta, prefix)
    assert bytes(at_once) == expected


def plain_record(offset_delta: int, value: bytes) -> bytes:
    record = b"\0\0" + zigzag(offset_delta) + b"\1" + zigzag(len(value)) + value + b"\0"
    return zigzag(len(record)) + record


def zigzag(value: int) -> bytes:
    value, out = value * 2, b""
    while value > 127:
        out += bytes((value & 127 | 128,))
        value >>= 7
    return out + bytes((value,))


def replicas(row_count: int) -> Any:
    return np.arange(row_count * 3, dtype=np.int32).reshape(row_count, 3)


def partitions(row_count: int, **values: Any) -> Columns[MetadataResponsePartition]:
    every = {"partition_index": np.arange(row_count), "leader_id": 1, "replica_nodes": replicas(row_count)}
    return Columns(MetadataResponsePartition, row_count, {**every, **values})


@pytest.mark.parametrize("row_count", [0, 1, 7, 8, 55, 56, 300])
@pytest.mark.parametrize("ragged", [False, True])
def test_a_message_holds_columns_in_place_of_a_list(row_count: int, ragged: bool) -> None:
    """Around the numbers of rows at which the encoder changes its way."""
    isr = Ragged(replicas(row_count), np.arange(row_count) % 4) if ragged else replicas(row_count)
    columns = partitions(row_count, isr_nodes=isr, leader_epoch=np.full(row_count, 5))
    message = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=columns)])
    plain = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=list(columns))])
    raw = encode_message(message, 12, True)
    assert raw == encode_message(plain, 12, True)
    decoded = decode_message(MetadataResponse, 12, True, raw)
    assert decoded == message
    assert decoded == plain


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("version", [0, 8, 12])
def test_slices_of_one_run_are_the_partitions_of_many_topics(version: int, ragged: bool) -> None:
    isr = Ragged(replicas(100), np.arange(100) % 4) if ragged else replicas(100)
    run = partitions(100, isr_nodes=isr)
    cuts = [0, 0, 1, 60, 99, 100, 100]
    topics = [MetadataResponseTopic(name="t", partitions=run[first:end]) for first, end in pairwise(cuts)]
    plain = [MetadataResponseTopic(name="t", partitions=list(topic.partitions)) for topic in topics]
    assert [len(topic.partitions) for topic in plain] == [0, 1, 59, 39, 1, 0]
    raw = encode_message(MetadataResponse(topics=topics), version, version >= 9)
    assert raw == encode_message(MetadataResponse(topics=plain), version, version >= 9)
    assert topics == plain


def test_slices_are_sequences_of_messages() -> None:
    run = partitions(10)
    part = run[2:7]
    assert part[0] == run[2] == part[-5]
    assert list(part[1:3]) == [run[3], run[4]]
    assert part.values["partition_index"].tolist() == [2, 3, 4, 5, 6]
    assert len(part) == part.length == 5
    assert list(run[7:2]) == []
    with pytest.raises(IndexError):
        part[5]
    for sliced in (run, part):
        with pytest.raises(ValueError, match="steps"):
            sliced[::2]


def test_slices_of_what_has_no_columns_take_the_generic_path() -> None:
    brokers = Columns(MetadataResponseBroker, 3, {"host": np.array(["a", "bb", "ccc"], object)})
    raw = encode_message(MetadataResponse(brokers=brokers[1:]), 12, True)
    assert raw == encode_message(MetadataResponse(brokers=list(brokers)[1:]), 12, True)


@pytest.mark.parametrize("row_count", [1, 39, 40, 64, 9000])
def test_a_batch_holds_columns_among_records(row_count: int) -> None:
    run = Columns(
        PartitionRecord,
        row_count,
        {
            "partition_id": np.arange(row_count),
            "replicas": replicas(row_count),
            "isr": Ragged(replicas(row_count), np.arange(row_count) % 4),
            "directories": np.zeros((row_count, 3, 16), np.uint8),
        },
    )
    first, last = PartitionRecord(partition_id=-5), PartitionChangeRecord(leader=3)
    raw = encode_batch(7, 1, 99, [first, run, last])
    assert raw == encode_batch(7, 1, 99, [first, run[:1], run[1:], last])
    assert raw == encode_batch(7, 1, 99, [first, *run, last])
    batch = decode_batch(raw, 0)
    assert batch.records == [first, *run, last]
    assert batch.last_offset == 7 + row_count + 1


def test_rows_are_messages_with_plain_python_values() -> None:
    columns = Columns(
        PartitionRecord,
        2,
        {
            "partition_id": np.array([4, 5], np.int16),
            "topic_id": np.ones((2, 16), np.uint8),
            "replicas": np.array([[1, 2], [3, 4]]),
            "isr": Ragged(np.array([[1, 2], [3, 4]]), np.array([1, 2])),
            "directories": np.ones((2, 1, 16), np.uint8),
            "leader": 9,
        },
    )
    row = columns[1]
    assert row == columns[-1]
    assert row == PartitionRecord(
        partition_id=5,
        topic_id=Uuid(b"\1" * 16),
        replicas=(3, 4),
        isr=(3, 4),
        directories=(Uuid(b"\1" * 16),),
        leader=9,
    )
    assert [type(value) for value in (row.partition_id, row.topic_id, row.replicas[0])] == [int, Uuid, int]
    assert columns[0].isr == (1,)
    assert list(columns[:1]) == [columns[0]]
    assert len(columns[1:]) == 1
    with pytest.raises(IndexError):
        columns[2]


def test_what_is_no_column_of_the_class_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no field"):
        Columns(PartitionRecord, 1, {"partition": 1})
    with pytest.raises(ValueError, match="rows"):
        Columns(PartitionRecord, 1, {"leader": np.zeros(2)})


@pytest.mark.parametrize(
    "values",
    [
        {"leader_id": np.array([2**31] * 100)},
        {"leader_id": np.array([0.5] * 100)},
        {"leader_id": np.zeros((100, 2), np.int32)},
        {"isr_nodes": np.array([[2**40]] * 100)},
        {"isr_nodes": Ragged(np.zeros((100, 2), np.int32), np.arange(100))},
        {"isr_nodes": None},
        {"error_code": None},
    ],
)
def test_columns_that_do_not_fit_raise(values: dict[str, Any]) -> None:
    message = MetadataResponse(topics=[MetadataResponseTopic(partitions=partitions(100, **values))])
    with pytest.raises(ProtocolError):
        encode_message(message, 12, True)


def test_a_version_that_lacks_a_column_raises() -> None:
    struct_type = schema(PartitionRecord, 0, True)
    lacking = Columns(PartitionRecord, 2, {"directories": np.zeros((2, 1, 16), np.uint8)})
    with pytest.raises(ProtocolError):
        build_rows(Buffer(), struct_type, lacking)
    empty = Columns(PartitionRecord, 2, {"directories": np.zeros((2, 0, 16), np.uint8)})
    assert build_rows(Buffer(), struct_type, empty)


def test_columns_of_another_class_raise() -> None:
    wrong = Columns(MetadataResponseBroker, 1, {})
    with pytest.raises(ProtocolError):
        encode_message(MetadataResponse(topics=[MetadataResponseTopic(partitions=wrong)]), 12, True)  # type: ignore[arg-type]


def test_fields_without_columns_take_the_generic_path() -> None:
    """Strings may be given as an array of objects; they are encoded row by row."""
    brokers = Columns(
        MetadataResponseBroker, 50, {"node_id": np.arange(50), "host": np.array([f"h{n}" for n in range(50)], object)}
    )
    raw = encode_message(MetadataResponse(brokers=brokers), 12, True)
    assert raw == encode_message(MetadataResponse(brokers=list(brokers)), 12, True)
