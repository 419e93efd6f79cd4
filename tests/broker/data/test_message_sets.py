"""Message sets of formats 0 and 1 become batches, and batches become message sets, as with Kafka's own classes."""

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.data.codecs import unpack
from klamm.broker.data.down_conversion import (
    MAX_CONVERTED_BYTES,
    MAX_CONVERTED_RECORDS,
    Conversion,
    down_converted,
    overflow,
    target_format,
)
from klamm.broker.data.message_sets import is_message_set, is_without_message, read_message_set
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch, check_batch
from klamm.broker.data.record_contents import decode_records, split_batches
from klamm.broker.data.records import NoRoom, Room
from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import CONTROL, ZSTD, batch, record
from tests.broker.data.message_sets import Recorded, message, messages_in, recorded, wrapped

SETS = [one for one in recorded() if one.kind == "set"]
DOWN = [one for one in recorded() if one.kind == "down"]
MOST = 1 << 20


def read(data: bytes, most: int = MOST) -> ProducedBatch:
    found = read_message_set(data, most, Room.at_most())
    assert isinstance(found, ProducedBatch), found
    return found


def refused(data: bytes, most: int = MOST) -> ErrorCode:
    found = read_message_set(data, most, Room.at_most())
    assert isinstance(found, RefusedBatch)
    return found.code


def contents(found: ProducedBatch) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(one.offset, one.timestamp_ms, one.key, one.value) for one in decode_records(found, MOST)]


def name_of(one: Recorded) -> str:
    return f"{one.magic}-{one.codec}-{one.time}-{one.first}"


@pytest.mark.parametrize("one", SETS, ids=name_of)
def test_kafkas_message_sets_are_read(one: Recorded) -> None:
    times = [-1] * 4 if one.magic == 0 else [1_700_000_000_000 + plus for plus in (0, 10, 20, 0)]
    found = read(one.before)
    assert contents(found) == list(
        zip(range(4), times, (b"k", None, b"gone", b""), (b"first", b"no key", None, b""), strict=True)
    )
    assert (found.compression, found.max_timestamp_ms, found.producer_id) == (one.codec, max(times), -1)
    assert isinstance(check_batch(found.records, MOST), ProducedBatch)


@pytest.mark.parametrize("one", DOWN, ids=name_of)
def test_batches_become_what_kafkas_classes_make_of_them(one: Recorded) -> None:
    found = down_converted(one.before, one.first, one.magic, Conversion())
    assert isinstance(found, bytes)
    assert one.after is not None
    if not one.codec:
        assert found == one.after
    assert messages_in(found) == messages_in(one.after)
    # Only the compressed bytes differ: offset and attributes of the outer message are the same.
    assert (found[:8], found[17:18]) == (one.after[:8], one.after[17:18])


KEYS = st.none() | st.binary(max_size=20)


@given(
    messages=st.lists(st.tuples(st.integers(0, 2**45), KEYS, KEYS), min_size=1, max_size=20),
    magic=st.sampled_from((0, 1)),
    is_wrapped=st.booleans(),
)
def test_what_goes_up_comes_down(messages: list[Any], magic: int, is_wrapped: bool) -> None:
    each = [
        message(key, value, magic=magic, timestamp_ms=time, offset=place)
        for place, (time, key, value) in enumerate(messages)
    ]
    found = read(wrapped(each, magic=magic) if is_wrapped else b"".join(each))
    expected = [(place, time if magic else -1, *rest) for place, (time, *rest) in enumerate(messages)]
    assert contents(found) == expected
    down = down_converted(found.records, 0, magic, Conversion())
    assert isinstance(down, bytes)
    assert [(one.offset, one.timestamp_ms, one.key, one.value) for one in messages_in(down)] == expected


