"""The markers of decided transactions: written to the leaders of all their partitions; then a transaction is complete.

Kafka's coordinator sends WriteTxnMarkers to other brokers. Simulated brokers share a process, so the markers are
appended to the partitions here. A partition without a live leader gets its marker when it has one; a marker that a
change of leader has removed is written again. Partitions that do not exist any more need none.
"""

from typing import Final, TypeAlias

from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.coordinator.shard import Shard
from klamm.broker.data.control_batches import EndMarker, encode_marker
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.transactions.transaction import Transaction, TransactionState
from klamm.broker.transactions.transactions import Transactions
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.quick_dataclasses import dataclass

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class WrittenMarker:
    """A marker in a partition: the offset behind it, and the leader epoch that it was written in."""

    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerEnd:
    """The end of the transaction of one producer."""

    producer_id: int
    producer_epoch: int
    marker: EndMarker


Places: TypeAlias = dict[tuple[str, int], WrittenMarker | None]
"""The markers of one transaction that were written so far, by topic and partition. None: none is needed there."""


def write_marker(
    coordinators: Coordinators,
    data: DataPlane,
    image: MetadataImage,
    topic: Topic,
    partition: int,
    end: ProducerEnd,
    now_ms: int,
) -> WrittenMarker | ErrorCode:
    """Append a marker to a partition that exists and has a leader. A group coordinator on the partition applies the
    producer's pending offsets. INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if the partition knows a newer
    epoch; KAFKA_STORAGE_ERROR if there is no memory."""
    found = data.find(topic.topic_id, partition)
    if found is not None and end.producer_epoch < found.producers.epoch_of(end.producer_id):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if found is not None and end.marker.coordinator_epoch < found.producers.coordinator_epoch_of(end.producer_id):
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    batch = encode_marker(end.producer_id, end.producer_epoch, end.marker, now_ms)
    offset = data.append(image, topic, partition, batch, now_ms)
    if isinstance(offset, ApiError):
        return offset.code
    if topic.name == CONSUMER_OFFSETS:
        coordinators.apply_marker(partition, end.producer_id, committed=end.marker.is_commit)
    written = data.find(topic.topic_id, partition)
    assert written is not None, "it was appended to"
    return WrittenMarker(offset + 1, written.leader_epoch)


class TransactionMarkers:
    """Writes the markers of all decided transactions of the shards of this process."""

    def __init__(self, coordinators: Coordinators, data: DataPlane) -> None:
        self._coordinators = coordinators
        self._data = data
        self._written: dict[int, dict[tuple[str, int], Places]] = {}
        """By partition of `__transaction_state`, then by transactional id and offset of the decision."""

    def follow(self, image: MetadataImage, shard: Shard, now_ms: int) -> bool:
        """Write the markers of a shard's decided transactions, as far as they are not written, and complete the
        transactions that have all of them. Returns whether some are left."""
        state = shard.state
        if not isinstance(state, Transactions):
            return False
        if not state.decided:
            self._written.pop(shard.index, None)
            return False
        before = self._written.get(shard.index, {})
        now = self._written[shard.index] = {
            key: before.get(key, {}) for key in state.decided.items() if shard.is_replicated(key[1], now_ms)
        }
        for (name, _), places in now.items():
            if self._write_all(image, shard, state.by_id[name], places, now_ms):
                shard.run(image, lambda name=name: state.complete(name, now_ms), now_ms)  # type: ignore[misc]
        return bool(state.decided)

    def _write_all(
        self,
        image: MetadataImage,
        shard: Shard,
        known: Transaction,
        written: Places,
        now_ms: int,
    ) -> bool:
        """Whether all markers are written and replicated."""
        marker = EndMarker(known.state is TransactionState.PREPARE_COMMIT, shard.leader_epoch)
        end = ProducerEnd(known.producer_id, known.producer_epoch, marker)
        is_done = True
        for place in sorted(known.partitions):
            if place in written and written[place] is None:
                continue
            topic = image.topics_by_name.get(place[0])
            if topic is None or not place[1] < image.partition_count(topic):
                written[place] = None
                continue
            before = written.get(place)
            if before is None or not self._still_has(topic, place[1], before):
                leader = image.partitions.read(topic.row, place[1]).leader
                if leader == NO_LEADER or leader in self._data.down:
                    is_done = False
                    continue
                made = write_marker(self._coordinators, self._data, image, topic, place[1], end, now_ms)
                if isinstance(made, ErrorCode):
                    # A partition that knows a newer epoch has ended this transaction already.
                    is_fenced = made is not ErrorCode.KAFKA_STORAGE_ERROR
                    if is_fenced:
                        written[place] = None
                    is_done &= is_fenced
                    continue
                written[place] = before = made
            found = self._data.find(topic.topic_id, place[1])
            is_done &= found is not None and found.high_watermark(now_ms) >= before.end_offset
        return is_done

    def _still_has(self, topic: Topic, partition: int, marker: WrittenMarker) -> bool:
        found = self._data.find(topic.topic_id, partition)
        if found is None:
            return False
        if found.leader_epoch == marker.leader_epoch:
            return True
        return (
            found.log.log_end_offset >= marker.end_offset
            and found.log.epochs.epoch_at(marker.end_offset - 1) == marker.leader_epoch
        )
