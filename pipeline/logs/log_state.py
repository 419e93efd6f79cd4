"""What the records of a metadata log amount to, record type by record type: what a snapshot has to hold.

Each record that a snapshot may hold has a key; later records about the same key take its place, change it or remove it,
by the rules of Apache Kafka's own replay. Nothing is refused here: what breaks a rule is found by other checks, and
passed over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from klamm.protocol.fields import Message, cached, wire_fields
from klamm.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import FeatureLevelRecord, RegisterControllerRecord
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
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
_OWNED_BY: Final[Mapping[type[Message], int]] = {PartitionRecord: 1, ConfigRecord: 2}
"""So many fields of the key say what they go with: a topic's partitions and configs are removed with it."""
_REMOVALS: Final[Mapping[type[Message], type[Message]]] = {
    UnregisterBrokerRecord: RegisterBrokerRecord,
    RemoveTopicRecord: TopicRecord,
    RemoveAccessControlEntryRecord: AccessControlEntryRecord,
    RemoveUserScramCredentialRecord: UserScramCredentialRecord,
    RemoveDelegationTokenRecord: DelegationTokenRecord,
}
_SAYS_GONE: Final[Mapping[type[Message], tuple[str, Any]]] = {
    FeatureLevelRecord: ("feature_level", 0),
    ConfigRecord: ("value", None),
    ClientQuotaRecord: ("remove", True),
}
_UNORDERED: Final = frozenset({"end_points", "features", "log_dirs", "entity"})
"""Kafka keeps these in maps: a snapshot has them in any order."""
_NOT_KEPT: Final = frozenset({(ProducerIdsRecord, "broker_id"), (ProducerIdsRecord, "broker_epoch")})
"""Who was given producer ids is of no use later, and stands in no snapshot."""
_TOPIC_RESOURCE: Final = 2
_UNCHANGED_LEADER: Final = -2
_UNCHANGED_RECOVERY: Final = -1


class Entry(NamedTuple):
    """What holds of one key, and the offset of the last record about it."""

    record_offset: int
    facts: Facts


