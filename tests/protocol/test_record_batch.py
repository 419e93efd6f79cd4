"""Batches of the metadata log: recorded from a real controller, after a round trip, incomplete, and damaged."""

from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import Message, ProtocolError, Uuid
from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.fields import wire_fields
from klamm.protocol.record_batch import (
    HEADER_BYTES,
    BatchBuilder,
    CorruptBatch,
    check_batch,
    decode_batch,
    decode_batches,
    encode_batch,
    encode_control_batch,
)
from klamm.protocol.record_versions import (
    LATEST_METADATA_VERSION,
    load_control_type,
    load_record_type,
    metadata_record_version,
)
from klamm.protocol.records.brokers import BROKER_REGISTRATION_CHANGE, REGISTER_BROKER, BrokerRegistrationChangeRecord
from klamm.protocol.records.cluster import NoOpRecord
from klamm.protocol.records.control import LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord, Voter
from klamm.protocol.records.index import CONTROL, METADATA
from klamm.protocol.records.partitions import PARTITION, PARTITION_CHANGE, PartitionRecord
from klamm.protocol.records.topics import TOPIC, TopicRecord
from tests.protocol.strategies import messages
from tests.protocol.test_golden_vectors import vectors

LATEST = 30
TOPIC_RECORD = TopicRecord(name="foo", topic_id=Uuid(b"0123456789abcdef"))


def record_strategy() -> st.SearchStrategy[Message]:
    kinds = [kind for kind in map(load_record_type, METADATA) if kind is not None]
    return st.sampled_from(kinds).flatmap(
        lambda kind: messages(kind.message, metadata_record_version(kind, LATEST), flexible=True)
    )


def test_batches_of_a_real_controller_match() -> None:
    count = 0
    for vector in vectors("metadata-log.jsonl.gz"):
        raw, reported = bytes.fromhex(vector["hex"]), vector["batch"]
        (batch,) = decode_batches(raw)
        assert batch.base_offset == reported["baseOffset"]
        assert batch.last_offset == reported["baseOffset"] + reported["lastOffsetDelta"]
        assert (batch.leader_epoch, batch.timestamp_ms) == (reported["epoch"], reported["baseTs"])
        assert (batch.is_control, batch.size_bytes) == (reported["control"], len(raw))
        for record, expected in zip(batch.records, reported["records"], strict=True):
            assert type(record).__name__ in (expected.get("type"), f"{expected.get('control')}Message")
            shown = message_to_json(record, expected["version"])
            told_fields = {name[0].lower() + name[1:]: value for name, value in expected["data"].items()}
            assert set(shown) <= set(told_fields)
            for name, value in told_fields.items():
                if name in shown and isinstance(value, (int, str)):
                    assert shown[name] == value
        encode = encode_control_batch if batch.is_control else encode_batch
        assert encode(batch.base_offset, batch.leader_epoch, batch.timestamp_ms, batch.records) == raw
        count += 1
    assert count == 15


@given(
    records=st.lists(record_strategy(), min_size=1, max_size=4),
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(0, 2**31 - 1),
    timestamp_ms=st.integers(0, 2**62),
)
def test_records_are_equal_after_a_round_trip_through_a_batch(
    records: list[Message], base_offset: int, leader_epoch: int, timestamp_ms: int
) -> None:
    raw = encode_batch(base_offset, leader_epoch, timestamp_ms, records)
    (batch,) = decode_batches(raw)
    assert batch.records == records
    assert batch.base_offset == base_offset
    assert batch.last_offset == base_offset + len(records) - 1
    assert (batch.leader_epoch, batch.timestamp_ms, batch.is_control) == (leader_epoch, timestamp_ms, False)


def test_control_records_are_equal_after_a_round_trip_through_a_batch() -> None:
    records = [
        LeaderChangeMessage(leader_id=3000, voters=(Voter(voter_id=3000),), granting_voters=(Voter(voter_id=3000),)),
        SnapshotHeaderRecord(last_contained_log_timestamp=5),
        SnapshotFooterRecord(),
    ]
    (batch,) = decode_batches(encode_control_batch(0, 1, 99, records))
    assert batch.records == records
    assert batch.is_control


def test_offset_deltas_grow_beyond_one_byte() -> None:
    records = [NoOpRecord()] * 9000
    (batch,) = decode_batches(encode_batch(0, 1, 99, records))
    assert len(batch.records) == 9000


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch(0, 1, 99, [])


def test_a_batch_built_in_steps_is_the_same_batch() -> None:
    records = [TOPIC_RECORD, NoOpRecord(), PartitionRecord(replicas=(1,), isr=(1,), leader=1), NoOpRecord()]
    pieces = BatchBuilder(LATEST_METADATA_VERSION)
    for begin in range(0, len(records), 3):
        pieces.add(records[begin : begin + 3])
    assert pieces.finish(7, 3, 99) == encode_batch(7, 3, 99, records)
    with pytest.raises(ValueError, match="at least one record"):
        BatchBuilder(LATEST_METADATA_VERSION).finish(0, 1, 99)


def two_batches() -> tuple[bytes, int]:
    first = encode_batch(0, 1, 99, [TOPIC_RECORD, PartitionRecord(replicas=(1,), isr=(1,), leader=1)])
    return first + encode_batch(2, 1, 100, [TOPIC_RECORD]), len(first)


