"""Turns an alteration of a topic (KIP-179) into records: reassignments of its partitions, and new partitions.

`resized_topic` and the handler have validated the alteration before.
"""

from klamm.controller.configs import min_insync_replicas
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.live_replicas import AcceptableLeaders
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.transitions.change_runs import in_lists, in_runs
from klamm.controller.transitions.limits import count_as_added, count_as_moved, count_as_taken
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.controller.transitions.partition_change import Election, plan_partition_change
from klamm.controller.transitions.reassignment import Assignment, assignment_of, reassigned
from klamm.controller.transitions.reassignment_columns import plan_plain_reassignments
from klamm.controller.transitions.resized_topic import Alteration, TopicRows
from klamm.protocol.records.partitions import PartitionChangeRecord


def added_replicas(rows: TopicRows, alteration: Alteration) -> Ints:
    """int32[n]: the broker of each replica that the alteration adds to existing partitions."""
    added: Ints = alteration.replicas[~in_lists(alteration.replicas, rows.replicas[alteration.partition_indexes])]
    return added


def plan_alteration(
    image: MetadataImage, context: RequestContext, topic: Topic, rows: TopicRows, alteration: Alteration
) -> list[Record]:
    """The records that begin an alteration, and complete every reassignment that has nothing to wait for. What it takes
    is recorded for the items of the request that follow."""
    count_as_added(context, topic.name, added_replicas(rows, alteration))
    count_as_taken(context, topic.name, alteration.new)
    keys = [PartitionKey(topic.row, index) for index in alteration.partition_indexes.tolist()]
    targets = dict(zip(keys, alteration.replicas.tolist(), strict=True))
    records, plain = plan_plain_reassignments(image, targets, allow_replication_factor_change=True)
    min_isr = min_insync_replicas(image.configs, context.settings, topic.name)
    changes: list[PartitionChangeRecord] = []
    for key, partition in image.partitions.read_many(key for key in keys if key not in plain).items():
        added = [replica for replica in targets[key] if replica not in partition.replicas]
        change = plan_partition_change(
            topic.topic_id,
            key.partition_index,
            partition,
            Election(AcceptableLeaders(image, partition), min_isr, image.features.elections),
            target=_lists(partition, targets[key]),
            new_directories={replica: image.brokers[replica].default_directory for replica in added},
        )
        if change is not None:
            changes.append(change)
            # A reassignment that completes at once also frees room on brokers at once.
            count_as_moved(context, topic.name, (*partition.replicas, *added), change.replicas or partition.replicas)
    records += in_runs(changes)
    records += new_partition_records(image.brokers, topic.topic_id, len(rows.replicas), alteration.new)
    return records


def _lists(partition: Partition, target: list[int]) -> Assignment:
    """The replica lists on the way to a target. If only placeholders are removed, the target applies at once, because
    no replica has to catch up; the placeholders that are left are still filled."""
    if all(replica < 0 for replica in set(partition.replicas).difference(target)) and set(target).issubset(
        partition.replicas
    ):
        return Assignment(tuple(target))
    return reassigned(assignment_of(partition), target)


__all__ = ["added_replicas", "plan_alteration"]
