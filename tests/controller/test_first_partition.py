"""The partition that says how many replicas new partitions get, compared with recordings of the hash table of Apache
Kafka 4.3 (tests/golden/first_partition)."""

import gzip
from pathlib import Path
from typing import Final

import pytest

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.topic import Topic
from klamm.controller.transitions.first_partition import first_partition, replication_factor_of
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import apply, uuid_of

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "first_partition" / "first_partition.txt.gz"
LINES: Final = gzip.decompress(GOLDEN.read_bytes()).decode().splitlines()
COUNTS: Final = [[int(field) for field in line.split()] for line in LINES if line[0] != "+"]
LIVES: Final = [line for line in LINES if line[0] == "+"]
LARGE: Final = {5_000: 4_181, 10_000: 4_181, 100_000: 75_025}
"""Recorded in the same way of Apache Kafka 4.2.0."""


def topic_of(image: MetadataImage) -> Topic:
    return image.topics_by_name["t"]


def grow(image: MetadataImage, *replicas: int) -> None:
    """Add partitions with so many replicas."""
    count = image.partition_count(topic_of(image))
    new = [
        PartitionRecord(partition_id=count + number, topic_id=uuid_of(1), replicas=list(range(1, 1 + replica_count)))
        for number, replica_count in enumerate(replicas)
    ]
    apply(image, *new)


def change(image: MetadataImage, partition: int = 0) -> None:
    apply(image, PartitionChangeRecord(partition_id=partition, topic_id=uuid_of(1), leader=1))


@pytest.fixture
def image() -> MetadataImage:
    made = MetadataImage()
    apply(made, TopicRecord(name="t", topic_id=uuid_of(1)))
    return made


def test_the_first_partition_is_that_of_kafkas_table() -> None:
    assert [count for count, _, _ in COUNTS] == list(range(1, 2_001))
    for count, created, changed in COUNTS:
        assert (first_partition(count), first_partition(count, count)) == (created, changed), count


@pytest.mark.parametrize("count", LARGE)
def test_the_first_of_many_partitions_is_that_of_kafkas_table(count: int) -> None:
    assert first_partition(count) == LARGE[count]


def test_topics_that_grow_and_change_have_the_first_partitions_of_kafkas_table() -> None:
    assert len(LIVES) == 400
    for line in LIVES:
        image = MetadataImage()
        apply(image, TopicRecord(name="t", topic_id=uuid_of(1)))
        for step in line.split():
            what, found = step.split("=")
            if what == "c":
                change(image)
            else:
                grow(image, *int(what) * (1,))
            row = topic_of(image).row
            count_at_change = image.topics.counts_at_change.get(row, 0)
            assert first_partition(image.partitions.partition_count(row), count_at_change) == int(found), line


def test_new_partitions_have_the_replicas_of_the_first_partition(image: MetadataImage) -> None:
    """Case 70 of seed 11 of `tools.predictions`: the topic has five partitions, and one changes."""
    grow(image, 3, 3, 2, 3, 3)
    assert replication_factor_of(image, topic_of(image), like_kafka=True) == 2
    change(image)
    assert replication_factor_of(image, topic_of(image), like_kafka=True) == 3
    assert replication_factor_of(image, topic_of(image), like_kafka=False) == 3


def test_a_change_before_the_topic_grew_is_no_change_of_the_grown_topic(image: MetadataImage) -> None:
    grow(image, 3, 3, 2, 3)
    change(image, 3)
    grow(image, 3)
    assert replication_factor_of(image, topic_of(image), like_kafka=True) == 2


def test_cleared_eligible_leader_replicas_are_a_change(image: MetadataImage) -> None:
    grow(image, 3, 3, 2, 3)
    eligible = PartitionChangeRecord(partition_id=3, topic_id=uuid_of(1), eligible_leader_replicas=[2])
    apply(image, eligible)
    grow(image, 3)
    assert replication_factor_of(image, topic_of(image), like_kafka=True) == 2
    apply(image, ClearElrRecord(topic_name="t"))
    assert replication_factor_of(image, topic_of(image), like_kafka=True) == 3
    apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
    assert not image.topics.counts_at_change
