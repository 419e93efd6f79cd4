"""The registrations of other controllers of the cluster, by controller id (KIP-919). Klamm does not register itself."""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.cluster import RegisterControllerRecord
from klamm.quick_dataclasses import dataclass


class Controllers(dict[int, RegisterControllerRecord]):
    """The newest registration of each controller. No record removes one."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {RegisterControllerRecord: self._register}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _register(self, record: RegisterControllerRecord, delta: Delta) -> None:
        self[record.controller_id] = record
        delta.controllers.add(record.controller_id)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(list(self.values()))

    def facts(self) -> dict[str, Any]:
        return {"controllers": dict(self)}


@dataclass(frozen=True, slots=True)
class _Saved:
    controllers: list[RegisterControllerRecord]

    def records(self) -> Iterator[SnapshotRecord]:
        yield from self.controllers
