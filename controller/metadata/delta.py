"""What one committed batch of records changed. Replay returns it; the controller passes it to its subscribers.

A delta names the things that may differ from before. Their new state is in the image. Partitions are arrays, because
one batch may change a million of them. Subscribers use the delta instead of reading the records again (Kafka:
MetadataDelta).
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.quota_entity import QuotaEntity
from klamm.controller.metadata.topic import Topic
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

IntColumn = NDArray[np.integer[Any]]


class PartitionRows:
    """Partitions, each as the row of its topic and its index. A partition that changed twice is included twice."""

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
        """Many partitions: two arrays of equal length. The caller must not modify them afterwards."""
        self._runs.append((topic_rows, partition_indexes))

    def columns(self) -> tuple[Ints, Ints]:
        """The topic rows and the partition indexes of all partitions: two arrays of equal length."""
        alone = np.array(self._alone, dtype=np.int32).reshape(-1, 2)
        topic_rows, indexes = zip((alone[:, 0], alone[:, 1]), *self._runs, strict=True)
        return np.concatenate(topic_rows, dtype=np.int32), np.concatenate(indexes, dtype=np.int32)

    def by_topic(self) -> Iterator[tuple[int, IntColumn]]:
        """Pairs of a topic row and partition indexes of that topic. A topic row may be returned several times."""
        for topic_row, partition_index in self._alone:
            yield topic_row, np.array([partition_index])
        for topic_rows, indexes in self._runs:
            starts = [0, *(np.flatnonzero(topic_rows[1:] != topic_rows[:-1]) + 1).tolist()]
            for start, end in zip(starts, (*starts[1:], len(indexes)), strict=True):
                yield int(topic_rows[start]), indexes[start:end]


@dataclass(slots=True)
class Delta:
    """What the records of one batch changed, by kind of state."""

    end_offset: int = 0
    """The offset after the last record of the batch."""
    features: set[str] = field(default_factory=set)
    """Names of the features whose level was set or removed."""
    brokers: set[int] = field(default_factory=set)
    """Ids of the brokers that registered, or whose registration changed (fencing and log directories included)."""
    controllers: set[int] = field(default_factory=set)
    """Ids of the other controllers that registered."""
    unregistered: set[int] = field(default_factory=set)
    """Ids of the brokers that were unregistered."""
    new_topics: list[Topic] = field(default_factory=list)
    removed_topics: list[Topic] = field(default_factory=list)
    """Removed topics as they were. Their partitions and configs are removed too and are not listed separately."""
    new_partitions: PartitionRows = field(default_factory=PartitionRows)
    changed_partitions: PartitionRows = field(default_factory=PartitionRows)
    """Existing partitions that changed in any way. The partition epoch of each has grown."""
    has_new_leaders: bool = False
    """Whether a changed partition has a different leader. True for every run of changes that sets leaders."""
    has_new_replicas: bool = False
    """Whether a changed partition has different replicas. True for every run of changes that sets replicas."""
    isr_shrinks: int = 0
    """Changed partitions whose ISR has fewer members than before."""
    isr_expansions: int = 0
    """Changed partitions whose ISR has more members than before."""
    elections: int = 0
    """Changed partitions that have a leader, another one than before."""
    unclean_elections: int = 0
    """Those of them whose leader may lack records."""
    names_replicas: bool = False
    """Whether a change set replicas, even to the same ones, or set which replicas are being removed."""
    configs: set[tuple[int, str, str]] = field(default_factory=set)
    """Dynamic configs that were set or removed: resource type, resource name, config name."""
    client_quotas: set[QuotaEntity] = field(default_factory=set)
    """Entities of which a client quota was set or removed."""
    producer_ids: bool = False
    """Whether a block of producer ids was allocated."""
    acls: set[Uuid] = field(default_factory=set)
    """Ids of the access control entries that were added or removed."""
    scram_credentials: set[tuple[str, int]] = field(default_factory=set)
    """Users and mechanisms of which a credential was set or removed."""
    delegation_tokens: set[str] = field(default_factory=set)
    """Ids of the delegation tokens that were made, changed or removed."""
