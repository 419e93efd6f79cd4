"""Real and simulated brokers in one cluster: every partition's replicas are of one kind, however they come about."""

from collections.abc import Sequence
from typing import Any

import pytest

from klamm.controller.metadata.broker import REAL_BROKER
from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Feature
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest, AlterTopicsRequest, PartitionAssignment
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.handlers.reassignment_requests import reassign
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import rebuilt

REAL, SIMULATED = {4, 5, 6}, {1, 2, 3}
BAD = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.fixture(params=["kip", "kafka"])
def profile(request: Any) -> Profile:
    found: Profile = request.param
    return found


def mixed(profile: Profile = "kip", pattern: str = "real-*", **more: Any) -> DrivenCluster:
    return DrivenCluster(6, profile=profile, real=REAL, real_topics=pattern, **more)


def used(cluster: DrivenCluster, topic: str) -> set[int]:
    return {replica for partition in cluster.partitions(topic) for replica in partition.replicas}


def enlarge(cluster: DrivenCluster, topic: str, count: int, rows: Sequence[Sequence[int]] | None = None) -> Any:
    assignments = None if rows is None else [CreatePartitionsAssignment(broker_ids=list(row)) for row in rows]
    asked = CreatePartitionsTopic(name=topic, count=count, assignments=assignments)
    return cluster.ask(CreatePartitionsRequest(topics=[asked], timeout_ms=ENOUGH_TIME_MS)).results[0]


def alter(cluster: DrivenCluster, topic: str, **fields: Any) -> Any:
    request = AlterTopicsRequest(
        alter_topic_requests=[AlterTopicRequest(topic=topic, **fields)], timeout=ENOUGH_TIME_MS
    )
    return cluster.ask(request).topic_errors[0]


def move(cluster: DrivenCluster, topic: str, *brokers: int) -> Any:
    partition = ReassignablePartition(partition_index=0, replicas=list(brokers))
    return reassign(cluster, ReassignableTopic(name=topic, partitions=[partition])).responses[0].partitions[0]


def test_the_name_decides_on_which_brokers_a_topic_is(profile: Profile) -> None:
    cluster = mixed(profile)
    assert cluster.create("real-a", 9, 3).error_code == 0
    assert cluster.create("a", 9, 3).error_code == 0
    assert cluster.create("unreal-a", 9, 2).error_code == 0
    assert (used(cluster, "real-a"), used(cluster, "a"), used(cluster, "unreal-a")) == (REAL, SIMULATED, SIMULATED)


def test_every_topic_is_on_real_brokers_by_default(profile: Profile) -> None:
    cluster = DrivenCluster(6, profile=profile, real=REAL)
    cluster.create("a", 9, 2)
    assert used(cluster, "a") == REAL


@pytest.mark.parametrize(("brokers", "real", "replicas", "min_isr"), [
    (4, (2, 3, 4), 3, 2),
    (6, (6,), 1, 1),
    (5, (4, 5), 2, 2),
    (2, (), 2, 2),
])  # fmt: skip
def test_the_default_replication_factor_of_internal_topics_follows_the_brokers_that_they_are_on(
    profile: Profile, brokers: int, real: Sequence[int], replicas: int, min_isr: int
) -> None:
    cluster = DrivenCluster(brokers, profile=profile, real=real)
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
    cluster.ask(find, broker_id=1)
    sizes = {len(partition.replicas) for partition in cluster.partitions("__transaction_state")}
    assert sizes == {replicas}
    described = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name="__transaction_state")]
    )
    (found,) = cluster.ask(described, broker_id=1).results
    assert [one.value for one in found.configs if one.name == "min.insync.replicas"] == [str(min_isr)]


def test_internal_topics_are_on_real_brokers(profile: Profile) -> None:
    cluster = mixed(profile, "nothing", configs={"offsets.topic.num.partitions": "3"})
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    assert cluster.ask(find, broker_id=1).coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert used(cluster, "__consumer_offsets") <= REAL
    (found,) = cluster.ask(find, broker_id=1).coordinators
    assert (found.error_code, found.node_id in REAL, found.port) == (0, True, 9000 + found.node_id)
    # No simulated broker has a coordinator for it, and none for transactions.
    for broker_id in SIMULATED:
        cluster.tick()
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
        assert cluster.ask(request, broker_id=broker_id).error_code == ErrorCode.NOT_COORDINATOR


def test_with_one_kind_alone_the_name_decides_nothing(profile: Profile) -> None:
    for real in ((), (1, 2, 3)):
        cluster = DrivenCluster(3, profile=profile, real=real, real_topics="real-*")
        for name in ("a", "real-a"):
            assert cluster.create(name, 6, 3).error_code == 0
            assert used(cluster, name) == {1, 2, 3}


