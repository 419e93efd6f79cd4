"""Leaders and ISRs of many partitions at once, as column operations.

When a broker goes, every ISR that it is in loses it and every partition that it led elects; when it comes back, the
partitions that wait for it elect; replicas that have caught up join. Rows with something kept aside (a reassignment,
eligible leader replicas) and topics that allow unclean elections take the one-by-one path of
`controller.transitions.partition_change`, which is also the reference: a property test holds both to one result.
"""

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from controller.configs import min_insync_replicas, unclean_leader_election_enabled
from controller.metadata.broker_set import BrokerSet
from controller.metadata.columns import PADDING, ColumnTable, Ints, packed
from controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from controller.metadata.live_replicas import LiveReplicas
from controller.metadata.partition import NO_LEADER
from controller.outcome import Record
from controller.settings import Settings
from controller.transitions.partition_change import Election, plan_partition_change
from protocol.columns import Columns
from protocol.records.partitions import PartitionChangeRecord
from protocol.uuid import Uuid

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
Changes = list[Record]


def plan_broker_loss(
    image: MetadataImage, settings: Settings, broker_id: int, directories: Collection[Uuid] | None = None
) -> Changes:
    """What changes when a broker may no longer lead nor be in sync: fenced, leaving, unregistered, or, with
    `directories`, only for its replicas in log directories that went offline."""
    live_after = LiveReplicas(image, image.live_brokers().without(broker_id))
    rules = TopicRules(image, settings)
    changes: Changes = []
    for table in image.partitions.tables.values():
        hit = (table.isr[: table.count] == broker_id).any(axis=1)
        if directories is not None:
            found = (image.partitions.directory_ids.known(directory) for directory in directories)
            numbers = [number for number in found if number is not None]
            own = table.replicas[: table.count] == broker_id
            hit &= (own & np.isin(table.directories[: table.count], numbers)).any(axis=1)
        rows = np.flatnonzero(hit)
        alone = rules.special(table, rows)
        changes += _shrink(image, table, rows[~alone], broker_id, live_after, rules)
        for row in rows[alone].tolist():
            changes += rules.plan_row(table, row, live_after, leaving=broker_id)
    return changes


def plan_unclean_return(image: MetadataImage, settings: Settings, broker_id: int) -> Changes:
    """What changes when a broker comes back as another incarnation without having shut down cleanly: it can no
    longer be trusted to hold what it had acknowledged, so it leaves every ISR and every ELR (KIP-966)."""
    live_after = LiveReplicas(image, image.live_brokers().without(broker_id))
    rules = TopicRules(image, settings)
    changes: Changes = []
    for table in image.partitions.tables.values():
        in_isr = (table.isr[: table.count] == broker_id).any(axis=1)
        for row in np.flatnonzero(in_isr).tolist():
            changes += rules.plan_row(table, row, live_after, leaving=broker_id, unclean_shutdown=(broker_id,))
    for key, (elr, _) in image.partitions.elr.items():
        table, row = image.partitions.locate(*key)
        if broker_id in elr and broker_id not in table.isr[row]:
            changes += rules.plan_row(table, row, live_after, unclean_shutdown=(broker_id,))
    return changes


def plan_broker_return(image: MetadataImage, settings: Settings, broker_id: int) -> Changes:
    """Elections in the partitions without a leader that the returning broker can lead."""
    live_after = BrokerSet([*image.live_brokers().without(broker_id).ids.tolist(), broker_id])
    acceptable = LiveReplicas(image, live_after)
    rules = TopicRules(image, settings)
    changes: Changes = []
    for table in image.partitions.tables.values():
        waiting = table.leader[: table.count] == NO_LEADER
        rows = np.flatnonzero(waiting & (table.replicas[: table.count] == broker_id).any(axis=1))
        for row in rows.tolist():
            changes += rules.plan_row(table, row, acceptable)
    return changes


