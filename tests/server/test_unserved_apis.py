"""Requests for APIs and versions that are not served, such as versions that Kafka 4 removed."""

import json
import struct
from pathlib import Path

import pytest

from klamm.controller.settings import Settings
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.transactions import init_producer_id
from klamm.server.unserved_requests import MAX_NAMED
from tests.server.harness import open_test_server

BEGIN_QUORUM_EPOCH, VOTE, ENVELOPE = 53, 52, 58
NAMED = "Vote"
NO_API = -1
UNSERVED = (BEGIN_QUORUM_EPOCH, VOTE, ENVELOPE, NO_API)


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
        assert f"(API key {api_key}) is not served here" in running.stderr.getvalue()
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
        assert f"{api} v{oldest - 1} is not served here, only {oldest} to" in running.stderr.getvalue()


async def test_the_version_of_two_phase_commits_ends_the_connection() -> None:
    """InitProducerId v6 (KIP-939) is unstable in Apache Kafka 4.3, which does the same (recorded)."""
    request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    async with open_test_server() as running:
        asks = await running.connect()
        assert (await asks.ask(init_producer_id.API, 5, request)).error_code == 0
        await asks.send(encode_frame(encode_request(init_producer_id.API, 6, 1, "x", request)))
        assert await asks.receive() is None


def named_frame(api_key: int, client_id: str) -> bytes:
    body = struct.pack(">hhih", api_key, 0, 7, len(client_id)) + client_id.encode()
    return struct.pack(">i", len(body)) + body


async def test_each_client_is_named_once_for_each_api_and_every_request_has_a_line(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=log) as running:
        for api_key, client_id in (
            (VOTE, "a"),
            (VOTE, "a"),
            (VOTE, "b"),
            (NO_API, "a"),
        ):
            asks = await running.connect()
            await asks.send(named_frame(api_key, client_id))
            assert await asks.receive() is None
        told = [line for line in running.stderr.getvalue().splitlines() if "is not served" in line]
        assert [(NAMED in line, "client_id=a" in line) for line in told] == [
            (True, True), (True, False), (False, True),
        ]  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["api"], line["api_key"], line["client_id"], line["correlation_id"]) for line in lines] == [
        (NAMED, VOTE, "a", 7), (NAMED, VOTE, "a", 7), (NAMED, VOTE, "b", 7),
        ("unknown API", NO_API, "a", 7),
    ]  # fmt: skip
    (error,) = lines[0]["errors"]
    reason = "Vote (API key 52) is not served here; the connection is closed"
    assert (error["error_code"], error["error_message"]) == (ErrorCode.UNSUPPORTED_VERSION, reason)
    assert lines[0]["bytes_out"] == 0


async def test_very_many_clients_are_not_all_kept() -> None:
    async with open_test_server() as running:
        for number in range(MAX_NAMED + 5):
            peer = running.connect_in_memory()
            await peer.send(named_frame(VOTE, f"client {number}"))
            assert await peer.receive() is None
        assert running.stderr.getvalue().count("is not served here") == MAX_NAMED + 1


@pytest.mark.parametrize("length", [0, 4, 8, 9, 10])
async def test_a_frame_that_is_too_short_for_a_name_is_named_without(length: int) -> None:
    async with open_test_server() as running:
        asks = await running.connect()
        body = named_frame(VOTE, "client")[4:][: max(length, 4)]
        await asks.send(struct.pack(">i", len(body)) + body)
        assert await asks.receive() is None
        assert "Vote (API key 52) is not served here" in running.stderr.getvalue()


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
