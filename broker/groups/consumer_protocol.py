"""What consumers of the classic protocol say to each other through the group: subscriptions and assignments as bytes.

Each starts with its version (int16). A version newer than ours is read as the newest that we know, as in Kafka's own
clients. Source: ConsumerProtocolSubscription and ConsumerProtocolAssignment of spec/messages.tsv.
"""

import struct
from typing import Final, TypeVar

from klamm.protocol.codec.messages import decode_message_at, encode_message
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.records.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription

CONSUMER: Final = "consumer"
"""The protocol type of groups that use these bytes."""

_VERSION: Final = struct.Struct(">h")
_NEWEST: Final = 3

M = TypeVar("M", bound=Message)


def version_of(data: bytes) -> int:
    """The version in which `data` are written, at most the newest that we know. Raises ProtocolError."""
    if len(data) < _VERSION.size:
        raise ProtocolError("the bytes end before the version", offset=len(data))
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version} is negative", offset=0)
    return min(version, _NEWEST)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member is subscribed to and what it owns. Raises ProtocolError."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """The partitions of a member. Raises ProtocolError."""
    return _decode(ConsumerProtocolAssignment, data)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """The bytes of an assignment in this version."""
    return _VERSION.pack(version) + encode_message(assignment, version, flexible=False)


def _decode(kind: type[M], data: bytes) -> M:
    message, _ = decode_message_at(kind, version_of(data), False, data, _VERSION.size)
    return message
