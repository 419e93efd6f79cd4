"""A model of the records of one partition: plain lists that are searched from one end to the other. `ModelLog` is one
log: its batches, its start and end, and the leader epoch of each. `ModelReplicatedLog` adds how much of the log each
replica has. A follower that fetches gets one more share of messages in each millisecond begun. Stops, restarts and
truncations of followers are events that the test gives to the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from klamm.broker.data.partition_log import FoundOffset

LAST_BATCHES = 5
"""The number of batches that are remembered for each producer."""


class Led(Protocol):
    """The state of a partition that concerns its records. Negative ids among the replicas are placeholders."""

    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def isr(self) -> Sequence[int]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class ModelBatch(NamedTuple):
    base_offset: int
    record_count: int
    leader_epoch: int
    written_ms: int
    data: bytes
    """The bytes as consumers read them."""
    times: Sequence[int] = ()
    """The timestamps of its records; only for a log of which timestamps are asked."""

    @property
    def end(self) -> int:
        return self.base_offset + self.record_count


class Line(NamedTuple):
    """The offset that a replica had, and since when it fetches on from there; None: it does not fetch."""

    offset: int
    since_ms: int | None


class Numbered(NamedTuple):
    """A batch of an idempotent producer."""

    first: int
    last: int
    base_offset: int


@dataclass
class ModelLog:
    """Offsets from `start` up to but not including `end`."""

    start: int = 0
    end: int = 0
    batches: list[ModelBatch] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    """The offset at which each leader epoch began to write."""
    latest_append_ms: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.data) for batch in self.batches)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch. It replaces an epoch that wrote nothing."""
        if not self.epochs or max(self.epochs) != epoch:
            before = {known: offset for known, offset in self.epochs.items() if known < epoch and offset < self.end}
            self.epochs = before | {epoch: self.end}

    def write(
        self,
        data: bytes,
        count: int,
        epoch: int,
        now_ms: int,
        *,
        times: Sequence[int] = (),
    ) -> ModelBatch:
        """Append a batch as it was produced."""
        self.begin_epoch(epoch)
        stamped = self.end.to_bytes(8, "big") + data[8:12] + epoch.to_bytes(4, "big") + data[16:]
        batch = ModelBatch(self.end, count, epoch, now_ms, stamped, times)
        self.batches.append(batch)
        self.end, self.latest_append_ms = batch.end, now_ms
        return batch

    def truncate(self, offset: int) -> None:
        """Let the log end at `offset`. A batch that contains the offset is removed as a whole."""
        if offset < self.end:
            self.batches = [batch for batch in self.batches if batch.end <= offset]
            self.epochs = {epoch: first for epoch, first in self.epochs.items() if first < offset}
            self.end, self.start = offset, min(self.start, offset)

    def delete_before(self, offset: int) -> None:
        """Let the log begin at `offset`. A batch that contains the offset stays whole."""
        if offset > self.start:
            self.batches = [batch for batch in self.batches if batch.end > offset]
            self.start = offset
            self._cut_epochs_at_the_start()

    def _cut_epochs_at_the_start(self) -> None:
        before = [epoch for epoch, offset in self.epochs.items() if offset <= self.start]
        for epoch in before:
            del self.epochs[epoch]
        if before:
            self.epochs[max(before)] = self.start

    def read(self, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool = True) -> bytes | None:
        """Whole batches below `up_to`, as many as fit; None: the offset is outside of the log."""
        if not self.start <= offset <= self.end:
            return None
        found = b""
        for batch in self.batches:
            if offset < batch.end <= up_to:
                if len(found) + len(batch.data) > max_bytes and (found or not at_least_one):
                    break
                found += batch.data
        return found

    def end_of(self, requested: int) -> tuple[int, int]:
        """The largest epoch that is not above the requested one, and where it ends; -1 for both if there is none."""
        later = [epoch for epoch in self.epochs if epoch > requested]
        if requested in self.epochs and not later:
            return requested, self.end
        if requested < 0 or not later:
            return -1, -1
        return max((epoch for epoch in self.epochs if epoch <= requested), default=requested), self.epochs[min(later)]

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, first in self.epochs.items() if first <= offset), default=-1)

    def find(self, timestamp: int) -> FoundOffset | None:
        """The first record whose timestamp is at least `timestamp`."""
        for batch in self.batches:
            for offset, time in enumerate(batch.times, batch.base_offset):
                if offset >= self.start and time >= timestamp:
                    return FoundOffset(offset, time, batch.leader_epoch)
        return None

    def batch_start(self, offset: int) -> int:
        return next((batch.base_offset for batch in self.batches if batch.base_offset <= offset < batch.end), offset)

    def batch_end(self, offset: int) -> int | None:
        return next((batch.end for batch in self.batches if batch.end > offset), None)

    def size_below(self, offset: int) -> int:
        return sum(len(batch.data) for batch in self.batches if batch.end <= offset)

    def appended_ms(self, offset: int) -> int:
        return next((batch.written_ms for batch in self.batches if batch.end > offset), self.latest_append_ms)


