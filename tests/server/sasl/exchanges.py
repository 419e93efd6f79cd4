"""Requests of clients that authenticate, as frames, and the answers to them, for the tests of SASL."""

from typing import Any

from klamm.broker.dispatch import SERVED
from klamm.controller.client import Client
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.messages.cluster.api_versions import API as API_VERSIONS
from klamm.protocol.messages.cluster.api_versions import ApiVersionsRequest
from klamm.protocol.messages.security.sasl_authenticate import API as AUTHENTICATE
from klamm.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest
from klamm.protocol.messages.security.sasl_handshake import API as HANDSHAKE
from klamm.protocol.messages.security.sasl_handshake import SaslHandshakeRequest
from klamm.protocol.messages.topics.metadata import API as METADATA
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.server.bug_answers import refused_whole
from klamm.server.sasl.authenticator import SaslAuthenticator
from klamm.server.sasl.exchanges import exchanges_of
from klamm.server.sasl.settings import SaslSettings

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
PLAIN = SaslSettings(mechanisms=("PLAIN",), plain_users=USERS)


def authenticator(
    settings: SaslSettings = PLAIN, image: MetadataImage | None = None, token_key: str | None = None
) -> SaslAuthenticator:
    exchanges = exchanges_of(settings, image or MetadataImage(), token_key)
    return SaslAuthenticator(settings, exchanges, SERVED.to(Client("broker", 1)), refused_whole)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return encode_request(HANDSHAKE, version, 1, "test", SaslHandshakeRequest(mechanism=mechanism))


def authenticate(token: bytes, version: int = 2) -> bytes:
    return encode_request(AUTHENTICATE, version, 2, "test", SaslAuthenticateRequest(auth_bytes=token))


def versions(version: int = 3, name: str = "test") -> bytes:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return encode_request(API_VERSIONS, version, 3, "test", request)


def some_metadata() -> bytes:
    return encode_request(METADATA, 9, 4, "test", MetadataRequest(topics=()))


def token(user: str = "alice", password: str | None = None, authorization_id: str = "") -> bytes:
    return "\0".join((authorization_id, user, USERS.get(user, "") if password is None else password)).encode()


def decoded(payload: bytes | bytearray | None, version: int = 2) -> Any:
    """The SaslAuthenticate response in a payload."""
    assert payload is not None
    return decode_response(AUTHENTICATE, version, bytes(payload))[1]