def test_every_torn_tail_is_recognized_and_earlier_batches_are_read() -> None:
    raw, first_size = two_batches()
    for size in range(len(raw)):
        batches = decode_batches(raw[:size])
        read = 0
        if size >= first_size:
            assert next(batches).base_offset == 0
            read = first_size
        if size == first_size:
            assert next(batches, None) is None
            continue
        if size == 0:
            assert next(batches, None) is None
            continue
        with pytest.raises(CorruptBatch) as caught:
            next(batches)
        assert caught.value.torn
        assert caught.value.position == read


def test_every_flipped_byte_is_detected_with_its_position() -> None:
    """Not noticed: the base offset and the leader epoch, which the checksum does not cover (Kafka's format)."""
    raw, first_size = two_batches()
    for at in range(first_size, len(raw)):
        if at - first_size < 8 or 12 <= at - first_size < 16:
            continue
        damaged = raw[:at] + bytes((raw[at] ^ 0x40,)) + raw[at + 1 :]
        batches = decode_batches(damaged)
        next(batches)
        with pytest.raises(CorruptBatch) as caught:
            next(batches)
        assert caught.value.position == first_size
        # A length that grew, within reason, looks like a batch cut short.
        assert caught.value.torn == (9 <= at - first_size < 12 and damaged[at] > raw[at])


def test_a_tail_of_zeros_counts_as_torn() -> None:
    raw, _ = two_batches()
    with pytest.raises(CorruptBatch) as caught:
        list(decode_batches(raw + bytes(4096)))
    assert caught.value.torn
    assert caught.value.position == len(raw)


def with_checksum(batch: bytes) -> bytes:
    checksum: int = google_crc32c.value(batch[21:])
    return batch[:17] + checksum.to_bytes(4, "big") + batch[21:]


def test_contents_that_no_checksum_protects_are_checked() -> None:
    """A batch whose checksum is right may still hold what is no record; that is corrupt, never another exception."""
    raw = encode_batch(0, 1, 99, [TOPIC_RECORD, NoOpRecord()])
    for at in range(HEADER_BYTES - 40, len(raw)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            damaged = with_checksum(raw[:at] + bytes((value,)) + raw[at + 1 :])
            try:
                decode_batch(damaged, 0)
            except CorruptBatch as error:
                assert not error.torn  # noqa: PT017 - a damaged byte may also be a value
    for attributes in (1, 2, 3, 4):  # compressed
        with pytest.raises(CorruptBatch, match="compressed"):
            decode_batch(with_checksum(raw[:22] + bytes((attributes,)) + raw[23:]), 0)


def test_checking_alone_finds_the_end() -> None:
    raw, first_size = two_batches()
    assert check_batch(raw, 0) == first_size
    assert check_batch(raw, first_size) == len(raw)


def test_record_versions_follow_the_metadata_version() -> None:
    table = {
        REGISTER_BROKER.name: {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4},
        PARTITION.name: {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2},
        PARTITION_CHANGE.name: {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2},
        TOPIC.name: {7: 0, 30: 0},
    }
    for record_type in filter(None, map(load_record_type, METADATA)):
        for metadata_version, version in table.get(record_type.name, {}).items():
            assert metadata_record_version(record_type, metadata_version) == version
        assert metadata_record_version(record_type, LATEST) == record_type.versions[-1]


@pytest.mark.parametrize(
    ("values", "metadata_version", "version"),
    [
        ({"fenced": -1}, 30, 0),
        ({"fenced": 1, "in_controlled_shutdown": 1}, 30, 1),
        ({"log_dirs": (Uuid(16),)}, 30, 2),
        ({"cordoned_log_dirs": ()}, 30, 3),
        ({"fenced": -1}, 7, 0),
        ({"in_controlled_shutdown": 1}, 7, 1),
    ],
)
def test_a_registration_change_is_written_in_the_oldest_version_that_carries_it(
    values: dict[str, Any], metadata_version: int, version: int
) -> None:
    change = BrokerRegistrationChangeRecord(**values)
    raw = encode_batch(0, 1, 99, [change], metadata_version)
    assert bytes((1, BROKER_REGISTRATION_CHANGE.id, version)) in raw
    assert next(decode_batches(raw)).records == [change]


def test_a_record_that_no_allowed_version_carries_raises() -> None:
    for record, metadata_version in (
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=()), 29),
        (PartitionRecord(directories=(Uuid(16),)), 16),
    ):
        with pytest.raises(ProtocolError):
            encode_batch(0, 1, 99, [record], metadata_version)


def test_every_record_type_is_found_by_its_id() -> None:
    for load, table in ((load_record_type, METADATA), (load_control_type, CONTROL)):
        for record_id in table:
            found = load(record_id)
            assert found is not None
            assert found.id == record_id
        assert load(99) is None
    assert wire_fields(NoOpRecord) == ()


@pytest.mark.parametrize(
    ("records", "said"),
    [([TOPIC_RECORD], "control record key of 0 bytes"), ([TOPIC_RECORD] * 40, "control record key of 0 bytes")],
    ids=["one record", "as many as a run"],
)
def test_a_control_batch_without_control_records_is_corrupt(records: list[Message], said: str) -> None:
    """Its checksum is right: only the attribute and the records do not belong together."""
    raw = bytearray(encode_batch(0, 1, 99, records))
    raw[21:23] = (0x20).to_bytes(2, "big")
    raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match=said):
        decode_batch(bytes(raw), 0)
