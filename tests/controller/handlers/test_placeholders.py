"""KIP-409: topics are created under-replicated, and brokers that register fill the placeholders."""

from collections.abc import Callable

import pytest

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster, directory
from tests.controller.handlers.test_limits import enlarge, set_config

Start = Callable[..., DrivenCluster]
ON = {"enable.under.replicated.topic.creation": "true"}


def replicas(cluster: DrivenCluster, name: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in cluster.partitions(name)]


def test_placeholders_stand_in_for_brokers_that_are_missing(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile, configs=ON)
    assert cluster.create("t", 3, 4).error_code == ErrorCode.NONE
    for partition in cluster.partitions("t"):
        assert sorted(partition.replicas[:2]) == [1, 2]
        assert partition.replicas[2:] == (-1, -2)
        assert set(partition.isr) == {1, 2}
        assert partition.leader in (1, 2)


def test_the_answer_that_brings_a_broker_is_durable_with_the_work_behind_it(start: Start, profile: Profile) -> None:
    """The next request sees the filled placeholders, and must not be ahead of the answer that caused them."""
    cluster = start(2, profile=profile, configs=ON)
    cluster.create("t", 3, 3)
    cluster.register(3)
    epoch = cluster.image.brokers[3].broker_epoch
    beat = BrokerHeartbeatRequest(broker_id=3, broker_epoch=epoch, current_metadata_offset=cluster.log.end_offset)
    answer = cluster.submit(beat)
    assert all(3 in row for row in replicas(cluster, "t"))
    assert answer.record_offsets is not None
    assert answer.durable_at == cluster.log.end_offset > answer.record_offsets[1] + 1


