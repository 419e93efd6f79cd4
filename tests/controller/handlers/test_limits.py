"""KIP-578: `max.broker.partitions` and `max.partitions`, rule by rule, in both profiles."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from klamm.controller.metadata.image import BROKER_RESOURCE
from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.topics.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.handlers.config_requests import set_configs

Start = Callable[..., DrivenCluster]
REFUSED = ErrorCode.POLICY_VIOLATION


def held(cluster: DrivenCluster) -> dict[int, int]:
    """Replicas per broker, counted from the partitions themselves."""
    counts: Counter[int] = Counter()
    for name in cluster.image.topics_by_name:
        for partition in cluster.partitions(name):
            counts.update(replica for replica in partition.replicas if replica >= 0)
    return {broker_id: counts[broker_id] for broker_id in cluster.image.brokers}


def hold(cluster: DrivenCluster, *counts: int) -> None:
    """Give broker 1, 2, … this many partitions of one replica each."""
    for broker_id, count in enumerate(counts, start=1):
        if count:
            assert not cluster.create_at(f"on-{broker_id}", *[[broker_id]] * count).error_code


def set_config(cluster: DrivenCluster, name: str, value: object, broker_id: int | None = None) -> None:
    """Set a dynamic config of the cluster or of one broker."""
    resource = (BROKER_RESOURCE, "" if broker_id is None else str(broker_id))
    set_configs(cluster, resource, {name: str(value)}, broker_id=broker_id or 1)


def enlarge(cluster: DrivenCluster, name: str, count: int, *replicas: Sequence[int], **fields: Any) -> Any:
    """The result of CreatePartitions of one topic."""
    assignments = [CreatePartitionsAssignment(broker_ids=list(row)) for row in replicas] or None
    topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=ENOUGH_TIME_MS, **fields)
    return cluster.ask(request).results[0]


def test_the_kips_example_of_one_partition_after_the_other(start: Start, profile: Profile) -> None:
    """Counts 8, 6 and 9 with a limit of 10: one partition RF 3 gives 9, 7 and 10; then RF 3 is refused, RF 2 is not."""
    cluster = start(profile=profile, configs={"max.broker.partitions": "10"})
    hold(cluster, 8, 6, 9)
    assert cluster.create("first", 1, 3).error_code == ErrorCode.NONE
    assert held(cluster) == {1: 9, 2: 7, 3: 10}
    refused = cluster.create("second", 1, 3)
    assert refused.error_code == REFUSED
    assert "max.broker.partitions=10" in refused.error_message
    assert "max.partitions=9223372036854775807" in refused.error_message
    assert cluster.create("third", 1, 2).error_code == ErrorCode.NONE
    assert held(cluster) == {1: 10, 2: 8, 3: 10}


def test_the_kips_example_of_two_partitions_at_once(start: Start, profile: Profile) -> None:
    """Counts 8, 6 and 9 with a limit of 10: two partitions RF 3 are refused entirely."""
    cluster = start(profile=profile, configs={"max.broker.partitions": "10"})
    hold(cluster, 8, 6, 9)
    assert cluster.create("both", 2, 3).error_code == REFUSED
    assert held(cluster) == {1: 8, 2: 6, 3: 9}


def test_the_kips_example_that_only_just_fits(start: Start, profile: Profile) -> None:
    """Counts 10, 20 and 30 with a limit of 40: 30 partitions RF 2 succeed."""
    cluster = start(profile=profile, configs={"max.broker.partitions": "40"})
    hold(cluster, 10, 20, 30)
    assert cluster.create("just", 30, 2).error_code == ErrorCode.NONE
    assert held(cluster) == {1: 40, 2: 40, 3: 40}


def test_topics_of_one_request_see_what_the_former_ones_took(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.broker.partitions": "2", "max.partitions": "3"})
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        for name, partitions, factor in (("a", 1, 3), ("b", 2, 3), ("c", 1, 3), ("d", 1, 1))
    ]
    for validate_only in (True, False):
        request = CreateTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS, validate_only=validate_only)
        codes = [topic.error_code for topic in cluster.ask(request).topics]
        assert codes == [ErrorCode.NONE, REFUSED, ErrorCode.NONE, REFUSED]
    assert sorted(cluster.image.topics_by_name) == ["a", "c"]


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize(("config", "most"), [("max.partitions", 5), ("max.broker.partitions", 4)])
def test_topics_that_grow_in_one_request_see_what_the_former_ones_took(
    start: Start, profile: Profile, config: str, most: int, *, by_hand: bool
) -> None:
    """Three partitions of three replicas; two more fit under `max.partitions`, one under `max.broker.partitions`."""
    cluster = start(profile=profile, configs={config: str(most)})
    for name in "abc":
        assert cluster.create(name, 1, 3).error_code == ErrorCode.NONE
    assignments = [CreatePartitionsAssignment(broker_ids=[1, 2, 3])] if by_hand else None
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=assignments) for name in "abc"]
    fitting = most - 3
    for validate_only in (True, False):
        request = CreatePartitionsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS, validate_only=validate_only)
        codes = [result.error_code for result in cluster.ask(request).results]
        assert codes == [ErrorCode.NONE] * fitting + [REFUSED] * (3 - fitting)
    assert [len(cluster.partitions(name)) for name in "abc"] == [2] * fitting + [1] * (3 - fitting)


def test_the_cluster_has_a_limit_of_its_own(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.partitions": "5"})
    assert cluster.create("a", 3, 1).error_code == ErrorCode.NONE
    refused = cluster.create("b", 3, 1)
    assert refused.error_code == REFUSED
    assert "max.partitions=5" in refused.error_message
    assert "the cluster has 3 partitions" in refused.error_message
    assert cluster.create("c", 2, 3).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_two_internal_topics_are_neither_counted_nor_refused(start: Start, profile: Profile, name: str) -> None:
    cluster = start(profile=profile, configs={"max.broker.partitions": "1", "max.partitions": "1"})
    assert cluster.create(name, 10, 3).error_code == ErrorCode.NONE
    assert cluster.create("one", 1, 3).error_code == ErrorCode.NONE
    assert enlarge(cluster, name, 20).error_code == ErrorCode.NONE
    assert cluster.create("__share_group_state", 1, 1).error_code == REFUSED


def test_more_partitions_are_limited_too(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.broker.partitions": "3", "max.partitions": "4"})
    cluster.create("t", 2, 3)
    for fields in ({"validate_only": True}, {}):
        refused = enlarge(cluster, "t", 4, **fields)
        assert refused.error_code == REFUSED
        assert "max.broker.partitions=3" in refused.error_message
    assert enlarge(cluster, "t", 3).error_code == ErrorCode.NONE
    assert enlarge(cluster, "t", 5).error_code == REFUSED


def test_assignments_by_hand_are_held_against_the_limits(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.broker.partitions": "2"})
    refused = cluster.create_at("t", [1, 2], [1, 3], [1, 2])
    assert refused.error_code == REFUSED
    assert "3 new replicas beside the 0 on broker 1 would exceed the limits" in refused.error_message
    assert "max.broker.partitions=2" in refused.error_message
    assert cluster.create_at("t", [1, 2], [1, 3]).error_code == ErrorCode.NONE
    assert enlarge(cluster, "t", 3, [2, 1]).error_code == REFUSED
    assert enlarge(cluster, "t", 3, [2, 3]).error_code == ErrorCode.NONE


def test_topics_made_by_hand_go_up_to_the_limits_and_no_further(start: Start, profile: Profile) -> None:
    """The topics before it in the request count with all of their partitions."""
    cluster = start(profile=profile, configs={"max.broker.partitions": "4", "max.partitions": "5"})

    def create(*rows: Sequence[Sequence[int]]) -> list[int]:
        topics = [CreatableTopic(name=f"t{at}", num_partitions=-1, replication_factor=-1, assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=row) for index, row in enumerate(given)
        ]) for at, given in enumerate(rows)]  # fmt: skip
        request = CreateTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS, validate_only=True)
        return [topic.error_code for topic in cluster.ask(request).topics]

    assert create([[1]] * 4 + [[2]]) == [ErrorCode.NONE]
    assert create([[1]] * 4 + [[2]] * 2) == [REFUSED]
    assert create([[1]] * 5) == [REFUSED]
    assert create([[1]] * 2, [[1]] * 2, [[2]]) == [ErrorCode.NONE] * 3
    assert create([[1]] * 3, [[2]] * 3, [[2]] * 2) == [ErrorCode.NONE, REFUSED, ErrorCode.NONE]
    assert create([[1]] * 3, [[1]] * 2, [[1]]) == [ErrorCode.NONE, REFUSED, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("configs", "rows", "told"),
    [
        ({"max.partitions": "1"}, [[2]], "1 new partition beside the 1 in the cluster would exceed the limits ("),
        ({"max.partitions": "1"}, [[2], [2]], "2 new partitions beside the 1 in the cluster would exceed the limits ("),
        ({"max.broker.partitions": "1"}, [[1]], "1 new replica beside the 1 on broker 1 would exceed the limits ("),
        ({"max.broker.partitions": "2"}, [[1], [1]], "2 new replicas beside the 1 on broker 1 would exceed"),
        ({"max.partitions": "1"}, 1, "1 partition with replication factor 1 would exceed the limits ("),
        ({"max.partitions": "1"}, 1, "): the cluster has 1 partition."),
        ({"max.broker.partitions": "1"}, 2, "2 partitions with replication factor 1 would exceed the limits ("),
        ({"max.broker.partitions": "1"}, 2, "): 1 broker with room for 0 of 2 replicas."),
    ],
)
def test_refusals_count_in_words_as_people_do(
    start: Start, configs: dict[str, str], rows: Sequence[Sequence[int]] | int, told: str
) -> None:
    cluster = start(brokers=1 if rows == 2 else 3, profile="kip", configs=configs)
    hold(cluster, 1)
    refused = cluster.create("t", rows, 1) if isinstance(rows, int) else cluster.create_at("t", *rows)
    assert refused.error_code == REFUSED
    assert told in refused.error_message


def test_topics_that_metadata_creates_are_limited(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.partitions": "1"})
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
    codes = [topic.error_code for topic in cluster.ask(request).topics]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, REFUSED]
    assert list(cluster.image.topics_by_name) == ["a"]


def test_limits_are_soft(start: Start, profile: Profile) -> None:
    """Existing replicas stay, and brokers over the limit get no new ones."""
    cluster = start(profile=profile)
    hold(cluster, 5, 0, 0)
    set_config(cluster, "max.broker.partitions", 2)
    assert cluster.create("t", 2, 2).error_code == ErrorCode.NONE
    assert held(cluster) == {1: 5, 2: 2, 3: 2}
    assert cluster.create("u", 1, 1).error_code == REFUSED


def test_deleting_makes_room(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.broker.partitions": "1"})
    cluster.create("old", 1, 3)
    assert cluster.create("new", 1, 3).error_code == REFUSED
    cluster.ask(DeleteTopicsRequest(topic_names=["old"], timeout_ms=ENOUGH_TIME_MS), version=5)
    assert cluster.create("new", 1, 3).error_code == ErrorCode.NONE


def test_the_limit_of_the_broker_that_is_asked_counts(start: Start, profile: Profile) -> None:
    """Per broker over cluster-wide over static; on the controller's listener the cluster-wide value."""
    cluster = start(profile=profile, configs={"max.partitions": "9"}, broker_configs={3: {"max.partitions": "1"}})
    set_config(cluster, "max.partitions", 2)
    set_config(cluster, "max.partitions", 3, broker_id=1)

    def refused(partitions: int, broker_id: int | None) -> bool:
        topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=ENOUGH_TIME_MS, validate_only=True)
        code: int = cluster.ask(request, broker_id=broker_id).topics[0].error_code
        assert code in (ErrorCode.NONE, REFUSED)
        return code == REFUSED

    assert [refused(partitions, 1) for partitions in (3, 4)] == [False, True]
    assert [refused(partitions, 2) for partitions in (2, 3)] == [False, True]
    assert [refused(partitions, 3) for partitions in (2, 3)] == [False, True]
    assert [refused(partitions, None) for partitions in (2, 3)] == [False, True]


def test_too_few_brokers_come_before_limits(start: Start, profile: Profile) -> None:
    cluster = start(profile=profile, configs={"max.broker.partitions": "1", "max.partitions": "1"})
    assert cluster.create("t", 5, 4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_that_does_not_count_makes_no_room_when_it_goes(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs={"max.broker.partitions": "2", "max.partitions": "2"})
    assert cluster.create_at("__consumer_offsets", [1], [1], [1]).error_code == 0
    hold(cluster, 2)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=ENOUGH_TIME_MS)
    assert cluster.ask(deletion).responses[0].error_code == 0
    assert cluster.create_at("more", [1]).error_code == REFUSED
