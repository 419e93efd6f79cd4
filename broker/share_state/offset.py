"""The state of one share partition, as records say it: `ShareGroupOffset` in Kafka."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from klamm.broker.share_state.combiner import Batch, combine
from klamm.protocol.records.coordinator.share_state import ShareSnapshotValue, ShareUpdateValue, StateBatch
from klamm.protocol.uuid import Uuid

UNINITIALIZED: Final = -1
"""The start offset before the leader has chosen one, and the count of completed deliveries that belongs to it."""
NO_EPOCH: Final = -1
"""In place of an epoch: it is not compared."""


class SharePartitionKey(NamedTuple):
    """A share partition: a partition as one group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """The key by which its coordinator is found."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """What the share coordinator knows of a share partition."""

    snapshot_epoch: int
    state_epoch: int
    """Of the group: the group epoch at which the partition was initialized."""
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    """Records behind `start_offset` whose delivery is complete. -1: unknown."""
    batches: tuple[Batch, ...] = ()
    create_timestamp: int = 0
    write_timestamp: int = 0

    def as_snapshot(self) -> ShareSnapshotValue:
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.create_timestamp,
            write_timestamp=self.write_timestamp,
            state_batches=[StateBatch(**batch.fields) for batch in self.batches],
        )

    def with_update(self, update: ShareUpdateValue) -> "ShareGroupOffset":
        """The state after an update record, which has only what changed."""
        start = self.start_offset if update.start_offset == UNINITIALIZED else update.start_offset
        return replace(
            self,
            start_offset=start,
            delivery_complete_count=update.delivery_complete_count,
            leader_epoch=self.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
            batches=combine(self.batches, batches_of(update.state_batches), start),
        )


def of_snapshot(value: ShareSnapshotValue) -> ShareGroupOffset:
    return ShareGroupOffset(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        batches_of(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
    )


def of_update(value: ShareUpdateValue) -> ShareGroupOffset:
    """The state from an update whose snapshot is not there."""
    return ShareGroupOffset(
        value.snapshot_epoch,
        0,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        batches_of(value.state_batches),
    )


def batches_of(batches: Iterable[Any]) -> tuple[Batch, ...]:
    """The batches in a message or a record, each of which has a class of its own for them."""
    return tuple(Batch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches)
