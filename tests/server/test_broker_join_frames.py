"""Frames between brokers and a controller of Apache Kafka 4.3: our codec reads and writes them, and Klamm answers the
requests of a broker that starts with the fields and values of Kafka's controller."""

import re
from collections import Counter
from typing import Any, Final

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.served_apis import FIRST_KEY_OF_KLAMM
from klamm.protocol.codec.requests import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    load_api,
)
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration, envelope
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.record_batch import decode_batches
from tests.behaviour.player import Line
from tests.server.broker_join_frames import TRACES, Frame, frames, values

CLUSTER_ID = "zKBUKWV4RDikD3TzfzITDw"
VOLATILE: Final = re.compile(
    r"\.(records|high_watermark|broker_epoch|port|host|topic_id|finalized_features_epoch|node_endpoints\[\])$"
)
"""What depends on the run: offsets, addresses, ids."""


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@pytest.mark.parametrize("trace", TRACES)
def test_every_frame_is_read_and_written_again_to_the_byte(trace: str) -> None:
    count = Counter[str]()
    for frame in frames(trace):
        api = load_api(frame.api_key)
        assert api is not None
        if frame.is_request:
            header, message = decode_request(frame.data)
            assert encode_request(api, frame.version, header.correlation_id, header.client_id, message) == frame.data
        else:
            correlation_id, message = decode_response(api, frame.version, frame.data)
            assert correlation_id == frame.correlation_id
            assert bytes(encode_response(api, frame.version, correlation_id, message)) == frame.data
        count[api.name] += 1
    assert count["Fetch"] > 30


class Broker:
    """Sends the recorded requests of a broker on its connections, with the epoch and the offsets of this run."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: dict[int, Line] = {}
        self._epoch = -1
        self._fetched = 0

    async def ask(self, frame: Frame) -> Message:
        """The answer to a recorded request."""
        api = load_api(frame.api_key)
        assert api is not None
        if frame.connection not in self._lines:
            self._lines[frame.connection] = await Line.open(self._address)
        _, request = decode_request(frame.data)
        if isinstance(request, fetch.FetchRequest):
            partition = request.topics[0].partitions[0]
            request.max_wait_ms = 0
            partition.fetch_offset = self._fetched
            partition.last_fetched_epoch = 1 if self._fetched else 0
            partition.high_watermark = self._fetched or -1
        elif isinstance(request, broker_heartbeat.BrokerHeartbeatRequest):
            request.broker_epoch, request.current_metadata_offset = self._epoch, self._fetched - 1
        answer = await self._lines[frame.connection].ask(api, frame.version, request)
        if isinstance(answer, broker_registration.BrokerRegistrationResponse):
            self._epoch = answer.broker_epoch
        elif isinstance(answer, fetch.FetchResponse):
            for batch in decode_batches(answer.responses[0].partitions[0].records or b""):
                self._fetched = batch.last_offset + 1
        assert isinstance(answer, Message)
        return answer

    async def aclose(self) -> None:
        for line in self._lines.values():
            await line.close()


def comparable(message: Message) -> dict[str, Any]:
    """The fields and values that do not depend on the run."""
    found = {path: value for path, value in values(message).items() if not VOLATILE.search(path)}
    if isinstance(message, envelope.EnvelopeResponse):
        del found[".response_data"]
        _, embedded = decode_response(create_topics.API, 4, message.response_data or b"")
        found |= {f".response_data{path}": value for path, value in comparable(embedded).items()}
    return found


async def test_the_answers_to_a_broker_that_starts_have_the_fields_and_values_of_kafka(clock: MockClock) -> None:
    """41 APIs in ApiVersions; the epoch of the leader; registration, unfencing, a forwarded and an own CreateTopics."""
    options = {"brokers": 0, "controller_listener": "127.0.0.1:0", "cluster_id": CLUSTER_ID, "profile": "kafka"}
    recorded = list(frames("trace"))
    answers = {(one.connection, one.correlation_id): one for one in recorded if not one.is_request}
    compared = Counter[str]()
    async with open_cluster(plan_cluster(checked_options(options), {}, FREE_PORTS)) as cluster:
        assert cluster.controller_bootstrap_servers is not None
        broker = Broker(cluster.controller_bootstrap_servers)
        for frame in recorded:
            wanted = answers.get((frame.connection, frame.correlation_id))
            if not frame.is_request or wanted is None:
                continue
            found = await broker.ask(frame)
            api = load_api(frame.api_key)
            assert api is not None
            _, kafkas = decode_response(api, frame.version, wanted.data)
            if isinstance(found, api_versions.ApiVersionsResponse):  # AlterTopics is Klamm's own
                found.api_keys = [one for one in found.api_keys if one.api_key < FIRST_KEY_OF_KLAMM]
            assert comparable(found) == comparable(kafkas), f"frame {frame.number}, {api.name}"
            compared[api.name] += 1
        await broker.aclose()
    assert compared == {
        "Fetch": 15, "ApiVersions": 3, "BrokerRegistration": 1, "BrokerHeartbeat": 4, "Envelope": 1, "CreateTopics": 1
    }  # fmt: skip
