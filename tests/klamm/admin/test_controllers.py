"""AlterTopics in a cluster of real brokers: they do not serve it, and the client asks the controller that they name."""

from typing import Any

import pytest
import trio

import klamm
from klamm.protocol.fields import Message
from klamm.protocol.messages.raft import describe_quorum
from klamm.protocol.messages.topics import create_topics
from klamm.server.addresses import decode_address
from tests.klamm.admin.peer import Asked, Peer, served

CREATE_TOPICS, DESCRIBE_QUORUM = create_topics.API.key, describe_quorum.API.key
WIDER = (klamm.TopicAlteration("orders", num_partitions=5),)


def naming(*controllers: tuple[int, str], leader: int = 3000) -> Any:
    """Answers DescribeQuorum with the listeners of these controllers."""
    nodes = [
        describe_quorum.Node(
            node_id=node_id,
            listeners=[describe_quorum.Listener(name="CONTROLLER", host=at.host, port=at.port)],
        )
        for node_id, address in controllers
        for at in [decode_address(address)]
    ]
    partition = describe_quorum.DescribeQuorumResponsePartitionData(leader_id=leader)
    topic = describe_quorum.DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])

    async def answer(asked: Asked) -> Message:
        assert asked.api.key == DESCRIBE_QUORUM
        return describe_quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)

    return answer


async def test_topics_are_altered_by_the_controller_that_a_broker_names() -> None:
    async with (
        klamm.Cluster(brokers=1, controller_listener="127.0.0.1:0") as cluster,
        klamm.AdminClient(cluster.bootstrap_servers) as admin,
        trio.open_nursery() as nursery,
    ):
        await admin.create_topics(["orders"])
        controller = cluster.controller_bootstrap_servers
        assert controller is not None
        broker = await Peer(naming((3000, controller)), served(DESCRIBE_QUORUM)).start(nursery)
        async with klamm.AdminClient(broker.address) as client:
            for _ in range(2):  # the connection to the controller is not kept
                (altered,) = await client.alter_topics(WIDER, validate_only=True)
                assert altered.error is None
            (altered,) = await client.alter_topics(WIDER)
            assert altered.error is None
            (refused,) = await client.alter_topics([klamm.TopicAlteration("none", num_partitions=5)])
            assert refused.error is not None
            assert refused.error.code is klamm.ErrorCode.INVALID_TOPIC_EXCEPTION
        (found,) = await admin.describe_topic_partitions(["orders"])
        assert len(found.partitions) == 5
        # As by Kafka's bootstrap.controllers.
        async with klamm.AdminClient(controller) as client:
            (altered,) = await client.alter_topics([klamm.TopicAlteration("orders", num_partitions=6)])
            assert altered.error is None
        nursery.cancel_scope.cancel()


async def test_a_broker_that_serves_it_is_not_asked_for_its_controller() -> None:
    async with klamm.Cluster(brokers=1) as cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics(["orders"])
        (altered,) = await admin.alter_topics(WIDER)
        assert altered.error is None


async def test_the_leader_of_the_controllers_is_asked_first() -> None:
    async with trio.open_nursery() as nursery:
        other = await Peer(naming(), served(CREATE_TOPICS)).start(nursery)
        leader = await Peer(naming(), served(CREATE_TOPICS)).start(nursery)
        broker = await Peer(naming((1, other.address), (2, leader.address), leader=2), served(DESCRIBE_QUORUM)).start(
            nursery
        )
        async with klamm.AdminClient(broker.address) as client:
            with pytest.raises(klamm.NotSupportedByBroker) as refused:
                await client.alter_topics(WIDER)
        assert (other.connections, leader.connections) == (0, 1)
        # Both brokers and controllers of Apache Kafka refuse it.
        assert f"{broker.address} serves no version" in str(refused.value)
        assert f"{leader.address} serves no version" in str(refused.value)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("apis", [(CREATE_TOPICS,), (CREATE_TOPICS, DESCRIBE_QUORUM)])
async def test_a_cluster_without_a_known_controller_does_not_support_it(apis: tuple[int, ...]) -> None:
    async with trio.open_nursery() as nursery:
        broker = await Peer(naming(), served(*apis)).start(nursery)
        async with klamm.AdminClient(broker.address) as client:
            with pytest.raises(klamm.NotSupportedByBroker, match="AlterTopics"):
                await client.alter_topics(WIDER)
        nursery.cancel_scope.cancel()


async def test_a_controller_that_cannot_be_reached_is_named() -> None:
    async with trio.open_nursery() as nursery:
        broker = await Peer(naming((3000, "127.0.0.1:1")), served(DESCRIBE_QUORUM)).start(nursery)
        async with klamm.AdminClient(broker.address) as client:
            with pytest.raises(klamm.ClusterUnreachable, match=r"127\.0\.0\.1:1"):
                await client.alter_topics(WIDER)
        nursery.cancel_scope.cancel()