class LogState:
    """The state behind the records that were applied. Memory: about 400 bytes for each partition."""

    def __init__(self) -> None:
        self._tables: dict[tuple[type[Message], Key], dict[Key, Entry]] = {}
        self._shared: dict[Any, Any] = {}
        self._transaction: list[tuple[int, Message]] | None = None

    def apply(self, offset: int, record: Message) -> None:
        """The next record. Those of a transaction count when it ends, and not at all when it is aborted."""
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            waiting, self._transaction = self._transaction or [], None
            for at, inside in waiting:
                self._apply(at, inside)
        elif self._transaction is not None:
            self._transaction.append((offset, record))
        else:
            self._apply(offset, record)

    def _apply(self, offset: int, record: Message) -> None:
        kind = type(record)
        if kind in KEYS:
            key, gone = key_of(record), _SAYS_GONE.get(kind)
            if gone is not None and getattr(record, gone[0]) == gone[1]:
                self._remove(kind, key)
            else:
                self._set(kind, key, offset, facts_of(record))
        elif kind in _REMOVALS:
            removed = _REMOVALS[kind]
            key = tuple(getattr(record, name) for name in KEYS[removed])
            if isinstance(record, RemoveTopicRecord):
                self._remove_owned(key)
            self._remove(removed, key)
        elif kind in _CHANGES:
            _CHANGES[kind](self, offset, record)

    def find(self, kind: type[Message], key: Key) -> Entry | None:
        """What holds of a key; None if nothing does."""
        return self._tables.get((kind, _owner(kind, key)), {}).get(key)

    def entries(self) -> Iterator[tuple[type[Message], Key, Entry]]:
        """All that holds."""
        for (kind, _), table in self._tables.items():
            for key, entry in table.items():
                yield kind, key, entry

    def name_of(self, topic_id: Any) -> str:
        """A topic's name; its id, if there is no such topic."""
        topic = self.find(TopicRecord, (topic_id,))
        return str(topic_id) if topic is None else str(topic.facts[_index(TopicRecord, "name")])

    def _set(self, kind: type[Message], key: Key, offset: int, facts: Facts) -> None:
        if kind is PartitionRecord:  # the same few lists, a million times
            facts = tuple(self._shared.setdefault(v, v) if isinstance(v, tuple) else v for v in facts)
        self._tables.setdefault((kind, _owner(kind, key)), {})[key] = Entry(offset, facts)

    def _remove(self, kind: type[Message], key: Key) -> None:
        self._tables.get((kind, _owner(kind, key)), {}).pop(key, None)

    def _remove_owned(self, key: Key) -> None:
        topic = self.find(TopicRecord, key)
        self._tables.pop((PartitionRecord, key), None)
        if topic is not None:
            self._tables.pop((ConfigRecord, (_TOPIC_RESOURCE, topic.facts[_index(TopicRecord, "name")])), None)

    def _change(self, kind: type[Message], key: Key, offset: int, **values: Any) -> None:
        entry = self.find(kind, key)
        if entry is not None:
            held = dict(zip(names_of(kind), entry.facts, strict=True))
            self._set(kind, key, offset, tuple({**held, **values}.values()))

    def _change_partition(self, offset: int, change: PartitionChangeRecord) -> None:
        key = (change.topic_id, change.partition_id)
        entry = self.find(PartitionRecord, key)
        if entry is None:
            return
        held = dict(zip(names_of(PartitionRecord), entry.facts, strict=True))
        new = {name: _plain(name, value) for name in _LISTS if (value := getattr(change, name)) is not None}
        if change.leader != _UNCHANGED_LEADER:
            new |= {"leader": change.leader, "leader_epoch": held["leader_epoch"] + 1}
        if change.leader_recovery_state != _UNCHANGED_RECOVERY:
            new["leader_recovery_state"] = change.leader_recovery_state
        self._change(PartitionRecord, key, offset, **new, partition_epoch=held["partition_epoch"] + 1)

    def _change_broker(self, offset: int, change: BrokerRegistrationChangeRecord) -> None:
        # 1 sets, -1 clears, 0 leaves it as it is; so does an empty list of directories.
        switches = {name: getattr(change, name) for name in ("fenced", "in_controlled_shutdown")}
        new: dict[str, Any] = {name: value > 0 for name, value in switches.items() if value}
        if change.log_dirs:
            new["log_dirs"] = _plain("log_dirs", change.log_dirs)
        if change.cordoned_log_dirs is not None:
            new["cordoned_log_dirs"] = tuple(change.cordoned_log_dirs)
        self._change(RegisterBrokerRecord, (change.broker_id,), offset, **new)

    def _fence(self, offset: int, change: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
        fenced = isinstance(change, FenceBrokerRecord)
        self._change(RegisterBrokerRecord, (change.id,), offset, fenced=fenced)

    def _clear_elr(self, offset: int, record: ClearElrRecord) -> None:
        """Of one topic, or of all if none is named. Who has none is not changed."""
        names = names_of(PartitionRecord)
        for kind, key, entry in list(self.entries()):
            if kind is not PartitionRecord or record.topic_name not in ("", self.name_of(key[0])):
                continue
            held = dict(zip(names, entry.facts, strict=True))
            if held["eligible_leader_replicas"] or held["last_known_elr"]:
                epoch = held["partition_epoch"] + 1
                empty: dict[str, Any] = {"eligible_leader_replicas": (), "last_known_elr": ()}
                self._change(kind, key, offset, **empty, partition_epoch=epoch)


_CHANGES: Final[Mapping[type[Message], Callable[[LogState, int, Any], None]]] = {
    PartitionChangeRecord: LogState._change_partition,
    BrokerRegistrationChangeRecord: LogState._change_broker,
    FenceBrokerRecord: LogState._fence,
    UnfenceBrokerRecord: LogState._fence,
    ClearElrRecord: LogState._clear_elr,
}
_LISTS: Final = (
    *("replicas", "isr", "adding_replicas", "removing_replicas"),
    *("eligible_leader_replicas", "last_known_elr", "directories"),
)


def key_of(record: Message) -> Key:
    """What a record of `KEYS` is about."""
    return tuple(_plain(name, getattr(record, name)) for name in KEYS[type(record)])


@cached
def names_of(kind: type[Message]) -> tuple[str, ...]:
    """The fields whose values are a record's facts."""
    return tuple(wire.name for wire in wire_fields(kind) if (kind, wire.name) not in _NOT_KEPT)


def facts_of(record: Message) -> Facts:
    """What a record of `KEYS` says. Partitions have null lists as empty ones, and a directory for each replica, as
    Kafka takes them: the one of those that were written before there were directories."""
    facts = [_plain(name, getattr(record, name)) for name in names_of(type(record))]
    if isinstance(record, PartitionRecord):
        facts = [() if value is None else value for value in facts]
        if not record.directories:
            facts[_index(PartitionRecord, "directories")] = (ZERO_UUID,) * len(record.replicas)
    return tuple(facts)


def _index(kind: type[Message], name: str) -> int:
    return names_of(kind).index(name)


def _owner(kind: type[Message], key: Key) -> Key:
    return key[: _OWNED_BY.get(kind, 0)]


def _plain(name: str, value: Any) -> Any:
    """Lists and messages as tuples; what has no order, in one."""
    if isinstance(value, Message):
        return tuple(_plain(wire.name, getattr(value, wire.name)) for wire in wire_fields(type(value)))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        plain = tuple(_plain("", one) for one in value)
        return tuple(sorted(plain, key=repr)) if name in _UNORDERED else plain
    return value
