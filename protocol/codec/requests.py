"""Requests and responses: a header and a body, without the size that precedes them on a connection.

The version of the body determines the version of the header. As in Kafka there are two exceptions: the response to
ApiVersions always has header v0, and an ApiVersions request of an unknown version gets a response (KIP-511).
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from klamm.protocol.api import Api
from klamm.protocol.codec.messages import LONG_BYTES, decode_message_at, encode_message_into, parse_function
from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.errors import NotServed, ProtocolError, UnsupportedVersion
from klamm.protocol.fields import Message, cached
from klamm.protocol.messages.headers import REQUEST_HEADER, RESPONSE_HEADER, RequestHeader, ResponseHeader
from klamm.protocol.messages.index import MODULES
from klamm.protocol.served import ApiTable, ServedApi, declared

if TYPE_CHECKING:  # construct is not imported before its first use
    from klamm.protocol.codec.sizes import DecodedSize

API_VERSIONS_KEY = 18


@cached
def load_api(key: int) -> Api[Message, Message] | None:
    """The API with this key; None if none has it. The first call imports the module of the API."""
    module = MODULES.get(key)
    if module is None:
        return None
    api: Api[Message, Message] = import_module(module).API
    return api


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header of a request, and the offset of its body. Raises ProtocolError for an unknown API or version.

    As in Kafka, an ApiVersions request of a newer version than the newest known one has a flexible header.
    """
    return _decode_header(frame, _find_served(frame, None).api)


def _decode_header(frame: bytes, api: Api[Any, Any]) -> tuple[RequestHeader, int]:
    header_version = api.request_header_version(int.from_bytes(frame[2:4], "big", signed=True))
    return decode_message_at(
        RequestHeader, header_version, REQUEST_HEADER.flexible(header_version), frame, 0, "replace"
    )


def _find_served(frame: bytes, served: ApiTable | None) -> ServedApi:
    """The API of a request. Raises ProtocolError for an API or version that is not served, except for ApiVersions."""
    if len(frame) < 4:
        raise ProtocolError(f"request of {len(frame)} bytes has no API key and version", offset=0)
    key = int.from_bytes(frame[0:2], "big", signed=True)
    version = int.from_bytes(frame[2:4], "big", signed=True)
    entry = _declared(key) if served is None else served.get(key)
    if entry is None:
        known = _declared(key)
        name = known.api.name if known else "unknown API"
        raise NotServed(
            f"{name} (API key {key}) is not served here", key, version, name, offset=0, path="request_api_key"
        )
    if version not in entry.answered and key != API_VERSIONS_KEY:
        answered = f"{min(entry.answered)} to {max(entry.answered)}" if entry.answered else "none"
        reason = f"{entry.api.name} v{version} is not served here, only {answered}"
        raise NotServed(reason, key, version, entry.api.name, offset=2, path="request_api_version")
    return entry


def _declared(key: int) -> ServedApi | None:
    # Only known keys and versions reach the caches, so clients cannot make these grow.
    return _declared_api(key) if key in MODULES else None


@cached
def _declared_api(key: int) -> ServedApi | None:
    api = load_api(key)
    return None if api is None else declared(api)


def decode_request(frame: bytes) -> tuple[RequestHeader, Message]:
    """The header and the body of a request. Raises the errors of `read_request`."""
    _, header, body = read_request(frame)
    return header, body


def read_request(frame: bytes, served: ApiTable | None = None) -> tuple[Api[Message, Message], RequestHeader, Message]:
    """Decode a client's request as leniently as Apache Kafka's broker does.

    `served` has the APIs and versions for this client; None means all that are declared. Other APIs and versions are
    refused before the body is decoded. Bytes after the body are ignored, and invalid UTF-8 in a string becomes U+FFFD.
    Raises `UnsupportedVersion` for ApiVersions in a version that is not served, and `ProtocolError` for all other
    errors.
    """
    reader = _READERS.get(frame[:4])
    if reader is not None and len(frame) < LONG_BYTES:
        api, version, parse_header, parse_body = reader
        entry = None if served is None else served.get(api.key)
        if served is None or (entry is not None and version in entry.answered):
            cursor = Cursor(frame)
            try:
                return api, parse_header(cursor, None), parse_body(cursor, None)
            except Exception:  # noqa: BLE001 - emitted code may raise any; the careful way says what is wrong
                pass
    return _read_carefully(frame, _find_served(frame, served))