def test_too_few_brokers_of_the_kind_are_too_few(profile: Profile) -> None:
    cluster = mixed(profile)
    refused = cluster.create("real-a", 1, 4)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    found = "registered or some brokers have all their log directories cordoned" if profile == "kafka" else "live"
    assert f"only 3 real broker(s) are {found}" in refused.error_message
    assert "only 3 simulated broker(s)" in cluster.create("a", 1, 4).error_message
    assert "only 3 broker(s)" in DrivenCluster(3, profile=profile).create("a", 1, 4).error_message


@pytest.mark.parametrize(("name", "row", "text"), [
    ("real-a", (4, 5), None),
    ("real-a", (4, 1), "The replicas of topic real-a are on real brokers, and broker 1 is a simulated one."),
    ("real-a", (1, 2), "The replicas of topic real-a are on real brokers, and broker 1 is a simulated one."),
    ("a", (1, 2), None),
    ("a", (1, 6), "The replicas of topic a are on simulated brokers, and broker 6 is a real one."),
])  # fmt: skip
def test_a_manual_assignment_names_brokers_of_the_kind(name: str, row: tuple[int, ...], text: str | None) -> None:
    cluster = mixed()
    made = cluster.create_at(name, row)
    assert (made.error_code, made.error_message) == (BAD if text else 0, text)


def test_a_topic_grows_on_the_brokers_that_it_began_with(profile: Profile) -> None:
    """The name would put them elsewhere: the topic is older than the first real broker."""
    cluster = DrivenCluster(3, profile=profile, real=REAL, real_topics="*")
    cluster.create("a", 1, 2)
    for broker_id in REAL:
        cluster.join(broker_id)
    assert enlarge(cluster, "a", 9).error_code == 0
    assert used(cluster, "a") == SIMULATED
    assert enlarge(cluster, "a", 10, [(4, 5)]).error_code == BAD
    assert enlarge(cluster, "a", 10, [(1, 3)]).error_code == 0
    assert alter(cluster, "a", num_partitions=14).error_code == 0
    assert alter(cluster, "a", replication_factor=4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert alter(cluster, "a", replication_factor=3).error_code == 0
    assert used(cluster, "a") == SIMULATED


def test_no_reassignment_leads_to_the_other_kind() -> None:
    cluster = mixed()
    cluster.create_at("real-a", (4, 5))
    cluster.create_at("a", (1, 2))
    assert move(cluster, "real-a", 5, 6).error_code == 0
    refused = move(cluster, "real-a", 5, 1)
    assert (refused.error_code, "broker 1 is a simulated one" in refused.error_message) == (BAD, True)
    assert move(cluster, "a", 1, 4).error_code == BAD
    assert move(cluster, "a", 1, 3).error_code == 0
    for name, row, code in (("a", [2, 4], BAD), ("a", [2, 1], 0)):
        cluster.tick()
        found = alter(cluster, name, partition_assignment=[PartitionAssignment(partition_id=0, brokers=row)])
        assert found.error_code in (code, ErrorCode.REASSIGNMENT_IN_PROGRESS)
    assert alter(
        cluster, "real-a", partition_assignment=[PartitionAssignment(partition_id=0, brokers=[1, 2])]
    ).error_code in (BAD, ErrorCode.REASSIGNMENT_IN_PROGRESS)


def test_a_placeholder_is_filled_by_a_broker_of_the_kind() -> None:
    cluster = DrivenCluster(
        5, real=REAL, real_topics="real-*", configs={"enable.under.replicated.topic.creation": "true"}
    )
    cluster.create("real-a", 2, 3)
    assert [partition.replicas[2] for partition in cluster.partitions("real-a")] == [-1, -1]
    cluster.join(7)
    assert used(cluster, "real-a") == {4, 5, -1}
    cluster.join(6)
    assert used(cluster, "real-a") == {4, 5, 6}


def test_the_log_has_which_brokers_are_real() -> None:
    """Also after a restart, when no broker of this process is known yet, and in a snapshot."""
    cluster = mixed()
    assert cluster.image.brokers.real == REAL
    assert all((REAL_BROKER, 0, 0) in cluster.image.brokers[one].features for one in REAL)
    assert image_facts(rebuilt(cluster.image)) == image_facts(cluster.image)
    assert rebuilt(cluster.image).brokers.real == REAL
    cluster.start()
    assert cluster.image.brokers.real == REAL
    cluster.ask(UnregisterBrokerRequest(broker_id=4))
    assert cluster.image.brokers.real == {5, 6}


def test_a_registration_cannot_claim_the_kind() -> None:
    cluster = DrivenCluster(1)
    features = [*cluster.registration(2).features, Feature(name=REAL_BROKER)]
    cluster.join(2, features=features)
    assert cluster.image.brokers.real == set()
