"""The producer ids that the controller has allocated to brokers in blocks."""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, ReplayError, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import ProducerIdsRecord
from klamm.quick_dataclasses import dataclass

NO_BROKER = -1
"""The broker id and the broker epoch in the snapshot record, where they have no meaning."""


class ProducerIds:
    """`next` is the first producer id that is not allocated."""

    def __init__(self) -> None:
        self.next = 0

    def replays(self) -> Mapping[type[Message], Replay]:
        return {ProducerIdsRecord: self._give}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _give(self, record: ProducerIdsRecord, delta: Delta) -> None:
        if record.next_producer_id <= self.next:
            raise ReplayError(f"producer ids below {self.next} were given already")
        self.next = record.next_producer_id
        delta.producer_ids = True

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(self.next)

    def facts(self) -> dict[str, Any]:
        return {"next_producer_id": self.next}


@dataclass(frozen=True, slots=True)
class _Saved:
    next_producer_id: int

    def records(self) -> Iterator[SnapshotRecord]:
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=NO_BROKER, broker_epoch=NO_BROKER, next_producer_id=self.next_producer_id)