def measure_request(frame: bytes, served: ApiTable | None, most_entries: int) -> tuple[Api[Any, Any], "DecodedSize"]:
    """What `read_request` would take for this frame, without decoding its body. The walk over the body ends early if
    it has more than `most_entries`. Raises as `read_request` does."""
    from klamm.protocol.codec.sizes import decoded_size

    reader = _READERS.get(frame[:4])
    if reader is not None:
        api, version, parse_header, _ = reader
        known = None if served is None else served.get(api.key)
        if served is None or (known is not None and version in known.answered):
            cursor = Cursor(frame)
            try:
                parse_header(cursor, None)
            except Exception:  # noqa: BLE001 - emitted code may raise any; the careful way says what is wrong
                pass
            else:
                return api, decoded_size(api.request, version, api.flexible(version), frame, cursor.pos, most_entries)
    entry = _find_served(frame, served)
    header, offset = _decode_header(frame, entry.api)
    if header.request_api_version not in entry.answered:
        raise UnsupportedVersion(entry.api.key, header.request_api_version, header.correlation_id)
    version = entry.schema_version(header.request_api_version)
    api = entry.api
    return api, decoded_size(api.request, version, api.flexible(version), frame, offset, most_entries)


def _read_carefully(frame: bytes, entry: ServedApi) -> tuple[Api[Message, Message], RequestHeader, Message]:
    api = entry.api
    header, offset = _decode_header(frame, api)
    version = header.request_api_version
    if version not in entry.answered:
        raise UnsupportedVersion(api.key, version, header.correlation_id)
    schema_version = entry.schema_version(version)
    body, _ = decode_message_at(api.request, schema_version, api.flexible(schema_version), frame, offset, "replace")
    if version in api.versions:
        _READERS[frame[:4]] = _reader(api, version)
    return api, header, body


_Reader = tuple[Api[Message, Message], int, Callable[..., RequestHeader], Callable[..., Message]]
_READERS: dict[bytes, _Reader] = {}
"""The parse functions of requests, by their first four bytes: API key and version. Only declared ones have entries."""


def _reader(api: Api[Message, Message], version: int) -> _Reader:
    header_version = api.request_header_version(version)
    return (
        api,
        version,
        parse_function(RequestHeader, header_version, REQUEST_HEADER.flexible(header_version), "strict"),
        parse_function(api.request, version, api.flexible(version), "strict"),
    )


def encode_request(
    api: Api[Any, Any], version: int, correlation_id: int, client_id: str | None, body: Message
) -> bytes:
    """A request: header and body."""
    header_version = api.request_header_version(version)
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    out = Buffer()
    encode_message_into(out, header, header_version, REQUEST_HEADER.flexible(header_version))
    encode_message_into(out, body, version, api.flexible(version))
    return bytes(out)


def encode_response(api: Api[Any, Any], version: int, correlation_id: int, body: Message) -> bytearray:
    """A response: header and body."""
    out = Buffer(correlation_id.to_bytes(4, "big", signed=True))
    if api.response_header_version(version):
        out.append(0)  # no tagged fields
    encode_message_into(out, body, version, api.flexible(version))
    return out


def decode_response(api: Api[Any, Any], version: int, frame: bytes) -> tuple[int, Any]:
    """The correlation id and the body of a response. Raises ProtocolError if bytes are left over."""
    header_version = api.response_header_version(version)
    flexible = RESPONSE_HEADER.flexible(header_version)
    header, offset = decode_message_at(ResponseHeader, header_version, flexible, frame, 0)
    body, end = decode_message_at(api.response, version, api.flexible(version), frame, offset)
    if end != len(frame):
        raise ProtocolError(f"{len(frame) - end} bytes left over", offset=end)
    return header.correlation_id, body


__all__ = [
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
    "load_api",
    "measure_request",
    "read_request",
]
