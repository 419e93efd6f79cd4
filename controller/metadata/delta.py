"""What one committed batch touched: replay returns it, and the controller hands it to whoever has to act on changes.

A delta names what may be other than before; what it is now stands in the image. Of partitions one batch may touch a
million: those are arrays. So nobody reads records a second time to find out what they did (Kafka: MetadataDelta).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.quota_entity import QuotaEntity
from klamm.controller.metadata.topic import Topic
from klamm.protocol.uuid import Uuid

IntColumn = NDArray[np.integer[Any]]


class PartitionRows:
    """Partitions by the row of their topic and their index. One that was touched twice stands here twice."""

    __slots__ = ("_alone", "_runs")

    def __init__(self) -> None:
        self._alone: list[tuple[int, int]] = []
        self._runs: list[tuple[IntColumn, IntColumn]] = []

    def __len__(self) -> int:
        return len(self._alone) + sum(len(indexes) for _, indexes in self._runs)

    def add(self, topic_row: int, partition_index: int) -> None:
        """One partition."""
        self._alone.append((topic_row, partition_index))

    def add_run(self, topic_rows: IntColumn, partition_indexes: IntColumn) -> None:
        """Many partitions: two arrays of one length, which nobody changes afterwards."""
        self._runs.append((topic_rows, partition_indexes))

    def columns(self) -> tuple[Ints, Ints]:
        """The topic rows and the partition indexes of all, two arrays of one length."""
        alone = np.array(self._alone, dtype=np.int32).reshape(-1, 2)
        topic_rows, indexes = zip((alone[:, 0], alone[:, 1]), *self._runs, strict=True)
        return np.concatenate(topic_rows, dtype=np.int32), np.concatenate(indexes, dtype=np.int32)

    def by_topic(self) -> Iterator[tuple[int, IntColumn]]:
        """The row of a topic and indexes of partitions of it, stretch by stretch: a topic may come more than once."""
        for topic_row, partition_index in self._alone:
            yield topic_row, np.array([partition_index])
        for topic_rows, indexes in self._runs:
            starts = [0, *(np.flatnonzero(topic_rows[1:] != topic_rows[:-1]) + 1).tolist()]
            for start, end in zip(starts, (*starts[1:], len(indexes)), strict=True):
                yield int(topic_rows[start]), indexes[start:end]


@dataclass(slots=True)
class Delta:
    """What records that were replayed together touched, by kind of state."""

    end_offset: int = 0
    """The offset behind the last of them."""
    features: set[str] = field(default_factory=set)
    """The names of features whose level was set or removed."""
    brokers: set[int] = field(default_factory=set)
    """The ids of brokers that registered, or whose registration changed: fenced or live, directories, all of it."""
    unregistered: set[int] = field(default_factory=set)
    """The ids of brokers that are registered no longer."""
    new_topics: list[Topic] = field(default_factory=list)
    removed_topics: list[Topic] = field(default_factory=list)
    """As they were. Their partitions and configs went with them, and are not named again."""
    new_partitions: PartitionRows = field(default_factory=PartitionRows)
    changed_partitions: PartitionRows = field(default_factory=PartitionRows)
    """Partitions that were there and changed in any way, so that their epochs grew."""
    has_new_leaders: bool = False
    """Whether a changed partition has another leader; of a run, whether it names leaders."""
    has_new_replicas: bool = False
    """Whether a changed partition has other replicas; of a run, whether it names replicas."""
    names_replicas: bool = False
    """Whether a change named replicas, also the same ones, or which of them are to be removed."""
    configs: set[tuple[int, str, str]] = field(default_factory=set)
    """Dynamic configs that were set or removed: resource type, resource name, name of the config."""
    client_quotas: set[QuotaEntity] = field(default_factory=set)
    """The entities of which a quota was set or removed."""
    producer_ids: bool = False
    """Whether a block of producer ids was given away."""
    acls: set[Uuid] = field(default_factory=set)
    """The ids of access control entries that were added or removed."""