SHORT = b"\1\0" + bytes(15)
REFUSED = {
    "wrong checksum": (message(crc=1), ErrorCode.CORRUPT_MESSAGE),
    "second with a wrong checksum": (message() + message(crc=1), ErrorCode.CORRUPT_MESSAGE),
    "inner with a wrong checksum": (wrapped([message(), message(crc=7)]), ErrorCode.CORRUPT_MESSAGE),
    "compressed beside others": (message() + wrapped([message()]), ErrorCode.INVALID_RECORD),
    "two compressed": (wrapped([message()]) + wrapped([message()]), ErrorCode.INVALID_RECORD),
    "compressed inside compressed": (wrapped([wrapped([message()])]), ErrorCode.INVALID_RECORD),
    "another format inside": (wrapped([message(magic=0)]), ErrorCode.INVALID_RECORD),
    "compressed nothing": (wrapped([]), ErrorCode.INVALID_RECORD),
    "compressed null": (message(None, None, attributes=1), ErrorCode.INVALID_RECORD),
    "damaged gzip": (message(None, b"no gzip", attributes=1), ErrorCode.UNKNOWN_SERVER_ERROR),
    "damaged lz4": (message(None, b"lz4", magic=0, attributes=3), ErrorCode.UNKNOWN_SERVER_ERROR),
    "zstd": (message(None, b"zstd", attributes=4), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a batch behind": (message() + batch(1), ErrorCode.INVALID_RECORD),
    "a size too small": (b"\0" * 8 + b"\0\0\0\x0d" + message()[12:], ErrorCode.CORRUPT_MESSAGE),
    "a format-1 message of 21 bytes": (
        b"\0" * 8 + b"\0\0\0\x15" + zlib.crc32(SHORT).to_bytes(4, "big") + SHORT,
        ErrorCode.CORRUPT_MESSAGE,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_message_sets_are_refused(name: str) -> None:
    data, code = REFUSED[name]
    assert refused(data) is code


def test_each_message_may_have_max_message_bytes() -> None:
    one = message()
    assert len(read(one + one, len(one)).records) > len(one)
    assert refused(one + one, len(one) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_field_beyond_its_message_is_corrupt() -> None:
    body = message(b"key", b"value")[16:]
    for at, size in ((10, 100), (17, 6), (17, 2**31 - 1)):
        wrong = body[:at] + size.to_bytes(4, "big") + body[at + 4 :]
        data = b"\0" * 8 + (len(wrong) + 4).to_bytes(4, "big") + zlib.crc32(wrong).to_bytes(4, "big") + wrong
        assert refused(data) is ErrorCode.CORRUPT_MESSAGE


def test_an_incomplete_message_at_the_end_is_dropped() -> None:
    for cut in range(1, len(message()) - 17):
        assert read(message() + message()[:-cut]).record_count == 1


def test_what_is_a_message_set() -> None:
    assert is_message_set(message(magic=0))
    assert is_message_set(message(magic=1))
    assert not any(is_message_set(data) for data in (batch(1), b"", None, message()[:16]))
    assert all(is_without_message(data) for data in (None, b"", message()[:16], message()[:-1]))
    assert not is_without_message(message())
    assert not is_without_message(b"\0" * 17)


def test_log_append_time_is_noted_for_the_check_of_timestamps() -> None:
    for data in (message(attributes=8), message() + message(attributes=8), wrapped([message()], attributes=8)):
        assert read(data).has_log_append_time
    assert not read(message(magic=0, attributes=8)).has_log_append_time


def test_reading_has_a_limit() -> None:
    few = Room(unpacked_bytes=100, records=10, exact_records=3)
    with pytest.raises(NoRoom):
        read_message_set(message() * 4, MOST, few)
    with pytest.raises(NoRoom):
        read_message_set(wrapped([message(value=bytes(200))]), MOST, Room(100, 10, 10))


def test_timestamps_may_be_far_apart() -> None:
    times = (-(2**63), 2**63 - 1)
    found = read(b"".join(message(timestamp_ms=time) for time in times))
    assert found.max_timestamp_ms == times[1]


def test_control_batches_and_headers_are_left_out() -> None:
    data = batch(1, attributes=CONTROL) + batch([record(headers=[(b"h", b"1")])])
    found = down_converted(data, 0, 1, Conversion())
    assert isinstance(found, bytes)
    assert [one.value for one in messages_in(found)] == [b"v"]
    assert down_converted(batch(1, attributes=CONTROL), 0, 1, Conversion()) == b""


def test_zstd_has_no_old_form() -> None:
    packed = batch(1, attributes=ZSTD, payload=b"")
    assert down_converted(packed, 0, 1, Conversion()) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    found = down_converted(batch(1) + packed, 0, 1, Conversion())
    assert isinstance(found, bytes)
    assert len(messages_in(found)) == 1, "what is before it is read first"


@pytest.mark.parametrize("attributes", [0, 1])
def test_an_answer_converts_a_limited_number_of_records(attributes: int) -> None:
    number = MAX_CONVERTED_RECORDS + 10
    data = batch(number, attributes=attributes)
    first = down_converted(data, 0, 1, Conversion())
    assert isinstance(first, bytes)
    found = messages_in(first)
    assert [one.offset for one in found] == list(range(MAX_CONVERTED_RECORDS))
    rest = down_converted(data, MAX_CONVERTED_RECORDS, 1, Conversion())
    assert isinstance(rest, bytes)
    assert [one.offset for one in messages_in(rest)] == list(range(MAX_CONVERTED_RECORDS, number))
    assert down_converted(data + data, 0, 1, Conversion()) == first
    assert down_converted(batch(20_001), 0, 1, Conversion()) is ErrorCode.MESSAGE_TOO_LARGE


def test_partitions_share_what_an_answer_may_convert() -> None:
    room = Conversion(1_000)
    for _ in range(2):
        found = down_converted(batch(10), 0, 1, room)
        assert isinstance(found, bytes)
        assert [one.offset for one in messages_in(found)] == [0, 1, 2, 3, 4]
    assert Conversion(10_000).records_of_partition == 1
    assert Conversion(0).records_of_partition == MAX_CONVERTED_RECORDS
    room = Conversion(5_000)
    for _ in range(4):  # of a part of a batch, the most that a batch has uncompressed is counted
        assert down_converted(batch(2, attributes=1), 0, 1, room)
    assert down_converted(batch(2, attributes=1), 0, 1, room) == b""
    room = Conversion()
    assert down_converted(batch(1, attributes=1, value=bytes(50_000)), 0, 1, room)
    assert room.bytes == MAX_CONVERTED_BYTES - 50_001
    room.bytes = len(batch(1)) + 1
    found = down_converted(batch(1) * 3, 0, 1, room)
    assert isinstance(found, bytes)
    assert len(messages_in(found)) == 2
    assert MAX_CONVERTED_BYTES == 16 << 20


def test_a_compressed_batch_is_whole_if_it_is_short() -> None:
    found = down_converted(batch(4, attributes=1), 2, 1, Conversion())
    assert isinstance(found, bytes)
    assert [one.offset for one in messages_in(found)] == [0, 1, 2, 3]


def test_formats_of_versions() -> None:
    assert [target_format(version) for version in range(6)] == [0, 0, 1, 1, None, None]


def test_the_overflow_is_the_beginning_of_a_longer_message() -> None:
    assert overflow(30) == b"\xff" * 8 + (61).to_bytes(4, "big") + bytes(18)
    assert overflow(100) == b"\xff" * 8 + (101).to_bytes(4, "big") + bytes(49)
    assert (overflow(5), overflow(0)) == (b"\xff" * 5, b"")


def test_batches_are_compressed_as_their_producer_did() -> None:
    found = read(wrapped([message(value=b"v" * 500)]))
    (stored,) = split_batches(found.records)
    assert stored.compression == 1
    assert b"v" * 500 in unpack(1, stored.records[61:], MOST)
