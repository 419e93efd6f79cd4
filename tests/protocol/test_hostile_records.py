"""Records with lengths and numbers at and beyond boundaries, on every path that reads records.

They are read one by one (`read_record`), as a batch, and as columns if a batch has many. The results must be those of
the plain reader. Whole batches also refuse keys and headers in metadata records, and wrong offset deltas.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from klamm.protocol import Message, ProtocolError, Uuid, encode_message
from klamm.protocol.codec.column_records import record_ends
from klamm.protocol.codec.varints import encode_zigzag
from klamm.protocol.raw_records import RawRecord, decode_metadata_value, read_record
from klamm.protocol.record_batch import (
    _MIN_RECORDS_WITH_RUNS,
    HEADER_BYTES,
    CorruptBatch,
    check_batch,
    encode_batch,
    is_sound_batch,
)
from klamm.protocol.record_versions import load_record_type
from klamm.protocol.records.partitions import PARTITION, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from tests.protocol.plain_reader import PlainReader, Refused, spelled
from tests.protocol.test_column_records import batch_of, outcome, with_checksum

TOPIC = TopicRecord(name="t", topic_id=Uuid(bytes(range(16))))
VALUE = b"\x01\x02\x00" + encode_message(TOPIC, 0, True)


class Told(NamedTuple):
    """The declared parts of a record."""

    delta: int
    key: bytes | None
    value: bytes | None
    headers: int
    end: int


def read_plainly(raw: bytes, at: int, end: int) -> Told:
    """The record at `at`, which must end at `end` or before it."""
    reader = PlainReader(raw[:end], at)
    length = reader.zigzag(5)
    record_end = reader.at + length
    if length < 0 or record_end > end:
        raise Refused("longer than its batch")
    reader = PlainReader(raw[:record_end], reader.at)
    reader.take(1)
    reader.zigzag(10)
    delta = reader.zigzag(5)
    key, value = (None if (size := reader.zigzag(5)) < 0 else reader.take(size) for _ in ("key", "value"))
    return Told(delta, key, value, record_end - reader.at, record_end)


def signed(value: int, size: int = 0) -> bytes:
    """The signed varint of a value, in at least so many bytes."""
    return spelled(2 * value if value >= 0 else -2 * value - 1, size)


class Parts(NamedTuple):
    """The bytes of a record, part by part; the length in front of them is right unless it is given."""

    delta: bytes = b"\0"
    key: bytes = b"\1"
    value: bytes = signed(len(VALUE)) + VALUE
    timestamp: bytes = b"\0"
    attributes: bytes = b"\0"
    headers: bytes = b"\0"
    length: bytes | None = None

    def spell(self) -> bytes:
        content = self.attributes + self.timestamp + self.delta + self.key + self.value + self.headers
        return (signed(len(content)) if self.length is None else self.length) + content


def hostile() -> Iterator[Parts]:
    """A sound record, and others with one part at a boundary."""
    yield Parts()
    content = len(Parts().spell()) - 1
    for length in (content - 1, content, content + 1, 0, -1, -2, -content, 2**28, 2**31 - 1, 2**31, -(2**31)):
        yield from (Parts(length=signed(length, size)) for size in (0, 2, 5, 6))
    for size in (1, 2, 5, 6, 10, 11):
        yield Parts(delta=signed(0, size))
        yield Parts(timestamp=signed(0, size))
        yield Parts(key=signed(-1, size))
        yield Parts(value=signed(len(VALUE), size) + VALUE)
    for delta in (1, -1, 63, 64, 2**31 - 1, -(2**31), 2**31):
        yield Parts(delta=signed(delta))
    for timestamp in (1, -1, 2**31, 2**63 - 1, -(2**63)):
        yield Parts(timestamp=signed(timestamp))
    # A key of two bytes more than the value takes all that is left of the record.
    for size in (-2, 0, 1, 2, 3, *(len(VALUE) + more for more in range(6)), 2**31 - 1, -(2**31), -(2**34)):
        yield Parts(key=signed(size) + b"kk")
        yield Parts(key=signed(size))
    for size in (len(VALUE) - 1, len(VALUE) + 1, len(VALUE) + 2, 0, -1, -2, -content, 2**31 - 1, -(2**31), -(2**34)):
        yield Parts(value=signed(size) + VALUE)
        yield Parts(value=signed(size), headers=b"")
        yield Parts(value=signed(size))
    for headers in (b"", b"\1", b"\2", b"\0\0", b"\x80\0"):
        yield Parts(headers=headers)
    for value in (b"", VALUE[:-1], VALUE + b"\0", *values()):
        yield Parts(value=signed(len(value)) + value)


def values() -> Iterator[bytes]:
    """Values whose frame version, record id or record version is another one, or is padded."""
    for place in range(3):
        parts = [b"\x01", b"\x02", b"\x00"]
        right = parts[place][0]
        for number in (right, right + 1, 255, 127, 128, 2**31, 2**32 - 1, 2**32):
            for size in (0, 2, 5, 6):
                parts[place] = spelled(number, size)
                yield b"".join(parts) + VALUE[3:]
    yield b"\x02\x02\x00" + VALUE[3:]
    yield b"\x00\x02\x00" + VALUE[3:]


def metadata(value: bytes | None) -> Message:
    """The metadata record of a value, by the plain reader."""
    reader = PlainReader(value or b"")
    frame_version, record_id, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    record_type = load_record_type(record_id)
    if frame_version != 1 or record_type is None or version not in record_type.versions:
        raise Refused("no record that is known")
    message = reader.message(record_type.message, version, record_type.flexible(version))
    if reader.at != len(reader.raw):
        raise Refused("bytes left over")
    return message


def or_none(raw: bytes, at: int, end: int) -> Told | None:
    try:
        return read_plainly(raw, at, end)
    except Refused:
        return None


def test_a_record_is_accepted_if_and_only_if_all_its_parts_are_inside() -> None:
    """Also with other records behind it, from which a length that is too long would take bytes."""
    taken = refused = 0
    for parts in hostile():
        record = parts.spell()
        for behind in (b"", b"\1" * 3, bytes(200)):
            raw = b"??" + record + behind
            for end in (len(raw), 2 + len(record)):
                reported = or_none(raw, 2, end)
                try:
                    found = read_record(raw, 2, end)
                except ProtocolError:
                    assert reported is None, (parts, behind)
                    refused += 1
                else:
                    assert reported is not None, (parts, behind)
                    assert found == (
                        RawRecord(reported.delta, reported.key or b"", reported.value or b""),
                        reported.end,
                    )
                    taken += 1
    assert min(taken, refused) > 100


def test_a_value_is_accepted_if_and_only_if_the_plain_reader_accepts_it() -> None:
    for value in (VALUE, VALUE[:-1], VALUE + b"\0", b"", *values()):
        try:
            wanted = metadata(value)
        except Refused:
            with pytest.raises(ProtocolError):
                decode_metadata_value(value)
        else:
            assert decode_metadata_value(value)[0] == wanted


def batch_plainly(records: bytes, count: int) -> list[Message] | None:
    """The metadata records of a batch of so many records; None if it is refused."""
    at, found = 0, list[Message]()
    try:
        while at < len(records):
            reported = read_plainly(records, at, len(records))
            if reported.delta != len(found) or reported.headers != 1 or records[reported.end - 1] != 0:
                raise Refused("not where it says, or with headers")
            found.append(metadata(reported.value))
            at = reported.end
    except Refused:
        return None
    return found if len(found) == count else None


@pytest.mark.parametrize("behind", [b"", bytes(200), b"\1" * 200], ids=["nothing", "zeros", "ones"])
def test_a_batch_does_not_read_beyond_its_end(behind: bytes) -> None:
    """A record that is too long for its batch may be complete together with the bytes of the next batch."""
    for parts in hostile():
        batch = batch_of([parts.spell()])
        alone, followed = outcome(batch), outcome(batch + behind)
        assert isinstance(followed, str) if isinstance(alone, str) else followed == alone, parts


@pytest.mark.parametrize("records", [1, 2, 40])
def test_a_record_beyond_the_end_of_its_batch_is_refused(records: int) -> None:
    """The batch is cut short, and the rest of its last record follows after it."""
    raw = batch_of([Parts(delta=signed(index)).spell() for index in range(records)])
    for missing in range(1, len(Parts().spell())):
        size = len(raw) - missing
        cut = with_checksum(raw[:8] + (size - 12).to_bytes(4, "big") + raw[12:size])
        assert isinstance(outcome(cut), str)
        assert isinstance(outcome(cut + raw[size:]), str)


@pytest.mark.parametrize("more_records", [-1, 0, 1])
@pytest.mark.parametrize("more_offsets", [-1, 0, 1])
@pytest.mark.parametrize("records", [1, 2, 40])
def test_a_batch_has_its_stated_number_of_records_and_offsets(
    records: int, more_records: int, more_offsets: int
) -> None:
    raw = batch_of([Parts(delta=signed(index)).spell() for index in range(records)])
    last_delta, count = records - 1 + more_offsets, records + more_records
    raw = raw[:23] + last_delta.to_bytes(4, "big", signed=True) + raw[27:57] + count.to_bytes(4, "big") + raw[61:]
    found = outcome(with_checksum(raw))
    assert found == [TOPIC] * records if more_records == more_offsets == 0 else isinstance(found, str)


@pytest.mark.parametrize("size", [HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
def test_the_shortest_batch_is_a_header_alone(size: int) -> None:
    """A batch without records has an end offset, and is not damaged."""
    raw = encode_batch(0, 1, 99, [TOPIC])
    raw = with_checksum(raw[:8] + (size - 12).to_bytes(4, "big") + raw[12:size])
    if size < HEADER_BYTES:
        with pytest.raises(CorruptBatch, match=f"batch of {size} bytes|{size} bytes are no batch"):
            check_batch(raw + bytes(9), 0)
    else:
        assert check_batch(raw, 0) == size
        assert is_sound_batch(raw)


@pytest.mark.parametrize(("size", "torn"), [(2**30 - 1, True), (2**30, True), (2**30 + 1, False), (2**31 + 11, False)])
def test_an_incomplete_batch_is_torn_unless_its_size_is_impossible(size: int, torn: bool) -> None:
    raw = encode_batch(0, 1, 99, [TOPIC])
    with pytest.raises(CorruptBatch, match=f"batch of {size} bytes") as caught:
        check_batch(raw[:8] + (size - 12).to_bytes(4, "big") + raw[12:], 0)
    assert caught.value.torn == torn


@pytest.mark.parametrize("length", [-1, -(2**31)])
def test_a_record_of_negative_length_is_reported(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"record of {length} bytes"):
        read_record(Parts(length=signed(length)).spell(), 0, 60)


def test_record_ends_accepts_padded_lengths() -> None:
    """They break off at a length that is impossible, or is none."""
    for size in (0, 1, 63, 64, 8191, 8192, 1 << 20):
        for padding in (0, 1, 2, 3, 4, 5):
            raw = (signed(size, padding) + bytes(size)) * 2
            assert list(record_ends(raw, 0, len(raw))) == [len(raw) // 2, len(raw)]
        for bad in (signed(size, 6), signed(-1 - size), b"\xff\xff"):
            raw = signed(size) + bytes(size)
            assert list(record_ends(raw + bad, 0, len(raw + bad))) == [len(raw)]


@pytest.mark.parametrize("before", [0, 70])
def test_a_batch_is_accepted_if_and_only_if_all_its_records_are(before: int) -> None:
    """The hostile record is the last one or in the middle; beyond 63 the offset delta takes two bytes."""
    sound = [Parts(delta=signed(index)).spell() for index in range(before + 2)]
    taken = refused = 0
    for parts in hostile():
        placed = parts._replace(delta=signed(before)) if parts.delta == b"\0" else parts
        for behind in (0, 1):
            records = [*sound[:before], placed.spell(), *sound[before + 1 :][:behind]]
            wanted = batch_plainly(b"".join(records), len(records))
            found = outcome(batch_of(records))
            assert isinstance(found, str) if wanted is None else found == wanted, parts
            taken, refused = taken + (wanted is not None), refused + (wanted is None)
    assert min(taken, refused) > 20


def partition(index: int) -> bytes:
    """A partition record as a value, of the shape that all of them have."""
    message = PartitionRecord(partition_id=index, replicas=(1, 2, 3), isr=(1, 2), leader=index)
    return bytes((1, PARTITION.id, 2)) + encode_message(message, 2, True)


@pytest.mark.parametrize("place", [0, 63, 64, 79])
def test_columns_accept_a_hostile_record_if_and_only_if_the_single_path_does(place: int) -> None:
    """Eighty records of one shape are columns; the part at the given place is encoded differently."""
    assert _MIN_RECORDS_WITH_RUNS < 80
    sound = [Parts(delta=signed(n), value=encode_zigzag(len(partition(n))) + partition(n)) for n in range(80)]
    own = sound[place]
    taken = 0
    for parts in hostile():
        changed = [name for name in Parts._fields if getattr(parts, name) != getattr(Parts(), name)]
        changes = {name: getattr(parts, name) for name in changed}
        if "value" in changes:
            changes["value"] = parts.value.replace(VALUE, partition(place)).replace(VALUE[3:], partition(place)[3:])
        records = [part.spell() for part in [*sound[:place], own._replace(**changes), *sound[place + 1 :]]]
        wanted = batch_plainly(b"".join(records), len(records))
        found = outcome(batch_of(records))
        assert isinstance(found, str) if wanted is None else found == wanted, parts
        taken += wanted is not None
    assert taken > 10
