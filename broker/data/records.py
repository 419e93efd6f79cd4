"""The records inside a produced batch: which of them a topic refuses, and the batch that it accepts.

The rules and their order are those of Kafka's LogValidator and UnifiedLog.append. A batch is walked over as long as its
records are as they should be, and read one by one, as Kafka reads them, where something is wrong. The work is bounded
by a `Room`: what has no room at once is done in a thread (`klamm.controller.reading`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from klamm.broker.data.codecs import CODEC_NAMES, UNCOMPRESSED, DamagedPayload, PayloadTooLarge, unpack
from klamm.broker.data.exact_records import RecordHead, UnreadableRecord, read_heads
from klamm.broker.data.recompression import recompressed
from klamm.broker.data.record_batches import HEADER_BYTES, NO_TIMESTAMP, ProducedBatch, RefusedBatch
from klamm.broker.data.record_walk import Walk, deltas_of, walk
from klamm.controller.configs import RecordRules
from klamm.protocol.errors import ErrorCode

MAX_UNPACKED_BYTES: Final = 4 * 1024 * 1024
MAX_RECORDS: Final = 20_000
"""Larger batches are not searched for a timestamp, so that one batch blocks the event loop for about 10 ms at most."""
MOST_UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""What one batch may have uncompressed."""
MOST_RECORD_ERRORS: Final = 10_000
"""The invalid records that a response names."""
_SHOWN_RECORD_ERRORS: Final = 3  # in Kafka's text
_LARGEST_LONG: Final = 1 << 63
_SMALLEST_RECORD: Final = 7  # its length, attributes, two deltas, two sizes, the number of headers


class NoRoom(Exception):
    """Reading the records would take more than the room allows. Nothing is known of them."""


class Room:
    """What reading the batches of one request may take: bytes that are uncompressed, records that are walked over,
    records that are read one by one, which takes ten times as long, and errors of single records."""

    __slots__ = ("exact_records", "record_errors", "records", "unpacked_bytes")

    def __init__(self, unpacked_bytes: int, records: int, exact_records: int) -> None:
        self.unpacked_bytes = unpacked_bytes
        self.records = records
        self.exact_records = exact_records
        self.record_errors = MOST_RECORD_ERRORS

    @classmethod
    def at_once(cls) -> "Room":
        """What may be read on the event loop: for about 5 ms."""
        return cls(2 * 1024 * 1024, 30_000, 2_000)

    @classmethod
    def at_most(cls) -> "Room":
        """What may be read at all."""
        return cls(128 * 1024 * 1024, 4_000_000, 2_000_000)

    def unpack(self, batch: ProducedBatch) -> bytes:
        """The payload of a compressed batch. Raises NoRoom, or DamagedPayload."""
        return self.unpacked(batch.compression, batch.records[HEADER_BYTES:])

    def unpacked(self, codec: int, packed: bytes) -> bytes:
        """The uncompressed bytes. Raises NoRoom, or DamagedPayload."""
        most_bytes = min(self.unpacked_bytes, MOST_UNPACKED_BYTES)
        try:
            payload = unpack(codec, packed, most_bytes)
        except PayloadTooLarge as error:
            self.unpacked_bytes -= most_bytes  # the work was done all the same
            raise NoRoom from error
        self.unpacked_bytes -= len(payload)
        return payload

    def take_records(self, number: int) -> None:
        """Raises NoRoom if there is no room for so many records."""
        if number > self.records:
            raise NoRoom
        self.records -= number

    def take_exact_records(self, number: int) -> None:
        """Raises NoRoom if so many records cannot be read one by one."""
        if number > self.exact_records:
            raise NoRoom
        self.exact_records -= number


