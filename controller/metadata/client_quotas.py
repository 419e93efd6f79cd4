"""Client quotas: the limits of users, client ids, addresses and combinations of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.quota_entity import QuotaEntity, quota_entity
from klamm.protocol.fields import Message
from klamm.protocol.records.configs import ClientQuotaRecord, EntityData
from klamm.quick_dataclasses import dataclass

Quotas: TypeAlias = Mapping[str, float]
"""The values of one entity by quota key, such as `producer_byte_rate` (bytes per second)."""


class ClientQuotas(dict[QuotaEntity, dict[str, float]]):
    """The quotas of each entity that has any, in the order in which the entities got their first one."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {ClientQuotaRecord: self._set}

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _set(self, record: ClientQuotaRecord, delta: Delta) -> None:
        # As in Kafka, a record may remove a quota that the entity does not have.
        entity = quota_entity((one.entity_type, one.entity_name) for one in record.entity)
        # The dictionary of an entity is replaced, not changed: a snapshot that is being written may still read it.
        quotas = {key: value for key, value in self.get(entity, {}).items() if key != record.key or not record.remove}
        if not record.remove:
            quotas[record.key] = record.value
        if quotas:
            self[entity] = quotas
        else:
            self.pop(entity, None)
        delta.client_quotas.add(entity)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(dict(self))

    def facts(self) -> dict[str, Any]:
        return {
            "client_quotas": dict(self),
            "order of client quotas": [(entity, list(quotas)) for entity, quotas in self.items()],
        }


@dataclass(frozen=True, slots=True)
class _Saved:
    quotas: Mapping[QuotaEntity, Quotas]

    def records(self) -> Iterator[SnapshotRecord]:
        for entity, quotas in self.quotas.items():
            for key, value in quotas.items():
                yield quota_record(entity, key, value)


def quota_record(entity: Iterable[tuple[str, str | None]], key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a quota of an entity, or removes it if `value` is None."""
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )
