"""One connection to one broker: requests are sent at once, and answers are matched by correlation id. If the client
has a login, a connection begins with it.

Several tasks may have requests in flight at once (pipelining). There is no reader task: a task that waits for an answer
reads, stores the answers of other tasks for them, and drops answers that no task waits for. So a cancelled wait does no
harm, but a cancelled write leaves half a frame behind and ends the connection.
"""

from math import inf
from typing import TypeVar

import trio

from klamm import __version__
from klamm.admin.errors import NotSupportedByBroker, decode_error
from klamm.admin.security import NO_SECURITY, ClientSecurity, Login, LoginFailed
from klamm.admin.streams import AccessRefused, ConnectionLost, Stream, broken, is_readable, open_stream
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode, ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake
from klamm.server.addresses import Address

RECEIVE_BYTES = 64 * 1024
LAST_CORRELATION_ID = 2**31 - 1
CLIENT_SOFTWARE_NAME = "klamm"
TLS_ALERT = b"\x15\x03"
"""The first bytes with which a TLS listener answers a request in plain text."""
HTTP_ANSWER = b"HTTP/"
USED_SHARE_OF_SESSION = 0.85
"""A broker may end the session of a login. After this share of it, requests take a new connection, as Kafka's clients
authenticate again after 85 to 95 % of it."""

_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


