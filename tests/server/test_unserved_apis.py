"""Requests for APIs and versions that are not served, such as versions that Kafka 4 removed."""

import struct

import pytest

from klamm.controller.settings import Settings
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.messages.topics import create_topics, metadata
from tests.server.harness import open_test_server

SHARE_GROUP_HEARTBEAT, SHARE_FETCH, DESCRIBE_USER_SCRAM_CREDENTIALS = 76, 78, 50
NO_API = -1
UNSERVED = (SHARE_GROUP_HEARTBEAT, SHARE_FETCH, DESCRIBE_USER_SCRAM_CREDENTIALS, NO_API)


def bare_frame(api_key: int, api_version: int) -> bytes:
    body = struct.pack(">hhih", api_key, api_version, 1, -1)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("api_key", UNSERVED)
async def test_an_api_that_is_not_advertised_ends_its_connection_alone_and_is_named(api_key: int) -> None:
    """Apache Kafka does the same with an API that a listener does not serve; clients that call ApiVersions find no
    version of it."""
    async with open_test_server() as running:
        asks, stays = await running.connect(), await running.connect()
        await asks.send(bare_frame(api_key, 0))
        assert await asks.receive() is None
        assert f"no API of key {api_key} is served here" in running.stderr.getvalue()
        assert (await stays.ask(metadata.API, 12, metadata.MetadataRequest(topics=()))).error_code == 0


@pytest.mark.parametrize(("api", "api_key", "oldest"), [("CreateTopics", 19, 2), ("ListOffsets", 2, 1)])
async def test_a_version_that_kafka_4_gave_up_ends_the_connection_and_is_named(
    api: str, api_key: int, oldest: int
) -> None:
    """KIP-896: kafka-node, kafka-rust and pykafka send these, and fail with Apache Kafka 4.3 in the same way."""
    async with open_test_server() as running:
        asks = await running.connect()
        await asks.send(bare_frame(api_key, oldest - 1))
        assert await asks.receive() is None
        assert f"{api} has no version {oldest - 1}" in running.stderr.getvalue()


@pytest.mark.parametrize("asked_for", [False, True])
async def test_the_versions_of_kip_578_are_served_where_they_are_asked_for(asked_for: bool) -> None:
    """With the schema of the version before. No client sends the version after it."""
    api, newest = create_topics.API, create_topics.API.latest_stable
    request = encode_request(api, newest, 1, "test", create_topics.CreateTopicsRequest(topics=()))
    async with open_test_server(settings=Settings(seed=1, kip_578_versions=asked_for)) as running:
        for version, is_served in ((newest, True), (newest + 1, asked_for), (newest + 2, False)):
            asks = await running.connect()
            await asks.send(encode_frame(request[:2] + version.to_bytes(2, "big") + request[4:]))
            answer = await asks.receive()
            assert (answer is not None) == is_served
            if answer is not None:
                assert decode_response(api, newest, answer)[1].topics == ()
