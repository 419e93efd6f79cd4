"""The served APIs are one value: ApiVersions, the decoder and refusals follow it, for each broker and client."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.dispatch import SERVED
from klamm.controller.client import Client
from klamm.controller.core import Controller
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.served import ApiTable
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server, request_frame

OLD_BROKER = 1
OLD_HOST = "10.0.0.1"
OLD_TABLE: ApiTable = {
    key: replace(served, described=range(4), answered=range(4))
    for key, served in SERVED.tables["broker"].items()
    if key != create_topics.API.key
}
"""What an older release could serve: no CreateTopics, and versions 0 to 3 of every other API."""


class OldForSome:
    """Gives one broker, and the clients of one address, a table of their own."""

    def to(self, client: Client) -> ApiTable:
        return OLD_TABLE if client.broker_id == OLD_BROKER or client.host == OLD_HOST else SERVED.to(client)


class MixedController(Controller):
    def __init__(self, *args: Any, **arguments: Any) -> None:
        super().__init__(*args, **arguments)
        self.served = OldForSome()


Connect = Callable[[RunningServer], Peer]
OLD: dict[str, Connect] = {
    "by broker": lambda running: running.connect_in_memory(Client("broker", OLD_BROKER)),
    "by client": lambda running: running.connect_in_memory(Client("broker", 2, OLD_HOST)),
}


def asked(version: int) -> bytes:
    body = api_versions.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    return request_frame(api_versions.API, version, 1, body)


@pytest.mark.parametrize("connect", OLD.values(), ids=OLD)
async def test_what_is_described_is_what_is_read(connect: Connect) -> None:
    async with open_test_server(brokers=2, controller_class=MixedController) as running:
        peer = connect(running)
        response = await peer.ask(api_versions.API, 3, api_versions.ApiVersionsRequest(
            client_software_name="t", client_software_version="1"))  # fmt: skip
        assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [
            (key, 0, 3) for key in OLD_TABLE
        ]
        newest = await peer.ask(metadata.API, 3, metadata.MetadataRequest(topics=None))
        assert len(newest.brokers) == 2
        await peer.send(request_frame(metadata.API, 4, 1, metadata.MetadataRequest(topics=None)))
        assert await peer.receive() is None
        assert "Metadata v4 is not served here" in running.stderr.getvalue()


@pytest.mark.parametrize("connect", OLD.values(), ids=OLD)
async def test_an_api_that_is_not_in_the_table_reaches_no_handler(connect: Connect) -> None:
    async with open_test_server(brokers=2, controller_class=MixedController) as running:
        peer = connect(running)
        await peer.send(request_frame(create_topics.API, 2, 1, create_topic("t", 1)))
        assert await peer.receive() is None
        assert not running.controller.image.topics_by_name


@pytest.mark.parametrize("connect", OLD.values(), ids=OLD)
async def test_api_versions_beyond_the_table_is_answered_with_the_tables_versions(connect: Connect) -> None:
    async with open_test_server(brokers=2, controller_class=MixedController) as running:
        peer = connect(running)
        await peer.send(asked(4))
        assert (await peer.receive() or b"")[4:] == (
            ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big") + b"\0\0\0\1" + b"\0\x12" + b"\0\0" + b"\0\3"
        )
        assert await peer.is_served()


async def test_the_others_are_served_as_ever() -> None:
    async with open_test_server(brokers=2, controller_class=MixedController) as running:
        peer = running.connect_in_memory(Client("broker", 2))
        response = await peer.ask(create_topics.API, 7, create_topic("t", 1))
        assert response.topics[0].error_code == 0
        assert len((await peer.ask(metadata.API, 13, metadata.MetadataRequest(topics=None))).topics) == 1
