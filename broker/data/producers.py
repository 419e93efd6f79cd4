"""The last batches of each idempotent producer in one partition, to detect duplicates and gaps (KIP-98).

As in Kafka (ProducerAppendInfo, ProducerStateManager): an unknown producer may begin with any sequence number
(KIP-360), so UNKNOWN_PRODUCER_ID is never returned, and batches that retention removes are still remembered. For a
duplicate of one of the last five batches, the most that a producer has in flight, the answer is that batch's offset.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.broker.data.record_batches import LAST_SEQUENCE, ProducedBatch
from klamm.protocol.errors import ApiError, ErrorCode

MAX_PRODUCERS: Final = 1000
"""The most producers per partition. Beyond it, the one that has not written for the longest time is forgotten."""
REMEMBERED_BATCHES: Final = 5
_NO_EPOCH: Final = -1


class WrittenBatch(NamedTuple):
    """A batch that is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int
    """The largest timestamp of its records."""


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[WrittenBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}  # the one that wrote last is last

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, int, WrittenBatch]]:
        """The id, the epoch and the newest batch of each producer."""
        for producer_id, known in self._producers.items():
            yield producer_id, known.epoch, known.batches[-1]

    def check(self, batch: ProducedBatch) -> ApiError | WrittenBatch | None:
        """None if the batch may be written; the batch in the log if this is a duplicate; otherwise the error:
        INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER."""
        known = self._producers.get(batch.producer_id)
        if known is None:
            return None
        epoch, base_sequence = batch.producer_epoch, batch.base_sequence
        newest = known.batches[-1]
        if epoch == known.epoch:
            for written in known.batches:
                if (written.base_sequence, written.last_sequence) == (base_sequence, batch.last_sequence):
                    return written
        if epoch < known.epoch:
            return ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Producer {batch.producer_id} has written in epoch {known.epoch}, this is epoch {epoch}.",
            )
        expected = 0 if epoch > known.epoch else (newest.last_sequence + 1) & LAST_SEQUENCE
        if base_sequence != expected and known.epoch != _NO_EPOCH:
            return ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {batch.producer_id} goes on with sequence number {expected}, not {base_sequence}.",
            )
        return None

    def append(self, batch: ProducedBatch, base_offset: int, timestamp_ms: int) -> None:
        """Remember a batch that was written, unless it is not idempotent. `timestamp_ms`: its largest timestamp."""
        if not batch.is_idempotent:
            return
        known = self._producers.pop(batch.producer_id, None)
        if known is None or known.epoch != batch.producer_epoch:
            known = _Producer(batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        written = WrittenBatch(batch.base_sequence, batch.last_sequence, base_offset, last_offset, timestamp_ms)
        known.batches.append(written)
        self._producers[batch.producer_id] = known
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]

    def truncate_to(self, offset: int) -> None:
        """Forget batches whose last offset is `offset` or higher, and producers without any other batch."""
        for producer_id, known in list(self._producers.items()):
            while known.batches and known.batches[-1].last_offset >= offset:
                known.batches.pop()
            if not known.batches:
                del self._producers[producer_id]
