"""`--kip-578-versions`: the versions of KIP-578 are advertised, read and answered; without the option they are
unknown."""

from pathlib import Path
from typing import Any

import pytest
import trio

import klamm
from klamm.broker.dispatch import APIS, SERVED
from klamm.controller.client import Client
from klamm.controller.core import Controller
from klamm.controller.served_apis import serve
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request, read_request
from klamm.protocol.errors import ErrorCode, ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.partitions import alter_partition_reassignments
from klamm.protocol.messages.topics import create_partitions, create_topics
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.serve.options import decode_serve_options
from tests.controller.handlers.cluster import Clock, new_memory_log

RAISED = {19: 8, 37: 4, 45: 2}
LIMIT = {"max.partitions": "1"}
SECONDS = 20


async def exchange(servers: str, api: Api[Any, Any], version: int, body: Message) -> Any:
    """The answer to a request in this version, as bytes of the version before it; None if the connection was closed
    without one."""
    newest = min(version, api.latest_stable)
    frame = bytearray(encode_request(api, newest, 7, "test", body))
    frame[2:4] = version.to_bytes(2, "big")
    host, _, port = servers.partition(",")[0].rpartition(":")
    buffer = FrameBuffer(1 << 20)
    with trio.fail_after(SECONDS):
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(encode_frame(bytes(frame)))
            while chunk := await stream.receive_some():
                buffer.feed(bytes(chunk))
                if (answer := buffer.next_frame()) is not None:
                    correlation_id, response = decode_response(api, newest, answer)
                    assert correlation_id == 7
                    return response
    return None


async def told(servers: str) -> dict[int, int]:
    answer = await exchange(
        servers,
        api_versions.API,
        4,
        api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    )
    return {entry.api_key: entry.max_version for entry in answer.api_keys}


def newest_usual() -> dict[int, int]:
    return {key: served.api.latest_stable for key, served in SERVED.tables["broker"].items() if served.described}


def creation(partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)])


def enlargement(count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=count, assignments=None)], timeout_ms=30_000
    )


async def test_they_are_told_and_violations_arrive_in_them(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    async with klamm.Cluster(configs=LIMIT, kip_578_versions=True, request_log=log) as cluster:
        newest = await told(cluster.bootstrap_servers)
        usual = newest_usual()
        assert newest == usual | {key: version for key, version in RAISED.items() if key in usual}
        for version in (2, 7, 8):
            answer = await exchange(cluster.bootstrap_servers, create_topics.API, version, creation(2))
            assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
            assert "max.partitions=1" in answer.topics[0].error_message
        answer = await exchange(cluster.bootstrap_servers, create_topics.API, 8, creation(1))
        assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 1)
        for version in (0, 3, 4):
            answer = await exchange(cluster.bootstrap_servers, create_partitions.API, version, enlargement(2))
            assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
        for api, version, body in ((create_topics.API, 9, creation(1)), (create_partitions.API, 5, enlargement(2))):
            assert await exchange(cluster.bootstrap_servers, api, version, body) is None
        # Klamm's own client uses only versions of Apache Kafka.
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            (refused,) = await admin.create_topics(["u"])
            assert refused.error is not None
    assert '"api":"CreateTopics","api_key":19,"api_version":8' in log.read_text()


async def test_without_the_option_they_are_unknown() -> None:
    async with klamm.Cluster(configs=LIMIT) as cluster:
        assert await told(cluster.bootstrap_servers) == newest_usual()
        assert await exchange(cluster.bootstrap_servers, create_topics.API, 8, creation(1)) is None
        assert await exchange(cluster.bootstrap_servers, create_partitions.API, 4, enlargement(2)) is None
        async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
            assert not (await admin.metadata()).topics


def test_the_bytes_are_those_of_the_version_before() -> None:
    table = serve(APIS, with_kip_578=True).to(Client("broker"))
    for api in (create_topics.API, create_partitions.API, alter_partition_reassignments.API):
        raised = RAISED[api.key]
        assert raised == api.latest_stable + 1
        body = api.request(timeout_ms=1234)
        frame = bytearray(encode_request(api, api.latest_stable, 7, "test", body))
        frame[2:4] = raised.to_bytes(2, "big")
        read, header, message = read_request(bytes(frame), table)
        assert (read, header.request_api_version, message) == (api, raised, body)
        with pytest.raises(ProtocolError, match=f"v{raised} is not served here"):
            read_request(bytes(frame))


def test_the_option_of_serve() -> None:
    assert decode_serve_options(["--kip-578-versions"]).kip_578_versions
    assert not decode_serve_options([]).kip_578_versions
    assert not Controller(Settings(), new_memory_log(), Clock()).settings.kip_578_versions
