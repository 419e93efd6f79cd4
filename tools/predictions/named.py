"""Cases that were once predicted wrongly, shrunk to few steps. They leave no topic behind, and broker 1 stays up.

A name says what was wrong; the tests have the same cases without a real cluster.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from klamm import ElectionType, NewPartitions, NewTopic, TopicPartition
from tools.predictions.steps import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    Elect,
    Reassign,
    StartBroker,
    Step,
    StopBroker,
)

_NAME: Final = "named"


def _topic(*replicas: tuple[int, ...]) -> Step:
    return CreateTopic(NewTopic(_NAME, replica_assignments=dict(enumerate(replicas))))


def _move(partition: int, *replicas: int) -> Step:
    return Reassign({TopicPartition(_NAME, partition): replicas})


def _add(total: int, *replicas: tuple[int, ...]) -> Step:
    return AddPartitions(NewPartitions(_NAME, total, list(replicas)))


NAMED: Final[Mapping[str, Sequence[Step]]] = {
    # Case 70 of seed 11. Of five partitions Apache Kafka finds partition 2 first, and partition 0 after a change.
    "replicas of new partitions of a topic of five partitions after a change": (
        _topic((1, 2), (2, 3), (3, 1), (1, 3)),
        _move(2, 3, 1, 2),
        _add(5, (2, 1)),
        _add(5, (2, 1, 3)),
        _add(6, (1, 2)),
        _move(1, 3, 2),
        _add(6, (1, 2, 3)),
        _add(6, (1, 2)),
        DeleteTopic(_NAME),
    ),
    "the order of an ISR that two brokers join": (
        _topic((3, 2, 1), (2, 1, 3), (1, 3, 2)),
        StopBroker(2, "crash"),
        StopBroker(3, "shutdown"),
        StartBroker(3),
        StartBroker(2),
        Elect(None, ElectionType.PREFERRED),
        DeleteTopic(_NAME),
    ),
}
