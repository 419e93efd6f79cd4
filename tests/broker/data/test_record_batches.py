"""Produced batches: of other encoders, cut short, damaged, with false headers. `test_recorded` compares the errors with
Kafka's."""

import base64
import gzip
from typing import Any

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import LAST_SEQUENCE, ProducedBatch, RefusedBatch, read_produced
from klamm.broker.data.records import MAX_RECORDS, MAX_UNPACKED_BYTES, look_inside
from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import (
    FRONT_BYTES,
    GZIP,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LZ4,
    NOW_MS,
    TRANSACTIONAL,
    ZSTD,
    batch,
    record,
    zigzag,
)
from tests.broker.data.judging import ANY_AGE, judge
from tests.broker.data.recordings import recorded
from tests.broker.data.rooms import room
from tests.protocol.test_golden_vectors import vectors

CODES = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
SOUND = [
    batch(1),
    batch(3),
    batch(2, value=b"x" * 100, producer_id=5, producer_epoch=1, base_sequence=LAST_SEQUENCE),
    batch(2, attributes=GZIP),
    batch([record(index, key=None, timestamp_delta=-index, headers=[(b"n", None)]) for index in range(3)]),
    batch(1, attributes=LOG_APPEND_TIME),
    *(bytes.fromhex(row["records"]) for row in recorded("clients.jsonl")),
]


def read(data: bytes | memoryview | None, api_version: int = 11) -> ProducedBatch | RefusedBatch:
    return read_produced(data, api_version=api_version, max_message_bytes=1 << 20)


def sound(data: bytes) -> ProducedBatch:
    found = read(data)
    assert isinstance(found, ProducedBatch), found
    return found


def with_checksum(data: bytes) -> bytes:
    checksum: int = google_crc32c.value(data[FRONT_BYTES:])
    return data[: FRONT_BYTES - 4] + checksum.to_bytes(4, "big") + data[FRONT_BYTES:]


def judge_and_use(data: bytes) -> None:
    """All that may be done with any bytes. No call may raise an exception."""
    for api_version in (3, 11):
        found = read(data, api_version)
        if isinstance(found, RefusedBatch):
            assert found.code in CODES
            assert found.message
            continue
        for log_append_time in (False, True):
            judged = judge(
                found,
                timestamp_before_max_ms=1000,
                timestamp_after_max_ms=1000,
                log_append_time=log_append_time,
                is_compacted=True,
            )
            assert isinstance(judged, ProducedBatch) or judged.code in CODES
            log = PartitionLog(room())
            assert log.append(found, 3, NOW_MS, log_append_time=log_append_time) == 0
            assert log.log_end_offset == found.record_count
            stored = log.read(0, 0, log.log_end_offset)
            assert stored is not None
            assert with_checksum(stored) == stored
            assert len(stored) == len(found.records)
            for timestamp in (-3, 0, NOW_MS, NOW_MS + 1):
                offset = log.find_offset(timestamp)
                assert offset is None or 0 <= offset.offset < log.log_end_offset


@pytest.mark.parametrize("data", SOUND)
def test_every_sound_batch_is_used_whole_and_no_part_of_it_is(data: bytes) -> None:
    judge_and_use(data)
    assert sound(data).records == data
    for size in range(len(data)):
        cut = read(data[:size])
        assert isinstance(cut, RefusedBatch)
        assert cut.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("data", SOUND[:5])
def test_every_flipped_bit_is_noticed(data: bytes) -> None:
    """Except those of the leader epoch, which the leader sets: the checksum does not cover it."""
    for at in range(len(data)):
        damaged = data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]
        assert isinstance(read(damaged), ProducedBatch) == (12 <= at < 16)


@given(st.binary(max_size=200))
@example(b"")
def test_any_bytes_are_judged(data: bytes) -> None:
    judge_and_use(data)


@given(
    data=st.sampled_from(SOUND),
    changes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4),
    behind=st.one_of(st.just(b""), st.binary(max_size=90), st.sampled_from(SOUND)),
    checksum=st.booleans(),
)
def test_any_change_is_judged(data: bytes, changes: list[tuple[int, int]], behind: bytes, checksum: bool) -> None:
    """Also if the checksum is correct for the changed bytes."""
    changed = bytearray(data)
    for at, value in changes:
        changed[at % len(changed)] = value
    judge_and_use((with_checksum(bytes(changed)) if checksum else bytes(changed)) + behind)


