"""Batches with any timestamps, stored in any codec: what is stored says what was produced, or nothing is stored."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from klamm.broker.data.codecs import pack
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch, decode_header, read_produced
from klamm.broker.data.records import look_inside
from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import LOG_APPEND_TIME, NOW_MS, TRANSACTIONAL, batch, record
from tests.broker.data.judging import judge
from tests.broker.data.rooms import room


@given(
    base_ms=st.sampled_from([0, NOW_MS, -(2**63), 2**63 - 1, -1]),
    deltas=st.lists(st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]), min_size=1, max_size=4),
    times=st.sampled_from([1, 20]),
    codec=st.integers(0, 4),
    attributes=st.sampled_from([0, LOG_APPEND_TIME, 0x7F80 | TRANSACTIONAL]),
    compression=st.sampled_from([None, 0, 1, 2, 3, 4]),
    log_append_time=st.booleans(),
    largest=st.sampled_from([0, 2**63 - 1]),
)
@example(-(2**63), [-1], 1, 0, 0, None, False, 2**63 - 1)
@example(-(2**63), [-1], 20, 4, 0, 1, False, 2**63 - 1)
@example(2**63 - 1, [1], 1, 1, LOG_APPEND_TIME, 4, False, 2**63 - 1)
@example(2**63 - 1, [0, 2**62], 1, 0, 0, 4, True, 0)
@example(NOW_MS, [1, 0], 1, 0, LOG_APPEND_TIME, 4, False, 2**63 - 1)
@example(NOW_MS, [0, 1], 1, 0, LOG_APPEND_TIME, 4, False, 2**63 - 1)
@example(NOW_MS, [1, 0], 20, 0, 0, 4, False, 2**63 - 1)
def test_any_timestamps_are_stored_or_refused_in_every_codec(
    base_ms: int,
    deltas: list[int],
    times: int,
    codec: int,
    attributes: int,
    compression: int | None,
    log_append_time: bool,
    largest: int,
) -> None:
    rows = [record(place, timestamp_delta=delta) for place, delta in enumerate(deltas * times)]
    payload = pack(codec, b"".join(rows))
    found = read_sound(batch(rows, timestamp_ms=base_ms, attributes=attributes | codec, payload=payload))
    rules: dict[str, Any] = {"timestamp_before_max_ms": largest, "timestamp_after_max_ms": largest}
    judged = judge(found, compression=compression, log_append_time=log_append_time, **rules)
    if isinstance(judged, RefusedBatch):
        assert judged.code == ErrorCode.INVALID_TIMESTAMP
        return
    log = PartitionLog(room())
    log.append(judged, 3, NOW_MS, log_append_time=log_append_time)
    stored = decode_header(log.read(0, 0, log.log_end_offset) or b"")
    heads = look_inside(stored)
    assert heads is not None
    assert [head.offset_delta for head in heads] == list(range(len(rows)))
    assert stored.compression == (codec if compression is None else compression)
    assert stored.has_log_append_time == log_append_time
    is_written_again = compression not in (None, codec)
    if is_written_again or log_append_time or not attributes & LOG_APPEND_TIME:  # as in Kafka, the header alone changes
        assert stored.max_timestamp_ms == max(-1, *(head.timestamp_ms for head in heads))
    if is_written_again and not log_append_time:
        assert stored.base_timestamp_ms == heads[0].timestamp_ms
    if is_written_again and not log_append_time and attributes & LOG_APPEND_TIME:
        assert {head.timestamp_ms for head in heads} == {base_ms}
    if not log_append_time and not attributes & LOG_APPEND_TIME:
        expected = [(base_ms + delta + 2**63) % 2**64 - 2**63 for delta in deltas * times]
        assert [head.timestamp_ms for head in heads] == expected


def read_sound(data: bytes) -> ProducedBatch:
    found = read_produced(data, api_version=11, max_message_bytes=1 << 20)
    assert isinstance(found, ProducedBatch)
    return found
