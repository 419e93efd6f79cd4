"""The registrations of brokers, by broker id."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from klamm.controller.metadata.broker import BrokerState, EndPoint
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.kind import Replay, ReplayError, SnapshotRecord
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.quick_dataclasses import dataclass


class Brokers(dict[int, BrokerState]):
    """All registered brokers, by broker id."""

    def __init__(self) -> None:
        super().__init__()
        self.real: set[int] = set()
        """The ids of those that are not simulated."""

    def replays(self) -> Mapping[type[Message], Replay]:
        return {
            RegisterBrokerRecord: self._register,
            BrokerRegistrationChangeRecord: self._change,
            UnregisterBrokerRecord: self._unregister,
            FenceBrokerRecord: self._fence,
            UnfenceBrokerRecord: self._unfence,
        }

    def run_replays(self) -> Mapping[type[Message], Replay]:
        return {}

    def _register(self, record: RegisterBrokerRecord, delta: Delta) -> None:
        state = self[record.broker_id] = BrokerState(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            rack=record.rack,
            end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=tuple((f.name, f.min_supported_version, f.max_supported_version) for f in record.features),
            log_dirs=tuple(record.log_dirs),
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )
        (self.real.add if state.is_real else self.real.discard)(record.broker_id)
        delta.brokers.add(record.broker_id)

    def _change(self, record: BrokerRegistrationChangeRecord, delta: Delta) -> None:
        broker = self.get(record.broker_id)
        if broker is None or broker.broker_epoch != record.broker_epoch:
            raise ReplayError(
                f"no registration of broker {record.broker_id} with epoch {record.broker_epoch} to change"
            )
        # In this record 1 sets, -1 clears, 0 leaves as it is.
        in_controlled_shutdown, fenced = record.in_controlled_shutdown, record.fenced
        cordoned = record.cordoned_log_dirs
        self[record.broker_id] = replace(
            broker,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            fenced=fenced > 0 if fenced else broker.fenced,
            in_controlled_shutdown=(
                in_controlled_shutdown > 0 if in_controlled_shutdown else broker.in_controlled_shutdown
            ),
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )
        delta.brokers.add(record.broker_id)

    def _fence(self, record: FenceBrokerRecord, delta: Delta) -> None:
        """Written below metadata.version 7, and still replayed."""
        self._change(_fencing(record.id, record.epoch, 1), delta)

    def _unfence(self, record: UnfenceBrokerRecord, delta: Delta) -> None:
        self._change(_fencing(record.id, record.epoch, -1), delta)

    def _unregister(self, record: UnregisterBrokerRecord, delta: Delta) -> None:
        if self.pop(record.broker_id, None) is None:
            raise ReplayError(f"no broker {record.broker_id} to unregister")
        self.real.discard(record.broker_id)
        delta.unregistered.add(record.broker_id)

    def save(self, _room: PartitionTable | None) -> "_Saved":
        return _Saved(list(self.values()))

    def facts(self) -> dict[str, Any]:
        return {"brokers": dict(self), "order of brokers": list(self)}


def _fencing(broker_id: int, broker_epoch: int, fenced: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=fenced)


@dataclass(frozen=True, slots=True)
class _Saved:
    brokers: list[BrokerState]

    def records(self) -> Iterator[SnapshotRecord]:
        for broker in self.brokers:
            yield RegisterBrokerRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                incarnation_id=broker.incarnation_id,
                rack=broker.rack,
                end_points=[
                    BrokerEndpoint(name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol)
                    for at in broker.end_points
                ],
                features=[
                    BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
                    for name, lowest, highest in broker.features
                ],
                log_dirs=broker.log_dirs,
                fenced=broker.fenced,
                in_controlled_shutdown=broker.in_controlled_shutdown,
                cordoned_log_dirs=broker.cordoned_log_dirs,
            )
