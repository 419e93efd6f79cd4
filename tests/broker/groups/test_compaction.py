"""A coordinator's partition stays small, and after each compaction it has the same state as before."""

import pytest

from klamm.broker.coordinator import compaction, shard
from klamm.broker.coordinator.coordinators import partition_of
from klamm.controller.data_limits import DataLimits
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from tests.broker.groups.conversation import CONFIGS, GROUP, Conversation
from tests.controller.handlers.cluster import DrivenCluster

SMALL = 20_000
"""Bytes at which a compaction begins, and the limit of other partitions."""


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    monkeypatch.setattr(shard, "BEGIN_AT_BYTES", SMALL)
    monkeypatch.setattr(compaction, "RECORDS_AT_ONCE", 7)
    cluster = DrivenCluster(profile="kafka", configs=CONFIGS, data_limits=DataLimits(memory_bytes=SMALL, file_bytes=0))
    cluster.create("t", 40, 3)
    return Conversation(cluster)


def size_of(group: Conversation) -> int:
    topic = group.cluster.image.topics_by_name[CONSUMER_OFFSETS]
    found = group.cluster.data.find(topic.topic_id, partition_of(GROUP, group.cluster.image.partition_count(topic)))
    assert found is not None
    return found.log.size_bytes


def test_many_commits_of_few_keys_keep_the_partition_small(group: Conversation) -> None:
    for offset in range(1_500):
        assert group.commit(offset, partition=offset % 40) == 0
    assert size_of(group) < 4 * SMALL
    group.cluster.shut_down(group.coordinator_id)
    moved = Conversation(group.cluster)
    newest = [max(range(partition, 1_500, 40)) for partition in range(40)]
    assert [moved.committed(partition=partition) for partition in range(40)] == newest


def test_a_commit_that_is_never_repeated_survives_many_compactions(group: Conversation) -> None:
    group.commit(77, partition=39, metadata="kept")
    for offset in range(1_500):
        group.commit(offset)
    group.cluster.shut_down(group.coordinator_id)
    moved = Conversation(group.cluster)
    assert (moved.committed(partition=39), moved.committed()) == (77, 1_499)
