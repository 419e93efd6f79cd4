"""The versions in which metadata records are written. They depend on the finalized metadata.version.

A reader fails on fields that its metadata.version does not know, so each record is written in the newest version that
the finalized level allows. Only BrokerRegistrationChangeRecord is written in the oldest version that can hold it.
Levels and versions are those of Apache Kafka 4.3.0; 30 is 4.3-IV0.
"""

import sys
from importlib import import_module
from typing import Any

from klamm.protocol.api import RecordType
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached, wire_fields
from klamm.protocol.records.index import CONTROL, METADATA

LATEST_METADATA_VERSION = 30
_CHANGE = "BrokerRegistrationChangeRecord"
_SINCE: dict[str, tuple[int, ...]] = {
    "RegisterBrokerRecord": (0, 7, 8, 17, 30),
    _CHANGE: (0, 7, 17, 30),
    "PartitionRecord": (0, 17, 23),
    "PartitionChangeRecord": (0, 17, 23),
}
"""For records of several versions: at index v the first metadata.version that allows version v."""


def load_record_type(record_id: int) -> RecordType[Message] | None:
    """The metadata record of this id; None if there is none."""
    return _load(*METADATA[record_id]) if record_id in METADATA else None


def load_control_type(control_id: int) -> RecordType[Message] | None:
    """The control record of this id; None if there is none."""
    return _load(*CONTROL[control_id]) if control_id in CONTROL else None


@cached
def _load(module: str, constant: str) -> RecordType[Message]:
    record_type: RecordType[Message] = getattr(import_module(module), constant)
    return record_type


@cached
def record_type_of(message_class: type[Message]) -> RecordType[Message]:
    """The record type of a message class. Both are declared in the same module."""
    for value in vars(sys.modules[message_class.__module__]).values():
        if isinstance(value, RecordType) and value.message is message_class:
            return value
    raise ValueError(f"{message_class.__name__} is no record")


def metadata_record_version(record_type: RecordType[Any], metadata_version: int) -> int:
    """The newest version of the record that this metadata.version allows."""
    since = _SINCE.get(record_type.name, (0,))
    return max(version for version, level in enumerate(since) if level <= metadata_version)


def depends_on_content(record_type: RecordType[Any]) -> bool:
    """Whether the version also depends on the record's fields."""
    return record_type.name == _CHANGE


def written_version(record_type: RecordType[Any], message: Message, metadata_version: int) -> int:
    """The version in which `message` is written. Raises ProtocolError if no allowed version has all its fields."""
    newest = metadata_record_version(record_type, metadata_version)
    if not depends_on_content(record_type):
        return newest
    needed = 0
    for wire in wire_fields(record_type.message):
        if wire.since > needed and getattr(message, wire.name) != wire.default:
            needed = wire.since
    if needed > newest:
        reason = f"{record_type.name} needs version {needed}, metadata.version {metadata_version} allows {newest}"
        raise ProtocolError(reason)
    return needed
