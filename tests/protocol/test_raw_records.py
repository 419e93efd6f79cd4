"""Records that are read one by one, compared with the batch decoder."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.raw_records import (
    RawRecord,
    UnknownRecord,
    decode_control_value,
    decode_metadata_value,
    read_record,
)
from klamm.protocol.record_batch import (
    HEADER_BYTES,
    decode_batch,
    encode_batch,
    encode_control_batch,
    find_sound_batch,
    is_sound_batch,
)
from klamm.protocol.records.control import LeaderChangeMessage, SnapshotFooterRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid

TOPIC = TopicRecord(name="t", topic_id=Uuid(bytes(range(16))))
VALUE = b"\x01\x02\x00" + b"\x02t" + bytes(range(16)) + b"\x00"

topics = st.lists(
    st.builds(TopicRecord, name=st.text("abc", max_size=200), topic_id=st.just(TOPIC.topic_id)), min_size=1
)


def raw_records(batch: bytes) -> list[RawRecord]:
    found, at = [], HEADER_BYTES
    while at < len(batch):
        record, at = read_record(batch, at, len(batch))
        found.append(record)
    return found


@given(topics)
def test_records_are_those_of_the_batch(records: Sequence[Message]) -> None:
    batch = encode_batch(7, 1, 0, records)
    found = raw_records(batch)
    assert [record.offset_delta for record in found] == list(range(len(records)))
    assert [decode_metadata_value(record.value)[0] for record in found] == decode_batch(batch, 0).records
    assert {record.key for record in found} == {b""}


@pytest.mark.parametrize("message", [LeaderChangeMessage(leader_id=3), SnapshotFooterRecord()])
def test_control_records_are_identified_by_their_keys(message: Message) -> None:
    (record,) = raw_records(encode_control_batch(0, 1, 0, [message]))
    assert decode_control_value(record.key, record.value) == message
    with pytest.raises(UnknownRecord) as raised:
        decode_control_value(b"\0\0\0\x63", b"")
    assert (raised.value.record_id, raised.value.version) == (99, 0)
    for key in (b"", b"\0\0\0", b"\0\0\0\2\0"):
        with pytest.raises(ProtocolError, match="control record key of"):
            decode_control_value(key, b"")
    with pytest.raises(ProtocolError, match="left over"):
        decode_control_value(record.key, record.value + b"\0")


@pytest.mark.parametrize(("value", "told"), [(b"\x01\xff\x01\x00", (255, 0)), (b"\x01\x02\x63", (2, 99))])
def test_an_unknown_record_is_distinguished_from_a_damaged_one(value: bytes, told: tuple[int, int]) -> None:
    with pytest.raises(UnknownRecord) as raised:
        decode_metadata_value(value)
    assert (raised.value.record_id, raised.value.version) == told


@given(st.integers(0, len(VALUE) - 1))
def test_an_incomplete_value_is_damaged(size: int) -> None:
    assert decode_metadata_value(VALUE) == (TOPIC, 0)
    with pytest.raises(ProtocolError) as raised:
        decode_metadata_value(VALUE[:size])
    assert not isinstance(raised.value, UnknownRecord)


@pytest.mark.parametrize(("value", "reason"), [(b"\x00" + VALUE[1:], "frame version 0"), (VALUE + b"\0", "left over")])
def test_a_damaged_value_has_a_reason(value: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_metadata_value(value)


def test_a_null_value_is_an_empty_one() -> None:
    assert read_record(b"\x0c\0\0\2\1\1\0", 0, 7) == (RawRecord(1, b"", b""), 7)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_a_protocol_error(data: bytes) -> None:
    try:
        _, end = read_record(data, 0, len(data))
    except ProtocolError:
        return
    assert 0 < end <= len(data)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_valid_batch_is_found_between_any_bytes(before: bytes, behind: bytes) -> None:
    batch = encode_batch(7, 1, 0, [TOPIC])
    assert find_sound_batch(before + batch + behind, 0) == len(before)
    assert find_sound_batch(before + batch + behind, len(before) + 1) is None
    assert find_sound_batch(before + batch[:-1], 0) is None
    assert is_sound_batch(batch)
    assert not is_sound_batch(batch + b"\0")
    assert not is_sound_batch(batch[:-1] + b"\1")