class Connection:
    """An open connection that knows which versions its broker serves. Made by `open_connection`."""

    def __init__(
        self, stream: Stream, address: Address, client_id: str, max_frame_bytes: int, settings_in: str = ""
    ) -> None:
        self.address = address
        self._settings_in = settings_in
        self._stream = stream
        self._client_id = client_id
        self._served: dict[int, range] = {}
        self._frames = FrameBuffer(max_frame_bytes)
        self._sending = trio.Lock()
        self._receiving = trio.Lock()
        self._next_correlation_id = 0
        self._next_answer = 0
        self._awaited: set[int] = set()
        self._arrived: dict[int, bytes] = {}
        self._lost: str | None = None
        self._use_until: float = inf

    @property
    def usable(self) -> bool:
        """False once the connection is known to be lost, also if the broker closed it while no request was in
        flight, and when the session of its login is about to end."""
        if self._lost is not None or trio.current_time() >= self._use_until:
            return False
        return not (self._idle and is_readable(self._stream))

    @property
    def _idle(self) -> bool:
        return self._next_answer == self._next_correlation_id

    async def aclose(self) -> None:
        """Close the connection. Calls that still wait for an answer fail."""
        self._lost = self._lost or "closed by us"
        await trio.aclose_forcefully(self._stream)

    def version_of(self, api: Api[_Request, _Response]) -> int:
        """The newest version that both sides support; raises `NotSupportedByBroker` if there is none."""
        served = self._served.get(api.key, range(0))
        newest = min(served.stop - 1, api.latest_stable)
        if newest < max(served.start, api.kept_versions.start):
            theirs = f"versions {served.start} to {served.stop - 1}" if served else "no version"
            ours = f"{api.kept_versions.start} to {api.latest_stable}"
            raise NotSupportedByBroker(api.name, f"{self.address} serves {theirs}, we speak {ours}")
        return newest

    async def negotiate(self) -> None:
        """Ask which versions are served; an older broker names its own versions of this request, too (KIP-511)."""
        api, version = api_versions.API, api_versions.API.latest_stable
        while True:
            frame = await self._exchange_bytes(
                api,
                version,
                api.request(client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__),
            )
            # This error has version 0, whatever was requested. In every version the error code follows the correlation
            # id.
            refused = int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
            answer = await self._decode(api, 0 if refused else version, frame)
            served = {entry.api_key: range(entry.min_version, entry.max_version + 1) for entry in answer.api_keys}
            if not refused:
                break
            newest = served.get(api.key, range(1)).stop - 1
            if not 0 <= newest < version:
                raise await self._end(f"refused ApiVersions v{version} and offered v{newest}")
            version = newest
        if (error := decode_error(answer.error_code)) is not None:
            raise await self._end(f"answered ApiVersions v{version} with {error.code.name}")
        self._served = served

    async def log_in(self, login: Login) -> None:
        """Authenticate by SASL, before any other request than ApiVersions. Raises ConnectionLost, and AccessRefused if
        broker or client refuse."""
        shake, authenticate = sasl_handshake.API, sasl_authenticate.API
        hand = await self.exchange(shake, self.version_of(shake), shake.request(mechanism=login.mechanism))
        if (error := decode_error(hand.error_code)) is not None:
            enabled = f" (enabled: {', '.join(hand.mechanisms)})" if hand.mechanisms else ""
            raise await self._refuse(f"{login.mechanism} is refused with {error.code.name}{enabled}")
        began = trio.current_time()
        version, lifetime_ms = self.version_of(authenticate), 0
        steps = login.begin()
        try:
            token = next(steps)
            while True:
                answer = await self.exchange(authenticate, version, authenticate.request(auth_bytes=token))
                if (error := decode_error(answer.error_code)) is not None:
                    said = answer.error_message or error.code.name
                    raise await self._refuse(f"{login.mechanism} is refused: {said}")
                lifetime_ms = answer.session_lifetime_ms
                token = steps.send(answer.auth_bytes)
        except LoginFailed as error:
            raise await self._refuse(str(error)) from None
        except StopIteration:
            if lifetime_ms > 0:
                self._use_until = began + USED_SHARE_OF_SESSION * lifetime_ms / 1000

    async def _refuse(self, reason: str) -> AccessRefused:
        await self._end(f"{self.address}: {reason}")
        return AccessRefused(f"{self.address}: {reason}")

    async def exchange(self, api: Api[_Request, _Response], version: int, body: _Request) -> _Response:
        """Send a request and wait for its answer.

        Raises `ConnectionLost`, and `NotSupportedByBroker` if `body` uses a field that `version` does not have.
        """
        return await self._decode(api, version, await self._exchange_bytes(api, version, body))

    async def _exchange_bytes(self, api: Api[_Request, _Response], version: int, body: _Request) -> bytes:
        correlation_id = await self._send(api, version, body)
        self._awaited.add(correlation_id)
        try:
            async with self._receiving:
                while (frame := self._arrived.get(correlation_id)) is None:
                    await self._receive_frame()
                return frame
        finally:
            self._awaited.discard(correlation_id)
            self._arrived.pop(correlation_id, None)

    async def _send(self, api: Api[_Request, _Response], version: int, body: _Request) -> int:
        async with self._sending:
            if self._lost is not None:
                raise ConnectionLost(self._lost)
            correlation_id = self._next_correlation_id
            try:
                frame = encode_request(api, version, correlation_id, self._client_id, body)
            except ProtocolError as error:
                raise NotSupportedByBroker(
                    api.name, f"version {version} cannot express this request: {error}"
                ) from error
            self._next_correlation_id = _after(correlation_id)
            try:
                await self._stream.send_all(len(frame).to_bytes(4, "big") + frame)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise await self._break(error) from error
            except BaseException:
                await self._end("a request was cancelled while it was being sent")
                raise
            return correlation_id

    async def _receive_frame(self) -> None:
        """Read one answer, and store it if a task waits for it."""
        if self._lost is not None:
            raise ConnectionLost(self._lost)
        try:
            while (frame := self._frames.next_frame()) is None:
                chunk = await self._stream.receive_some(RECEIVE_BYTES)
                if not chunk:
                    raise await self._end(f"{self.address} closed the connection")
                if self._next_answer == 0 and (other := self._other_protocol(bytes(chunk))) is not None:
                    raise await self._end(f"{self.address} {other}")
                self._frames.feed(bytes(chunk))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise await self._break(error) from error
        except ProtocolError as error:
            raise await self._end(f"{self.address} does not speak Kafka's protocol: {error}") from error
        # Kafka answers in the order of the requests, so only one id can come next.
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if self._idle or len(frame) < 4 or correlation_id != self._next_answer:
            raise await self._end(f"{self.address} answered {correlation_id} where {self._next_answer} was due")
        self._next_answer = _after(correlation_id)
        if correlation_id in self._awaited:
            self._arrived[correlation_id] = frame

    def _other_protocol(self, received: bytes) -> str | None:
        """A clause about the server, if the first bytes that it sends are not Kafka's."""
        if received.startswith(TLS_ALERT):
            where = f" ({self._settings_in})" if self._settings_in else ""
            return f"is a listener with TLS: the client needs security.protocol SSL or SASL_SSL{where}"
        if received.startswith(HTTP_ANSWER):
            return "does not speak Kafka's protocol: it answers HTTP"
        return None

    async def _decode(self, api: Api[_Request, _Response], version: int, frame: bytes) -> _Response:
        try:
            answer: _Response = decode_response(api, version, frame)[1]
        except ProtocolError as error:
            reason = f"{self.address} sent what is no answer to {api.name} v{version}: {error}"
            raise await self._end(reason) from error
        return answer

    async def _break(self, error: BaseException) -> ConnectionLost:
        """As `_end`, for a stream that raised this exception."""
        lost = broken(self.address, error)
        ended = await self._end(str(lost))
        return lost if str(ended) == str(lost) else ended

    async def _end(self, reason: str) -> ConnectionLost:
        """Close the connection, store the first reason, and return the exception to raise."""
        self._lost = self._lost or reason
        await trio.aclose_forcefully(self._stream)
        return ConnectionLost(self._lost)


async def open_connection(
    address: Address, client_id: str, max_frame_bytes: int, security: ClientSecurity = NO_SECURITY
) -> Connection:
    """Connect, get the versions and log in; raises `ConnectionLost` if that fails for any reason."""
    stream = await open_stream(address, security.tls)
    return await negotiated(stream, address, client_id, max_frame_bytes, security)


async def negotiated(
    stream: Stream, address: Address, client_id: str, max_frame_bytes: int, security: ClientSecurity = NO_SECURITY
) -> Connection:
    """The connection on an open stream to `address`, with its versions; raises `ConnectionLost`."""
    connection = Connection(stream, address, client_id, max_frame_bytes, security.settings_in)
    try:
        await connection.negotiate()
        if security.login is not None:
            await connection.log_in(security.login)
    except BaseException:
        await connection.aclose()
        raise
    return connection


def _after(correlation_id: int) -> int:
    return (correlation_id + 1) & LAST_CORRELATION_ID