def plan_isr_growth(image: MetadataImage, settings: Settings) -> Changes:
    """Live replicas outside the ISR of a partition with a leader have caught up and join it."""
    live = LiveReplicas(image, image.live_brokers())
    rules = TopicRules(image, settings)
    changes: Changes = []
    for table in image.partitions.tables.values():
        short = table.isr_count[: table.count] < table.replica_count[: table.count]
        candidates = np.flatnonzero(short & (table.leader[: table.count] >= 0))
        outside = ~_in_lists(table.replicas[candidates], table.isr[candidates])
        joining = live.holds(table, candidates) & outside
        grows = joining.any(axis=1)
        rows, joining = candidates[grows], joining[grows]
        both = np.concatenate((table.isr[rows], np.where(joining, table.replicas[rows], PADDING)), axis=1)
        grown, counts = packed(both, both != PADDING)
        alone = rules.special(table, rows)
        for group in _groups(counts[~alone]):
            members = rows[~alone][group]
            isr = grown[~alone][group][:, : int(counts[~alone][group[0]])]
            changes.append(_run(image, table, members, {"isr": isr}))
        for row, isr, count in zip(rows[alone].tolist(), grown[alone], counts[alone].tolist(), strict=True):
            changes += rules.plan_row(table, row, live, target_isr=tuple(isr[:count].tolist()))
    return changes


class TopicRules:
    """The configs of topics that elections depend on, for rows at a time."""

    def __init__(self, image: MetadataImage, settings: Settings) -> None:
        self._image, self._settings = image, settings
        self._default_min_isr = min_insync_replicas(image.configs, settings, None)
        self._unclean_by_default = unclean_leader_election_enabled(image.configs, settings, None)
        min_isr, unclean = {}, set()
        for (resource_type, name), configs in image.configs.items():
            topic = image.topics_by_name.get(name) if resource_type == TOPIC_RESOURCE else None
            if topic is None:
                continue
            if "min.insync.replicas" in configs:
                min_isr[topic.row] = min_insync_replicas(image.configs, settings, name)
            if "unclean.leader.election.enable" in configs:
                unclean.add(topic.row)
        self._min_isr_rows = np.array(sorted(min_isr), dtype=np.int32)
        self._min_isr = np.array([min_isr[row] for row in sorted(min_isr)], dtype=np.int64)
        self._own_unclean_rows = np.array(sorted(unclean), dtype=np.int32)

    def min_isr(self, topic_rows: Ints) -> NDArray[np.int64]:
        """min.insync.replicas of the topic of each row."""
        found = np.full(len(topic_rows), self._default_min_isr, dtype=np.int64)
        if len(self._min_isr_rows):
            at = np.searchsorted(self._min_isr_rows, topic_rows).clip(max=len(self._min_isr_rows) - 1)
            own = self._min_isr_rows[at] == topic_rows
            found[own] = self._min_isr[at[own]]
        return found

    def special(self, table: ColumnTable, rows: Rows) -> Mask:
        """Which rows need the one-by-one path."""
        if self._unclean_by_default:
            return np.ones(len(rows), dtype=np.bool_)
        special = np.isin(table.topic_row[rows], self._own_unclean_rows)
        partitions = self._image.partitions
        for aside in (partitions.reassigning, partitions.elr):
            if aside:
                keys = np.array(list(aside), dtype=np.int64)
                special |= np.isin(
                    _packed_keys(table.topic_row[rows], table.partition_index[rows]), _packed_keys(*keys.T)
                )
        return special

    def plan_row(
        self,
        table: ColumnTable,
        row: int,
        acceptable: LiveReplicas,
        leaving: int | None = None,
        target_isr: tuple[int, ...] | None = None,
        unclean_shutdown: tuple[int, ...] = (),
    ) -> Changes:
        """The change of one row as a list of none or one; the broker `leaving` leaves the ISR."""
        topic = self._image.topics_by_row[int(table.topic_row[row])]
        partition = self._image.partitions.read_row(table, row)
        if leaving is not None:
            target_isr = tuple(replica for replica in partition.isr if replica != leaving)
        election = Election(
            acceptable_leaders=acceptable.of_row(table, row),
            min_isr=min_insync_replicas(self._image.configs, self._settings, topic.name),
            unclean=unclean_leader_election_enabled(self._image.configs, self._settings, topic.name),
            unclean_shutdown=unclean_shutdown,
        )
        change = plan_partition_change(topic.topic_id, int(table.partition_index[row]), partition, election, target_isr)
        return [] if change is None else [change]


