"""Keys and removals of metadata records, and their values in a form that can be compared.

The rules are those of Apache Kafka's replay, for every consumer of a metadata log that keeps state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from klamm.protocol.fields import Message, cached, wire_fields
from klamm.protocol.records.brokers import ProducerIdsRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from klamm.protocol.records.cluster import FeatureLevelRecord, RegisterControllerRecord
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.uuid import ZERO_UUID

Key: TypeAlias = tuple[Any, ...]
Facts: TypeAlias = tuple[Any, ...]
"""The values of a record's fields, in their order, in a form in which equal content is equal."""

KEYS: Final[Mapping[type[Message], tuple[str, ...]]] = {
    FeatureLevelRecord: ("name",),
    RegisterControllerRecord: ("controller_id",),
    RegisterBrokerRecord: ("broker_id",),
    TopicRecord: ("topic_id",),
    PartitionRecord: ("topic_id", "partition_id"),
    ConfigRecord: ("resource_type", "resource_name", "name"),
    ClientQuotaRecord: ("entity", "key"),
    ProducerIdsRecord: (),
    AccessControlEntryRecord: ("id",),
    UserScramCredentialRecord: ("name", "mechanism"),
    DelegationTokenRecord: ("token_id",),
}
"""The records that a snapshot holds, and which fields say what they are about."""
OWNER_KEY_FIELDS: Final[Mapping[type[Message], int]] = {PartitionRecord: 1, ConfigRecord: 2}
"""So many fields of the key say what they go with: a topic's partitions and configs are removed with it."""
REMOVALS: Final[Mapping[type[Message], type[Message]]] = {
    UnregisterBrokerRecord: RegisterBrokerRecord,
    RemoveTopicRecord: TopicRecord,
    RemoveAccessControlEntryRecord: AccessControlEntryRecord,
    RemoveUserScramCredentialRecord: UserScramCredentialRecord,
    RemoveDelegationTokenRecord: DelegationTokenRecord,
}
"""Records that remove what records of another type said; they have the fields of its key."""
REMOVED_IF_FIELD_IS: Final[Mapping[type[Message], tuple[str, Any]]] = {
    FeatureLevelRecord: ("feature_level", 0),
    ConfigRecord: ("value", None),
    ClientQuotaRecord: ("remove", True),
}
"""Records that remove what they are about if this field has this value."""
_UNORDERED: Final = frozenset({"end_points", "features", "log_dirs", "entity"})
"""Kafka keeps these in maps: a snapshot has them in any order."""
_NOT_KEPT: Final = frozenset({(ProducerIdsRecord, "broker_id"), (ProducerIdsRecord, "broker_epoch")})
"""Who was given producer ids is of no use later, and stands in no snapshot."""


def key_of(record: Message) -> Key:
    """What a record of `KEYS` is about."""
    return tuple(plain_value(name, getattr(record, name)) for name in KEYS[type(record)])


@cached
def names_of(kind: type[Message]) -> tuple[str, ...]:
    """The fields whose values are a record's facts."""
    return tuple(wire.name for wire in wire_fields(kind) if (kind, wire.name) not in _NOT_KEPT)


def facts_of(record: Message) -> Facts:
    """What a record of `KEYS` says. Partitions have null lists as empty ones, and a directory for each replica, as
    Kafka takes them: the one of those that were written before there were directories."""
    facts = [plain_value(name, getattr(record, name)) for name in names_of(type(record))]
    if isinstance(record, PartitionRecord):
        facts = [() if value is None else value for value in facts]
        if not record.directories:
            facts[field_position(PartitionRecord, "directories")] = (ZERO_UUID,) * len(record.replicas)
    return tuple(facts)


def field_position(kind: type[Message], name: str) -> int:
    """Where a field of this name stands among a record's facts."""
    return names_of(kind).index(name)


def owner_of(kind: type[Message], key: Key) -> Key:
    """The part of a key that says what it goes with."""
    return key[: OWNER_KEY_FIELDS.get(kind, 0)]


def plain_value(name: str, value: Any) -> Any:
    """The value of a field of this name with lists and messages as tuples; what has no order, in one."""
    if isinstance(value, Message):
        return tuple(plain_value(wire.name, getattr(value, wire.name)) for wire in wire_fields(type(value)))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        plain = tuple(plain_value("", one) for one in value)
        return tuple(sorted(plain, key=repr)) if name in _UNORDERED else plain
    return value
