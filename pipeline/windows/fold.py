"""The windows of one cluster, record by record: those that a batch closes, and those that stay open.

The rules are those of gold.under_replication and gold.reassignment (`klamm.pipeline.gold.windows`), which are computed
from whole tables. A test checks that both give the same windows. The state between two calls has only JSON values.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

State = dict[str, Any]
Row = Mapping[str, Any]
"""A row of bronze.metadata_record, with `partition` as a mapping."""
_PARTITION: Final = ("topic_id", "partition_index", "replicas", "isr", "adding_replicas", "removing_replicas")
_LISTS: Final = _PARTITION[2:]
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
UNDER_REPLICATION: Final = "under_replication"
REASSIGNMENT: Final = "reassignment"


class ClosedWindow(NamedTuple):
    """A window, from the record that opened it to the one that closed it. The set fields depend on `kind`."""

    kind: str
    topic_id: str
    partition_index: int
    topic: str
    opened_offset: int
    closed_offset: int
    opened: datetime
    closed: datetime
    cause: str | None = None
    wanted: int | None = None
    min_isr: int | None = None
    brokers: Sequence[int] | None = None
    outcome: str | None = None
    from_replicas: Sequence[int] | None = None
    to_replicas: Sequence[int] | None = None
    steps: int | None = None


class WindowFold:
    """The windows of one cluster.

    `cluster` is the state of the cluster after the last call ({} at first) and is modified. `load_topic` returns the
    state of a topic, or None if it has none. Afterwards `topics` has the state of each topic that was used (None if the
    topic was deleted).
    """

    def __init__(self, cluster: State, load_topic: Callable[[str], State | None]) -> None:
        self._brokers: dict[str, dict[str, bool]] = cluster.setdefault("brokers", {})
        self._cluster = cluster
        self.topics: dict[str, State | None] = {}
        self._load_topic = load_topic

    def add(self, rows: Iterable[Row]) -> Iterator[ClosedWindow]:
        """The windows that these rows close. The rows are whole batches, in any order, after those of earlier calls."""
        effective = self._effective([row for row in rows if row["problem"] is None])
        for _, batch in groupby(effective, key=itemgetter("batch_offset")):
            records = list(batch)
            # All records of a batch take effect at once. Kafka writes a fencing after its consequences.
            for row in records:
                if row["type"] in _BROKER_RECORDS:
                    self._change_broker(row["type"], json.loads(row["body"]))
            for row in records:
                yield from self._apply(row)

    def _effective(self, rows: Sequence[Row]) -> Iterator[Row]:
        """The rows that have an effect, in order. Rows of a transaction take effect when it ends; rows that are also in
        the snapshot have no effect."""
        cluster = self._cluster
        snapshots = [row["record_offset"] for row in rows if row["snapshot_position"] is not None]
        cluster["held"] = max(snapshots, default=cluster.get("held", -1))
        for row in sorted(rows, key=lambda row: (row["record_offset"], row["snapshot_position"] or 0)):
            if row["snapshot_position"] is None and row["record_offset"] <= cluster["held"]:
                continue
            kind, waiting = row["type"], cluster.get("transaction")
            if kind == BEGIN:
                cluster["transaction"] = []
            elif kind in (END, ABORT):
                cluster["transaction"] = None
                yield from (waiting or ()) if kind == END else ()
            elif waiting is None:
                yield _plain(row)
            else:
                waiting.append(_plain(row))

    def _change_broker(self, kind: str, told: Mapping[str, Any]) -> None:
        broker = self._brokers.setdefault(str(told["id" if kind in _FENCINGS else "brokerId"]), {})
        if kind in _FENCINGS:
            broker["fenced"] = _FENCINGS[kind]
            return
        if kind == "BrokerRegistrationChangeRecord":
            # 1 sets, -1 clears; null or 0 means unchanged.
            broker |= {name: told[name] > 0 for name in _DOWN if told.get(name)}
            return
        broker |= {name: bool(told.get(name)) for name in _DOWN}
        broker["gone"] = kind == "UnregisterBrokerRecord"

    def _apply(self, row: Row) -> Iterator[ClosedWindow]:
        kind = row["type"]
        if kind == "TopicRecord":
            told = json.loads(row["body"])
            self.topics[told["topicId"]] = {"name": told["name"], "partitions": {}}
        elif kind == "RemoveTopicRecord":
            topic_id = json.loads(row["body"])["topicId"]
            topic = self._topic(topic_id)
            self.topics[topic_id] = None
            if topic is None:
                return
            for index, partition in topic["partitions"].items():
                place = (topic_id, int(index), topic["name"])
                yield from _close(place, partition, row, UNDER_REPLICATION)
                yield from _close(place, partition, row, REASSIGNMENT, outcome="deleted")
        elif row["partition"] is not None:
            yield from self._change_partition(row, row["partition"])

    def _topic(self, topic_id: str) -> State | None:
        if topic_id not in self.topics:
            self.topics[topic_id] = self._load_topic(topic_id)
        return self.topics[topic_id]

    def _change_partition(self, row: Row, change: Row) -> Iterator[ClosedWindow]:
        topic = self._topic(change["topic_id"])
        if topic is None:
            return  # `klamm pipeline verify` reports it
        index = change["partition_index"]
        partition = topic["partitions"].setdefault(str(index), {})
        before = {name: partition.get(name) for name in _LISTS}
        partition |= {name: list(change[name]) for name in _LISTS if change[name] is not None}
        place = (change["topic_id"], index, topic["name"])
        was_at_rest = REASSIGNMENT not in partition
        yield from self._judge_replication(place, partition, row)
        yield from _judge_reassignment(place, partition, row)
        if was_at_rest and REASSIGNMENT not in partition:
            yield from _moved_at_once(place, before["replicas"], partition["replicas"], row)
        if REASSIGNMENT in partition:
            partition[REASSIGNMENT]["steps"] += before != {name: partition[name] for name in _LISTS}

    def _judge_replication(self, place: tuple[str, int, str], partition: State, row: Row) -> Iterator[ClosedWindow]:
        isr = partition["isr"]
        wanted = [one for one in partition["replicas"] if one not in partition["adding_replicas"]]
        missing = sorted(set(wanted) - set(isr))
        cause = None if len(isr) >= len(wanted) else self._cause(missing)
        known = partition.get(UNDER_REPLICATION)
        if known is not None and known["cause"] != cause:
            yield from _close(place, partition, row, UNDER_REPLICATION)
            known = None
        if cause is None:
            return
        if known is None:
            known = partition[UNDER_REPLICATION] = {**_opening(row), "cause": cause, "wanted": 0, "min_isr": len(isr)}
            known["brokers"] = []
        known["wanted"] = max(known["wanted"], len(wanted))
        known["min_isr"] = min(known["min_isr"], len(isr))
        known["brokers"] = sorted({*known["brokers"], *missing})

    def _cause(self, missing: Sequence[int]) -> str:
        if any(replica < 0 for replica in missing):
            return "placeholder"
        down = (any(self._brokers.get(str(replica), {}).values()) for replica in missing)
        return "fenced" if any(down) else "isr"


def _judge_reassignment(place: tuple[str, int, str], partition: State, row: Row) -> Iterator[ClosedWindow]:
    replicas, adding, removing = (partition[name] for name in ("replicas", "adding_replicas", "removing_replicas"))
    target = [one for one in replicas if one not in removing] if adding or removing else None
    known = partition.get(REASSIGNMENT)
    if known is not None and known["to_replicas"] != target:
        if target is not None:
            outcome = "superseded"
        else:
            outcome = "done" if sorted(replicas) == sorted(known["to_replicas"]) else "cancelled"
        yield from _close(place, partition, row, REASSIGNMENT, outcome=outcome)
        known = None
    if target is None:
        return
    if known is None:
        known = partition[REASSIGNMENT] = {**_opening(row), "to_replicas": target, "steps": 0}
        known["from_replicas"] = [one for one in replicas if one not in adding]


def _moved_at_once(
    place: tuple[str, int, str], before: Sequence[int] | None, now: Sequence[int], row: Row
) -> Iterator[ClosedWindow]:
    """A reassignment with nothing to copy, which ends with the record that requests it. A placeholder that is filled
    (KIP-409) is no reassignment."""
    if before is None or before == now:
        return
    pairs = zip(before, now, strict=False)
    if len(before) == len(now) and all(old < 0 or old == new for old, new in pairs):
        return
    moment = {**_opening(row), "from_replicas": before, "to_replicas": now, "steps": 1}
    yield from _close(place, {REASSIGNMENT: moment}, row, REASSIGNMENT, outcome="done")


def _plain(row: Row) -> State:
    """The needed columns of a row, as JSON values."""
    partition = row["partition"]
    return {
        **{name: row[name] for name in ("record_offset", "batch_offset", "type", "body")},
        "timestamp": row["timestamp"].isoformat(),
        "partition": None if partition is None else {name: partition[name] for name in _PARTITION},
    }


def _opening(row: Row) -> State:
    return {"opened_offset": row["record_offset"], "opened": row["timestamp"]}


def _close(place: tuple[str, int, str], partition: State, row: Row, kind: str, **more: Any) -> Iterator[ClosedWindow]:
    known = partition.pop(kind, None)
    if known is not None:
        opened, closed = (datetime.fromisoformat(time) for time in (known.pop("opened"), row["timestamp"]))
        topic_id, index, topic = place
        offset = known.pop("opened_offset")
        yield ClosedWindow(kind, topic_id, index, topic, offset, row["record_offset"], opened, closed, **known, **more)
