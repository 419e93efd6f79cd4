"""The states of a connection to a SASL listener, as in Kafka's SaslServerAuthenticator: frames in, verdicts out.

    VERSIONS_OR_HANDSHAKE ── ApiVersions ──► HANDSHAKE ── SaslHandshake ──► TOKENS ── last token ──► AUTHENTICATED
      └──────────────────────── SaslHandshake ─────────────────────────────────►│                     │      ▲
                                                                                │      SaslHandshake, if sessions end
    every state ── anything else ──► FAILED                    BAD_MECHANISM ◄──┴─────────────────────┘

Sans I/O: the caller sends, delays and closes as the verdict says (`klamm.server.sasl.guard`), and passes the time. The
only way to AUTHENTICATED is `_complete`, which needs the identity that a mechanism found.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from klamm.protocol.api import Api
from klamm.protocol.codec.requests import API_VERSIONS_KEY, encode_response, read_request
from klamm.protocol.errors import ErrorCode, ProtocolError, UnsupportedVersion
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.headers import RequestHeader
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake
from klamm.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from klamm.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from klamm.protocol.served import ApiTable
from klamm.server.sasl.mechanism import (
    AuthenticationFailed,
    CredentialsRefused,
    Identity,
    Malformed,
    Mechanism,
    NewExchange,
)
from klamm.server.sasl.settings import SaslSettings

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""Between the beginnings of two re-authentications of a connection, as in Kafka."""
MAX_ANSWERED_BYTES: Final = 4_096
"""A larger request than this, which is not of SASL, gets no answer of its own during an authentication."""


