"""What compaction leaves of one batch: the batch with fewer records, an empty one, or none. Source:
MemoryRecords.filterTo of Apache Kafka.

The offsets of a batch stay, so the offset deltas of its records have gaps. A batch with a tombstone, or a marker
without a transaction, gets a delete horizon (KIP-534): the time at which it may go, in place of the first timestamp.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from klamm.broker.data.codecs import UNCOMPRESSED, DamagedPayload, PayloadTooLarge, pack, unpack
from klamm.broker.data.exact_records import RecordHead, UnreadableRecord, read_heads
from klamm.broker.data.record_batches import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    ProducedBatch,
    encode_batch,
)
from klamm.protocol.codec.varints import decode_zigzag, encode_zigzag

DELETE_HORIZON: Final = 1 << 6
"""The bit of the attributes of a batch whose first timestamp is its delete horizon."""
MOST_UNPACKED_BYTES: Final = 2 * 1024 * 1024
"""A compressed batch with more is left as it is, because it would be compressed again in one piece: about 50 ms."""


class Unfiltered(Exception):
    """The records of a batch cannot be read, or compressing them again would take long."""


class OpenBatch:
    """A batch with its records. Raises Unfiltered."""

    def __init__(self, batch: ProducedBatch) -> None:
        self.batch = batch
        try:
            self._payload = unpack(batch.compression, batch.records[HEADER_BYTES:], MOST_UNPACKED_BYTES)
        except (DamagedPayload, PayloadTooLarge) as error:
            raise Unfiltered from error

    def __iter__(self) -> Iterator[RecordHead]:
        """The records. Raises Unfiltered."""
        batch, is_compressed = self.batch, self.batch.compression != UNCOMPRESSED
        heads = read_heads(
            self._payload, 0, batch.record_count, batch.base_timestamp_ms, skims=False, is_compressed=is_compressed
        )
        try:
            yield from heads
        except UnreadableRecord as error:
            raise Unfiltered from error

    def key(self, head: RecordHead) -> bytes:
        """The key of a record that has one."""
        size, at = decode_zigzag(self._payload, head.key_at, 5)
        return self._payload[at : at + size]

    def with_records(self, kept: Sequence[RecordHead], delete_horizon_ms: int | None) -> ProducedBatch:
        """The batch with some of its records, at least one."""
        batch = self.batch
        times = [batch.max_timestamp_ms if batch.has_log_append_time else head.timestamp_ms for head in kept]
        base_ms = times[0] if delete_horizon_ms is None else delete_horizon_ms
        written = bytearray()
        for head, time_ms in zip(kept, times, strict=True):
            front = b"\0" + encode_zigzag(time_ms - base_ms) + encode_zigzag(head.offset_delta)
            written += encode_zigzag(len(front) + head.end - head.key_at) + front
            written += self._payload[head.key_at : head.end]
        filtered = replace(
            batch,
            attributes=batch.attributes & ~DELETE_HORIZON | (0 if delete_horizon_ms is None else DELETE_HORIZON),
            base_timestamp_ms=base_ms,
            max_timestamp_ms=max(times),
            record_count=len(kept),
        )
        return encode_batch(filtered, pack(batch.compression, bytes(written)))


def delete_horizon_ms(batch: ProducedBatch) -> int | None:
    """When the tombstones or the marker of a batch may go; None: that is not determined yet."""
    return batch.base_timestamp_ms if batch.attributes & DELETE_HORIZON else None


def without_records(batch: ProducedBatch) -> ProducedBatch:
    """An empty batch, which keeps the offsets and what is known of the producer."""
    emptied = replace(
        batch,
        attributes=batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
        base_timestamp_ms=NO_TIMESTAMP,
        record_count=0,
    )
    return encode_batch(emptied, b"")
