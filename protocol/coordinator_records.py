"""The bytes of coordinator records: keys and values of `__consumer_offsets` and the other internal topics.

A key is its number (int16) and the key message in version 0. A value is its version (int16) and the value message. A
record without value (a tombstone) removes what its key names. Source: `MessageUtil.toVersionPrefixedBytes` and
`CoordinatorRecordSerde` of Apache Kafka 4.3.
"""

import struct
from importlib import import_module
from typing import Any, Final

from klamm.protocol.api import RecordType
from klamm.protocol.codec.messages import decode_message, encode_message
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached
from klamm.protocol.record_versions import record_type_of
from klamm.protocol.records.coordinator.index import COORDINATOR

_PREFIX: Final = struct.Struct(">h")
_WRITTEN_VERSIONS: Final = {"GroupMetadataValue": 3}
"""The versions that Kafka 4.3 writes, where they are not the newest."""


@cached
def load_coordinator_record(topic: str, number: int) -> tuple[RecordType[Message], RecordType[Message]] | None:
    """Key and value of the record with this number in an internal topic. None: that topic has no such record."""
    entry = COORDINATOR[topic].get(number)
    if entry is None:
        return None
    module, name = import_module(entry[0]), entry[1]
    return getattr(module, f"{name}_KEY"), getattr(module, f"{name}_VALUE")


def encode_key(key: Message) -> bytes:
    """The bytes of a key message."""
    return _prefixed(record_type_of(type(key)).id, key, version=0)


def encode_value(value: Message, version: int | None = None) -> bytes:
    """The bytes of a value message, in the version that Kafka 4.3 writes unless another one is given. Raises
    ProtocolError if the version lacks a field that is set."""
    if version is None:
        kind = record_type_of(type(value))
        version = _WRITTEN_VERSIONS.get(kind.name, kind.versions[-1])
    return _prefixed(version, value, version)


def _prefixed(prefix: int, content: Message, version: int) -> bytes:
    kind = record_type_of(type(content))
    return _PREFIX.pack(prefix) + encode_message(content, version, kind.flexible(version))


def decode_key(topic: str, data: bytes) -> Message | None:
    """The key message of a record in an internal topic. None: the key's number is unknown (written by a newer
    broker). Raises ProtocolError if the bytes are malformed."""
    number, content = _cut(data)
    kinds = load_coordinator_record(topic, number)
    return None if kinds is None else _decoded(kinds[0], 0, content)


def decode_value(topic: str, key: Message, data: bytes) -> Message:
    """The value message that belongs to `key`. Raises ProtocolError if its version is unknown or the bytes are
    malformed."""
    kinds = load_coordinator_record(topic, record_type_of(type(key)).id)
    assert kinds is not None, "the key came from this topic"
    version, content = _cut(data)
    if version not in kinds[1].versions:
        raise ProtocolError(f"{kinds[1].name} has no version {version}")
    return _decoded(kinds[1], version, content)


def _cut(data: bytes) -> tuple[int, bytes]:
    if len(data) < _PREFIX.size:
        raise ProtocolError(f"{len(data)} bytes are too few for a coordinator record")
    return _PREFIX.unpack_from(data)[0], data[_PREFIX.size :]


def _decoded(kind: RecordType[Any], version: int, content: bytes) -> Message:
    message: Message = decode_message(kind.message, version, kind.flexible(version), content)
    return message