@given(st.binary(max_size=40), st.integers(0, 5), st.sampled_from([0, GZIP]))
@example(b"\x80" * 6, 1, 0)
def test_any_payload_with_a_right_header_is_judged(payload: bytes, record_count: int, attributes: int) -> None:
    counted: dict[str, Any] = {"record_count": record_count, "last_offset_delta": record_count - 1}
    judge_and_use(batch(1, payload=payload, attributes=attributes, **counted))


def test_any_buffer_will_do() -> None:
    data = batch(2)
    assert read(memoryview(data)) == read(bytes(data)) == sound(data)
    assert isinstance(read(None), RefusedBatch)


def test_the_header_is_told() -> None:
    reported = sound(
        batch(
            4,
            timestamp_ms=11,
            max_timestamp_ms=12,
            attributes=TRANSACTIONAL | ZSTD,
            producer_id=5,
            producer_epoch=6,
            base_sequence=LAST_SEQUENCE - 1,
            leader_epoch=9,
            payload=b"opaque",
        )
    )
    assert (reported.base_offset, reported.leader_epoch, reported.last_offset_delta, reported.record_count) == (
        0,
        9,
        3,
        4,
    )
    assert (reported.base_timestamp_ms, reported.max_timestamp_ms) == (11, 12)
    assert (reported.producer_id, reported.producer_epoch, reported.base_sequence, reported.last_sequence) == (
        5,
        6,
        2**31 - 2,
        1,
    )
    assert (reported.compression, reported.is_transactional, reported.has_log_append_time, reported.is_idempotent) == (
        4,
        1,
        0,
        1,
    )


@pytest.mark.parametrize("size", [0, 1, 50, 63, 64, 8000, 8191, 8192, 20_000, 1_100_000])
def test_records_of_every_length_are_counted(size: int) -> None:
    """Their lengths have one to four bytes."""
    for count in (1, 2, 3):
        counted: dict[str, Any] = {"record_count": count, "last_offset_delta": count - 1}
        data = batch([record(0, value=b"x" * size), record(1)], **counted)
        found = read_produced(data, api_version=11, max_message_bytes=2_000_000)
        assert isinstance(found, ProducedBatch)
        assert isinstance(judge(found, max_message_bytes=2_000_000), ProducedBatch) == (count == 2)


@pytest.mark.parametrize("codec", [0, GZIP])
def test_batches_of_python_clients_are_read(codec: int) -> None:
    rows = [(b"key", b"value", NOW_MS), (None, b"x" * 300, NOW_MS + 7), (b"", None, NOW_MS - 3)]
    kafka_python = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=10_000)
    aiokafka = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=8,
        producer_epoch=0,
        base_sequence=4,
        batch_size=10_000,
    )
    for index, (key, value, timestamp_ms) in enumerate(rows):
        kafka_python.append(timestamp_ms, key, value, [("h", b"1")])
        aiokafka.append(index, timestamp_ms, key, value, [])
    kafka_python.close()
    for data in (bytes(kafka_python.buffer()), bytes(aiokafka.build())):
        found = sound(data)
        assert (found.record_count, found.compression) == (3, codec)
        assert found.max_timestamp_ms == NOW_MS + 7
        heads = look_inside(found)
        assert heads is not None
        assert [(head.timestamp_ms, head.key_size) for head in heads] == [
            (time, -1 if key is None else len(key)) for key, _, time in rows
        ]


def test_batches_of_the_wire_vectors_are_read() -> None:
    """Only their base offset is changed to 0: they were recorded with different ones."""
    count = 0
    for vector in vectors("wire.jsonl.gz"):
        if (vector.get("api"), vector.get("kind")) != ("Produce", "request"):
            continue
        for topic in vector["body"]["topicData"]:
            for partition in topic["partitionData"]:
                data = base64.b64decode(partition["records"] or "")
                assert isinstance(read(data), RefusedBatch)
                if data:
                    assert sound(bytes(8) + data[8:]).records[8:] == data[8:]
                    count += 1
    assert count >= 10


