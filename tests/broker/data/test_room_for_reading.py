"""What reading the batches of one request may take, and the sizes that a batch may have once it was read."""

from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.data.codecs import GZIP, pack
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch, decode_header, read_produced, stamp
from klamm.broker.data.records import NoRoom, Room
from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import NOW_MS, batch, record
from tests.broker.data.judging import HOUR_MS, judge

ENOUGH = 1 << 30


def sound(data: bytes) -> ProducedBatch:
    found = read_produced(data, api_version=11, max_message_bytes=1 << 20)
    assert isinstance(found, ProducedBatch)
    return found


def late(count: int) -> ProducedBatch:
    return sound(batch(count, timestamp_ms=NOW_MS + 2 * HOUR_MS))


def test_the_batches_of_a_request_share_the_room_for_records() -> None:
    room = Room(ENOUGH, 250, ENOUGH)
    for _ in range(2):
        assert isinstance(judge(sound(batch(100)), room=room), ProducedBatch)
    with pytest.raises(NoRoom):
        judge(sound(batch(51)), room=room)
    assert isinstance(judge(sound(batch(50)), room=room), ProducedBatch)


def test_records_that_are_read_one_by_one_have_a_room_of_their_own() -> None:
    room = Room(ENOUGH, ENOUGH, 25)
    assert isinstance(judge(sound(batch(100)), room=room), ProducedBatch)
    for _ in range(2):
        assert isinstance(judge(late(10), room=room), RefusedBatch)
    with pytest.raises(NoRoom):
        judge(late(6), room=room)
    assert isinstance(judge(late(5), room=room), RefusedBatch)


def test_payloads_share_the_room_for_uncompressed_bytes() -> None:
    payload = record(value=bytes(1000))
    packed = sound(batch(1, attributes=GZIP, payload=pack(GZIP, payload)))
    room = Room(2 * len(payload), ENOUGH, ENOUGH)
    for _ in range(2):
        assert isinstance(judge(packed, room=room), ProducedBatch)
    with pytest.raises(NoRoom):
        judge(packed, room=room)


def test_a_payload_that_is_too_large_takes_room_as_well() -> None:
    """Otherwise a request could have any number of them uncompressed."""
    large, small = (
        sound(batch(1, attributes=GZIP, payload=pack(GZIP, record(value=bytes(size))))) for size in (9_000, 10)
    )
    room = Room(8_000, ENOUGH, ENOUGH)
    for refused in (large, small):
        with pytest.raises(NoRoom):
            judge(refused, room=room)


def test_a_count_that_no_payload_can_hold_takes_no_room() -> None:
    counted: dict[str, Any] = {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}
    refused = judge(sound(batch(2, **counted)), room=Room(ENOUGH, 10, 10))
    assert isinstance(refused, RefusedBatch)
    assert refused.code == ErrorCode.INVALID_RECORD


def test_the_invalid_records_that_are_named_are_limited() -> None:
    room = Room.at_most()
    room.record_errors = 12
    first, second = (judge(late(10), room=room) for _ in range(2))
    assert isinstance(first, RefusedBatch)
    assert isinstance(second, RefusedBatch)
    assert [len(one.record_errors) for one in (first, second)] == [10, 2]
    keyless = judge(sound(batch([record(key=None)])), room=room, is_compacted=True)
    assert isinstance(keyless, RefusedBatch)
    assert (keyless.code, keyless.record_errors) == (ErrorCode.INVALID_RECORD, ())
    assert keyless.message is not None
    assert "1 record errors" in keyless.message


def test_room_at_once_is_less_than_all_there_is() -> None:
    once, most = Room.at_once(), Room.at_most()
    assert once.unpacked_bytes < most.unpacked_bytes
    assert once.records < most.records
    assert once.exact_records < most.exact_records


@pytest.mark.parametrize(("more", "code"), [(0, None), (-1, ErrorCode.RECORD_LIST_TOO_LARGE)])
def test_a_batch_is_as_large_as_a_segment_at_most(more: int, code: ErrorCode | None) -> None:
    found = sound(batch(3))
    judged = judge(found, segment_bytes=len(found.records) + more)
    assert (judged.code if isinstance(judged, RefusedBatch) else None) == code
    assert not isinstance(judged, RefusedBatch) or (judged.by_log, judged.kafka_message) == (False, None)


@pytest.mark.parametrize(("more", "code"), [(0, None), (-1, ErrorCode.MESSAGE_TOO_LARGE)])
def test_a_batch_that_was_compressed_anew_is_as_large_as_a_message_at_most(more: int, code: ErrorCode | None) -> None:
    packed = sound(batch([record(value=bytes(500))], attributes=GZIP))
    unpacked = judge(packed, compression=0)
    assert isinstance(unpacked, ProducedBatch)
    judged = judge(packed, compression=0, max_message_bytes=len(unpacked.records) + more)
    assert (judged.code if isinstance(judged, RefusedBatch) else None) == code


def test_a_rewritten_batch_keeps_what_its_producer_says_of_itself() -> None:
    numbers: dict[str, Any] = {"producer_id": 5, "producer_epoch": 6, "base_sequence": 7}
    found = sound(batch(3, attributes=16, **numbers))
    judged = judge(found, compression=4, compression_level=3)
    assert isinstance(judged, ProducedBatch)
    assert judged == replace(found, records=judged.records, attributes=16 | 4)


def test_a_header_that_is_corrected_loses_the_attributes_that_nobody_knows() -> None:
    unknown, known = 0x7F80, 0x40
    for max_timestamp_ms, kept in ((NOW_MS, unknown | known), (NOW_MS - 5, known)):
        judged = judge(sound(batch(1, attributes=unknown | known, max_timestamp_ms=max_timestamp_ms)))
        assert isinstance(judged, ProducedBatch)
        stored = decode_header(stamp(judged, 0, 0, None))
        assert (stored.attributes, stored.max_timestamp_ms) == (kept, NOW_MS)
