"""The transactions that compaction meets while it reads a log from its begin: which batches are of aborted ones, and
which markers have nothing left to mark. Source: CleanedTransactionMetadata of Apache Kafka.
"""

from collections.abc import Sequence

from klamm.broker.data.control_batches import read_marker
from klamm.broker.data.record_batches import ProducedBatch
from klamm.broker.data.transactions import EndedTransaction


class CleanedTransactions:
    """The transactions up to the batch that was read last."""

    def __init__(self, aborted: Sequence[EndedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, bool] = {}
        """By producer id: whether a batch of the aborted transaction was read."""
        self._committed: set[int] = set()
        """The producers of which a batch of a transaction was read that is not aborted."""

    def is_aborted(self, batch: ProducedBatch) -> bool:
        """Whether a batch of records is of an aborted transaction."""
        self._begin_aborted(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted[batch.producer_id] = True
            return True
        self._committed.add(batch.producer_id)
        return False

    def is_empty(self, marker: ProducedBatch) -> bool:
        """Whether no batch is left of the transaction that this control batch ends."""
        self._begin_aborted(marker)
        if not read_marker(marker).is_commit:
            return not self._aborted.pop(marker.producer_id, False)
        is_empty = marker.producer_id not in self._committed
        self._committed.discard(marker.producer_id)
        return is_empty

    def _begin_aborted(self, batch: ProducedBatch) -> None:
        last_offset = batch.base_offset + batch.last_offset_delta
        while self._coming and self._coming[-1].first_offset <= last_offset:
            self._aborted.setdefault(self._coming.pop().producer_id, False)
