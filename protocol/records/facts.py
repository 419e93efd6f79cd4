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
"""The values of a record's fields, in the order of the fields, in a form that compares equal for equal content."""

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
"""The records that a snapshot holds, each with the fields that identify its subject (the key)."""
OWNER_KEY_FIELDS: Final[Mapping[type[Message], int]] = {PartitionRecord: 1, ConfigRecord: 2}
"""The number of leading key fields that identify the owner. A topic's partitions and configs are removed with it."""
REMOVALS: Final[Mapping[type[Message], type[Message]]] = {
    UnregisterBrokerRecord: RegisterBrokerRecord,
    RemoveTopicRecord: TopicRecord,
    RemoveAccessControlEntryRecord: AccessControlEntryRecord,
    RemoveUserScramCredentialRecord: UserScramCredentialRecord,
    RemoveDelegationTokenRecord: DelegationTokenRecord,
}
"""Records that remove the subject of an earlier record of another type. They have the fields of its key."""
REMOVED_IF_FIELD_IS: Final[Mapping[type[Message], tuple[str, Any]]] = {
    FeatureLevelRecord: ("feature_level", 0),
    ConfigRecord: ("value", None),
    ClientQuotaRecord: ("remove", True),
}
"""Records that remove their subject if this field has this value."""
_UNORDERED: Final = frozenset({"end_points", "features", "log_dirs", "entity"})
"""Fields without an order: Kafka keeps them in maps, so a snapshot has them in any order."""
_NOT_KEPT: Final = frozenset({(ProducerIdsRecord, "broker_id"), (ProducerIdsRecord, "broker_epoch")})
"""Fields that no snapshot keeps: the broker that got a block of producer ids is not needed later."""


def key_of(record: Message) -> Key:
    """The key of a record whose type is in `KEYS`."""
    return tuple(plain_value(name, getattr(record, name)) for name in KEYS[type(record)])


@cached
def names_of(kind: type[Message]) -> tuple[str, ...]:
    """The fields whose values are a record's facts."""
    return tuple(wire.name for wire in wire_fields(kind) if (kind, wire.name) not in _NOT_KEPT)


def facts_of(record: Message) -> Facts:
    """The facts of a record whose type is in `KEYS`. As in Kafka's replay, null lists of a partition are empty, and a
    partition without directories has DirectoryId.MIGRATING for each replica."""
    facts = [plain_value(name, getattr(record, name)) for name in names_of(type(record))]
    if isinstance(record, PartitionRecord):
        facts = [() if value is None else value for value in facts]
        if not record.directories:
            facts[field_position(PartitionRecord, "directories")] = (ZERO_UUID,) * len(record.replicas)
    return tuple(facts)


def field_position(kind: type[Message], name: str) -> int:
    """The index of the field with this name in a record's facts."""
    return names_of(kind).index(name)


def owner_of(kind: type[Message], key: Key) -> Key:
    """The part of a key that identifies the owner (`OWNER_KEY_FIELDS`)."""
    return key[: OWNER_KEY_FIELDS.get(kind, 0)]


def plain_value(name: str, value: Any) -> Any:
    """The value of the field with this name. Lists and messages become tuples; fields without an order are sorted."""
    if isinstance(value, Message):
        return tuple(plain_value(wire.name, getattr(value, wire.name)) for wire in wire_fields(type(value)))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        plain = tuple(plain_value("", one) for one in value)
        return tuple(sorted(plain, key=repr)) if name in _UNORDERED else plain
    return value