def _packed_keys(topic_rows: NDArray[np.integer], partition_indexes: NDArray[np.integer]) -> NDArray[np.int64]:
    return topic_rows.astype(np.int64) << 32 | partition_indexes.astype(np.int64)


def _shrink(
    image: MetadataImage, table: ColumnTable, rows: Rows, leaving: int, live_after: LiveReplicas, rules: TopicRules
) -> Iterator[Columns[PartitionChangeRecord]]:
    """The changes of ordinary rows whose ISR holds the leaving broker, in runs of one shape."""
    remaining = np.where(table.isr[rows] == leaving, PADDING, table.isr[rows])
    isr, counts = packed(remaining, remaining != PADDING)
    replicas, leader = table.replicas[rows], table.leader[rows]
    may_lead = live_after.holds(table, rows) & _in_lists(replicas, isr)
    new_leader = np.where(
        may_lead.any(axis=1), replicas[np.arange(len(rows)), may_lead.argmax(axis=1)], np.int32(NO_LEADER)
    )
    keeps = (may_lead & (replicas == leader[:, None])).any(axis=1)
    new_leader = np.where(keeps, leader, new_leader)
    moves = new_leader != leader
    under_min = counts < np.minimum(rules.min_isr(table.topic_row[rows]), table.replica_count[rows])
    for group in _groups(counts, moves, under_min, new_leader == NO_LEADER):
        first = group[0]
        values: dict[str, object] = {"isr": isr[group][:, : int(counts[first])]}
        if moves[first]:
            values["leader"] = new_leader[group]
        if under_min[first]:
            # An ordinary row has no ELR yet, so what leaves the ISR is all of it.
            values["eligible_leader_replicas"] = np.full((len(group), 1), leaving, dtype=np.int32)
        if new_leader[first] == NO_LEADER and counts[first] == 0:
            values["last_known_elr"] = leader[group].reshape(-1, 1)
        yield _run(image, table, rows[group], values)


def _run(
    image: MetadataImage, table: ColumnTable, rows: Rows, values: dict[str, object]
) -> Columns[PartitionChangeRecord]:
    topics = image.topics_by_row
    topic_ids = b"".join([topics[row].topic_id for row in table.topic_row[rows].tolist()])
    return Columns(
        PartitionChangeRecord,
        len(rows),
        {
            "partition_id": table.partition_index[rows],
            "topic_id": np.frombuffer(topic_ids, dtype=np.uint8).reshape(-1, 16),
            **values,
        },
    )


def _groups(*shapes: NDArray[np.generic]) -> Iterator[Rows]:
    """Positions of the rows that share one shape, group by group, each ascending."""
    if not len(shapes[0]):
        return
    _, group_of = np.unique(np.stack([shape.astype(np.int64) for shape in shapes], axis=1), axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    order = np.argsort(group_of, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


def _in_lists(values: Ints, lists: Ints) -> Mask:
    """For each value of a row, whether the row's list holds it; padding is in no list."""
    found: Mask = (values[:, :, None] == lists[:, None, :]).any(axis=2)
    found &= values != PADDING
    return found


__all__ = ["TopicRules", "plan_broker_loss", "plan_broker_return", "plan_isr_growth", "plan_unclean_return"]
