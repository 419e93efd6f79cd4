"""Records that are decoded as columns have the same values and errors as records that are decoded one by one."""

import tracemalloc
from collections.abc import Sequence
from random import Random
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import Columns, Message, Ragged, Uuid, record_batch
from klamm.protocol.codec.column_records import MAX_SHAPES, MIN_ALIKE, MIN_ROWS
from klamm.protocol.codec.varints import encode_zigzag
from klamm.protocol.record_batch import HEADER_BYTES, CorruptBatch, decode_batch, encode_batch
from klamm.protocol.record_versions import load_record_type
from klamm.protocol.records.index import METADATA
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from tests.protocol.column_strategies import runs
from tests.protocol.strategies import messages

TOPIC_ID = Uuid(b"0123456789abcdef")
LEVELS = {7: 0, 17: 1, 30: 2}
"""Metadata versions, and the version in which they have partition records written."""


def with_checksum(batch: bytes) -> bytes:
    checksum: int = google_crc32c.value(batch[21:])
    return batch[:17] + checksum.to_bytes(4, "big") + batch[21:]


def outcome(raw: bytes, *, one_by_one: bool = False) -> list[Message] | str:
    """The records of a batch, or why it has none."""
    with pytest.MonkeyPatch.context() as patch:
        if one_by_one:
            patch.setattr(record_batch, "_MIN_RECORDS_WITH_RUNS", 1 << 31)
        try:
            batch = decode_batch(raw, 0)
        except CorruptBatch as error:
            return error.reason
    assert not (one_by_one and any(isinstance(content, Columns) for content in batch.contents))
    return batch.records


def assert_as_one_by_one(raw: bytes) -> None:
    assert outcome(raw) == outcome(raw, one_by_one=True)


def run_lengths(raw: bytes) -> list[int]:
    """The length of each run, 0 for each record that is in none."""
    return [len(content) if isinstance(content, Columns) else 0 for content in decode_batch(raw, 0).contents]


def partition(index: int, isr: int = 3, **values: Any) -> PartitionRecord:
    return PartitionRecord(
        **{
            "partition_id": index,
            "topic_id": TOPIC_ID,
            "replicas": (index + 1, index + 2, index + 3),
            "isr": (index + 1, index + 2, index + 3)[:isr],
            "leader": index + 1,
            "leader_epoch": index * 200_003,
            "partition_epoch": 7,
            "directories": tuple(Uuid(bytes([index % 256, at]) * 8) for at in range(3)),
            **values,
        }
    )


TOPIC = TopicRecord(name="t", topic_id=TOPIC_ID)


@st.composite
def logged(draw: st.DrawFn) -> tuple[list[Message], int]:
    """Records of all kinds, runs of partition records of few shapes among them, and the level that they are of."""
    chance = Random(draw(st.integers(0, 2**32)))
    level = chance.choice(list(LEVELS))
    kinds = [kind for kind in map(load_record_type, METADATA) if kind is not None]
    alone = st.sampled_from(kinds).flatmap(lambda kind: messages(kind.message, kind.versions[0], flexible=True))
    records: list[Message] = []
    for _ in range(chance.randint(1, 4)):
        records += draw(st.lists(alone.filter(lambda record: "Partition" not in type(record).__name__), max_size=2))
        message_class = chance.choice([PartitionRecord, PartitionChangeRecord])
        own = messages(message_class, LEVELS[level], flexible=True)
        shapes: list[Sequence[Message]] = draw(
            st.lists(runs(message_class, LEVELS[level], True) | own.map(lambda one: [one]), min_size=1, max_size=3)
        )
        order = [chance.randrange(3) for _ in range(chance.randint(1, 4))]
        for at in range(chance.choice([1, 20, 20, 70])):
            records += shapes[order[at % len(order)] % len(shapes)]
    return records or [TOPIC], level


@given(logged())
def test_any_batch_has_the_records_that_were_encoded(made: tuple[list[Message], int]) -> None:
    records, level = made
    raw = encode_batch(0, 1, 99, records, level)
    assert decode_batch(raw, 0).records == records
    assert repr(outcome(raw)) == repr(outcome(raw, one_by_one=True))  # plain Python values on both sides