@dataclass
class ModelReplicatedLog(ModelLog):
    """A log, and its replicas."""

    rate: int = 1
    """The number of messages that a follower fetches in a second."""
    producers: dict[int, list[Numbered]] = field(default_factory=dict)
    leader: int = -1
    leader_epoch: int = -1
    isr: Sequence[int] = ()
    needed: int = 1
    """The number of replicas that must be in sync for anything to be committed (KIP-966)."""
    lines: dict[int, Line] = field(default_factory=dict)
    epoch_start: int = 0
    _served: bool = False
    _committed: int = 0
    """The high watermark at the last event."""

    def has(self, replica: int, now_ms: int) -> int:
        """The offset up to which a replica has all records."""
        line = self.lines[replica]
        if replica == self.leader:
            return self.end
        if line.since_ms is None:
            return line.offset
        fetched = line.offset + self.rate * (now_ms - line.since_ms + 1) // 1000
        return max(self.start, min(self.end, fetched))

    def lag(self, replica: int, now_ms: int) -> int:
        return self.end - self.has(replica, now_ms)

    def committed(self, now_ms: int) -> int:
        """The offset up to which all members of the ISR have all records, or had them under this leader while there
        were enough."""
        in_sync = [self.has(replica, now_ms) for replica in self.isr if replica in self.lines]
        committed = self._committed
        if in_sync and len(self.isr) >= self.needed:
            committed = max(committed, min(in_sync))
        return max(committed, self.start)

    def append(self, data: bytes, count: int, now_ms: int) -> ModelBatch:
        """Write to the leader."""
        for replica, line in self.lines.items():
            if line.since_ms is not None and self.has(replica, now_ms) == self.end:
                self.lines[replica] = Line(self.end, now_ms)
        return self.write(data, count, self.leader_epoch, now_ms)

    def number(self, producer_id: int, first: int, batch: ModelBatch) -> None:
        """Remember that a producer gave the records of a batch the sequence numbers from `first` on."""
        known = self.producers.setdefault(producer_id, [])
        known.append(Numbered(first, first + batch.record_count - 1, batch.base_offset))
        del known[:-LAST_BATCHES]

    def follow(self, partition: Led, fetches: Callable[[int], bool], now_ms: int, needed: int) -> bool:
        """Apply the state of the partition, its brokers and its minimum ISR. Returns whether anything changed."""
        before = self._facts()
        self._committed = self.committed(now_ms)
        had = {replica: self.has(replica, now_ms) for replica in self.lines}
        if partition.leader >= 0 and partition.leader_epoch != self.leader_epoch:
            self._cut(had.get(partition.leader, self.start))
            self.begin_epoch(partition.leader_epoch)
            self.epoch_start = self.end
        self._served = partition.leader >= 0 and fetches(partition.leader)
        lines: dict[int, Line] = {}
        for replica in partition.replicas:
            if replica >= 0:
                on = self._served and replica != partition.leader and fetches(replica)
                offset, line = had.get(replica, self.start), self.lines.get(replica)
                goes_on = on and line is not None and line.since_ms is not None and offset <= self.end
                lines[replica] = line if goes_on and line else Line(min(offset, self.end), now_ms if on else None)
        self.lines, self.leader, self.leader_epoch = lines, partition.leader, partition.leader_epoch
        self.isr, self.needed = list(partition.isr), needed
        return self._facts() != before

    def _facts(self) -> tuple[object, ...]:
        fetching = [(replica, line.since_ms is not None) for replica, line in self.lines.items()]
        return self.leader, self.leader_epoch, list(self.isr), self.needed, self._served, fetching

    def _cut(self, end: int) -> None:
        """Cut the log to that of the new leader, which has a batch either whole or not at all."""
        lost = [batch for batch in self.batches if batch.end > end]
        self.truncate(min(end, lost[0].base_offset) if lost else end)
        self._committed = min(self._committed, self.end)
        for producer_id, numbered in list(self.producers.items()):
            kept = [one for one in numbered if one.base_offset < self.end]
            self.producers[producer_id] = kept
            if not kept:
                del self.producers[producer_id]

    def restart(self) -> None:
        """Records are lost; the log end offset is kept."""
        fresh = ModelReplicatedLog(self.end, self.end, rate=self.rate, epoch_start=self.end, _committed=self.end)
        vars(self).update(vars(fresh))

    def joining(self, now_ms: int) -> list[int]:
        """Replicas outside the ISR that have everything that is committed, and everything that was there when the
        leader began."""
        if self.leader < 0:
            return []
        enough = max(self.committed(now_ms), self.epoch_start)
        return [
            replica
            for replica, line in self.lines.items()
            if replica not in self.isr and line.since_ms is not None and self.has(replica, now_ms) >= enough
        ]

    def leaving(self, now_ms: int, lag_time_max_ms: int) -> list[int]:
        """Members of the ISR that have lacked a record for too long."""
        return [
            replica
            for replica in self.lagging(now_ms)
            if now_ms - self.appended_ms(self.has(replica, now_ms)) > lag_time_max_ms
        ]

    def lagging(self, now_ms: int) -> list[int]:
        """Members of the ISR that lack a record. A leader that is down reports none."""
        in_sync = [replica for replica in self.isr if replica in self.lines] if self._served else []
        return [replica for replica in in_sync if self.lag(replica, now_ms) > 0]