class SaslState(Enum):
    """What the connection expects next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    BAD_MECHANISM = auto()
    """A re-authentication began with another mechanism: the next frame ends the connection."""
    AUTHENTICATED = auto()
    FAILED = auto()


class Reaction(Enum):
    """What the caller does with the connection."""

    PASS = auto()
    """The frame is a request of an authenticated client."""
    VERSIONS = auto()
    """The frame is an ApiVersions request: answer it, and tell `versions_answered`."""
    ANSWER = auto()
    REFUSE = auto()
    """Wait for the delay of failed authentications, send the payload if there is one, and close."""
    CLOSE = auto()
    """Close at once."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that the authenticator answered, for the request log."""

    api: Api[Any, Any]
    header: RequestHeader
    response: Message


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reaction to one frame."""

    reaction: Reaction
    payload: bytes | bytearray | None = None
    reason: str = ""
    """Why the connection fails, in one clause without secrets."""
    exchange: Exchange | None = None


PASS: Final = Verdict(Reaction.PASS)
_VERSIONS: Final = Verdict(Reaction.VERSIONS)

ErrorAnswer = Callable[[Api[Any, Any], int, Message, ErrorCode], Message | None]
"""The response that refuses a request as a whole, for an API and a version; None: Kafka has none for it."""


class SaslAuthenticator:
    """The authentication of one connection."""

    def __init__(
        self,
        settings: SaslSettings,
        exchanges: Mapping[str, NewExchange],
        served: ApiTable,
        error_answer: ErrorAnswer,
    ) -> None:
        """`exchanges` begins an exchange by the name of its mechanism. `served` are the APIs of the listener."""
        self.state = SaslState.VERSIONS_OR_HANDSHAKE
        self.identity: Identity | None = None
        """The authenticated user, also while the client authenticates again."""
        self._settings = settings
        self._exchanges = exchanges
        self._served = served
        self._error_answer = error_answer
        self._mechanism_name = ""
        self._mechanism: Mechanism | None = None
        self._has_headers = False  # whether tokens come in SaslAuthenticate requests
        self._session_ends_at_ms: int | None = None
        self._reauthentication_began_at_ms: int | None = None

    @property
    def is_authenticated(self) -> bool:
        return self.state is SaslState.AUTHENTICATED

    def receive(self, frame: bytes, now_ms: int) -> Verdict:
        """The verdict on one frame."""
        if self.state is SaslState.AUTHENTICATED:
            return self._from_authenticated(frame, now_ms)
        steps: dict[SaslState, Callable[[bytes, int], Verdict]] = {
            SaslState.VERSIONS_OR_HANDSHAKE: self._from_beginning,
            SaslState.HANDSHAKE: self._from_beginning,
            SaslState.TOKENS: self._from_tokens,
            SaslState.BAD_MECHANISM: self._from_bad_mechanism,
        }
        step = steps.get(self.state)
        if step is None:
            return self._close("the authentication has failed already")
        try:
            return step(frame, now_ms)
        except (ProtocolError, Malformed) as error:
            return self._close(str(error))

    def receive_bad_size(self, reason: str) -> Verdict:
        """The verdict on a frame whose size is negative or too large."""
        return self._refuse(None, reason)

    def versions_answered(self, error_code: int) -> None:
        """The caller answered an ApiVersions request. After an error, the client may send another one."""
        if self.state is SaslState.VERSIONS_OR_HANDSHAKE and error_code == ErrorCode.NONE:
            self.state = SaslState.HANDSHAKE

    # The states, in the order of an authentication.

    def _from_beginning(self, frame: bytes, _now_ms: int) -> Verdict:
        key = _key(frame)
        if key == API_VERSIONS_KEY:
            if self.state is SaslState.HANDSHAKE:
                return self._close("a second ApiVersions request before authentication")
            return _VERSIONS
        if key != sasl_handshake.API.key:
            return self._close(f"a request with API key {key} before authentication")
        return self._shake_hands(frame)

    def _shake_hands(self, frame: bytes) -> Verdict:
        _, header, request = read_request(frame, self._served)
        assert isinstance(request, SaslHandshakeRequest), "the API key says so"
        self._has_headers = header.request_api_version >= 1
        response = SaslHandshakeResponse(mechanisms=self._settings.mechanisms)
        if request.mechanism not in self._exchanges:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._refuse(Exchange(sasl_handshake.API, header, response), "an unsupported mechanism")
        if self.identity is not None and request.mechanism != self._mechanism_name:
            self.state = SaslState.BAD_MECHANISM
        else:
            self._mechanism_name = request.mechanism
            self._mechanism = self._exchanges[request.mechanism]()
            self.state = SaslState.TOKENS
        return self._answer(Exchange(sasl_handshake.API, header, response))

    def _from_tokens(self, frame: bytes, now_ms: int) -> Verdict:
        if not self._has_headers:
            return self._take_raw_token(frame, now_ms)
        if _key(frame) != sasl_authenticate.API.key:
            return self._refuse_request(frame)
        _, header, request = read_request(frame, self._served)
        assert isinstance(request, SaslAuthenticateRequest), "the API key says so"
        response = SaslAuthenticateResponse()
        try:
            response.auth_bytes = self._evaluate(request.auth_bytes, now_ms)
        except AuthenticationFailed as error:
            response.error_message = str(error)
        except CredentialsRefused:
            response.error_message = self._credentials_refused()
        else:
            if self.is_authenticated and self._session_ends_at_ms is not None:
                response.session_lifetime_ms = max(0, self._session_ends_at_ms - now_ms)
            return self._answer(Exchange(sasl_authenticate.API, header, response))
        response.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return self._refuse(Exchange(sasl_authenticate.API, header, response), response.error_message)

    def _refuse_request(self, frame: bytes) -> Verdict:
        """Answer another request than SaslAuthenticate with an error of its own, as Kafka does, unless it is large:
        nothing large is decoded for a client that is not authenticated."""
        if len(frame) > MAX_ANSWERED_BYTES:
            return self._refuse(None, f"a request of {len(frame)} bytes during the authentication")
        try:
            api, header, request = read_request(frame, self._served)
        except UnsupportedVersion as error:
            header = RequestHeader(request_api_key=error.api_key, correlation_id=error.correlation_id)
            api, request = api_versions.API, api_versions.ApiVersionsRequest()
        answer = self._error_answer(api, header.request_api_version, request, ErrorCode.ILLEGAL_SASL_STATE)
        exchange = None if answer is None else Exchange(api, header, answer)
        return self._refuse(exchange, f"{api.name} during the authentication")

    def _take_raw_token(self, token: bytes, now_ms: int) -> Verdict:
        try:
            return Verdict(Reaction.ANSWER, self._evaluate(token, now_ms))
        except AuthenticationFailed as error:
            return self._refuse(None, str(error))
        except CredentialsRefused:
            return self._close(self._credentials_refused())

    def _from_bad_mechanism(self, _frame: bytes, _now_ms: int) -> Verdict:
        return self._refuse(None, "a re-authentication with another mechanism")

    def _from_authenticated(self, frame: bytes, now_ms: int) -> Verdict:
        ends_at_ms = self._session_ends_at_ms
        if ends_at_ms is None:
            return PASS
        if _key(frame) == sasl_handshake.API.key and self._may_begin_again(now_ms):
            self._reauthentication_began_at_ms = now_ms
            try:
                return self._shake_hands(frame)
            except ProtocolError as error:
                return self._close(str(error))
        return self._close("the session has ended") if now_ms > ends_at_ms else PASS

    # What the states have in common.

    def _may_begin_again(self, now_ms: int) -> bool:
        began_at_ms = self._reauthentication_began_at_ms
        return began_at_ms is None or now_ms - began_at_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    def _evaluate(self, token: bytes, now_ms: int) -> bytes:
        assert self._mechanism is not None, "a handshake has begun the exchange"
        answer = self._mechanism.evaluate(token, now_ms)
        if self._mechanism.identity is not None:
            self._complete(self._mechanism.identity, now_ms)
        return answer

    def _complete(self, identity: Identity, now_ms: int) -> None:
        """The exchange is over. Raises AuthenticationFailed if the client has become another user."""
        before = self.identity
        if before is not None and before.principal != identity.principal:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {_printed(before)}: {_printed(identity)}"
            )
        ends = [] if identity.expires_at_ms is None else [identity.expires_at_ms]
        if most := self._settings.max_reauth_ms.get(self._mechanism_name, 0):
            ends.append(now_ms + most)
        self._session_ends_at_ms = min(ends, default=None)
        self.identity, self._mechanism = identity, None
        self.state = SaslState.AUTHENTICATED

    def _credentials_refused(self) -> str:
        during = "authentication" if self.identity is None else "re-authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
            f"{self._mechanism_name}"
        )

    def _answer(self, exchange: Exchange) -> Verdict:
        return Verdict(Reaction.ANSWER, _encoded(exchange), exchange=exchange)

    def _refuse(self, exchange: Exchange | None, reason: str | None) -> Verdict:
        self._fail()
        payload = None if exchange is None else _encoded(exchange)
        return Verdict(Reaction.REFUSE, payload, reason or "", exchange)

    def _close(self, reason: str) -> Verdict:
        self._fail()
        return Verdict(Reaction.CLOSE, reason=reason)

    def _fail(self) -> None:
        self.state, self._mechanism = SaslState.FAILED, None


def _encoded(exchange: Exchange) -> bytearray:
    version = exchange.header.request_api_version
    return encode_response(exchange.api, version, exchange.header.correlation_id, exchange.response)


def _key(frame: bytes) -> int:
    """The API key of a frame; -1 if it is too short."""
    return int.from_bytes(frame[:2], "big", signed=True) if len(frame) > 1 else -1


def _printed(identity: Identity) -> str:
    """The principal as Kafka prints it in this text."""
    return f"{identity.principal_type}.{identity.name}"
