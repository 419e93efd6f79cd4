"""Whether the tables of an image agree: facts that are stored twice are equal, and nothing is left of what was
removed."""

from collections import Counter

import numpy as np

from klamm.controller.metadata.columns import DEAD, PADDING, ColumnTable
from klamm.controller.metadata.image import MetadataImage, collision_key
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.usage import UNLIMITED_TOPICS


def check_consistency(image: MetadataImage) -> None:
    """Assert that every index, count and sparse entry follows from the rows, brokers, topics and ACLs themselves."""
    check_tables(image.partitions)
    _check_topics(image)
    _check_usage(image)
    _check_acls(image)


def check_tables(partitions: PartitionTable) -> None:
    """Each row has one owner or is dead; each sparse entry belongs to a row with the mark for it."""
    owned: dict[int, list[int]] = {width: [] for width in partitions.tables}
    for topic_row, ranges in partitions.ranges.items():
        following = 0
        for one in ranges:
            assert (one.first_index, one.length > 0) == (following, True), "ranges leave no gap"
            following += one.length
            table = partitions.tables[one.width]
            assert set(table.topic_row[one.rows].tolist()) == {topic_row}
            assert table.partition_index[one.rows].tolist() == list(range(one.first_index, following))
            owned[one.width] += range(one.rows.start, one.rows.stop)
    for width, table in partitions.tables.items():
        assert table.width == width
        dead = np.flatnonzero(table.topic_row[: table.count] == DEAD).tolist()
        assert sorted(owned[width] + dead) == list(range(table.count))
        assert table.dead == len(dead)
        _check_rows(partitions, table)
    for sparse in (partitions.reassigning, partitions.elr):
        for key, lists in sparse.items():
            assert any(lists), "an empty entry is none"
            partitions.locate(*key)  # raises KeyError for a partition that does not exist
    for number, directory in enumerate(partitions.directory_ids.ids):
        assert partitions.directory_ids.known(directory) == number


def _check_rows(partitions: PartitionTable, table: ColumnTable) -> None:
    position = np.arange(table.width)
    for row in range(table.count):
        if table.topic_row[row] == DEAD:
            for column in (table.replicas, table.isr):
                assert (column[row] == PADDING).all()
            continue
        key = (int(table.topic_row[row]), int(table.partition_index[row]))
        assert table.sparse[row] == (key in partitions.reassigning or key in partitions.elr)
        for column, count in ((table.replicas, table.replica_count), (table.isr, table.isr_count)):
            assert ((column[row] == PADDING) == (position >= count[row])).all(), "padding is behind the list alone"
        numbers = table.directories[row, : table.replica_count[row]]
        assert ((numbers >= 0) & (numbers < len(partitions.directory_ids.ids))).all()


def _check_topics(image: MetadataImage) -> None:
    topics = list(image.topics_by_name.values())
    assert {topic.topic_id: topic for topic in topics} == image.topics_by_id
    assert {topic.row: topic for topic in topics} == image.topics_by_row
    assert list(image.topics_by_row) == sorted(image.topics_by_row), "rows are in the order of creation"
    assert all(name == topic.name for name, topic in image.topics_by_name.items())
    assert image.partitions.ranges.keys() <= image.topics_by_row.keys()
    colliding: dict[str, set[str]] = {}
    for topic in topics:
        if key := collision_key(topic.name):
            colliding.setdefault(key, set()).add(topic.name)
    assert colliding == image.collision_keys
    assert all(configs for configs in image.configs.values()), "a resource without configs has no entry"


def _check_usage(image: MetadataImage) -> None:
    replicas: Counter[int] = Counter()
    partitions = placeholders = 0
    for topic in image.topics_by_name.values():
        for index in range(image.partition_count(topic)):
            named = image.partitions.read(topic.row, index).replicas
            placeholders += sum(replica < 0 for replica in named)
            if topic.name not in UNLIMITED_TOPICS:
                partitions += 1
                replicas.update(replica for replica in named if replica >= 0)
    usage = image.usage
    assert {broker_id: count for broker_id, count in usage.replicas.items() if count} == dict(replicas)
    assert (usage.partitions, usage.placeholders) == (partitions, placeholders)


def _check_acls(image: MetadataImage) -> None:
    acls = image.acls
    assert len(acls) == len(acls.by_id)
    for acl_id, acl in acls.by_id.items():
        assert acl in acls
        assert (acl_id, acl) in acls.named(acl.resource_name)
        assert (acl_id, acl) in acls.starting(acl.resource_name)