@pytest.mark.parametrize("codec", range(8))
def test_codecs_are_known_since_the_version_that_brought_them(codec: int) -> None:
    """Zstandard since version 7 of Produce (KIP-110), the others always; 5 to 7 are none."""
    known = [version for version in range(3, 14) if isinstance(read(batch(attributes=codec), version), ProducedBatch)]
    assert known == ([] if codec > ZSTD else list(range(7 if codec == ZSTD else 3, 14)))


JUDGED: list[tuple[str, bytes, dict[str, Any], list[int] | None]] = [
    ("broken lz4", batch(3, attributes=LZ4, max_timestamp_ms=NOW_MS + 11), {}, []),
    ("broken gzip", batch(3, attributes=GZIP, payload=b"no gzip"), {"is_compacted": True}, []),
    ("gzip without its end", batch([record(key=None)], attributes=GZIP)[:-6], {"is_compacted": True}, []),
    ("a key whose length never ends", batch(1, payload=b"\x1c\0\0\0" + b"\xff" * 11), {"is_compacted": True}, []),
    ("a key beyond its record", batch(1, payload=b"\x0c\0\0\0\x14\0\0"), {"is_compacted": True}, []),
    ("just in time", batch(1, timestamp_ms=NOW_MS + 10), {}, None),
    ("in time, whatever the header says", batch(1, max_timestamp_ms=NOW_MS + 11), {}, None),
    ("just too late", batch(1, timestamp_ms=NOW_MS + 11), {}, [0]),
    ("as old as may be", batch(1, timestamp_ms=NOW_MS - 10), {"timestamp_before_max_ms": 10}, None),
    ("older", batch([record(), record(1, timestamp_delta=-11)]), {"timestamp_before_max_ms": 10}, [1]),
    ("any age", batch(1, timestamp_ms=0), {}, None),
    ("late, and the header hides it", batch([record(timestamp_delta=11)]), {}, [0]),
    ("late, and looked at", batch([record(timestamp_delta=11)]), {"is_compacted": True}, [0]),
    ("keys of all but one", batch([record(), record(1, key=None)]), {"is_compacted": True}, [1]),
    ("keys are not needed", batch([record(key=None)]), {}, None),
    ("log append time, whatever it was", batch(1, timestamp_ms=NOW_MS * 2), {"log_append_time": True}, None),
    ("log append time set", batch(1, attributes=LOG_APPEND_TIME), {"log_append_time": True}, [0]),
]


@pytest.mark.parametrize(("data", "configs", "blamed"), [row[1:] for row in JUDGED], ids=[row[0] for row in JUDGED])
def test_records_are_judged_by_what_can_be_seen(data: bytes, configs: dict[str, Any], blamed: list[int] | None) -> None:
    data = with_checksum(data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:])
    judged = judge(sound(data), timestamp_after_max_ms=10, **configs)
    assert (None if isinstance(judged, ProducedBatch) else [index for index, _ in judged.record_errors]) == blamed


def test_a_batch_that_takes_long_is_not_looked_into() -> None:
    for too_large in (batch(MAX_RECORDS + 1), batch(1, attributes=GZIP, value=bytes(MAX_UNPACKED_BYTES))):
        assert look_inside(sound(too_large)) is None
    for just_not in (batch(MAX_RECORDS), batch(1, attributes=GZIP, value=bytes(MAX_UNPACKED_BYTES - 100))):
        assert look_inside(sound(just_not)) is not None


@pytest.mark.parametrize("size", range(26, HEADER_BYTES))
def test_no_batch_is_smaller_than_its_header(size: int) -> None:
    small = with_checksum(batch([])[:8] + (size - 12).to_bytes(4, "big") + batch([])[12:size])
    refused = read(small)
    assert isinstance(refused, RefusedBatch)
    assert refused.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [*range(6), 40, 63, 64, 100, 8191, 8192])
