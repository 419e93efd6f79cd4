"""The records of one partition as they should be: the batches, and how much of them each replica has.

A follower that fetches has one more share of messages in each millisecond begun. What holds it back, lets it go on or
cuts it off is told to the log when it happens; in between nothing does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

LAST_BATCHES = 5
"""So many of each producer are remembered."""


class Led(Protocol):
    """A partition, as far as it matters to its records."""

    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    unclean_elections: int


class ModelBatch(NamedTuple):
    base_offset: int
    record_count: int
    leader_epoch: int
    written_ms: int
    data: bytes
    """As consumers read it."""

    @property
    def end(self) -> int:
        return self.base_offset + self.record_count


class Line(NamedTuple):
    """Where a replica was, and since when it fetches on; None: it does not."""

    offset: int
    since_ms: int | None


class Numbered(NamedTuple):
    """A batch of an idempotent producer."""

    first: int
    last: int
    base_offset: int


@dataclass
class ModelLog:
    rate: int
    """Messages that a follower fetches in a second."""
    start: int = 0
    end: int = 0
    batches: list[ModelBatch] = field(default_factory=list)
    acknowledged: list[ModelBatch] = field(default_factory=list)
    """What a producer was told is safe (acks=all)."""
    producers: dict[int, list[Numbered]] = field(default_factory=dict)
    leader: int = -1
    leader_epoch: int = -1
    isr: Sequence[int] = ()
    needed: int = 1
    """So many have to be in sync for anything to be committed (KIP-966)."""
    lines: dict[int, Line] = field(default_factory=dict)
    epoch_start: int = 0
    seen_unclean: int = 0
    _served: bool = False
    _committed: int = 0

    def has(self, replica: int, now_ms: int) -> int:
        """Up to where a replica has everything."""
        line = self.lines[replica]
        if replica == self.leader:
            return self.end
        if line.since_ms is None:
            return line.offset
        return min(self.end, line.offset + self.rate * (now_ms - line.since_ms + 1) // 1000)

    def lag(self, replica: int, now_ms: int) -> int:
        return self.end - self.has(replica, now_ms)

    def committed(self, now_ms: int) -> int:
        """Up to where all in sync have everything, or had under this leader, while there were enough of them."""
        in_sync = [self.has(replica, now_ms) for replica in self.isr if replica in self.lines]
        if in_sync and len(self.isr) >= self.needed:
            self._committed = max(self._committed, min(in_sync))
        return self._committed

    def append(self, data: bytes, count: int, now_ms: int) -> ModelBatch:
        for replica, line in self.lines.items():
            if line.since_ms is not None and self.has(replica, now_ms) == self.end:
                self.lines[replica] = Line(self.end, now_ms)
        stamped = self.end.to_bytes(8, "big") + data[8:12] + self.leader_epoch.to_bytes(4, "big") + data[16:]
        batch = ModelBatch(self.end, count, self.leader_epoch, now_ms, stamped)
        self.batches.append(batch)
        self.end = batch.end
        return batch

    def follow(self, partition: Led, fetches: Callable[[int], bool], now_ms: int, needed: int) -> None:
        """What has become of the partition, its brokers and the minimum of its ISR."""
        self.committed(now_ms)
        had = {replica: self.has(replica, now_ms) for replica in self.lines}
        unknown = self.end if self.leader_epoch < 0 else self.start
        if partition.leader >= 0 and partition.leader_epoch != self.leader_epoch:
            self._cut(had.get(partition.leader, unknown))
            self.epoch_start = self.end
        self._served = partition.leader >= 0 and fetches(partition.leader)
        lines: dict[int, Line] = {}
        for replica in partition.replicas:
            if replica >= 0:
                on = self._served and replica != partition.leader and fetches(replica)
                offset, line = had.get(replica, unknown), self.lines.get(replica)
                goes_on = on and line is not None and line.since_ms is not None and offset <= self.end
                lines[replica] = line if goes_on and line else Line(min(offset, self.end), now_ms if on else None)
        self.lines, self.leader, self.leader_epoch = lines, partition.leader, partition.leader_epoch
        self.isr, self.needed = list(partition.isr), needed
        if partition.unclean_elections > self.seen_unclean:
            # There, and only there, what was acknowledged may be lost.
            self.seen_unclean = partition.unclean_elections
            self.acknowledged = [batch for batch in self.acknowledged if batch.end <= self.end]

    def _cut(self, end: int) -> None:
        """Whoever leads now has the log; of batches it has all or nothing."""
        lost = [batch for batch in self.batches if batch.end > end]
        if lost:
            end = min(end, lost[0].base_offset)
        self.batches = [batch for batch in self.batches if batch.end <= end]
        self.end = min(self.end, end)
        self._committed = min(self._committed, self.end)
        for producer_id, numbered in list(self.producers.items()):
            kept = [one for one in numbered if one.base_offset < self.end]
            self.producers[producer_id] = kept
            if not kept:
                del self.producers[producer_id]

    def restart(self) -> None:
        """Records are not kept, but where they ended."""
        log = ModelLog(self.rate, self.end, self.end, epoch_start=self.end, seen_unclean=self.seen_unclean)
        log._committed = self.end
        vars(self).update(vars(log))

    def joining(self, now_ms: int) -> list[int]:
        """Who has all that is committed, and all that was there when the leader began."""
        if self.leader < 0:
            return []
        enough = max(self.committed(now_ms), self.epoch_start)
        return [
            replica
            for replica, line in self.lines.items()
            if replica not in self.isr and line.since_ms is not None and self.has(replica, now_ms) >= enough
        ]

    def leaving(self, now_ms: int, lag_time_max_ms: int) -> list[int]:
        """Who is in sync and has lacked a record for too long."""
        if not self._served:
            return []
        return [
            replica
            for replica in self.isr
            for lacked in [batch for batch in self.batches if batch.end > self.has(replica, now_ms)][:1]
            if now_ms - lacked.written_ms > lag_time_max_ms
        ]