@given(logged(), st.data())
def test_any_damage_has_the_same_outcome(made: tuple[list[Message], int], data: st.DataObject) -> None:
    records, level = made
    raw = encode_batch(0, 1, 99, records, level)
    for _ in range(4):
        at = data.draw(st.integers(HEADER_BYTES - 40, len(raw) - 1))
        assert_as_one_by_one(with_checksum(raw[:at] + bytes((data.draw(st.integers(0, 255)),)) + raw[at + 1 :]))


def sample() -> list[Message]:
    """A run of which two of the shapes make most, across the index from which on a place takes two bytes."""
    many = [partition(index, isr=3 - index % 2, leader_recovery_state=1) for index in range(100)]
    change = PartitionChangeRecord(topic_id=TOPIC_ID, isr=(1, 2), leader=1)
    return [TOPIC, *many, *[change] * MIN_ROWS]


def test_every_damaged_byte_has_the_same_outcome() -> None:
    raw = encode_batch(0, 1, 99, sample())
    assert run_lengths(raw) == [0, 100, MIN_ROWS]
    ends = record_ends(raw)
    looked_at = [3, 67]
    for start, end in [(HEADER_BYTES - 40, HEADER_BYTES), *((ends[index], ends[index + 1]) for index in looked_at)]:
        for at in range(start, end):
            for value in (raw[at] ^ 0x80, raw[at] ^ 3):
                assert_as_one_by_one(with_checksum(raw[:at] + bytes((value,)) + raw[at + 1 :]))


def record_ends(raw: bytes) -> list[int]:
    """Where the records of a batch begin, and the last one ends."""
    at, ends = HEADER_BYTES, [HEADER_BYTES]
    while at < len(raw):
        size = raw[at] if raw[at] < 0x80 else raw[at] & 0x7F | raw[at + 1] << 7
        at += (size >> 1) + (1 if raw[at] < 0x80 else 2)
        ends.append(at)
    return ends


@pytest.mark.parametrize("count", [MIN_ROWS - 1, MIN_ROWS, 31, 32, 63, 80, 1000, 9000])
def test_partitions_of_one_shape_are_one_run(count: int) -> None:
    """Also where their place in the batch takes more bytes from one record to the next."""
    records = [TOPIC, *(partition(index) for index in range(count)), *[TOPIC] * 31]
    raw = encode_batch(0, 1, 99, records)
    assert run_lengths(raw) == [0, *([count] if count >= MIN_ROWS else [0] * count), *[0] * 31]
    assert decode_batch(raw, 0).records == records


def test_partitions_of_a_few_shapes_are_one_run() -> None:
    """Also where a shape lacks what is at its default."""
    mixed = [partition(index, isr=index % 4, leader_recovery_state=index % 2) for index in range(200)]
    odd = partition(100, replicas=(1,), directories=())
    records = [*mixed[:100], odd, *mixed[100:]]
    raw = encode_batch(0, 1, 99, records)
    assert run_lengths(raw) == [100, 0, 100]
    assert decode_batch(raw, 0).records == records
    run = decode_batch(raw, 0).contents[0]
    assert isinstance(run, Columns)
    assert isinstance(run.values["isr"], Ragged)
    assert run.values["replicas"].dtype == np.int32
    assert run.values["leader_recovery_state"].tolist() == [0, 1] * 50


def test_a_list_that_is_null_in_some_records_splits_the_run() -> None:
    records = [
        *(partition(index) for index in range(64)),
        *(partition(index, eligible_leader_replicas=()) for index in range(50)),
        *(partition(index, eligible_leader_replicas=(1,) * (index % 2)) for index in range(50)),
    ]
    raw = encode_batch(0, 1, 99, records)
    assert run_lengths(raw) == [64, 100]
    assert decode_batch(raw, 0).records == records


def in_no_run() -> dict[str, list[Message]]:
    unknown = [partition(index) for index in range(40)]
    for record in unknown:
        record.unknown_tags = {9: b"?"}
    return {
        "topics of one partition": [record for index in range(40) for record in (TOPIC, partition(index))],
        "tags that nobody knows": [*unknown],
        "runs that are too short": [*[partition(0)] * (MIN_ROWS - 1), TOPIC] * 3,
        "records of another kind": [TOPIC] * 100,
        "more shapes than are looked for": [
            partition(0, adding_replicas=range(width)) for width in range(MAX_SHAPES + 5) for _ in range(MIN_ALIKE)
        ],
    }


