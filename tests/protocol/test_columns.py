"""`Columns` are sequences of messages, and are encoded to the same bytes as the messages one by one."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.protocol import Columns, Message, Parts, ProtocolError, Ragged, Uuid, decode_message, encode_message
from klamm.protocol.codec import rows
from klamm.protocol.codec.columns import build_record_rows, build_rows
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.streams import Buffer
from klamm.protocol.fields import wire_fields
from klamm.protocol.messages.cluster.api_versions import ApiVersionsResponse
from klamm.protocol.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from klamm.protocol.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.record_batch import decode_batch, encode_batch
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.records.transactions import BeginTransactionRecord
from tests.protocol.column_strategies import runs
from tests.protocol.strategies import FEW_EXAMPLES

RUNS: list[tuple[type[Message], int, bool]] = [
    *((MetadataResponsePartition, version, version >= 9) for version in range(14)),
    *((MetadataResponseTopic, version, version >= 9) for version in range(14)),
    *((MetadataResponse, version, version >= 9) for version in (0, 8, 13)),
    (DescribeTopicPartitionsResponsePartition, 0, True),
    (DescribeTopicPartitionsResponseTopic, 0, True),
    (TopicRecord, 0, True),
    (BeginTransactionRecord, 0, True),
    (ApiVersionsResponse, 4, True),  # parts in tagged fields
    *((PartitionRecord, version, True) for version in range(3)),
    *((PartitionChangeRecord, version, True) for version in range(3)),
    *((BrokerRegistrationChangeRecord, version, True) for version in range(4)),
]
RECORD_RUNS = [key for key in RUNS if key[0].__name__.endswith("Record")]


def named(key: tuple[type[Message], int, bool]) -> str:
    return f"{key[0].__name__}-v{key[1]}"


@pytest.mark.parametrize("schema_key", RUNS, ids=named)
@settings(max_examples=FEW_EXAMPLES)
@given(data=st.data())
def test_rows_at_once_have_the_bytes_of_the_messages(
    schema_key: tuple[type[Message], int, bool], data: st.DataObject
) -> None:
    message_class, version, flexible = schema_key
    columns = data.draw(runs(message_class, version, flexible))
    one_by_one = b"".join(encode_message(plain(row), version, flexible) for row in columns)
    for _ in range(2):  # the second time the layout may be known
        at_once = Buffer(b"before")
        assert build_rows(at_once, schema(message_class, version, flexible), columns)
        assert bytes(at_once) == b"before" + one_by_one


def plain(message: Message) -> Message:
    """The same with lists of messages in place of columns."""
    for wire in wire_fields(type(message)):
        value = getattr(message, wire.name)
        if isinstance(value, Columns):
            setattr(message, wire.name, [plain(row) for row in value])
    return message


@pytest.mark.parametrize("schema_key", RECORD_RUNS, ids=named)
@settings(max_examples=FEW_EXAMPLES)
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
    cuts = [0, 0, 1, 60, 99, 100, 100]
    for _ in range(2):  # the second time the layout may be known
        run = partitions(100, isr_nodes=isr)
        topics = [MetadataResponseTopic(name="t", partitions=run[first:end]) for first, end in pairwise(cuts)]
        plain = [MetadataResponseTopic(name="t", partitions=list(topic.partitions)) for topic in topics]
        assert [len(topic.partitions) for topic in plain] == [0, 1, 59, 39, 1, 0]
        raw = encode_message(MetadataResponse(topics=topics), version, version >= 9)
        assert raw == encode_message(MetadataResponse(topics=plain), version, version >= 9)
        assert topics == plain


def topics(row_count: int, **values: Any) -> Columns[MetadataResponseTopic]:
    """Topics of 0, 5, 10, … 645 partitions, and from the start again."""
    bounds = np.cumsum([0, *(number % 130 * 5 for number in range(row_count))])
    names = np.array([f"größe-{number:0{number % 90}}" for number in range(row_count)], object)
    whole = partitions(int(bounds[-1]), isr_nodes=Ragged(replicas(int(bounds[-1])), np.arange(bounds[-1]) % 4))
    return Columns(MetadataResponseTopic, row_count, {"name": names, "partitions": Parts(whole, bounds), **values})


@pytest.mark.parametrize("row_count", [0, 1, 55, 56, 300])
@pytest.mark.parametrize("version", [0, 8, 12])
def test_topics_are_columns_with_their_partitions_as_parts(version: int, row_count: int) -> None:
    columns = topics(row_count, error_code=np.arange(row_count), topic_id=np.ones((row_count, 16), np.uint8))
    for run in (columns, columns[1:-1]):
        raw = encode_message(MetadataResponse(topics=run), version, version >= 9)
        assert raw == encode_message(plain(MetadataResponse(topics=run)), version, version >= 9)


@pytest.mark.parametrize(("rows_at_once", "bytes_at_once"), [(1, 1 << 20), (7, 1 << 20), (100, 1), (1000, 500)])
def test_rows_of_any_length_are_joined_in_blocks(
    rows_at_once: int, bytes_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_CUT_AT_ONCE", rows_at_once)
    monkeypatch.setattr(rows, "BYTES_CUT_AT_ONCE", bytes_at_once)
    columns = topics(100)
    raw = encode_message(MetadataResponse(topics=columns), 12, True)
    assert raw == encode_message(plain(MetadataResponse(topics=columns)), 12, True)


def test_parts_are_slices_of_their_run() -> None:
    run = partitions(10)
    columns = Columns(MetadataResponseTopic, 3, {"partitions": Parts(run, np.array([1, 4, 4, 9]))})
    assert [list(topic.partitions) for topic in columns] == [list(run)[1:4], [], list(run)[4:9]]
    assert columns[2].partitions == run[4:9]
    assert list(columns[1:]) == list(columns)[1:]
    assert list(columns[2:1]) == []


@pytest.mark.parametrize("bounds", [[-1, 2], [0, 3, 2], [0, 11]])
def test_parts_that_a_run_does_not_have_are_refused(bounds: list[int]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        Parts(partitions(10), np.array(bounds))


@pytest.mark.parametrize(
    "values",
    [
        {"name": np.array([None] * 100, object)},
        {"name": np.array(["t"] * 99 + [5], object)},
        {"name": np.array(["t"] * 99 + ["\ud800"], object)},
        {"name": np.array(["x" * 32768] * 100, object)},
        {"name": np.array([["t"]] * 100, object)},
        {"topic_authorized_operations": np.array(["t"] * 100, object)},
        {"name": Parts(partitions(5), np.zeros(101, int))},
        {"partitions": Parts(Columns(MetadataResponseBroker, 5, {}), np.zeros(101, int))},
    ],
)
def test_texts_and_parts_that_do_not_fit_raise(values: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        encode_message(MetadataResponse(topics=topics(100, **values)), 11, True)


def test_values_that_are_no_text_take_the_generic_path() -> None:
    columns = Columns(TopicRecord, 1, {"name": np.array(["\ud800"], object)})
    assert not build_rows(Buffer(), schema(TopicRecord, 0, True), columns)


def test_nulls_take_the_generic_path_inside_parts_as_well() -> None:
    names = np.array(["a", None] * 50, object)
    columns = topics(100, name=names)
    raw = encode_message(MetadataResponse(topics=columns), 12, True)
    assert raw == encode_message(MetadataResponse(topics=list(columns)), 12, True)
    brokers = Columns(MetadataResponseBroker, 100, {"host": "h", "rack": names})
    responses = Columns(MetadataResponse, 3, {"brokers": Parts(brokers, np.array([0, 1, 1, 100]))})
    at_once = Buffer()
    assert build_rows(at_once, schema(MetadataResponse, 12, True), responses)
    assert bytes(at_once) == b"".join(encode_message(response, 12, True) for response in responses)


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


def test_slices_of_values_without_columns_take_the_generic_path() -> None:
    brokers = Columns(MetadataResponseBroker, 3, {"host": "h", "rack": np.array(["a", None, "ccc"], object)})
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


def test_invalid_columns_are_refused_by_the_constructor() -> None:
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


def test_strings_are_columns_of_objects() -> None:
    brokers = Columns(
        MetadataResponseBroker, 50, {"node_id": np.arange(50), "host": np.array([f"h{n}" for n in range(50)], object)}
    )
    raw = encode_message(MetadataResponse(brokers=brokers), 12, True)
    assert raw == encode_message(MetadataResponse(brokers=list(brokers)), 12, True)
