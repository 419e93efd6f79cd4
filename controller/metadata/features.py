"""Finalized features: metadata.version and the others, by name."""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.feature_names import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CALM_SHRINKS
from klamm.protocol.fields import Message
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElectionFeatures:
    """What elections and changes of ISRs depend on."""

    has_elr: bool
    """Whether replicas outside the ISR stay eligible to lead (KIP-966)."""
    shrinks_raise_epochs: bool
    """Whether the leader epoch grows when a follower leaves the ISR."""


class Features(dict[str, int]):
    """Finalized levels above 0, by feature name."""

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version; 0 in a log without records."""
        return self.get(METADATA_VERSION, 0)

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are on (KIP-966)."""
        return self.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    @property
    def elections(self) -> ElectionFeatures:
        """What elections depend on."""
        return ElectionFeatures(self.has_elr, self.metadata_version < FIRST_LEVEL_WITH_CALM_SHRINKS)

    def replays(self) -> Mapping[type[Message], Replay]:
        return {FeatureLevelRecord: self._set}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _set(self, record: FeatureLevelRecord, delta: Delta) -> None:
        if record.feature_level:
            self[record.name] = record.feature_level
        else:
            self.pop(record.name, None)
        delta.features.add(record.name)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(dict(self))

    def facts(self) -> dict[str, Any]:
        return {"features": dict(self)}


@dataclass(frozen=True, slots=True)
class _Saved:
    levels: dict[str, int]

    def records(self) -> Iterator[SnapshotRecord]:
        # metadata.version is first because Kafka's readers need it to read the rest.
        for name in sorted(self.levels, key=lambda name: name != METADATA_VERSION):
            yield FeatureLevelRecord(name=name, feature_level=self.levels[name])
