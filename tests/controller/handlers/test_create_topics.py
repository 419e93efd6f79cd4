"""CreateTopics: KIP-464 by version, limits, names, batches, in cases that the recordings lack."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.topics import TopicRecord
from tests.controller.handlers.cluster import DrivenCluster

Start = Callable[..., DrivenCluster]
VERSIONS = range(2, 8)
DEFAULTS = {"num.partitions": "4", "default.replication.factor": "2"}
LARGEST_INT32 = 2**31 - 1
LARGEST_INT16 = 2**15 - 1


def wanted(name: str, partitions: int = 1, replication_factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor, **fields)


def assigned(
    name: str, *rows: tuple[int, Sequence[int]], partitions: int = -1, replication_factor: int = -1
) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids)) for index, ids in rows]
    return wanted(name, partitions, replication_factor, assignments=assignments)


def request(*topics: CreatableTopic, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **{"timeout_ms": 1000, **fields})


def codes(response: Any) -> dict[str, int]:
    return {result.name: result.error_code for result in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("partitions", "replication_factor", "made", "code_before_v4"),
    [
        (-1, -1, (4, 2), ErrorCode.INVALID_PARTITIONS),
        (-1, 1, (4, 1), ErrorCode.INVALID_PARTITIONS),
        (3, -1, (3, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (3, 1, (3, 1), ErrorCode.NONE),
    ],
)
def test_defaults_need_version_4_in_profile_kip(
    start: Start,
    profile: Profile,
    version: int,
    partitions: int,
    replication_factor: int,
    made: tuple[int, int],
    code_before_v4: ErrorCode,
) -> None:
    cluster = start(profile=profile, configs=DEFAULTS)
    expected = code_before_v4 if profile == "kip" and version < 4 else ErrorCode.NONE
    with cluster.writing() as written:
        [result] = cluster.ask(request(wanted("t", partitions, replication_factor)), version=version).topics
    assert result.error_code == expected
    if expected:
        assert result.error_message
        assert "KIP-464" in result.error_message
        assert written == []
    else:
        rows = cluster.partitions("t")
        assert (len(rows), len(rows[0].replicas)) == made
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == made


@pytest.mark.parametrize("version", VERSIONS)
def test_a_manual_assignment_relies_on_no_default(cluster: DrivenCluster, version: int) -> None:
    response = cluster.ask(request(assigned("t", (0, [3, 1]), (1, [2, 3]))), version=version)
    assert codes(response) == {"t": ErrorCode.NONE}
    assert [row.replicas for row in cluster.partitions("t")] == [(3, 1), (2, 3)]
    assert [row.leader for row in cluster.partitions("t")] == [3, 2]


def test_defaults_are_those_of_the_broker_that_was_asked(start: Start, profile: Profile) -> None:
    cluster = start(
        profile=profile,
        configs=DEFAULTS,
        broker_configs={2: {"num.partitions": "6"}, 3: {"default.replication.factor": "3"}},
    )
    for broker_id, counts in ((1, (4, 2)), (2, (6, 2)), (3, (4, 3)), (None, (4, 2))):
        [result] = cluster.ask(request(wanted(f"by-{broker_id}", -1, -1)), broker_id=broker_id).topics
        assert (result.num_partitions, result.replication_factor) == counts


def test_a_default_may_be_more_than_the_cluster_can_do(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"default.replication.factor": "4"})
    assert codes(cluster.ask(request(wanted("t", 1, -1)))) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -(2**31), 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, LARGEST_INT16), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -LARGEST_INT16 - 1), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (assigned("t", (0, [1]), partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (0, [1]), replication_factor=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (-1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (LARGEST_INT32, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (0, [2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, 9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, -1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, -(2**31)])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (1, [1, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            wanted("t", configs=[CreatableTopicConfig(name="retention.ms", value="soon")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (wanted("t", configs=[CreatableTopicConfig(name="retention.ms", value=None)]), ErrorCode.INVALID_CONFIG),
        (wanted("t", configs=[CreatableTopicConfig(name="no.such", value="1")]), ErrorCode.INVALID_CONFIG),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_refused_topic_says_why_and_leaves_no_trace(
    cluster: DrivenCluster, topic: CreatableTopic, code: ErrorCode, validate_only: bool
) -> None:
    with cluster.writing() as written:
        [result] = cluster.ask(request(topic, validate_only=validate_only)).topics
    assert result.error_code == code
    assert result.error_message
    assert (result.num_partitions, result.replication_factor, len(result.configs)) == (-1, -1, 0)
    assert written == []
    assert codes(cluster.ask(request(wanted("t")))) == {"t": ErrorCode.NONE}, "the name is still free"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a" * 249, ErrorCode.NONE),
        ("a" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a" * 32_767, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("...", ErrorCode.NONE),
        ("-._aZ09", ErrorCode.NONE),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("ä", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("\0", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("١", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("made.before", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("made_before", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("__consumer_offsets", ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("version", [2, 7])
def test_names(cluster: DrivenCluster, version: int, name: str, code: ErrorCode) -> None:
    cluster.create("made.before")
    assert codes(cluster.ask(request(wanted(name)), version=version)) == {name: code}


def test_a_deleted_name_collides_no_longer(cluster: DrivenCluster) -> None:
    cluster.create("a.b")
    assert cluster.create("a_b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a.b")], timeout_ms=1000))
    assert cluster.create("a_b").error_code == ErrorCode.NONE


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_without_time_nothing_is_made(cluster: DrivenCluster, timeout_ms: int) -> None:
    with cluster.writing() as written:
        response = cluster.ask(request(wanted("t"), wanted("a b"), timeout_ms=timeout_ms))
    assert codes(response) == {"t": ErrorCode.REQUEST_TIMED_OUT, "a b": ErrorCode.REQUEST_TIMED_OUT}
    assert [result.error_message for result in response.topics] == [None, None]
    assert written == []


# One request, many topics


def test_the_topics_of_a_request_stand_or_fall_alone(cluster: DrivenCluster) -> None:
    """Valid topics are created in order and in one batch, invalid ones change nothing, and a name that is given twice
    is answered once."""
    batches_before = len(list(decode_batches(cluster.log.log_bytes())))
    with cluster.writing() as written:
        response = cluster.ask(
            request(
                wanted("first", 2, 2),
                wanted("bad", 1, 9),
                wanted("twice"),
                assigned("second", (0, [2, 3])),
                wanted("twice", 3, 3),
                wanted("a b"),
                wanted("third"),
            )
        )
    assert [(result.name, result.error_code) for result in response.topics] == [
        ("first", ErrorCode.NONE),
        ("bad", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("second", ErrorCode.NONE),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("third", ErrorCode.NONE),
    ]
    assert [record.name for record in written if isinstance(record, TopicRecord)] == ["first", "second", "third"]
    assert set(cluster.image.topics_by_name) == {"first", "second", "third"}
    assert len(list(decode_batches(cluster.log.log_bytes()))) == batches_before + 1


def test_a_name_given_twice_is_refused_whatever_else_is_wrong(cluster: DrivenCluster) -> None:
    response = cluster.ask(request(wanted("a b"), wanted("a b"), wanted("__cluster_metadata"), wanted("ok")))
    assert [(result.name, result.error_code) for result in response.topics] == [
        ("a b", ErrorCode.INVALID_REQUEST),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("ok", ErrorCode.NONE),
    ]


def test_colliding_names_in_one_request_are_both_made(cluster: DrivenCluster) -> None:
    """As recorded: names are compared with those of existing topics, not with each other."""
    assert codes(cluster.ask(request(wanted("a.b"), wanted("a_b")))) == {"a.b": ErrorCode.NONE, "a_b": ErrorCode.NONE}


def test_validate_only_tells_what_would_be_and_makes_nothing(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        response = cluster.ask(request(wanted("t", 5, 3), wanted("bad", 1, 9), validate_only=True))
    assert codes(response) == {"t": ErrorCode.NONE, "bad": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert (response.topics[0].num_partitions, response.topics[0].replication_factor) == (5, 3)
    assert response.topics[0].configs
    assert written == []
    assert not cluster.image.topics_by_name


def test_no_topics_is_no_error(cluster: DrivenCluster) -> None:
    assert codes(cluster.ask(request())) == {}


def test_each_topic_has_an_id_of_its_own(cluster: DrivenCluster) -> None:
    response = cluster.ask(request(*(wanted(f"t{number}") for number in range(50))))
    ids = {result.topic_id for result in response.topics}
    assert len(ids) == 50
    assert ids == set(cluster.image.topics_by_id)


# Limits of one request


@pytest.mark.parametrize(
    "topics",
    [
        [wanted("t", LARGEST_INT32, 3)],
        [wanted("t", LARGEST_INT32, LARGEST_INT16)],
        [wanted("t", 1_000_001, 1)],
        [wanted("t", 600_000, 1), wanted("u", 400_001, 1)],
        [wanted("t", 1_000_000, 1), wanted("u", -1, 1)],
        [wanted("t", 999_999, 1), assigned("u", (0, [1]), (1, [1]))],
        [wanted("t", 1_000_001, 1), wanted("u", 1, 1), wanted("u", 1, 1)],
        [wanted("t", LARGEST_INT32, 1), wanted("u", LARGEST_INT32, 1), wanted("v", -5, 1)],
    ],
    ids=str,
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_too_many_partitions_in_a_request_are_refused_before_any_is_placed(
    cluster: DrivenCluster, topics: list[CreatableTopic], validate_only: bool
) -> None:
    """44 for all of its topics, without the memory that they would take."""
    with cluster.writing() as written:
        response = cluster.ask(request(*topics, validate_only=validate_only))
    assert {result.error_code for result in response.topics} == {ErrorCode.POLICY_VIOLATION}
    [message] = {result.error_message for result in response.topics}
    if cluster.settings.profile == "kip":
        assert "1000000" in message
    else:
        assert message == "Excessively large number of partitions per request."
    assert written == []


def test_a_million_partitions_are_allowed_in_profile_kip(start: Start) -> None:
    cluster = start()
    [result] = cluster.ask(request(wanted("t", 1_000_000, 2), validate_only=True)).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 1_000_000)


def test_the_replicas_of_one_request_are_bounded_too(start: Start) -> None:
    """A request is one batch of the log, and a batch has to be readable at the next start."""
    cluster = start(brokers=12)
    topics = [wanted("t", 400_000, 12), wanted("u", 400_000, 12), wanted("v", 100_000, 12), wanted("w", 1, 1)]
    results = cluster.ask(request(*topics, validate_only=True)).topics
    assert [result.error_code for result in results] == [0, 0, ErrorCode.POLICY_VIOLATION, 0]
    assert "400000" in (results[2].error_message or "")


@pytest.mark.parametrize(("partitions", "code"), [(10_001, ErrorCode.POLICY_VIOLATION), (9_999, ErrorCode.NONE)])
def test_ten_thousand_partitions_are_the_limit_of_profile_kafka_alone(
    start: Start, profile: Profile, partitions: int, code: ErrorCode
) -> None:
    cluster = start(profile=profile)
    expected = code if profile == "kafka" else ErrorCode.NONE
    assert codes(cluster.ask(request(wanted("t", partitions, 1)))) == {"t": expected}
    assert ("t" in cluster.image.topics_by_name) == (expected == ErrorCode.NONE)


def test_many_partitions_are_made_as_few_are(cluster: DrivenCluster) -> None:
    """Above a small number of partitions, records are written as columns; the log must have the same content."""
    cluster.ask(request(wanted("few", 8, 3), wanted("many", 500, 3)))
    for row in (*cluster.partitions("few"), *cluster.partitions("many")):
        assert sorted(row.replicas) == [1, 2, 3]
        assert (row.isr, row.leader, row.leader_epoch, row.partition_epoch) == (row.replicas, row.replicas[0], 0, 0)
        assert row.directories == tuple(cluster.image.brokers[replica].log_dirs[0] for replica in row.replicas)
