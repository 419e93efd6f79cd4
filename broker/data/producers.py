"""The last batches of each idempotent producer in one partition, to detect duplicates and gaps (KIP-98).

As in Kafka (ProducerAppendInfo, ProducerStateManager): an unknown producer may begin with any sequence number
(KIP-360), so UNKNOWN_PRODUCER_ID is never returned, and batches that retention removes are still remembered. For a
duplicate of one of the last five batches, the most that a producer has in flight, the answer is that batch's offset.
Producers that do not write for `producer.id.expiration.ms` are forgotten.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Final, NamedTuple

from klamm.broker.data.record_batches import LAST_SEQUENCE, ProducedBatch
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.quick_dataclasses import dataclass

EXPIRATION_CHECK_INTERVAL_MS: Final = 600_000
"""As long as Kafka's internal config `producer.id.expiration.check.interval.ms` by default."""
MAX_PRODUCERS: Final = 1000
"""The most producers per partition. Beyond it, the one that has not written for the longest time is forgotten. The
first sequence numbers of as many producers that have not written yet are known."""
REMEMBERED_BATCHES: Final = 5
_NO_EPOCH: Final = -1
_NO_SEQUENCE: Final = -1


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
    """Empty after a marker that has raised the epoch."""
    coordinator_epoch: int = _NO_EPOCH
    """The epoch of the transaction coordinator in the last marker; -1: there was no marker."""
    last_timestamp_ms: int = -1


