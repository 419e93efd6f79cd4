"""The principal and the address of a connection's requests, as the authorizer gets them."""

from typing import Any

import pytest

from klamm.controller.authorizer import ANONYMOUS, STANDARD_AUTHORIZER, AclOperation
from klamm.controller.client import Client
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import broker_heartbeat
from klamm.protocol.messages.security import create_acls, delete_acls, describe_acls
from klamm.protocol.messages.topics import create_topics, metadata
from tests.controller.handlers.guarded_cluster import cluster_entry, deletion, description, entry
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server, request_frame

GUARDED = Settings(seed=1, static_configs={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"})
ADMIN = Client("broker", 1, "10.0.0.1", "User:admin")


async def grant(running: RunningServer, *acls: create_acls.AclCreation) -> None:
    admin = running.connect_in_memory(ADMIN)
    response = await admin.ask(create_acls.API, 3, create_acls.CreateAclsRequest(creations=acls))
    assert [result.error_code for result in response.results] == [0] * len(acls)


async def creates(peer: Peer, name: str) -> int:
    code: int = (await peer.ask(create_topics.API, 7, create_topic(name))).topics[0].error_code
    return code


async def test_a_plaintext_connection_is_anonymous_and_comes_from_its_address() -> None:
    """The simulated brokers, which have no ACLs, are up."""
    async with open_test_server(settings=GUARDED, brokers=2) as running:
        peer = await running.connect()
        assert await creates(peer, "before") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await grant(
            running,
            entry(AclOperation.CREATE, "here", principal=ANONYMOUS, host="127.0.0.1"),
            entry(AclOperation.CREATE, "elsewhere", principal=ANONYMOUS, host="127.0.0.2"),
        )
        assert await creates(peer, "here") == ErrorCode.NONE
        assert await creates(peer, "elsewhere") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        seen = await peer.ask(metadata.API, 13, metadata.MetadataRequest(topics=None))
        assert (len(seen.brokers), len(seen.topics)) == (2, 0)


async def test_a_listener_decides_who_its_clients_are() -> None:
    """The hook for SASL and TLS: a connection that begins with a principal keeps it."""
    async with open_test_server(settings=GUARDED) as running:
        await grant(running, entry(AclOperation.CREATE, "a", principal="User:alice"))
        alice = running.connect_in_memory(Client("broker", 1, "10.0.0.2", "User:alice"))
        assert await creates(alice, "a") == ErrorCode.NONE
        assert await creates(alice, "b") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await creates(running.connect_in_memory(ADMIN), "b") == ErrorCode.NONE


async def test_a_broker_from_outside_needs_a_right_like_everybody_else() -> None:
    async with open_test_server(settings=GUARDED) as running:
        peer = await running.connect_to_controller()
        beat = broker_heartbeat.BrokerHeartbeatRequest(broker_id=1)
        response = await peer.ask(broker_heartbeat.API, 1, beat)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await grant(
            running,
            cluster_entry(AclOperation.CLUSTER_ACTION, principal="User:*", host="127.0.0.1"),
        )
        response = await peer.ask(broker_heartbeat.API, 1, beat)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


UNREADABLE: list[tuple[Api[Any, Any], Message]] = [
    (describe_acls.API, description(operation=0)),
    (create_acls.API, create_acls.CreateAclsRequest(creations=[entry(AclOperation.READ), entry(0)])),
    (delete_acls.API, delete_acls.DeleteAclsRequest(filters=[deletion(), deletion(pattern_type_filter=0)])),
]


@pytest.mark.parametrize(("api", "request_"), UNREADABLE, ids=[api.name for api, _ in UNREADABLE])
@pytest.mark.parametrize("settings", [GUARDED, Settings(seed=1)], ids=["authorizer", "none"])
async def test_acl_requests_that_kafka_does_not_read_close_the_connection(
    api: Api[Any, Any], request_: Message, settings: Settings
) -> None:
    """Recorded: tests/golden/authorizer."""
    async with open_test_server(settings=settings) as running:
        peer = await running.connect()
        await peer.send(request_frame(api, 3, 1, request_))
        assert await peer.receive() is None
        assert len(running.controller.image.acls) == 0
        assert await (await running.connect()).is_served()
