"""The configs of topics that elections depend on, for many rows at a time, and the one-by-one path for a single row.

A topic's own value applies, else the value that it inherits (`klamm.controller.configs`). Two sorts of rows are special
and planned one by one: those with an entry in a sparse table (`ColumnTable.sparse`: a reassignment or eligible leader
replicas), and those of topics with an unclean.leader.election.enable of their own. All rows are special while unclean
elections are enabled by default.
"""

import numpy as np
from numpy.typing import NDArray

from klamm.controller.configs import min_insync_replicas, unclean_leader_election_enabled
from klamm.controller.metadata.columns import ColumnTable, Ints, among
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage, Topic
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.settings import Settings
from klamm.controller.transitions.change_runs import Mask, Rows
from klamm.controller.transitions.partition_change import Election, plan_partition_change
from klamm.protocol.records.partitions import PartitionChangeRecord


class TopicRules:
    """The configs of topics that elections depend on, for rows at a time."""

    def __init__(self, image: MetadataImage, settings: Settings) -> None:
        self._image, self._settings = image, settings
        self.features = image.features.elections
        self._known: dict[int, tuple[int, bool]] = {}
        self._default_min_isr = min_insync_replicas(image.configs, settings, None)
        self._unclean_by_default = unclean_leader_election_enabled(image.configs, settings, None)
        min_isr, unclean, other = {}, set(), set()
        for (resource_type, name), configs in image.configs.items():
            topic = image.topics_by_name.get(name) if resource_type == TOPIC_RESOURCE else None
            if topic is None:
                continue
            if "min.insync.replicas" in configs:
                min_isr[topic.row] = min_insync_replicas(image.configs, settings, name)
            if "unclean.leader.election.enable" in configs:
                unclean.add(topic.row)
                if unclean_leader_election_enabled(image.configs, settings, name) is not self._unclean_by_default:
                    other.add(topic.row)
        self._min_isr_rows = np.array(sorted(min_isr), dtype=np.int32)
        self._min_isr = np.array([min_isr[row] for row in sorted(min_isr)], dtype=np.int64)
        self._own_unclean_rows = np.array(sorted(unclean), dtype=np.int32)
        self._other_unclean_rows = np.array(sorted(other), dtype=np.int32)

    def min_isr(self, topic_rows: Ints) -> NDArray[np.int64]:
        """min.insync.replicas of the topic of each row."""
        found = np.full(len(topic_rows), self._default_min_isr, dtype=np.int64)
        if len(self._min_isr_rows):
            at = np.searchsorted(self._min_isr_rows, topic_rows).clip(max=len(self._min_isr_rows) - 1)
            own = self._min_isr_rows[at] == topic_rows
            found[own] = self._min_isr[at[own]]
        return found

    def special(self, table: ColumnTable, rows: Rows) -> Mask:
        """Which rows are special, so that they need the one-by-one path."""
        if self._unclean_by_default:
            return np.ones(len(rows), dtype=np.bool_)
        special = among(table.topic_row[rows], self._own_unclean_rows)
        special |= table.sparse[rows]
        return special

    def unclean_at(self, table: ColumnTable, rows: slice) -> Mask:
        """Which rows belong to topics that allow unclean elections."""
        other = among(table.topic_row[rows], self._other_unclean_rows)
        allowed: Mask = ~other if self._unclean_by_default else other
        return allowed

    def _of_topic(self, topic: Topic) -> tuple[int, bool]:
        """The minimum ISR of a topic, and whether it allows unclean elections."""
        found = self._known.get(topic.row)
        if found is None:
            asked = (self._image.configs, self._settings, topic.name)
            found = self._known[topic.row] = (min_insync_replicas(*asked), unclean_leader_election_enabled(*asked))
        return found

    def plan_row(
        self,
        table: ColumnTable,
        row: int,
        acceptable: LiveReplicas,
        leaving: int | None = None,
        target_isr: tuple[int, ...] | None = None,
        unclean_shutdown: tuple[int, ...] = (),
        *,
        preferred: bool = False,
        target_recovery: int | None = None,
    ) -> list[PartitionChangeRecord]:
        """The change of one row, as a list of at most one; if `leaving` is given, that broker leaves the ISR."""
        topic = self._image.topics_by_row[int(table.topic_row[row])]
        partition = self._image.partitions.read_row(table, row)
        if leaving is not None:
            target_isr = tuple(replica for replica in partition.isr if replica != leaving)
        min_isr, unclean = self._of_topic(topic)
        election = Election(
            acceptable_leaders=acceptable.of_row(table, row),
            min_isr=min_isr,
            features=self.features,
            unclean=unclean,
            preferred=preferred,
            unclean_shutdown=unclean_shutdown,
        )
        change = plan_partition_change(
            topic.topic_id, int(table.partition_index[row]), partition, election, target_isr, target_recovery
        )
        return [] if change is None else [change]
