"""Shards: whose they are, when they acknowledge, and what they do while records are compacted."""

from pathlib import Path

import pytest

from klamm.broker.coordinator import compaction, shard
from klamm.broker.coordinator.coordinators import partition_of
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.kept_partitions import KeptPartitions
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.groups.conversation import CONFIGS, GROUP, Conversation
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster

SMALL = 5_000


class Kept:
    """A group whose records are kept in files. The test says when they are synced."""

    def __init__(self, data_dir: Path) -> None:
        self.cluster = DrivenCluster(profile="kafka", configs=CONFIGS)
        self.cluster.create("t", 40, 3)
        self.files = self.cluster.data.kept = KeptPartitions(data_dir, print)
        self.group = Conversation(self.cluster)

    def sync(self) -> None:
        work = self.files.begin_sync()
        self.files.sync(work)
        self.files.end_sync(work)

    def commit(self, offset: int, partition: int = 0) -> int:
        """The error code of a commit whose record is synced."""
        asked = self.group.submit(self.group.commit_request(offset, partition=partition), 9)
        self.sync()
        self.group.pass_time(2)
        code: int = asked.response.topics[0].partitions[0].error_code
        return code

    @property
    def log(self) -> ReplicatedLog:
        topic = self.cluster.image.topics_by_name[CONSUMER_OFFSETS]
        found = self.cluster.data.find(topic.topic_id, partition_of(GROUP, self.cluster.image.partition_count(topic)))
        assert found is not None
        return found


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(shard, "BEGIN_AT_BYTES", SMALL)
    monkeypatch.setattr(compaction, "RECORDS_AT_ONCE", 5)
    return Kept(tmp_path)


@pytest.mark.parametrize(
    ("key", "partition"),
    # Java: Math.abs("polygenelubricants".hashCode()) is negative; Kafka's Utils.abs of it is 0.
    [("polygenelubricants", 0), ("", 0), ("a", 47), ("b", 48), ("my-group", 12)],
)
def test_the_partition_of_a_key(key: str, partition: int) -> None:
    assert partition_of(key, 50) == partition


def test_a_shard_ends_with_its_topic(kept: Kept) -> None:
    """Also if a topic of the same name, with the same leaders, follows at once."""
    assert kept.commit(7) == 0
    former = kept.cluster.partitions(CONSUMER_OFFSETS)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=CONSUMER_OFFSETS)], timeout_ms=ENOUGH_TIME_MS)
    assert kept.cluster.ask(gone).responses[0].error_code == 0
    made = kept.cluster.create_at(CONSUMER_OFFSETS, *(partition.replicas for partition in former))
    assert made.error_code == 0
    assert Conversation(kept.cluster).committed() == -1


class NotDurable:
    """A metadata log whose records from now on are not durable yet."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self.durable_offset = self.end_offset

    @property
    def end_offset(self) -> int:
        return self._kept.cluster.log.end_offset


def test_offsets_of_a_deleted_topic_go_when_its_deletion_is_durable(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut takes what is not synced, file by file: the deletion of a topic, and not the records that follow
    from it. The topic would come back without its offsets. Found by `scripts/simulate --seed 2252`."""
    assert kept.commit(7) == 0
    coordinators = kept.cluster.brokers.coordinators
    log = coordinators.metadata_log
    monkeypatch.setattr(coordinators, "metadata_log", NotDurable(kept))
    written = kept.log.log.log_end_offset
    assert kept.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=ENOUGH_TIME_MS))
    kept.group.pass_time(1_000)
    assert kept.log.log.log_end_offset == written
    kept.cluster.shut_down(kept.group.coordinator_id)
    moved = Conversation(kept.cluster)
    moved.pass_time(1_000)  # a shard that is loaded forgets deleted topics too
    assert kept.log.log.log_end_offset == written
    monkeypatch.setattr(coordinators, "metadata_log", log)
    kept.group.pass_time(1)
    assert kept.log.log.log_end_offset == written + 1
    kept.sync()
    moved.pass_time(2)
    assert moved.committed() == -1


def test_a_commit_is_acknowledged_when_its_record_is_durable(kept: Kept) -> None:
    asked = kept.group.submit(kept.group.commit_request(7), 9)
    kept.group.pass_time(100)
    assert asked.is_waiting
    kept.sync()
    kept.group.pass_time(1)
    assert asked.response.topics[0].partitions[0].error_code == 0


def test_a_compaction_deletes_when_what_it_wrote_is_durable(kept: Kept) -> None:
    offset = 0
    while kept.log.log.size_bytes < SMALL if offset else True:
        assert kept.commit(offset, offset % 40) == 0
        offset += 1
    for _ in range(offset):  # each step is one turn
        kept.group.pass_time(1)
    assert kept.log.log.log_start_offset == 0
    kept.sync()
    kept.group.pass_time(1)
    assert kept.log.log.log_start_offset > 0


def test_a_commit_during_a_compaction_is_newer_than_what_it_writes(kept: Kept) -> None:
    offset = 0
    while kept.log.log.size_bytes < SMALL if offset else True:
        kept.commit(offset, offset % 40)
        offset += 1
    for partition in range(40):
        kept.commit(1_000 + partition, partition)
    for _ in range(offset):
        kept.sync()
        kept.group.pass_time(1)
    assert kept.log.log.log_start_offset > 0
    kept.cluster.shut_down(kept.group.coordinator_id)
    moved = Conversation(kept.cluster)
    assert [moved.committed(partition=partition) for partition in range(40)] == [*range(1_000, 1_040)]