def test_without_the_config_too_few_brokers_are_refused(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile)
    assert cluster.create("t", 1, 3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_config_is_dynamic(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile)
    set_config(cluster, "enable.under.replicated.topic.creation", "true")
    assert cluster.create("t", 1, 3).error_code == ErrorCode.NONE


def test_as_many_brokers_must_live_as_have_to_be_in_sync(start: Start, profile: Profile) -> None:
    """The topic's own min.insync.replicas, from the request or inherited, and at most the replication factor."""
    cluster = start(2, profile=profile, configs=ON | {"min.insync.replicas": "3"})
    own = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
    refused = cluster.create("t", 1, 4)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert all(number in refused.error_message for number in ("2 live brokers", "at least 3 must be live", "4"))
    assert cluster.create("t", 1, 4, configs=own).error_code == ErrorCode.NONE
    # The topic's own value counts when it is enlarged, too.
    assert enlarge(cluster, "t", 2).error_code == ErrorCode.NONE
    assert replicas(cluster, "t")[1][2:] == (-1, -2)


def test_of_a_config_given_twice_the_last_value_counts(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile, configs=ON)
    low, high = (CreatableTopicConfig(name="min.insync.replicas", value=value) for value in ("2", "3"))
    assert cluster.create("t", 1, 3, configs=[high, low]).error_code == ErrorCode.NONE
    assert cluster.create("u", 1, 3, configs=[low, high]).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_at_most_16_placeholders(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    assert cluster.create("t", 1, 17).error_code == ErrorCode.NONE
    refused = cluster.create("u", 1, 18)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "17 placeholders" in refused.error_message


def test_a_full_broker_is_no_missing_broker(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile, configs=ON | {"max.broker.partitions": "1"})
    assert cluster.create("t", 1, 3).error_code == ErrorCode.NONE
    assert cluster.create("u", 1, 3).error_code == ErrorCode.POLICY_VIOLATION


def test_placeholders_cannot_be_asked_for(start: Start, profile: Profile) -> None:
    cluster = start(2, profile=profile, configs=ON)
    assert cluster.create_at("t", [1, -1]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_clients_see_placeholders_as_offline_replicas(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    for partitions in (1, 20):  # Few and many are written in different ways.
        cluster.create(f"t{partitions}", partitions, 3)
        [topic] = cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{partitions}")])).topics
        for partition in topic.partitions:
            assert list(partition.replica_nodes) == [1, -1, -2]
            assert list(partition.isr_nodes) == [1]
            assert list(partition.offline_replicas) == [-1, -2]
            assert partition.leader_id == 1


def test_a_broker_that_comes_up_takes_the_leftmost_placeholder_of_each_partition(
    start: Start, profile: Profile
) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", 2, 3)
    before = cluster.partitions("t")
    with cluster.writing() as written:
        cluster.join(2)
    assert replicas(cluster, "t") == [(1, 2, -2)] * 2
    fills = [one for one in written if isinstance(one, PartitionChangeRecord) and one.replicas]
    assert [(one.partition_id, list(one.replicas or ())) for one in fills] == [(0, [1, 2, -2]), (1, [1, 2, -2])]
    assert not any(one.adding_replicas for one in fills)
    after = cluster.partitions("t")
    for old, new in zip(before, after, strict=True):
        assert new.leader_epoch == old.leader_epoch
        assert new.partition_epoch == old.partition_epoch + 2  # placed, then in sync
        assert new.isr == (1, 2)
        assert new.directories == (directory(1), directory(2), MIGRATING_DIRECTORY)
    cluster.join(3)
    assert replicas(cluster, "t") == [(1, 2, 3)] * 2
    assert not cluster.image.usage.placeholders


def test_registering_alone_fills_nothing(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", 1, 2)
    cluster.register(2)
    assert replicas(cluster, "t") == [(1, -1)]
    cluster.heartbeat(2)
    assert replicas(cluster, "t") == [(1, 2)]


def test_partitions_with_fewest_replicas_come_first(start: Start, profile: Profile) -> None:
    """Up to the limit; at equal numbers in the order of creation. Unlimited topics are filled in addition."""
    cluster = start(2, profile=profile, configs=ON)
    cluster.create("two", 1, 3)  # two real replicas
    cluster.shut_down(2)
    cluster.create("one", 2, 2, configs=[CreatableTopicConfig(name="min.insync.replicas", value="1")])
    if profile == "kafka":
        # The fenced broker is registered, so it is used: no placeholder.
        assert not any(-1 in row for row in replicas(cluster, "one"))
        return
    set_config(cluster, "max.broker.partitions", 2)
    cluster.join(3)
    assert replicas(cluster, "one") == [(1, 3), (1, 3)]
    assert replicas(cluster, "two")[0][2] == -1
    set_config(cluster, "max.broker.partitions", 3)
    assert replicas(cluster, "two")[0][2] == 3


def test_deleting_a_topic_lets_others_be_filled(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("old", 1, 2)
    cluster.create("new", 1, 2)
    set_config(cluster, "max.broker.partitions", 1)
    cluster.join(2)
    assert [replicas(cluster, name) for name in ("old", "new")] == [[(1, 2)], [(1, -1)]]
    cluster.ask(DeleteTopicsRequest(topic_names=["old"], timeout_ms=ENOUGH_TIME_MS), version=5)
    assert replicas(cluster, "new") == [(1, 2)]


def test_placeholders_are_filled_also_when_the_config_was_switched_off(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile)
    set_config(cluster, "enable.under.replicated.topic.creation", "true")
    cluster.create("t", 1, 2)
    set_config(cluster, "enable.under.replicated.topic.creation", "false")
    cluster.join(2)
    assert replicas(cluster, "t") == [(1, 2)]


def test_a_restart_goes_on_filling(start: Start, profile: Profile) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", 1, 3)
    cluster.restart()
    cluster.join(2)
    assert replicas(cluster, "t") == [(1, 2, -2)]


@pytest.mark.parametrize("partitions", [1, 30])
def test_elections_ignore_placeholders(start: Start, profile: Profile, partitions: int) -> None:
    cluster = start(1, profile=profile, configs=ON)
    cluster.create("t", partitions, 3)
    cluster.lose(1)
    assert {partition.leader for partition in cluster.partitions("t")} == {-1}
    cluster.come_back(1)
    assert {partition.leader for partition in cluster.partitions("t")} == {1}