def test_a_record_has_a_length_and_that_is_no_small_one(size: int) -> None:
    """Of an odd varint the half is a valid number, but as a length it would be below 0."""
    for length in (zigzag(size), zigzag(-size - 1)):
        judged = judge(sound(batch(1, payload=length + bytes(size))))
        assert isinstance(judged, ProducedBatch) == (size == 6 and length == zigzag(size))


@pytest.mark.parametrize(
    ("payload", "has_key"),
    [
        (b"\x0c\0\0\0\1\1\0", False),
        (b"\x0c\0\0\0\0\1\0", True),
        (b"\x0e\0\0\0\2k\1\0", True),
        (b"\x0c\0\0\0\4\0\0", None),
        (b"\x0c\0\0\0\6\0\0", None),
        (b"\x0c\0\0\0\x14\0\0", None),
    ],
    ids=["no key", "an empty key", "a key", "a key to the end", "a key one beyond the end", "a key far beyond"],
)
@pytest.mark.parametrize("behind", [0, 1])
def test_a_key_ends_in_its_record(payload: bytes, has_key: bool | None, behind: int) -> None:
    """Also if another record follows, into which the key would reach."""
    found = sound(batch(1 + behind, payload=payload + record(1) * behind))
    heads = look_inside(found)
    assert (None if heads is None else heads[0].key_size >= 0) == has_key


@pytest.mark.parametrize("length", [-1, -5, -3_000_000])
def test_a_packed_record_of_less_than_nothing_is_not_looked_into(length: int) -> None:
    payload = gzip.compress(zigzag(length) + bytes(20))
    assert look_inside(sound(batch(1, attributes=GZIP, payload=payload))) is None


def test_of_packed_records_the_last_one_ends_in_what_was_unpacked() -> None:
    whole = record(0) + record(1)
    for cut, is_read in ((0, True), (1, False)):
        found = sound(batch(2, attributes=GZIP, payload=gzip.compress(whole[: len(whole) - cut])))
        assert (look_inside(found) is not None) == is_read


@pytest.mark.parametrize("byte", range(4))
def test_each_byte_of_the_length_counts(byte: int) -> None:
    data = batch(1)
    longer = int.from_bytes(data[8:12], "big") + (1 << 8 * byte)
    refused = read(data[:8] + longer.to_bytes(4, "big") + data[12:])
    assert isinstance(refused, RefusedBatch)
    assert (refused.code, refused.message) == (ErrorCode.INVALID_RECORD, "There is no whole record batch.")


@pytest.mark.parametrize(("length", "code"), [(13, ErrorCode.CORRUPT_MESSAGE), (14, ErrorCode.INVALID_RECORD)])
def test_no_batch_is_shorter_than_the_oldest_ones_were(length: int, code: ErrorCode) -> None:
    """Bytes that are complete according to their length of 14 have the wrong magic, or no checksum."""
    data = bytes(8) + length.to_bytes(4, "big") + bytes(5)
    refused = read(data)
    assert isinstance(refused, RefusedBatch)
    assert refused.code == code


def test_a_batch_of_more_than_16_mib_is_taken_where_the_topic_takes_it() -> None:
    """All four bytes of its length are in use."""
    data = batch(1, value=bytes(1 << 24))
    for max_message_bytes, is_taken in ((len(data), True), (len(data) - 1, False)):
        found = read_produced(data, api_version=11, max_message_bytes=max_message_bytes)
        assert isinstance(found, ProducedBatch) == is_taken


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("before_max_ms", [10, ANY_AGE])
def test_records_need_keys_in_compacted_topics_alone(is_compacted: bool, before_max_ms: int) -> None:
    """Whether or not their timestamps require reading the records."""
    produced = read_produced(batch([record(key=None)]), api_version=11, max_message_bytes=1000)
    assert isinstance(produced, ProducedBatch)
    judged = judge(produced, timestamp_before_max_ms=before_max_ms, is_compacted=is_compacted)
    assert isinstance(judged, RefusedBatch) is is_compacted
    if isinstance(judged, RefusedBatch):
        assert (judged.code, len(judged.record_errors)) == (ErrorCode.INVALID_RECORD, 1)
