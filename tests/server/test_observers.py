"""Brokers of other processes over sockets: they wait for records of the metadata log, and forward their clients'
requests."""

import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.client import Client
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.codec.messages import encode_message
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import envelope
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.security import describe_acls
from klamm.protocol.messages.tokens import create_delegation_token
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.data import DefaultPrincipalData
from klamm.protocol.uuid import METADATA_TOPIC_ID
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server

WAIT_MS = 500
LOOPBACK = socket.inet_pton(socket.AF_INET, "127.0.0.1")


def fetching(running: RunningServer, offset: int, *, epoch: int | None = None) -> fetch.FetchRequest:
    known = running.controller.identity.leader_epoch
    partition = fetch.FetchPartition(
        current_leader_epoch=known if epoch is None else epoch,
        fetch_offset=offset,
        last_fetched_epoch=known if offset else 0,
        high_watermark=offset,
    )
    topic = fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=7), max_wait_ms=WAIT_MS, max_bytes=1 << 20, topics=[topic]
    )


async def fetched(peer: Peer, request: fetch.FetchRequest) -> fetch.PartitionData:
    response = await peer.ask(fetch.API, 18, request)
    partition = response.responses[0].partitions[0]
    assert isinstance(partition, fetch.PartitionData)
    return partition


async def test_an_observer_waits_for_the_next_record_and_no_longer(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        observer = running.connect_in_memory(Client("controller"))
        end = running.log.end_offset
        started = trio.current_time()
        nothing = await fetched(observer, fetching(running, end))
        assert (nothing.records, nothing.high_watermark) == (b"", end)
        assert trio.current_time() - started == pytest.approx(WAIT_MS / 1000, abs=0.01)

        async def create_later() -> None:
            await trio.sleep(WAIT_MS / 5_000)
            await running.connect_in_memory().ask(create_topics.API, 7, create_topic("t"))

        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create_later)
            more = await fetched(observer, fetching(running, end))
        assert trio.current_time() - started < WAIT_MS / 1000
        assert more.high_watermark == running.log.end_offset > end
        assert more.records is not None
        assert next(iter(decode_batches(more.records))).base_offset == end


async def test_one_that_has_seen_a_later_epoch_is_answered_late_and_the_operator_gets_a_line(
    autojump_clock: MockClock,
) -> None:
    async with open_test_server() as running:
        observer = running.connect_in_memory(Client("controller"))
        started = trio.current_time()
        ahead = await fetched(observer, fetching(running, 99, epoch=77))
        assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert trio.current_time() - started == pytest.approx(WAIT_MS / 1000, abs=0.01)
        assert "broker 7 fetches the metadata log from offset 99" in running.stderr.getvalue()


async def test_waiting_observers_do_not_delay_the_end_of_the_server(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        observer = running.connect_in_memory(Client("controller"))
        request = fetching(running, running.log.end_offset)
        request.max_wait_ms = 30_000
        await observer.send(_framed(fetch.API, 18, request))
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
    assert trio.current_time() - started < 1


async def test_observers_read_in_threads_over_sockets() -> None:
    async with open_test_server(large_in_threads=True) as running:
        observer = await running.connect_to_controller()
        one = await fetched(observer, fetching(running, 0))
        assert one.records == running.log.log_bytes()
        response = await observer.ask(fetch.API, 18, fetching(running, 0))
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(3000, running.controller_port)]


def _framed(api: Api[Any, Any], version: int, request: Message) -> bytes:
    frame = encode_request(api, version, 9, "7", request)
    return len(frame).to_bytes(4, "big") + frame


def principal(name: str = "alice", version: int = 0) -> bytes:
    data = DefaultPrincipalData(type="User", name=name)
    return version.to_bytes(2, "big") + encode_message(data, 0, flexible=True)


async def forwarded(
    running: RunningServer,
    api: Api[Any, Any],
    version: int,
    request: Message,
    *,
    who: bytes | None = None,
    address: bytes = LOOPBACK,
) -> Any:
    """The answer that the broker gets, decoded if there is one inside; otherwise the error code."""
    broker = running.connect_in_memory(Client("controller", principal="User:broker"))
    embedded = encode_request(api, version, 42, "of-alice", request)
    wrapped = envelope.EnvelopeRequest(
        request_data=bytes(embedded),
        request_principal=principal() if who is None else who,
        client_host_address=address,
    )
    response = await broker.ask(envelope.API, 0, wrapped)
    if response.response_data is None:
        return ErrorCode(response.error_code)
    assert response.error_code == 0
    correlation_id, found = decode_response(api, version, response.response_data)
    assert correlation_id == 42
    return found


