"""How ListGroups reaches a shard: by its partition, because the request names no group."""

from dataclasses import dataclass

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.controller.effects import SoftState
from klamm.protocol.internal_topics import CONSUMER_OFFSETS


@dataclass(frozen=True, slots=True)
class ListSubmission:
    """An effect: asks the shard of one partition for its groups."""

    brokers: SimulatedBrokers
    broker_id: int | None
    partition: int
    states: tuple[str, ...]
    types: tuple[str, ...]
    part: Part

    def apply(self, soft: SoftState, now_ms: int) -> None:
        self.brokers.coordinators.submit_at(
            soft.image,
            (CONSUMER_OFFSETS, self.partition, self.broker_id),
            self.part,
            lambda groups: groups.list_groups(self.states, self.types, self.part),
            now_ms,
        )
