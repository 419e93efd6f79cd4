"""Metadata in all versions: brokers that stopped, partitions one by one and as columns, automatic creation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.handlers.topics.described_topics import FEW_PARTITIONS
from klamm.controller.handlers.topics.metadata import MAX_CREATIONS_PER_REQUEST
from klamm.controller.settings import Profile
from klamm.protocol.codec.requests import encode_response
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.topics import metadata
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.controller.handlers.cluster import DrivenCluster

Start = Callable[..., DrivenCluster]
VERSIONS = range(14)
FIRST_WITH_OFFLINE_REPLICAS = 5
FIRST_WITH_LEADER_EPOCH = 7
FIRST_WITH_TOPIC_ID = 10
UNKNOWN_ID = Uuid(b"\x11" * 16)


def asked(*names: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def by_id(*topic_ids: Uuid) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in topic_ids])


def codes(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [4, 5], ids=["one by one", "as columns"])
def test_what_becomes_of_partitions_whose_brokers_went(cluster: DrivenCluster, version: int, partitions: int) -> None:
    """The same for few partitions and for many, which are read by another path."""
    cluster.create_at("t", *([1, 2, 3], [2, 3, 1], [3], [3, 2, 1], [1, 2, 3])[:partitions][:2])
    cluster.create_at("alone", *[[3]] * partitions)
    cluster.create_at("three", *([1, 2, 3], [2, 3, 1], [3, 2, 1], [3, 1, 2], [1, 3, 2])[:partitions])
    cluster.lose(3)
    response = cluster.ask(asked("alone", "three"), version=version)
    assert [broker.node_id for broker in response.brokers] == [1, 2]
    described = {topic.name: topic.partitions for topic in response.topics}
    hidden = version == 0
    for partition in described["alone"]:
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, list(partition.isr_nodes)) == (-1, [])
        assert list(partition.replica_nodes) == ([] if hidden else [3])
    for index, partition in enumerate(described["three"]):
        state = cluster.partitions("three")[index]
        shown = [replica for replica in state.replicas if replica != 3 or not hidden]
        assert partition.error_code == (ErrorCode.REPLICA_NOT_AVAILABLE if hidden else ErrorCode.NONE)
        assert (partition.partition_index, list(partition.replica_nodes)) == (index, shown)
        assert (partition.leader_id, list(partition.isr_nodes)) == (state.leader, list(state.isr))
        assert list(partition.offline_replicas) == ([3] if version >= FIRST_WITH_OFFLINE_REPLICAS else [])
        assert partition.leader_epoch == (state.leader_epoch if version >= FIRST_WITH_LEADER_EPOCH else -1)


@given(
    st.lists(st.tuples(st.integers(1, FEW_PARTITIONS), st.integers(1, 4)), min_size=2, max_size=12),
    st.sets(st.integers(0, 11)),
    st.booleans(),
    st.sampled_from(VERSIONS),
)
def test_many_topics_together_are_told_in_the_bytes_of_each_alone(
    shapes: list[tuple[int, int]], widened: set[int], broker_lost: bool, version: int
) -> None:
    """Alone, a topic of few partitions is described one by one; many are columns, in whichever tables their rows
    are."""
    cluster = DrivenCluster(5, racks=())
    for number, (partitions, replication_factor) in enumerate(shapes):
        assert cluster.create(f"t{number}", partitions, replication_factor).error_code == ErrorCode.NONE
    if wanted := [number for number in widened if number < len(shapes)]:
        move = [ReassignablePartition(partition_index=0, replicas=[5, 4, 3, 2, 1])]
        topics = [ReassignableTopic(name=f"t{number}", partitions=move) for number in wanted]
        assert cluster.ask(AlterPartitionReassignmentsRequest(topics=topics)).error_code == ErrorCode.NONE
    if broker_lost:
        cluster.lose(4)

    def tell(request: MetadataRequest) -> MetadataResponse:
        response = cluster.submit(request, version=version).response
        assert isinstance(response, MetadataResponse)
        return response

    together = tell(MetadataRequest(topics=None if version else []))
    alone = [tell(asked(f"t{number}")).topics[0] for number in range(len(shapes))]
    encoded = encode_response(metadata.API, version, 1, together)
    together.topics = alone
    assert encoded == encode_response(metadata.API, version, 1, together)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_describes_brokers_and_topics(cluster: DrivenCluster, version: int) -> None:
    cluster.create("t", 2, 3)
    response = cluster.ask(asked("t"), version=version)
    assert [(broker.node_id, broker.port) for broker in response.brokers] == [(1, 9001), (2, 9002), (3, 9003)]
    if version >= 1:
        assert [broker.rack for broker in response.brokers] == ["a", "b", "c"]
        assert response.controller_id in {1, 2, 3}
    assert response.cluster_id == (cluster.log.cluster_id if version >= 2 else None)
    [topic] = response.topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("t", 0, 2)
    known_id = cluster.image.topics_by_name["t"].topic_id
    assert topic.topic_id == (known_id if version >= FIRST_WITH_TOPIC_ID else ZERO_UUID)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_asked_for_by_null_and_in_version_0_by_none(cluster: DrivenCluster, version: int) -> None:
    for name in "abc":
        cluster.create(name)
    everything = asked() if version == 0 else MetadataRequest(topics=None)
    assert codes(cluster.ask(everything, version=version)) == dict.fromkeys("abc", 0)
    if version > 0:
        assert codes(cluster.ask(asked(), version=version)) == {}


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(cluster: DrivenCluster, version: int) -> None:
    made = cluster.create("t", 2, 3)
    response = cluster.ask(by_id(made.topic_id, UNKNOWN_ID), version=version)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_beside_an_id_entries_without_one_are_dropped_those_without_a_name_too(
    cluster: DrivenCluster, version: int
) -> None:
    """Without any id, an entry with neither id nor name makes the request fail, as in Apache Kafka."""
    topic_id = cluster.create("t").topic_id
    cluster.create("u")
    neither = MetadataRequestTopic(name=None)
    entries = [MetadataRequestTopic(name=None, topic_id=topic_id), neither, MetadataRequestTopic(name="u")]
    assert codes(cluster.ask(MetadataRequest(topics=entries), version=version)) == {"t": ErrorCode.NONE}
    response = cluster.ask(MetadataRequest(topics=entries[1:]), version=version)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert list(response.brokers) == []


def test_a_name_asked_for_twice_is_described_once(cluster: DrivenCluster) -> None:
    cluster.create("t")
    assert len(cluster.ask(asked("t", "t")).topics) == 1


def test_no_broker_is_shown_when_all_are_gone(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [1, 2, 3])
    cluster.lose(1, 2, 3)
    response = cluster.ask(asked("t"))
    assert (list(response.brokers), response.controller_id) == ([], -1)
    [partition] = response.topics[0].partitions
    assert (partition.error_code, list(partition.offline_replicas)) == (ErrorCode.LEADER_NOT_AVAILABLE, [1, 2, 3])


def test_a_broker_on_its_way_out_still_answers_and_leads_nothing(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [3, 1])
    cluster.heartbeat(3, want_shut_down=True)
    response = cluster.ask(asked("t"))
    assert [broker.node_id for broker in response.brokers] == [1, 2, 3]
    [partition] = response.topics[0].partitions
    assert (partition.leader_id, list(partition.isr_nodes), list(partition.offline_replicas)) == (1, [1], [])


# Automatic creation


@pytest.mark.parametrize(
    ("version", "allowed"),
    [(version, allowed) for version in VERSIONS for allowed in (True, False) if allowed or version > 3],
)
def test_an_unknown_topic_is_made_when_broker_and_request_allow_it(
    start: Start, profile: Profile, version: int, allowed: bool
) -> None:
    """Before version 4 a request cannot forbid it."""
    cluster = start(
        profile=profile, configs={"num.partitions": "3"}, broker_configs={3: {"auto.create.topics.enable": "false"}}
    )
    request = asked("t", allow_auto_topic_creation=allowed)
    for broker_id, made in ((3, False), (1, allowed)):
        assert codes(cluster.ask(request, version=version, broker_id=broker_id)) == {
            "t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert ("t" in cluster.image.topics_by_name) == made
    if allowed:
        assert codes(cluster.ask(request, version=version)) == {"t": ErrorCode.NONE}
        assert len(cluster.partitions("t")) == 3


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("made_before", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_made_says_why(cluster: DrivenCluster, name: str, code: ErrorCode) -> None:
    cluster.create("made.before")
    with cluster.writing() as written:
        assert codes(cluster.ask(asked(name, allow_auto_topic_creation=True))) == {name: code}
    assert written == []


def test_creation_that_needs_more_brokers_than_live_is_refused(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"default.replication.factor": "4"})
    response = cluster.ask(asked("t", allow_auto_topic_creation=True))
    assert codes(response) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert not cluster.image.topics_by_name


@pytest.mark.parametrize(
    ("profile", "partitions", "made"),
    [("kafka", 4_000, {"a", "b"}), ("kafka", 10_001, set()), ("kip", 1_000_001, set())],
)
def test_one_request_makes_no_more_partitions_than_creation_may(
    start: Start, profile: Profile, partitions: int, made: set[str]
) -> None:
    cluster = start(profile=profile, configs={"num.partitions": str(partitions)})
    response = cluster.ask(asked("a", "b", "c", allow_auto_topic_creation=True))
    assert codes(response) == {
        name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name in made else ErrorCode.POLICY_VIOLATION for name in "abc"
    }
    assert set(cluster.image.topics_by_name) == made


@pytest.mark.parametrize("limit", [2**63 - 1, 3], ids=["room for all", "little room"])
def test_no_more_topics_are_tried_at_once_than_others_can_wait_for(start: Start, limit: int) -> None:
    """The client repeats its request for the others, as it does for topics that were just created, and gets all for
    which there is room."""
    cluster = start(configs={"max.partitions": str(limit)})
    names = [f"t{number}" for number in range(MAX_CREATIONS_PER_REQUEST + 5)]
    request = asked(*names, allow_auto_topic_creation=True)
    reported = codes(cluster.ask(request))
    assert len(cluster.image.topics_by_name) == min(limit, MAX_CREATIONS_PER_REQUEST)
    assert {reported[name] for name in names[-5:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    reported = codes(cluster.ask(request))
    assert len(cluster.image.topics_by_name) == min(limit, len(names))
    assert list(reported.values()).count(ErrorCode.NONE) == min(limit, MAX_CREATIONS_PER_REQUEST)


def test_what_is_told_beside_a_new_topic_stays_as_it_is(cluster: DrivenCluster) -> None:
    """Creating a topic changes columns before the answer is encoded: no part of the answer may be a view."""
    cluster.create("t", FEW_PARTITIONS + 1)
    response = cluster.submit(asked("t", "new", allow_auto_topic_creation=True)).response
    assert isinstance(response, MetadataResponse)
    reported = response.topics[0].partitions
    assert isinstance(reported, Columns)
    [table] = cluster.image.partitions.tables.values()
    assert not any(
        np.shares_memory(reported.column(name), column)
        for name, column in [("leader_id", table.leader), ("replica_nodes", table.replicas), ("isr_nodes", table.isr)]
    )


def test_ids_and_all_topics_make_nothing(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        cluster.ask(MetadataRequest(topics=None, allow_auto_topic_creation=True))
        cluster.ask(
            MetadataRequest(
                topics=[MetadataRequestTopic(name="t", topic_id=UNKNOWN_ID)], allow_auto_topic_creation=True
            )
        )
    assert written == []
