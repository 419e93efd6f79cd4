"""Dynamic configs, by resource."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.configs import ConfigRecord
from klamm.quick_dataclasses import dataclass

# Resource types of ConfigRecord and of the config APIs.
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4

ByResource = dict[tuple[int, str], dict[str, str]]


class Configs(ByResource):
    """The dynamic configs of each resource that has any, by resource type and name."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {ConfigRecord: self._set}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _set(self, record: ConfigRecord, delta: Delta) -> None:
        resource = (record.resource_type, record.resource_name)
        # A new dictionary, because a snapshot that is being written may still use the old one.
        configs = {**self.get(resource, {}), record.name: record.value}
        self[resource] = {name: value for name, value in configs.items() if value is not None}
        if not self[resource]:
            del self[resource]
        delta.configs.add((*resource, record.name))

    def remove_topic(self, topic_name: str) -> None:
        """Remove the configs of a removed topic. Kafka writes no ConfigRecords for that."""
        self.pop((TOPIC_RESOURCE, topic_name), None)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(dict(self))

    def facts(self) -> dict[str, Any]:
        return {
            "configs": dict(self),
            "order of configs": [(resource, list(configs)) for resource, configs in self.items()],
        }


@dataclass(frozen=True, slots=True)
class _Saved:
    configs: ByResource

    def records(self) -> Iterator[SnapshotRecord]:
        for (resource_type, resource_name), configs in self.configs.items():
            for name, value in configs.items():
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
