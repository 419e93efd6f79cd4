"""Answers have the end points of the listener that received the request; a broker without that listener is left out."""

from typing import Any

import pytest

from klamm.controller.calls import Call
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Listener
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.topics import describe_topic_partitions, metadata
from klamm.protocol.messages.topics.describe_topic_partitions import TopicRequest
from klamm.protocol.messages.topics.metadata import MetadataRequestTopic
from tests.controller.handlers.cluster import DrivenCluster

BOTH = [Listener(name="PLAINTEXT", host="h", port=1), Listener(name="INTERNAL", host="i", port=2)]


def ask(cluster: DrivenCluster, api: Any, request: Any, listener_name: str, version: int | None = None) -> Any:
    version = api.latest_stable if version is None else version
    call = Call(api, version, request, broker_id=1, listener_name=listener_name)
    encoded = encode_response(api, version, 1, cluster.controller.submit(call).response)  # type: ignore[arg-type]
    return decode_response(api, version, bytes(encoded))[1]


@pytest.fixture
def two_listeners(cluster: DrivenCluster) -> DrivenCluster:
    """Brokers 1 to 3 have only PLAINTEXT, broker 4 has INTERNAL, too."""
    cluster.join(4, listeners=BOTH)
    return cluster


def test_each_listener_tells_its_own_end_points(two_listeners: DrivenCluster) -> None:
    for api, request in (
        (metadata.API, metadata.MetadataRequest(topics=[])),
        (describe_cluster.API, describe_cluster.DescribeClusterRequest()),
    ):
        internal = ask(two_listeners, api, request, "INTERNAL")
        assert [(broker.host, broker.port) for broker in internal.brokers] == [("i", 2)]
        assert internal.controller_id == 1
        plain = ask(two_listeners, api, request, "PLAINTEXT")
        assert [broker.port for broker in plain.brokers] == [9001, 9002, 9003, 1]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("partitions", [2, 20], ids=["one by one", "as columns"])
def test_a_leader_without_the_listener(two_listeners: DrivenCluster, version: int, partitions: int) -> None:
    two_listeners.create_at("t", *([[4, 1], [1, 4]] * (partitions // 2)))
    request = metadata.MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    (topic,) = ask(two_listeners, metadata.API, request, "INTERNAL", version).topics
    code = ErrorCode.LISTENER_NOT_FOUND if version > 5 else ErrorCode.LEADER_NOT_AVAILABLE
    reported = [(one.leader_id, one.error_code) for one in topic.partitions]
    present = (4, ErrorCode.NONE if version else ErrorCode.REPLICA_NOT_AVAILABLE)
    assert reported == [present, (-1, code)] * (partitions // 2)
    assert {tuple(one.replica_nodes) for one in topic.partitions} == ({(4, 1), (1, 4)} if version else {(4,)})
    if version > 4:
        assert {tuple(one.offline_replicas) for one in topic.partitions} == {(1,)}
    (topic,) = ask(two_listeners, metadata.API, request, "PLAINTEXT", version).topics
    assert [(one.leader_id, one.error_code) for one in topic.partitions] == [(4, 0), (1, 0)] * (partitions // 2)


def test_describe_topic_partitions_has_no_error_for_it(two_listeners: DrivenCluster) -> None:
    two_listeners.create_at("t", [4, 1], [1, 4])
    api = describe_topic_partitions.API
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    (topic,) = ask(two_listeners, api, request, "INTERNAL").topics
    reported = [(one.leader_id, one.error_code, list(one.offline_replicas)) for one in topic.partitions]
    assert reported == [(4, 0, [1]), (-1, 0, [1])]
