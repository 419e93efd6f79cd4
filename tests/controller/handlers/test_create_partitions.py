"""CreatePartitions: KIP-195 sentence by sentence, in both profiles; limits and batches."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from klamm.controller.log import MemoryLog
from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from tests.controller.handlers.cluster import START_MS, DrivenCluster
from tests.controller.log.logs import append_records

Start = Callable[..., DrivenCluster]
LARGEST_INT32 = 2**31 - 1


def enlarged(name: str, count: int, *rows: Sequence[int]) -> CreatePartitionsTopic:
    """More partitions, placed by the controller, or with these replicas for the new partitions."""
    assignments = [CreatePartitionsAssignment(broker_ids=list(row)) for row in rows] or None
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def request(*topics: CreatePartitionsTopic, **fields: Any) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), **{"timeout_ms": 1000, **fields})


def answered(response: Any) -> list[tuple[str, int]]:
    return [(result.name, result.error_code) for result in response.results]


@pytest.mark.parametrize("is_manual", [True, False])
def test_new_partitions_have_as_many_replicas_as_partition_0_or_as_kafkas_first_one(
    start: Start, profile: Profile, is_manual: bool
) -> None:
    """Seen on Apache Kafka 4.3 with four partitions of 2, 1, 3 and 2 replicas."""
    cluster = start(profile=profile, racks=())
    assert cluster.create_at("u", [2, 1], [1, 2], [3, 1], [2, 3]).error_code == 0
    for index, replicas in ((1, [1]), (2, [3, 1, 2])):
        topic_id = cluster.image.topics_by_name["u"].topic_id
        grown = PartitionChangeRecord(partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas[:1])
        append_records(cluster.log, [grown], START_MS)
    cluster.restart()
    wanted = {"kip": 2, "kafka": 3}[profile]
    for count in (2, 3) if is_manual else ():
        asked = enlarged("u", 5, list(range(1, count + 1)))
        (result,) = cluster.ask(request(asked, validate_only=True)).results
        assert result.error_code == (0 if count == wanted else ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert answered(cluster.ask(request(enlarged("u", 5)))) == [("u", 0)]
    assert len(cluster.partitions("u")[4].replicas) == wanted


@pytest.fixture
def cluster(start: Start, profile: Profile) -> DrivenCluster:
    """Three live brokers and a topic `t` of two partitions with replicas 1, 2."""
    cluster = start(profile=profile, racks=())
    assert cluster.create_at("t", [1, 2], [2, 1]).error_code == 0
    return cluster


@pytest.mark.parametrize(
    ("topic", "kip", "kafka"),
    [
        (enlarged("t", 3), ErrorCode.NONE, ErrorCode.NONE),
        (enlarged("t", 4, [3, 1], [1, 3]), ErrorCode.NONE, ErrorCode.NONE),
        (enlarged("none", 3), ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (enlarged("a b", 3), ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (enlarged("", 3), ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (enlarged("n" * 32_767, 3), ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (enlarged("t", 2), ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS),
        (enlarged("t", 1), ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS),
        (enlarged("t", 0), ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS),
        (enlarged("t", -1), ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS),
        (enlarged("t", -(2**31)), ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS),
        (enlarged("t", 2, [1, 2]), ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS),
        (enlarged("t", 4, [1, 2]), ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 3, [1, 2], [2, 1]), ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            CreatePartitionsTopic(name="t", count=3, assignments=[]),
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (enlarged("t", 3, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 3, [1, 2, 3]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 3, [1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 3, [1, -1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", 4, [1, 2], [1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (enlarged("t", LARGEST_INT32), ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (enlarged("t", 1_000_003), ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (enlarged("t", 10_003), ErrorCode.NONE, ErrorCode.POLICY_VIOLATION),
    ],
    ids=lambda value: repr(value)[:70],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_one_topic(
    cluster: DrivenCluster, topic: CreatePartitionsTopic, kip: ErrorCode, kafka: ErrorCode, validate_only: bool
) -> None:
    """With and without `validate_only` the same is checked; a refused or validated topic is not changed."""
    expected = kip if cluster.settings.profile == "kip" else kafka
    with cluster.writing() as written:
        response = cluster.ask(request(topic, validate_only=validate_only))
    assert answered(response) == [(topic.name, expected)]
    changed = expected == ErrorCode.NONE and not validate_only
    assert len(written) == (topic.count - 2 if changed else 0)
    assert len(cluster.partitions("t")) == (topic.count if changed else 2)


@pytest.mark.parametrize("version", range(4))
def test_every_version_answers_with_the_name(cluster: DrivenCluster, version: int) -> None:
    assert answered(cluster.ask(request(enlarged("t", 3), enlarged("none", 3)), version=version)) == [
        ("t", ErrorCode.NONE),
        ("none", ErrorCode.INVALID_TOPIC_EXCEPTION)
        if cluster.settings.profile == "kip"
        else ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_the_topics_of_a_request_stand_or_fall_alone_and_in_order(cluster: DrivenCluster) -> None:
    """A name that is given twice is answered once, at its first position, and is refused."""
    cluster.create("u", 1, 3)
    cluster.create("v", 1, 1)
    response = cluster.ask(
        request(enlarged("v", 9), enlarged("t", 2), enlarged("v", 7), enlarged("u", 3), enlarged("none", 5))
    )
    assert answered(response)[:4] == [
        ("v", ErrorCode.INVALID_REQUEST),
        ("t", ErrorCode.INVALID_PARTITIONS),
        ("u", ErrorCode.NONE),
        ("none", answered(response)[3][1]),
    ]
    assert [len(cluster.partitions(name)) for name in "tuv"] == [2, 3, 1]


def test_the_limit_of_a_request_counts_what_the_topics_before_it_took(start: Start) -> None:
    cluster = start()
    for name in "abc":
        cluster.create(name)
    response = cluster.ask(
        request(enlarged("a", 600_001), enlarged("b", 600_001), enlarged("c", 400_001), validate_only=True)
    )
    assert answered(response) == [("a", ErrorCode.NONE), ("b", ErrorCode.POLICY_VIOLATION), ("c", ErrorCode.NONE)]
    assert "400000" in response.results[1].error_message


def test_every_broker_shows_the_new_count_at_once(cluster: DrivenCluster) -> None:
    """KIP-195: the answer is synchronous."""
    cluster.ask(request(enlarged("t", 7)), broker_id=2)
    for broker_id in (1, 2, 3):
        seen = cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), broker_id=broker_id)
        assert [partition.partition_index for partition in seen.topics[0].partitions] == list(range(7))


def test_new_partitions_have_the_replication_factor_of_the_topic(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"default.replication.factor": "1"})
    cluster.create("t", 1, 3)
    with cluster.writing() as written:
        cluster.ask(request(enlarged("t", 20)))
    made = [record for record in written if isinstance(record, PartitionRecord)]
    assert [record.partition_id for record in made] == list(range(1, 20))
    assert {len(record.replicas) for record in made} == {3}
    assert {(record.leader_epoch, record.partition_epoch) for record in made} == {(0, 0)}
    assert all(record.leader == record.replicas[0] for record in made)


def test_manual_replicas_are_taken_as_they_stand(cluster: DrivenCluster) -> None:
    cluster.ask(request(enlarged("t", 5, [3, 2], [1, 3], [2, 1])))
    assert [row.replicas for row in cluster.partitions("t")[2:]] == [(3, 2), (1, 3), (2, 1)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_added(cluster: DrivenCluster, timeout_ms: int) -> None:
    response = cluster.ask(request(enlarged("t", 3), enlarged("u", 3), enlarged("u", 3), timeout_ms=timeout_ms))
    assert answered(response) == [(name, ErrorCode.REQUEST_TIMED_OUT) for name in ("t", "u", "u")]
    assert len(cluster.partitions("t")) == 2


def test_a_topic_in_reassignment_grows_in_profile_kafka_only(start: Start, profile: Profile) -> None:
    first = start(profile=profile)
    first.create_at("t", [1, 2], [2, 1])
    topic = first.image.topics_by_name["t"]
    append_records(
        first.log,
        [PartitionChangeRecord(partition_id=1, topic_id=topic.topic_id, replicas=[2, 1, 3], adding_replicas=[3])],
        START_MS,
    )
    first.restart()
    response = first.ask(request(enlarged("t", 4)))
    if profile == "kip":
        assert answered(response) == [("t", ErrorCode.REASSIGNMENT_IN_PROGRESS)]
        assert len(first.partitions("t")) == 2
    else:
        assert answered(response) == [("t", ErrorCode.NONE)]
        assert len(first.partitions("t")) == 4


def test_too_few_live_brokers(cluster: DrivenCluster) -> None:
    """Kafka's controller also places followers on fenced brokers; by the KIPs only live ones count."""
    cluster.lose(2, 3)
    response = cluster.ask(request(enlarged("t", 4)))
    if cluster.settings.profile == "kip":
        assert answered(response) == [("t", ErrorCode.INVALID_REPLICATION_FACTOR)]
    else:
        assert answered(response) == [("t", ErrorCode.NONE)]
        for row in cluster.partitions("t")[2:]:
            assert (row.replicas[0], row.isr, row.leader) == (1, (1,), 1)


def test_a_manual_partition_that_nobody_could_lead_is_refused(cluster: DrivenCluster) -> None:
    cluster.lose(2, 3)
    response = cluster.ask(request(enlarged("t", 3, [2, 3])))
    assert answered(response) == [("t", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    response = cluster.ask(request(enlarged("t", 3, [3, 1])))
    assert answered(response) == [("t", ErrorCode.NONE)]
    row = cluster.partitions("t")[2]
    assert (row.replicas, row.isr, row.leader) == ((3, 1), (1,), 1)


def test_a_log_is_all_that_a_restart_needs(cluster: DrivenCluster) -> None:
    cluster.ask(request(enlarged("t", 12)))
    before = cluster.partitions("t")
    cluster.restart()
    assert isinstance(cluster.log, MemoryLog)
    assert cluster.partitions("t") == before