def validate_records(
    batch: ProducedBatch, rules: RecordRules, *, partition_name: str, now_ms: int, room: Room
) -> ProducedBatch | RefusedBatch:
    """The batch as the topic's leader writes it, or why the topic refuses a batch whose header is right.

    It has the latest timestamp of its records, whatever its producer wrote, and the topic's compression. Raises NoRoom.
    """
    try:
        reading = _Reading(batch, rules, room)
        accepted = reading.accepted(partition_name, now_ms)
    except DamagedPayload:
        reason = f"The {CODEC_NAMES[batch.compression]} payload cannot be uncompressed."
        return RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, reason, by_log=True)
    except UnreadableRecord as error:
        return RefusedBatch(error.code, f"The batch does not hold {batch.record_count} records.", by_log=True)
    if isinstance(accepted, RefusedBatch):
        return accepted
    size = len(accepted.records)
    if accepted.compression != batch.compression and size > rules.max_message_bytes:
        reason = f"Compressed as its topic wants it, the batch has {size} bytes, more than max.message.bytes."
        return RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, reason)
    if size > rules.segment_bytes:
        return RefusedBatch(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes are more than segment.bytes.")
    return accepted


class TimedRecord(NamedTuple):
    """The offset of a record, relative to its batch, and its timestamp."""

    offset_delta: int
    timestamp_ms: int


def times_inside(batch: ProducedBatch) -> Sequence[TimedRecord | RecordHead] | None:
    """The times of all records of a stored batch, in order; None if they cannot be read, or that would take long."""
    if batch.record_count > MAX_RECORDS:
        return None
    try:
        payload = unpack(batch.compression, batch.records[HEADER_BYTES:], MAX_UNPACKED_BYTES)
    except (DamagedPayload, PayloadTooLarge):
        return None
    deltas = None if batch.has_log_append_time else deltas_of(payload, batch.record_count)
    if deltas is None:
        return look_inside(batch)
    base_ms = batch.base_timestamp_ms
    return [TimedRecord(offset_delta, base_ms + delta_ms) for offset_delta, delta_ms in deltas]


def look_inside(batch: ProducedBatch) -> list[RecordHead] | None:
    """The heads of all records of a stored batch, in order; None if they cannot be read, or that would take long."""
    if batch.record_count > MAX_RECORDS:
        return None
    is_compressed = batch.compression != UNCOMPRESSED
    try:
        payload = unpack(batch.compression, batch.records[HEADER_BYTES:], MAX_UNPACKED_BYTES)
        heads = list(
            read_heads(
                payload, 0, batch.record_count, batch.base_timestamp_ms, skims=False, is_compressed=is_compressed
            )
        )
    except (DamagedPayload, PayloadTooLarge, UnreadableRecord):
        return None
    if batch.has_log_append_time:
        return [head._replace(timestamp_ms=batch.max_timestamp_ms) for head in heads]
    return heads


class _Reading:
    """One batch while its records are read."""

    def __init__(self, batch: ProducedBatch, rules: RecordRules, room: Room) -> None:
        self._batch, self._rules, self._room = batch, rules, room
        self._is_compressed = batch.compression != UNCOMPRESSED
        self._is_rewritten = rules.compression not in (None, batch.compression)
        if self._is_compressed:
            self._payload, self._at = room.unpack(batch), 0
        else:
            self._payload, self._at = batch.records, HEADER_BYTES

    def accepted(self, partition_name: str, now_ms: int) -> ProducedBatch | RefusedBatch:
        batch, rules = self._batch, self._rules
        number = min(batch.record_count, (len(self._payload) - self._at) // _SMALLEST_RECORD + 1)
        self._room.take_records(number)
        found = walk(self._payload, self._at, batch.record_count)
        if found is None or not self._is_fine(found, now_ms):
            self._room.take_exact_records(number)
            refused = self._refused(partition_name, now_ms)
            if refused:
                return refused
            found = None  # single records know better, for example if a timestamp has overflowed
        latest_ms = self._latest_ms(found)
        if self._is_rewritten:
            assert rules.compression is not None, "a batch is rewritten in the topic's codec"
            payload = self._payload[self._at :] if found is not None and _is_reusable(found) else None
            heads = None if payload is not None else self._heads()
            level = rules.compression_level
            return recompressed(batch, payload, self._payload, heads, latest_ms, rules.compression, level)
        return batch if latest_ms == batch.max_timestamp_ms else replace(batch, max_timestamp_ms=latest_ms)

    def _is_fine(self, found: Walk, now_ms: int) -> bool:
        """Whether no record needs a closer look."""
        batch, rules = self._batch, self._rules
        if batch.has_log_append_time or (rules.is_compacted and not found.all_have_keys):
            return False
        if self._is_compressed and not self._is_rewritten and not found.are_in_order:
            return False
        earliest_ms = batch.base_timestamp_ms + found.earliest_delta
        latest_ms = batch.base_timestamp_ms + found.latest_delta
        if not -_LARGEST_LONG <= earliest_ms <= latest_ms < _LARGEST_LONG:
            return False
        if rules.log_append_time:
            return True
        return _is_in_range(earliest_ms, now_ms, rules) and _is_in_range(latest_ms, now_ms, rules)

    def _latest_ms(self, found: Walk | None) -> int:
        """The latest timestamp of the records, after they were found to be valid."""
        if self._batch.has_log_append_time or self._rules.log_append_time:
            return self._batch.max_timestamp_ms
        if found is not None:
            return max(self._batch.base_timestamp_ms + found.latest_delta, NO_TIMESTAMP)
        return max([NO_TIMESTAMP, *{head.timestamp_ms for head in self._heads()}])

    def _heads(self) -> Iterator[RecordHead]:
        batch = self._batch
        heads = read_heads(
            self._payload,
            self._at,
            batch.record_count,
            batch.base_timestamp_ms,
            skims=self._skims,
            is_compressed=self._is_compressed,
        )
        if batch.has_log_append_time:
            return (head._replace(timestamp_ms=batch.max_timestamp_ms) for head in heads)
        return heads

    @property
    def _skims(self) -> bool:
        return self._is_compressed and not self._is_rewritten

    def _refused(self, partition_name: str, now_ms: int) -> RefusedBatch | None:
        """Read the records one by one. Raises UnreadableRecord."""
        count, errors, has_wrong_times, are_in_order = 0, [], False, True
        for place, head in enumerate(self._heads()):
            reason = self._wrong_key(head, partition_name)
            if reason is None:
                reason = self._wrong_time(head, now_ms)
                has_wrong_times = has_wrong_times or reason is not None
            if reason is not None:
                count += 1
                if self._room.record_errors:
                    self._room.record_errors -= 1
                    errors.append((place, reason))
            elif head.offset_delta != place:
                are_in_order = False
        if count:
            return _refused_for(errors, count, has_wrong_times=has_wrong_times)
        if self._skims and not are_in_order:
            # Kafka wants to write the batch anew, and has skipped the contents of its records.
            reason = "The offset deltas of a compressed batch are 0, 1, 2 and so on."
            return RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, reason, by_log=True)
        return None

    def _wrong_key(self, head: RecordHead, partition_name: str) -> str | None:
        if self._rules.is_compacted and head.key_size < 0:
            return f"Compacted topic cannot accept message without key in topic partition {partition_name}"
        return None

    def _wrong_time(self, head: RecordHead, now_ms: int) -> str | None:
        batch, rules = self._batch, self._rules
        timestamp_ms = head.timestamp_ms
        if not rules.log_append_time and timestamp_ms != NO_TIMESTAMP:
            if _is_in_range(timestamp_ms, now_ms, rules):
                return None
            earliest_ms, latest_ms = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
            return (
                f"Timestamp {timestamp_ms} of message with offset {head.offset_delta} is out of range. "
                f"The timestamp should be within [{earliest_ms}, {latest_ms}]"
            )
        if batch.has_log_append_time:
            name = "PartialDefaultRecord" if self._skims else "DefaultRecord"
            sizes = (head.key_size, head.value_size)
            key_size, value_size = sizes if self._skims else (max(size, 0) for size in sizes)
            return (
                f"Invalid timestamp type in message {name}(offset={head.offset_delta}, timestamp={timestamp_ms}, "
                f"key={key_size} bytes, value={value_size} bytes). "
                "Producer should not set timestamp type to LogAppendTime."
            )
        return None


def _is_in_range(timestamp_ms: int, now_ms: int, rules: RecordRules) -> bool:
    return -rules.timestamp_after_max_ms <= now_ms - timestamp_ms <= rules.timestamp_before_max_ms


def _is_reusable(found: Walk) -> bool:
    """Whether the records would be the same bytes if they were written again."""
    return found.is_plain and found.are_in_order and found.first_delta == 0


def _refused_for(errors: list[tuple[int, str]], count: int, *, has_wrong_times: bool) -> RefusedBatch:
    if has_wrong_times:
        text = "One or more records have been rejected due to invalid timestamp"
        return RefusedBatch(ErrorCode.INVALID_TIMESTAMP, text, tuple(errors), by_log=True, kafka_message=text)
    shown = ", ".join(
        f"RecordError(batchIndex={place}, message='{reason}')" for place, reason in errors[:_SHOWN_RECORD_ERRORS]
    )
    text = (
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    return RefusedBatch(ErrorCode.INVALID_RECORD, text, tuple(errors), by_log=True, kafka_message=text)
