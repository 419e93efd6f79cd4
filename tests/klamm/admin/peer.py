"""A broker for tests of the admin client: it gives the answers that the test sets, down to the bytes. It uses
`protocol`'s server side (read_request, encode_response), which has tests of its own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import encode_response, load_api, read_request
from klamm.protocol.errors import ErrorCode, UnsupportedVersion
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster.api_versions import API as API_VERSIONS
from klamm.protocol.messages.cluster.api_versions import ApiVersion, ApiVersionsResponse
from klamm.protocol.messages.topics.metadata import MetadataResponseBroker


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that the peer received."""

    api: Api[Message, Message]
    version: int
    correlation_id: int
    body: Message


Answer = Callable[[Asked], Awaitable[Message | bytes | None]]
"""A message is encoded; bytes are sent unchanged; None closes the connection."""


def served(*api_keys: int) -> dict[int, range]:
    """These APIs in all versions that Klamm declares."""
    apis = [load_api(key) for key in api_keys]
    return {api.key: api.versions for api in apis if api is not None}


@dataclass
class Peer:
    """The test sets `answer` and `versions`, and reads `asked` afterwards."""

    answer: Answer
    versions: dict[int, range]
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    address: str = ""
    api_versions_at_most: int = API_VERSIONS.latest_stable

    async def start(self, nursery: trio.Nursery) -> "Peer":
        listeners: list[trio.SocketListener] = await nursery.start(trio.serve_tcp, self._serve, 0)
        host, port = listeners[0].socket.getsockname()[:2]
        self.address = f"127.0.0.1:{port}" if host == "0.0.0.0" else f"[::1]:{port}"
        return self

    def as_broker(self, broker_id: int) -> MetadataResponseBroker:
        host, port = self.address.rsplit(":", 1)
        return MetadataResponseBroker(node_id=broker_id, host=host.strip("[]"), port=int(port))

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        frames = FrameBuffer(1_000_000)
        async for chunk in stream:
            frames.feed(bytes(chunk))
            while (frame := frames.next_frame()) is not None:
                reply = await self._reply(frame)
                if reply is None:
                    return
                await stream.send_all(reply)

    async def _reply(self, frame: bytes) -> bytes | None:
        try:
            api, header, body = read_request(frame)
        except UnsupportedVersion as error:
            return self._refused_api_versions(error.correlation_id)
        requested = Asked(api, header.request_api_version, header.correlation_id, body)
        if api.key == API_VERSIONS.key:
            if requested.version > self.api_versions_at_most:
                return self._refused_api_versions(requested.correlation_id)
            return self._encoded(requested, ApiVersionsResponse(api_keys=self._api_keys()))
        self.asked.append(requested)
        answer = await self.answer(requested)
        return self._encoded(requested, answer) if isinstance(answer, Message) else answer

    def _refused_api_versions(self, correlation_id: int) -> bytes:
        entry = ApiVersion(api_key=API_VERSIONS.key, min_version=0, max_version=self.api_versions_at_most)
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        return encode_frame(encode_response(API_VERSIONS, 0, correlation_id, refusal))

    def _api_keys(self) -> list[ApiVersion]:
        ranges = {**self.versions, API_VERSIONS.key: range(self.api_versions_at_most + 1)}
        return [ApiVersion(api_key=key, min_version=r.start, max_version=r.stop - 1) for key, r in ranges.items()]

    @staticmethod
    def _encoded(asked: Asked, answer: Message) -> bytes:
        return encode_frame(encode_response(asked.api, asked.version, asked.correlation_id, answer))
