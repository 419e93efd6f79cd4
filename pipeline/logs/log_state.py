"""Computes the state that the records of a metadata log lead to, which a snapshot has to contain.

Each record of a type that snapshots contain has a key. Later records with the same key replace, change or remove it, by
the rules of Apache Kafka's replay. Records that break a rule are ignored here; other checks find them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.facts import (
    KEYS,
    REMOVALS,
    REMOVED_IF_FIELD_IS,
    Facts,
    Key,
    facts_of,
    field_position,
    key_of,
    names_of,
    owner_of,
    plain_value,
)
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

_TOPIC_RESOURCE: Final = 2
_UNCHANGED_LEADER: Final = -2
_UNCHANGED_RECOVERY: Final = -1


class Entry(NamedTuple):
    """The facts about one key, and the offset of the last record about it."""

    record_offset: int
    facts: Facts


class LogState:
    """The state after the records that were applied. It takes about 400 bytes per partition."""

    def __init__(self) -> None:
        self._tables: dict[tuple[type[Message], Key], dict[Key, Entry]] = {}
        self._shared: dict[Any, Any] = {}
        self._transaction: list[tuple[int, Message]] | None = None

    def apply(self, offset: int, record: Message) -> None:
        """Apply the next record. Records of a transaction take effect when it ends, or never if it is aborted."""
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
            key, gone = key_of(record), REMOVED_IF_FIELD_IS.get(kind)
            if gone is not None and getattr(record, gone[0]) == gone[1]:
                self._remove(kind, key)
            else:
                self._set(kind, key, offset, facts_of(record))
        elif kind in REMOVALS:
            removed = REMOVALS[kind]
            key = tuple(getattr(record, name) for name in KEYS[removed])
            if isinstance(record, RemoveTopicRecord):
                self._remove_owned(key)
            self._remove(removed, key)
        elif kind in _CHANGES:
            _CHANGES[kind](self, offset, record)

    def find(self, kind: type[Message], key: Key) -> Entry | None:
        """The entry of a key; None if there is none."""
        return self._tables.get((kind, owner_of(kind, key)), {}).get(key)

    def entries(self) -> Iterator[tuple[type[Message], Key, Entry]]:
        """All entries."""
        for (kind, _), table in self._tables.items():
            for key, entry in table.items():
                yield kind, key, entry

    def name_of(self, topic_id: Any) -> str:
        """The name of a topic; its id if the topic does not exist."""
        topic = self.find(TopicRecord, (topic_id,))
        return str(topic_id) if topic is None else str(topic.facts[field_position(TopicRecord, "name")])

    def _set(self, kind: type[Message], key: Key, offset: int, facts: Facts) -> None:
        if kind is PartitionRecord:  # the same few lists, a million times
            facts = tuple(self._shared.setdefault(v, v) if isinstance(v, tuple) else v for v in facts)
        self._tables.setdefault((kind, owner_of(kind, key)), {})[key] = Entry(offset, facts)

    def _remove(self, kind: type[Message], key: Key) -> None:
        self._tables.get((kind, owner_of(kind, key)), {}).pop(key, None)

    def _remove_owned(self, key: Key) -> None:
        topic = self.find(TopicRecord, key)
        self._tables.pop((PartitionRecord, key), None)
        if topic is not None:
            self._tables.pop((ConfigRecord, (_TOPIC_RESOURCE, topic.facts[field_position(TopicRecord, "name")])), None)

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
        new = {name: plain_value(name, value) for name in _LISTS if (value := getattr(change, name)) is not None}
        if change.leader != _UNCHANGED_LEADER:
            new |= {"leader": change.leader, "leader_epoch": held["leader_epoch"] + 1}
        if change.leader_recovery_state != _UNCHANGED_RECOVERY:
            new["leader_recovery_state"] = change.leader_recovery_state
        self._change(PartitionRecord, key, offset, **new, partition_epoch=held["partition_epoch"] + 1)

    def _change_broker(self, offset: int, change: BrokerRegistrationChangeRecord) -> None:
        # 1 sets, -1 clears, and 0 does not change it. An empty list of directories does not change them.
        switches = {name: getattr(change, name) for name in ("fenced", "in_controlled_shutdown")}
        new: dict[str, Any] = {name: value > 0 for name, value in switches.items() if value}
        if change.log_dirs:
            new["log_dirs"] = plain_value("log_dirs", change.log_dirs)
        if change.cordoned_log_dirs is not None:
            new["cordoned_log_dirs"] = tuple(change.cordoned_log_dirs)
        self._change(RegisterBrokerRecord, (change.broker_id,), offset, **new)

    def _fence(self, offset: int, change: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
        fenced = isinstance(change, FenceBrokerRecord)
        self._change(RegisterBrokerRecord, (change.id,), offset, fenced=fenced)

    def _clear_elr(self, offset: int, record: ClearElrRecord) -> None:
        """Clear the ELR of the partitions of one topic, or of all topics if the record names none. Partitions without
        an ELR do not change."""
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