async def test_a_forwarded_request_is_decided_in_its_own_version(autojump_clock: MockClock, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=log) as running:
        for version in (2, 7):
            found = await forwarded(running, create_topics.API, version, create_topic(f"t{version}"))
            assert [(one.name, one.error_code) for one in found.topics] == [(f"t{version}", 0)]
        assert {"t2", "t7"} <= running.controller.image.topics_by_name.keys()
    lines = log.read_text()
    assert lines.count('"principal":"User:alice"') == 2
    assert lines.count('"principal":"User:broker"') == 2


async def test_the_rights_are_those_of_the_broker_s_client(autojump_clock: MockClock) -> None:
    configs = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:admin",
    }
    async with open_test_server(settings=Settings(seed=1, static_configs=configs)) as running:
        refused = await forwarded(running, create_topics.API, 7, create_topic("t"))
        assert [one.error_code for one in refused.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        made = await forwarded(running, create_topics.API, 7, create_topic("t"), who=principal("admin"))
        assert [one.error_code for one in made.topics] == [0]


async def test_a_broker_forwards_requests_for_tokens_of_its_clients(autojump_clock: MockClock) -> None:
    settings = Settings(seed=1, static_configs={"delegation.token.secret.key": "key"})
    async with open_test_server(settings=settings) as running:
        request = create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1)
        made = await forwarded(running, create_delegation_token.API, 3, request)
        assert (made.error_code, made.principal_name) == (0, "alice")
        assert list(running.controller.image.delegation_tokens) == [made.token_id]


@pytest.mark.parametrize(
    ("api", "fields", "code"),
    [
        (metadata.API, {}, ErrorCode.INVALID_REQUEST),
        (envelope.API, {}, ErrorCode.INVALID_REQUEST),
        (fetch.API, {}, ErrorCode.INVALID_REQUEST),
        (create_topics.API, {"who": b""}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics.API, {"who": b"\0"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics.API, {"who": principal(version=1)}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics.API, {"who": principal()[:-3]}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (create_topics.API, {"address": b"\x7f\0\0"}, ErrorCode.INVALID_REQUEST),
        (metadata.API, {"who": b"", "address": b""}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ],
    ids=[
        "Metadata",
        "Envelope",
        "Fetch",
        "no principal",
        "half a version",
        "version 1",
        "cut",
        "an address of 3 bytes",
        "neither principal nor address",
    ],
)
async def test_what_cannot_be_forwarded_is_refused(
    api: Api[Any, Any], fields: dict[str, Any], code: ErrorCode, autojump_clock: MockClock
) -> None:
    async with open_test_server() as running:
        assert await forwarded(running, api, api.latest_stable, api.request(), **fields) is code
        assert running.controller.image.topics_by_name == {}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_REQUEST),
        (b"\0", ErrorCode.INVALID_REQUEST),
        (b"\0\x13\0\x07", ErrorCode.INVALID_REQUEST),
        (b"\0\x13\0\x63\0\0\0\1\0\0", ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["nothing", "half a key", "no header", "an unknown version"],
)
async def test_an_embedded_request_that_cannot_be_read_is_refused_and_the_broker_stays_connected(
    data: bytes, code: ErrorCode, autojump_clock: MockClock
) -> None:
    async with open_test_server() as running:
        broker = running.connect_in_memory(Client("controller"))
        wrapped = envelope.EnvelopeRequest(
            request_data=data, request_principal=principal(), client_host_address=LOOPBACK
        )
        response = await broker.ask(envelope.API, 0, wrapped)
        assert (response.error_code, response.response_data) == (code, None)
        assert await broker.is_served()


async def test_an_ipv6_client_has_the_address_of_acls(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        address = socket.inet_pton(socket.AF_INET6, "::1")
        filters = describe_acls.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        found = await forwarded(running, describe_acls.API, 3, filters, address=address)
        assert found is ErrorCode.INVALID_REQUEST, "DescribeAcls is not forwardable"
        made = await forwarded(running, create_topics.API, 7, create_topic("t"), address=address)
        assert [one.error_code for one in made.topics] == [0]


async def test_observers_are_offered_the_log_on_the_controller_s_listener_alone(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        of_controller = running.connect_in_memory(Client("controller"))
        response = await of_controller.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        offered = {one.api_key for one in response.api_keys}
        assert {fetch.API.key, 58, 59, 67, 73} <= offered
        of_broker = running.connect_in_memory()
        response = await of_broker.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        assert not {58, 59, 67, 73} & {one.api_key for one in response.api_keys}
