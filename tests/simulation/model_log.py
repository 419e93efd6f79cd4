"""The records of one partition as they should be, and which of them a producer was told are safe."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.broker.data.model_log import Led, ModelBatch, ModelReplicatedLog


class Elected(Led, Protocol):
    """A partition that counts how often a replica that lacked records was made its leader."""

    unclean_elections: int


@dataclass
class ModelLog(ModelReplicatedLog):
    acknowledged: list[ModelBatch] = field(default_factory=list)
    """What a producer was told is safe (acks=all)."""
    seen_unclean: int = 0

    def follow_election(self, partition: Elected, fetches: Callable[[int], bool], now_ms: int, needed: int) -> None:
        """Learn what has become of the partition. In an unclean election, and there alone, what was acknowledged may be
        lost."""
        self.follow(partition, fetches, now_ms, needed)
        if partition.unclean_elections > self.seen_unclean:
            self.seen_unclean = partition.unclean_elections
            self.acknowledged = [batch for batch in self.acknowledged if batch.end <= self.end]

    def restart(self) -> None:
        super().restart()
        self.acknowledged = []
