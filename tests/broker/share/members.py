"""Share groups on a cluster without sockets."""

from typing import Any

from klamm.broker.coordinator.coordinators import partition_of
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.broker.share_state.states import ShareStates
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import SHARE_GROUP_STATE
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.groups.conversation import Conversation
from tests.controller.handlers.cluster import DrivenCluster

CONFIGS = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.session.timeout.ms": "500",
    "group.share.session.timeout.ms": "3000",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.max.size": "3",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
}
SESSION_MS, LOCK_MS = 3_000, 2_000
GROUP_CONFIG = 32


def new_conversation(**configs: str) -> Conversation:
    """A group without members on three brokers, and the topic `t` of two partitions."""
    cluster = DrivenCluster(
        profile="kafka", configs={**CONFIGS, **{k.replace("_", "."): v for k, v in configs.items()}}
    )
    cluster.create("t", 2, 3)
    return Conversation(cluster)


def beat(group: Conversation, member_id: str, epoch: int, topics: list[str] | None = None, **fields: Any) -> Any:
    """The answer of a heartbeat."""
    fields.setdefault("group_id", group.group_id)
    return group.ask(
        ShareGroupHeartbeatRequest(member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics, **fields)
    )


def join(group: Conversation, member_id: str, topics: list[str] | None = None) -> Any:
    """The answer of the heartbeat by which a member that has joined gets its partitions."""
    joined = beat(group, member_id, 0, topics or ["t"])
    return joined if joined.error_code else beat(group, member_id, joined.member_epoch, topics or ["t"])


def partitions(answer: Any) -> list[int]:
    """The partitions of the only topic of an assignment."""
    return [index for topic in answer.assignment.topic_partitions for index in sorted(topic.partitions)]


def set_config(group: Conversation, name: str, value: str) -> None:
    """Set a config of the group."""
    resource = AlterConfigsResource(
        resource_type=GROUP_CONFIG,
        resource_name=group.group_id,
        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
    )
    answer = group.cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer


def state_of(group: Conversation, topic_name: str = "t", partition: int = 0) -> Any:
    """What the share coordinator knows of a partition; None: nothing."""
    cluster = group.cluster
    key = SharePartitionKey(group.group_id, cluster.image.topics_by_name[topic_name].topic_id, partition)
    topic = cluster.image.topics_by_name.get(SHARE_GROUP_STATE)
    if topic is None:
        return None
    index = partition_of(str(key), cluster.image.partition_count(topic))
    leader = cluster.image.partitions.read(topic.row, index).leader
    found = cluster.brokers.coordinators.find_at(cluster.image, SHARE_GROUP_STATE, index, leader, cluster.clock.now_ms)
    assert not isinstance(found, int), found
    assert isinstance(found.state, ShareStates)
    return found.state.by_key.get(key)


def state_coordinator(group: Conversation, partition: int = 0) -> int:
    """The broker that coordinates a partition of `t`."""
    image = group.cluster.image
    key = SharePartitionKey(group.group_id, image.topics_by_name["t"].topic_id, partition)
    leader = group.cluster.brokers.coordinators.leader_of(image, SHARE_GROUP_STATE, str(key))
    assert leader is not None
    return leader


def ask_state(group: Conversation, request: Message, partition: int = 0, version: int | None = None) -> Any:
    """The first partition's result of a request to the share coordinator."""
    group.coordinator_id, before = state_coordinator(group, partition), group.coordinator_id
    answer = group.ask(request, version)
    group.coordinator_id = before
    return answer.results[0].partitions[0]
