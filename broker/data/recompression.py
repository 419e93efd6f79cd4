"""Produced batches in the compression of their topic (`compression.type`), as Kafka's MemoryRecordsBuilder writes them.

The records keep their keys, values, headers and timestamps. Their offsets are 0, 1, 2 and so on, they have no
attributes, and the first timestamp of the batch is that of its first record.
"""

from collections.abc import Iterable
from dataclasses import replace

from klamm.broker.data.codecs import pack
from klamm.broker.data.exact_records import RecordHead, wrapped
from klamm.broker.data.record_batches import TRANSACTIONAL, ProducedBatch, encode_batch
from klamm.protocol.codec.varints import encode_zigzag


def recompressed(
    batch: ProducedBatch,
    reused: bytes | None,
    payload: bytes,
    heads: Iterable[RecordHead] | None,
    max_timestamp_ms: int,
    codec: int,
    level: int | None,
) -> ProducedBatch:
    """The batch in another codec. Its records are `reused`, or else written again from their `heads` in `payload`."""
    base_timestamp_ms = batch.base_timestamp_ms
    if reused is None:
        assert heads is not None, "records are reused, or written again"
        base_timestamp_ms, reused = _written_again(payload, heads)
    written = replace(
        batch,
        attributes=codec | batch.attributes & TRANSACTIONAL,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
    )
    return encode_batch(written, pack(codec, reused, level))


def _written_again(payload: bytes, heads: Iterable[RecordHead]) -> tuple[int, bytes]:
    written, base_timestamp_ms = bytearray(), 0
    for place, head in enumerate(heads):
        if not place:
            base_timestamp_ms = head.timestamp_ms
        front = b"\0" + encode_zigzag(wrapped(head.timestamp_ms - base_timestamp_ms)) + encode_zigzag(place)
        written += encode_zigzag(len(front) + head.end - head.key_at) + front
        written += payload[head.key_at : head.end]
    return base_timestamp_ms, bytes(written)
