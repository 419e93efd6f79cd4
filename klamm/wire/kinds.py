"""The kinds of lines of `klamm wire`: requests, responses, metadata records, control records and other data structures.

A line has the members of the vectors in tests/golden/wire: `kind`; the name as `api`, `record` or `message`, or the
number as `key`; and `version`. The bytes of a request or response are header and body; those of a metadata record are
its value in the log (frame version, id, version, body); those of the other kinds are the body alone.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from klamm.protocol import Api, Message, ProtocolError, RecordType, decode_message, encode_message, load_api
from klamm.protocol.codec.json_form import message_from_json, message_to_json
from klamm.protocol.codec.messages import decode_message_at
from klamm.protocol.codec.varints import encode_uvarint
from klamm.protocol.fields import cached
from klamm.protocol.messages.headers import REQUEST_HEADER, RESPONSE_HEADER, RequestHeader
from klamm.protocol.messages.index import MODULES
from klamm.protocol.near_names import did_you_mean
from klamm.protocol.raw_records import decode_metadata_value
from klamm.protocol.record_batch import FRAME_VERSION
from klamm.protocol.record_versions import load_control_type, load_record_type
from klamm.protocol.records.index import CONTROL, METADATA

Line = Mapping[str, Any]
Forms = dict[str, Any]
"""The members that decoding adds to a line: `body`, and for requests and responses `header`."""


class Kind(Protocol):
    """Decodes and encodes the bytes of one kind of line. Both methods raise ProtocolError."""

    def decode(self, data: bytes) -> Forms: ...

    def encode(self, line: Line) -> bytes: ...


class _WithHeader:
    """A request or a response: a header, then a body."""

    def __init__(self, api: Api[Message, Message], version: int, *, is_request: bool) -> None:
        self._version = version
        self._header_type = REQUEST_HEADER if is_request else RESPONSE_HEADER
        self._header_version = (api.request_header_version if is_request else api.response_header_version)(version)
        self._body: type[Message] = api.request if is_request else api.response
        self._flexible = api.flexible(version)
        self._api = api

    def decode(self, data: bytes) -> Forms:
        flexible = self._header_type.flexible(self._header_version)
        header, offset = decode_message_at(self._header_type.message, self._header_version, flexible, data, 0)
        self._check(header)
        body, end = decode_message_at(self._body, self._version, self._flexible, data, offset)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes left over", offset=end)
        return {
            "header": message_to_json(header, self._header_version),
            "body": message_to_json(body, self._version),
        }

    def encode(self, line: Line) -> bytes:
        given = _member(line, "header")
        if self._header_type is REQUEST_HEADER and isinstance(given, dict):
            given = {"requestApiKey": self._api.key, "requestApiVersion": self._version, **given}
        header = message_from_json(self._header_type.message, given, self._header_version, "header")
        self._check(header)
        body = message_from_json(self._body, _member(line, "body"), self._version, "body")
        flexible = self._header_type.flexible(self._header_version)
        return encode_message(header, self._header_version, flexible) + encode_message(
            body, self._version, self._flexible
        )

    def _check(self, header: Message) -> None:
        if not isinstance(header, RequestHeader):
            return
        found = header.request_api_key, header.request_api_version
        if found != (self._api.key, self._version):
            reason = f"the header is of API {found[0]} v{found[1]}, the line of API {self._api.key} v{self._version}"
            raise ProtocolError(reason, offset=0, path="header")


class _MetadataRecord:
    """A record of the metadata log: the bytes of its value."""

    def __init__(self, record_type: RecordType[Message], version: int) -> None:
        self._type = record_type
        self._version = version

    def decode(self, data: bytes) -> Forms:
        message, version = decode_metadata_value(data)
        if type(message) is not self._type.message or version != self._version:
            reason = (
                f"the bytes are of {type(message).__name__} v{version}, the line of {self._type.name} v{self._version}"
            )
            raise ProtocolError(reason, offset=0)
        return {"body": message_to_json(message, version)}

    def encode(self, line: Line) -> bytes:
        body = message_from_json(self._type.message, _member(line, "body"), self._version, "body")
        front = b"".join(map(encode_uvarint, (FRAME_VERSION, self._type.id, self._version)))
        return front + encode_message(body, self._version, self._type.flexible(self._version))


class _Blob:
    """A control record or another versioned data structure: a body alone."""

    def __init__(self, record_type: RecordType[Message], version: int) -> None:
        self._type = record_type
        self._version = version

    def decode(self, data: bytes) -> Forms:
        message = decode_message(self._type.message, self._version, self._type.flexible(self._version), data)
        return {"body": message_to_json(message, self._version)}

    def encode(self, line: Line) -> bytes:
        body = message_from_json(self._type.message, _member(line, "body"), self._version, "body")
        return encode_message(body, self._version, self._type.flexible(self._version))


def kind_of(line: Line) -> Kind:
    """The kind of a line. Raises ProtocolError, with the member as its path, if a member is missing or unknown."""
    kind = line.get("kind", "record" if "record" in line else None)
    if kind in ("request", "response"):
        api = _find_api(line)
        return _WithHeader(api, _version(line, api), is_request=kind == "request")
    if kind == "record":
        record_type = _find(line, "record", METADATA, load_record_type)
        return _MetadataRecord(record_type, _version(line, record_type))
    if kind == "control":
        record_type = _find(line, "message", CONTROL, load_control_type)
        return _Blob(record_type, _version(line, record_type))
    if kind == "data":
        name = line.get("message")
        blob = _blobs().get(name) if isinstance(name, str) else None
        if blob is None:
            raise ProtocolError(f"there is no message {name!r}{did_you_mean(str(name), _blobs())}", path="message")
        return _Blob(blob, _version(line, blob))
    raise ProtocolError(f"{kind!r}: request, response, record, control or data is expected", path="kind")


def _find_api(line: Line) -> Api[Message, Message]:
    key = line.get("key")
    if key is None and (name := line.get("api")) is not None:
        key = api_keys().get(name) if isinstance(name, str) else None
        if key is None:
            raise ProtocolError(f"there is no API {name!r}{did_you_mean(str(name), api_keys())}", path="api")
    api = load_api(key) if type(key) is int and key in MODULES else None
    if api is None:
        raise ProtocolError(f"no API has key {key!r}", path="key")
    if line.get("api", api.name) != api.name:
        raise ProtocolError(f"API {key} is {api.name}, not {line['api']!r}", path="api")
    return api


def _find(line: Line, member: str, index: Mapping[int, Any], load: Any) -> RecordType[Message]:
    """A record type by its key, or by the name in `member`."""
    key, name = line.get("key"), line.get(member)
    if key is None and name is not None:
        by_name = {record_type.name: record_type for record_type in map(load, index)}
        if not isinstance(name, str) or name not in by_name:
            raise ProtocolError(f"there is no {member} {name!r}{did_you_mean(str(name), by_name)}", path=member)
        return by_name[name]  # type: ignore[no-any-return]
    record_type: RecordType[Message] | None = load(key) if type(key) is int else None
    if record_type is None:
        raise ProtocolError(f"no {member} has key {key!r}", path="key")
    if name is not None and name != record_type.name:
        raise ProtocolError(f"{member} {key} is {record_type.name}, not {name!r}", path=member)
    return record_type


def _version(line: Line, of: Api[Message, Message] | RecordType[Message]) -> int:
    version = _member(line, "version")
    if type(version) is not int or version not in of.versions:
        raise ProtocolError(f"{of.name} has no version {version!r}", path="version")
    return version


def _member(line: Line, name: str) -> Any:
    if name not in line:
        raise ProtocolError(f"the line has no {name}", path=name)
    return line[name]


@cached
def api_keys() -> dict[str, int]:
    """The keys of all APIs by name. Imports the modules of all APIs."""
    return {api.name: key for key in MODULES if (api := load_api(key)) is not None}


@cached
def _blobs() -> dict[str, RecordType[Message]]:
    from klamm.protocol.records import data

    return {value.name: value for value in vars(data).values() if isinstance(value, RecordType)}
