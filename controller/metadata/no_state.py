"""Records of Kafka that Klamm replays without keeping any state."""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.cluster import NoOpRecord, ZkMigrationStateRecord
from klamm.protocol.records.transactions import AbortTransactionRecord


class NoState:
    """A Kafka controller that used this log has written NoOpRecords, and the state of a migration from ZooKeeper, which
    Kafka 4 does not look at. AbortTransactionRecord is Klamm's own, at a start; `klamm.controller.restore` has handled
    what it ends."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return dict.fromkeys((NoOpRecord, ZkMigrationStateRecord, AbortTransactionRecord), _nothing)

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def save(self, _room: PartitionTable | None) -> "NoState":
        return self

    def records(self) -> Iterator[SnapshotRecord]:
        return iter(())

    def facts(self) -> dict[str, Any]:
        return {}


def _nothing(_record: Message, _delta: Delta) -> None:
    """Replay itself counts the offset."""
