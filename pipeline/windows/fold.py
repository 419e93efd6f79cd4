"""The windows of one cluster, record by record: those that a batch closes, and those that stay open.

The rules are those of gold.under_replication and gold.reassignment (`klamm.pipeline.gold.windows`), which are computed
from whole tables. A test checks that both give the same windows.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from klamm.pipeline.windows.state import (
    REASSIGNMENT,
    UNDER_REPLICATION,
    Brokers,
    ClusterState,
    Lists,
    PartitionChange,
    Plain,
    Record,
    Topic,
)

_DOWN: Final = ("fenced", "inControlledShutdown")
_FENCINGS: Final = {"FenceBrokerRecord": True, "UnfenceBrokerRecord": False}
"""Record types of Kafka before 3.3."""
_BROKER_RECORDS: Final = (
    *("RegisterBrokerRecord", "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord"),
    *_FENCINGS,
)
BEGIN: Final = "BeginTransactionRecord"
END: Final = "EndTransactionRecord"
ABORT: Final = "AbortTransactionRecord"
READ_TYPES: Final = (
    *("TopicRecord", "RemoveTopicRecord", "PartitionRecord", "PartitionChangeRecord"),
    *(*_BROKER_RECORDS, BEGIN, END, ABORT, "SnapshotHeaderRecord"),
)
"""The record types that can change a window."""


class ClosedWindow(NamedTuple):
    """A window, from the record that opened it to the one that closed it. Times are in microseconds. The set fields
    depend on `kind`."""

    kind: str
    topic_id: str
    partition_index: int
    topic: str
    opened_offset: int
    closed_offset: int
    opened: int | None
    closed: int | None
    cause: str | None = None
    wanted: int | None = None
    min_isr: int | None = None
    brokers: Sequence[int] | None = None
    outcome: str | None = None
    from_replicas: Sequence[int] | None = None
    to_replicas: Sequence[int] | None = None
    steps: int | None = None


class WindowFold:
    """The windows of one cluster. `state` is the state after the last call, and is modified."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def add(self, records: Iterable[Record]) -> Iterator[ClosedWindow]:
        """The windows that these records close. The records are whole batches, in order, after those of earlier calls.
        The state is complete when the last window was taken."""
        for _, batch in groupby(self._effective(records), key=attrgetter("batch_offset")):
            together = list(batch)
            # All records of a batch take effect at once. Kafka writes a fencing after its consequences.
            for record in together:
                if record.type in _BROKER_RECORDS:
                    self._change_broker(record.type, _told(record))
            for record in together:
                if record.partition is not None:
                    yield from self._change_partition(record, record.partition)
                else:
                    yield from self._change_topic(record)

    def _effective(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that have an effect. Records of a transaction take effect when it ends; records that are also in
        the snapshot have no effect."""
        state = self._state
        for record in records:
            if record.is_in_snapshot:
                state.snapshot_end = max(state.snapshot_end, record.record_offset)
            elif record.record_offset <= state.snapshot_end:
                continue
            if record.type == BEGIN:
                state.waiting = []
            elif record.type in (END, ABORT):
                waiting, state.waiting = state.waiting or (), None
                yield from waiting if record.type == END else ()
            elif state.waiting is None:
                yield record
            else:
                state.waiting.append(record)

    def _change_broker(self, kind: str, told: Mapping[str, Any]) -> None:
        broker = self._state.brokers.setdefault(told["id" if kind in _FENCINGS else "brokerId"], {})
        if kind in _FENCINGS:
            broker["fenced"] = _FENCINGS[kind]
            return
        if kind == "BrokerRegistrationChangeRecord":
            # 1 sets, -1 clears; null or 0 means unchanged.
            broker |= {name: told[name] > 0 for name in _DOWN if told.get(name)}
            return
        broker |= {name: bool(told.get(name)) for name in _DOWN}
        broker["gone"] = kind == "UnregisterBrokerRecord"

    def _change_topic(self, record: Record) -> Iterator[ClosedWindow]:
        if record.type == "TopicRecord":
            told = _told(record)
            self._state.create_topic(told["topicId"], told["name"])
        elif record.type == "RemoveTopicRecord":
            topic_id = _told(record)["topicId"]
            topic = self._state.topic(topic_id)
            self._state.delete_topic(topic_id)
            if topic is None:
                return
            for index in list(topic.windows):
                place = _Place(topic, topic_id, index)
                yield from place.close(record, UNDER_REPLICATION)
                yield from place.close(record, REASSIGNMENT, outcome="deleted")

    def _change_partition(self, record: Record, change: PartitionChange) -> Iterator[ClosedWindow]:
        topic = self._state.topic(change.topic_id)
        if topic is None:
            return  # `klamm pipeline verify` reports it
        before, lists = self._state.change(change)
        index = change.partition_index
        is_at_rest = not lists.adding_replicas and not lists.removing_replicas and index not in topic.windows
        is_moved = before is not None and before.replicas != lists.replicas
        if is_at_rest and not is_moved and len(lists.isr) >= len(lists.replicas):
            return  # as nearly all of a large log: no window is open, and none opens
        place = _Place(topic, change.topic_id, index)
        was_at_rest = place.window(REASSIGNMENT) is None
        yield from self._judge_replication(place, lists, record)
        yield from _judge_reassignment(place, lists, record)
        if was_at_rest and place.window(REASSIGNMENT) is None and before is not None:
            yield from _moved_at_once(place, before.replicas, lists.replicas, record)
        move = place.window(REASSIGNMENT)
        if move is not None:
            move["steps"] += before != lists

    def _judge_replication(self, place: "_Place", lists: Lists, record: Record) -> Iterator[ClosedWindow]:
        isr = lists.isr
        wanted = [one for one in lists.replicas if one not in lists.adding_replicas]
        missing = sorted(set(wanted) - set(isr))
        cause = None if len(isr) >= len(wanted) else self._cause(missing)
        known = place.window(UNDER_REPLICATION)
        if known is not None and known["cause"] != cause:
            yield from place.close(record, UNDER_REPLICATION)
            known = None
        if cause is None:
            return
        if known is None:
            opened = {**_opening(record), "cause": cause, "wanted": 0, "min_isr": len(isr), "brokers": []}
            known = place.open(UNDER_REPLICATION, opened)
        known["wanted"] = max(known["wanted"], len(wanted))
        known["min_isr"] = min(known["min_isr"], len(isr))
        known["brokers"] = sorted({*known["brokers"], *missing})

    def _cause(self, missing: Sequence[int]) -> str:
        if any(replica < 0 for replica in missing):
            return "placeholder"
        down = (any(self._state.brokers.get(replica, {}).values()) for replica in missing)
        return "fenced" if any(down) else "isr"


class _Place(NamedTuple):
    """A partition of a topic, and its open windows."""

    topic: Topic
    topic_id: str
    partition_index: int

    def window(self, kind: str) -> Plain | None:
        windows = self.topic.windows.get(self.partition_index)
        return None if windows is None else windows.get(kind)

    def open(self, kind: str, window: Plain) -> Plain:
        self.topic.windows.setdefault(self.partition_index, {})[kind] = window
        return window

    def close(self, record: Record, kind: str, **more: Any) -> Iterator[ClosedWindow]:
        """Close the window of this kind, if there is one."""
        windows = self.topic.windows.get(self.partition_index, {})
        known = windows.pop(kind, None)
        if known is not None:
            if not windows:
                del self.topic.windows[self.partition_index]
            yield self.closed(record, kind, known, **more)

    def closed(self, record: Record, kind: str, window: Mapping[str, Any], **more: Any) -> ClosedWindow:
        values = {**window, "closed_offset": record.record_offset, "closed": record.timestamp, **more}
        return ClosedWindow(kind, self.topic_id, self.partition_index, self.topic.name, **values)


def _judge_reassignment(place: _Place, lists: Lists, record: Record) -> Iterator[ClosedWindow]:
    replicas, _, adding, removing = lists
    target = [one for one in replicas if one not in removing] if adding or removing else None
    known = place.window(REASSIGNMENT)
    if known is not None and known["to_replicas"] != target:
        if target is not None:
            outcome = "superseded"
        else:
            outcome = "done" if sorted(replicas) == sorted(known["to_replicas"]) else "cancelled"
        yield from place.close(record, REASSIGNMENT, outcome=outcome)
        known = None
    if target is None:
        return
    if known is None:
        origin = [one for one in replicas if one not in adding]
        place.open(REASSIGNMENT, {**_opening(record), "to_replicas": target, "steps": 0, "from_replicas": origin})


def _moved_at_once(place: _Place, before: Brokers, now: Brokers, record: Record) -> Iterator[ClosedWindow]:
    """A reassignment with nothing to copy, which ends with the record that requests it. A placeholder that is filled
    (KIP-409) is no reassignment."""
    if before == now:
        return
    pairs = zip(before, now, strict=False)
    if len(before) == len(now) and all(old < 0 or old == new for old, new in pairs):
        return
    moment = {**_opening(record), "from_replicas": list(before), "to_replicas": list(now), "steps": 1}
    yield place.closed(record, REASSIGNMENT, moment, outcome="done")


def _told(record: Record) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(record.body or "{}")
    return told


def _opening(record: Record) -> Plain:
    return {"opened_offset": record.record_offset, "opened": record.timestamp}