@pytest.mark.parametrize("records", in_no_run().values(), ids=in_no_run())
def test_records_in_no_run_are_decoded_one_by_one(records: list[Message]) -> None:
    raw = encode_batch(0, 1, 99, records)
    assert decode_batch(raw, 0).records == records
    assert_as_one_by_one(raw)
    assert sum(run_lengths(raw)) <= MAX_SHAPES * MIN_ALIKE
    assert not any(run_lengths(raw)) or len(records) > MAX_SHAPES * MIN_ALIKE


def batch_of(raw_records: Sequence[bytes]) -> bytes:
    """A batch of records that were spelled by hand."""
    content = b"".join(raw_records)
    front = bytearray(encode_batch(0, 1, 99, [TOPIC])[:HEADER_BYTES])
    front[8:12] = (HEADER_BYTES - 12 + len(content)).to_bytes(4, "big")
    front[23:27] = (len(raw_records) - 1).to_bytes(4, "big")
    front[57:61] = len(raw_records).to_bytes(4, "big")
    return with_checksum(bytes(front) + content)


def spelled(delta: bytes, value: bytes, *, attributes: int = 0, key: bytes = b"\1", headers: int = 0) -> bytes:
    record = bytes((attributes, 0)) + delta + key + encode_zigzag(len(value)) + value + bytes((headers,))
    return encode_zigzag(len(record)) + record


def test_unusual_encodings_have_the_same_outcome() -> None:
    """Numbers in more bytes than needed, keys, attributes, headers: taken or refused as one by one."""
    raw = encode_batch(0, 1, 99, [partition(5)])
    value = raw[raw.index(b"\1\3\2") : -1]
    short = [bytes((2 * index,)) for index in range(60)]
    padded = [bytes((0x80 | 2 * index, 0)) for index in range(60)]
    batches: list[list[bytes]] = [
        [spelled(delta, value) for delta in short],
        [spelled(delta, value) for delta in padded],
        [spelled((short, padded)[index // 20 % 2][index], value) for index in range(60)],
        [spelled(short[max(0, index - 1)], value) for index in range(60)],
        [spelled(delta, value, key=b"\6key") for delta in short],
        [spelled(delta, value, key=b"\x07") for delta in short],
        [spelled(delta, value, attributes=index // 30) for index, delta in enumerate(short)],
        [spelled(delta, value, headers=index // 59) for index, delta in enumerate(short)],
        [spelled(delta, b"\x81\0\3\2" + value[3:]) for delta in short],
        [spelled(delta, b"\2" + value[1:]) for delta in short],
        [spelled(delta, value[:2] + b"\3" + value[3:]) for delta in short],
        [spelled(delta, value + b"\0") for delta in short],
        [spelled(delta, value[:-1]) for delta in short],
    ]
    outcomes = []
    for records in batches:
        assert_as_one_by_one(batch_of(records))
        outcomes.append(outcome(batch_of(records)))
    assert [isinstance(found, list) for found in outcomes] == [
        *(True, True, True, False, True, True, True, False, True, False, False, False, False)
    ]
    assert run_lengths(batch_of(batches[0])) == run_lengths(batch_of(batches[1])) == [60]
    assert run_lengths(batch_of(batches[2])) == [60]


def test_a_wrong_count_has_the_same_outcome() -> None:
    raw = encode_batch(0, 1, 99, [partition(index) for index in range(100)])
    for count in (-1, 0, 1, 99, 101, 2**31 - 1):
        wrong = with_checksum(raw[:57] + count.to_bytes(4, "big", signed=True) + raw[61:])
        assert isinstance(outcome(wrong), str)
        assert_as_one_by_one(wrong)


@pytest.mark.parametrize("isr_lengths", [1, 4])
def test_memory_is_a_few_times_the_bytes_of_the_batch(isr_lengths: int) -> None:
    raw = encode_batch(0, 1, 99, [partition(index % 99, isr=index % isr_lengths) for index in range(20_000)])
    decode_batch(raw, 0)
    tracemalloc.start()
    batch = decode_batch(raw, 0)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(batch.contents) == 1
    assert kept < 2 * len(raw)
    assert peak < 6 * len(raw)
