"""A cluster of a simulated broker and a real one, which is a script behind a socket: it registers and answers what the
simulated broker asks it."""

import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

import trio

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import encode_response, read_request
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.uuid import Uuid
from klamm.server.event_log import EventLog
from klamm.server.server import Server
from tests.behaviour.player import Line

REAL = 9
"""The id of the real broker."""


class RealBroker:
    """Answers requests. `answers` may damage an answer; None closes the connection."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked_versions: list[int] = []
        """The version of each request but ApiVersions."""
        self.answers: Callable[[bytes], bytes | None] = lambda answer: answer

    def answer(self, api: Api[Any, Any], request: Any) -> Message:
        """The response to one request."""
        raise NotImplementedError

    @property
    def served(self) -> Mapping[Api[Any, Any], int]:
        """The newest version of each API that it serves."""
        raise NotImplementedError

    def _versions(self) -> Message:
        keys = [
            api_versions.ApiVersion(api_key=api.key, min_version=0, max_version=version)
            for api, version in (*self.served.items(), (api_versions.API, 4))
        ]
        return api_versions.ApiVersionsResponse(api_keys=keys)

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        frames = FrameBuffer(1 << 20)
        async with stream:
            with suppress(trio.BrokenResourceError):
                await self._serve(stream, frames)

    async def _serve(self, stream: trio.SocketStream, frames: FrameBuffer) -> None:
        async for data in stream:
            frames.feed(bytes(data))
            while (frame := frames.next_frame()) is not None:
                api, header, request = read_request(frame)
                version = int.from_bytes(frame[2:4], "big")
                if api.key == api_versions.API.key:
                    body = encode_response(api, version, header.correlation_id, self._versions())
                    await stream.send_all(encode_frame(bytes(body)))
                    continue
                self.asked_versions.append(version)
                response = encode_response(api, version, header.correlation_id, self.answer(api, request))
                answer = self.answers(encode_frame(bytes(response)))
                if answer is None:
                    return
                await stream.send_all(answer)


@asynccontextmanager
async def mixed(
    real: RealBroker, configs: Mapping[str, object] = MappingProxyType({}), **options: Any
) -> AsyncIterator[tuple[Server, Line, io.StringIO]]:
    """The server with the topic `t` of two partitions on the simulated broker, a connection to this broker, and what
    the server writes to stderr."""
    stderr = io.StringIO()
    given = {
        "brokers": 1,
        "controller_listener": "127.0.0.1:0",
        "real_topics": "nothing",
        "configs": {"broker.session.timeout.ms": 600_000, **configs},
        **options,
    }
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, real.serve, 0)
        port = listeners[0].socket.getsockname()[1]
        at = broker_registration.Listener(name="PLAINTEXT", host="127.0.0.1", port=port)
        async with started(given, stderr, at) as (server, line):
            yield server, line, stderr
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def started(
    options: Mapping[str, Any], stderr: io.StringIO, real: broker_registration.Listener
) -> AsyncIterator[tuple[Server, Line]]:
    """The server with the topic `t`, whose real broker has this listener, and a connection to the simulated broker."""
    plan = plan_cluster(checked_options(options), {}, FREE_PORTS)
    async with open_cluster(plan, EventLog(stream=stderr)) as server:
        assert server.controller_bootstrap_servers is not None
        controller = await Line.open(server.controller_bootstrap_servers)
        await join(controller, server.identity.cluster_id, real)
        line = await Line.open(server.bootstrap_servers)
        await make_topic(line)
        yield server, line
        await line.close()
        await controller.close()


async def make_topic(line: Line) -> None:
    """The topic `t` with two partitions."""
    topic = create_topics.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    made = await line.ask(create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[topic]))
    assert made.topics[0].error_code == 0


async def join(controller: Line, cluster_id: str, listener: broker_registration.Listener) -> None:
    """Register the real broker, and let it be unfenced."""
    request = broker_registration.BrokerRegistrationRequest(
        broker_id=REAL,
        cluster_id=cluster_id,
        incarnation_id=Uuid(bytes(15) + b"\1"),
        listeners=[listener],
        features=[
            broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        log_dirs=[Uuid(bytes(15) + b"\xf1")],
    )
    epoch = (await controller.ask(broker_registration.API, 4, request)).broker_epoch
    beat = broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=REAL, broker_epoch=epoch, current_metadata_offset=epoch + 100
    )
    assert not (await controller.ask(broker_heartbeat.API, 2, beat)).is_fenced