class ProducerEntry(NamedTuple):
    """What a partition knows of one producer."""

    producer_id: int
    epoch: int
    last_sequence: int
    """-1: it has not written in this epoch."""
    last_timestamp_ms: int
    coordinator_epoch: int


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_attempted", "_checked_ms", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}  # the one that wrote last is last
        self._attempted: dict[int, tuple[int, int]] = {}
        """The epoch and the lowest sequence number of transactional batches of producers that have not written."""
        self._checked_ms: int | None = None
        """The time of the last check for expired producers; None: there was none."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, int, WrittenBatch]]:
        """The id, the epoch and the newest batch of each producer that has written in its epoch."""
        for producer_id, known in self._producers.items():
            if known.batches:
                yield producer_id, known.epoch, known.batches[-1]

    def newest_written(self) -> dict[int, tuple[int | None, int]]:
        """The last offset of the newest batch of each producer, None if it has not written since its last marker, and
        its epoch."""
        return {
            producer_id: (known.batches[-1].last_offset if known.batches else None, known.epoch)
            for producer_id, known in self._producers.items()
        }

    def entries(self) -> Iterator[ProducerEntry]:
        """What is known of each producer."""
        for producer_id, known in self._producers.items():
            last = known.batches[-1].last_sequence if known.batches else _NO_SEQUENCE
            yield ProducerEntry(producer_id, known.epoch, last, known.last_timestamp_ms, known.coordinator_epoch)

    def epoch_of(self, producer_id: int) -> int:
        """The newest epoch of a producer; -1: it has not written."""
        known = self._producers.get(producer_id)
        return _NO_EPOCH if known is None else known.epoch

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The epoch of the transaction coordinator in the producer's last marker; -1: there was none."""
        known = self._producers.get(producer_id)
        return _NO_EPOCH if known is None else known.coordinator_epoch

    def is_check_due(self, now_ms: int) -> bool:
        """Whether `forget_expired` is to be called. The first check is an interval after the first question."""
        if self._checked_ms is None:
            self._checked_ms = now_ms
        return now_ms - self._checked_ms >= EXPIRATION_CHECK_INTERVAL_MS

    def forget_expired(self, now_ms: int, expiration_ms: int, is_open: Callable[[int], bool]) -> None:
        """Forget the producers whose last timestamp, that of their records, is `expiration_ms` old, unless they have
        an open transaction."""
        self._checked_ms = now_ms
        expired = [
            producer_id
            for producer_id, known in self._producers.items()
            if now_ms - known.last_timestamp_ms >= expiration_ms and not is_open(producer_id)
        ]
        for producer_id in expired:
            del self._producers[producer_id]

    def attempt(self, batch: ProducedBatch) -> None:
        """Note a transactional batch of a producer whose transaction has to be verified first."""
        epoch, lowest = self._attempted.pop(batch.producer_id, (_NO_EPOCH, 0))
        if batch.producer_epoch > epoch:
            epoch, lowest = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == epoch:
            lowest = min(lowest, batch.base_sequence)
        self._attempted[batch.producer_id] = epoch, lowest
        if len(self._attempted) > MAX_PRODUCERS:
            del self._attempted[next(iter(self._attempted))]

    def check(self, batch: ProducedBatch) -> ApiError | WrittenBatch | None:
        """None if the batch may be written; the batch in the log if this is a duplicate; otherwise the error:
        INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER."""
        known = self._producers.get(batch.producer_id)
        if known is None:
            return self._check_first(batch)
        epoch, base_sequence = batch.producer_epoch, batch.base_sequence
        if epoch == known.epoch:
            for written in known.batches:
                if (written.base_sequence, written.last_sequence) == (base_sequence, batch.last_sequence):
                    return written
        if epoch < known.epoch:
            return ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Producer {batch.producer_id} has written in epoch {known.epoch}, this is epoch {epoch}.",
            )
        is_first = epoch > known.epoch or not known.batches
        expected = 0 if is_first else (known.batches[-1].last_sequence + 1) & LAST_SEQUENCE
        if base_sequence != expected and known.epoch != _NO_EPOCH:
            return ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {batch.producer_id} goes on with sequence number {expected}, not {base_sequence}.",
            )
        return None

    def _check_first(self, batch: ProducedBatch) -> ApiError | None:
        """The check of an unknown producer: a batch that it has sent before, and that was refused, comes first."""
        _, lowest = self._attempted.get(batch.producer_id, (_NO_EPOCH, batch.base_sequence))
        if batch.is_transactional and batch.base_sequence > lowest:
            return ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {batch.producer_id} has tried sequence number {lowest} before {batch.base_sequence}.",
            )
        return None

    def end_transaction(self, batch: ProducedBatch, coordinator_epoch: int) -> None:
        """Apply a marker. An epoch above the producer's fences it."""
        known = self._producers.pop(batch.producer_id, None)
        if known is None or known.epoch != batch.producer_epoch:
            known = _Producer(batch.producer_epoch)
        known.coordinator_epoch, known.last_timestamp_ms = coordinator_epoch, batch.max_timestamp_ms
        self._put(batch.producer_id, known)

    def append(self, batch: ProducedBatch, base_offset: int, timestamp_ms: int) -> None:
        """Remember a batch that was written, unless it is not idempotent. `timestamp_ms`: its largest timestamp."""
        if not batch.is_idempotent:
            return
        self._attempted.pop(batch.producer_id, None)
        known = self._producers.pop(batch.producer_id, None)
        if known is None or known.epoch != batch.producer_epoch:
            known = _Producer(batch.producer_epoch, coordinator_epoch=known.coordinator_epoch if known else _NO_EPOCH)
        known.last_timestamp_ms = timestamp_ms
        if batch.base_sequence == _NO_SEQUENCE:  # the offsets of a transaction, which a group coordinator writes
            self._put(batch.producer_id, known)
            return
        last_offset = base_offset + batch.last_offset_delta
        written = WrittenBatch(batch.base_sequence, batch.last_sequence, base_offset, last_offset, timestamp_ms)
        known.batches.append(written)
        self._put(batch.producer_id, known)

    def _put(self, producer_id: int, known: _Producer) -> None:
        self._producers[producer_id] = known
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]

    def truncate_to(self, offset: int) -> None:
        """Forget batches whose last offset is `offset` or higher, and producers without any other batch."""
        for producer_id, known in list(self._producers.items()):
            had = len(known.batches)
            while known.batches and known.batches[-1].last_offset >= offset:
                known.batches.pop()
            if had and not known.batches:
                del self._producers[producer_id]
