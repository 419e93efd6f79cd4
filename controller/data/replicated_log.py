"""The records of one partition and how far each replica has them: lines on the clock, so that time moves nothing.

All replicas share one log, the leader's; what a follower has is a prefix of it. A follower that fetches has
`offset + rate * elapsed` of it, up to the end, so that where it is, and when it will be somewhere, is computed when
somebody asks. Only what bends a line is an event: an append to a follower that had everything, a change of leader, ISR
or replicas, a broker that goes or comes. A leader that lacks the end of the log cuts it off (KIP-101).

The high watermark is what every member of the ISR has; it never goes back while one leader leads, and stands still
while fewer are in sync than the topic wants (KIP-966): what is committed then could be lost with them.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from klamm.controller.data.partition_log import PartitionLog
from klamm.controller.data.producers import ProducerStates
from klamm.controller.data.record_batches import ProducedBatch
from klamm.controller.metadata.partition import Partition


@dataclass(slots=True)
class _Follower:
    """Where a replica was, and since when it fetches on from there; None: it does not."""

    offset: int
    since_ms: int | None


class ReplicatedLog:
    """One partition that holds records, or held some. Times are the controller's clock, in ms."""

    __slots__ = (
        "_followers",
        "_high_watermark",
        "_led_from_here",
        "_needed_in_sync",
        "_rate",
        "epoch_start",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "producers",
    )

    def __init__(self, log: PartitionLog, replication_rate: int) -> None:
        """An empty partition, whose replicas have what there is of it; `follow` tells who they are."""
        self.log = log
        self.producers = ProducerStates()
        self.leader = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self._rate = replication_rate
        self._led_from_here = False
        """Whether there is a leader, and it is there."""
        self.epoch_start = log.log_end_offset
        """Where the leader began to write in its epoch: what is before it was committed by others, as far as it was."""
        self._followers: dict[int, _Follower] = {}
        self._needed_in_sync = 0
        """Below so many members of the ISR nothing is committed."""
        self._high_watermark = log.log_end_offset

    @property
    def replicas(self) -> Collection[int]:
        return self._followers.keys()

    def log_end_offset(self, broker_id: int, now_ms: int) -> int:
        """The offset behind the last record that a replica has. Raises KeyError for a broker that has none."""
        follower = self._followers[broker_id]
        if broker_id == self.leader:
            return self.log.log_end_offset
        if follower.since_ms is None:
            return follower.offset
        # In each millisecond begun a follower fetches its share: what is small arrives in the one it was written in.
        fetched = follower.offset + self._rate * (now_ms - follower.since_ms + 1) // 1000
        return max(min(fetched, self.log.log_end_offset), self.log.log_start_offset)

    def lag(self, broker_id: int, now_ms: int) -> int:
        """How many messages a replica is behind the leader's log end; raises KeyError for a broker that has none."""
        return self.log.log_end_offset - self.log_end_offset(broker_id, now_ms)

    def high_watermark(self, now_ms: int) -> int:
        """The offset below which records are committed: every member of the ISR had them while there were enough."""
        if not self._is_under_min_isr:
            in_sync = [self.log_end_offset(replica, now_ms) for replica in self.isr if replica in self._followers]
            if in_sync:
                self._high_watermark = max(self._high_watermark, min(in_sync))
        return max(self._high_watermark, self.log.log_start_offset)

    @property
    def _is_under_min_isr(self) -> bool:
        return len(self.isr) < self._needed_in_sync

    def append(self, batch: ProducedBatch, now_ms: int, *, log_append_time: bool = False) -> int:
        """Write what was produced to the leader, its records stamped with the time if they are to have a
        `log_append_time`; returns its first offset."""
        end = self.log.log_end_offset
        for broker_id, follower in self._followers.items():
            if follower.since_ms is not None and self.log_end_offset(broker_id, now_ms) == end:
                follower.offset, follower.since_ms = end, now_ms
        base_offset = self.log.append(batch, self.leader_epoch, now_ms, log_append_time=log_append_time)
        self.producers.append(batch, base_offset, now_ms if log_append_time else batch.max_timestamp_ms)
        return base_offset

    def follow(
        self, partition: Partition, fetches: Callable[[int], bool], now_ms: int, min_insync_replicas: int = 1
    ) -> bool:
        """Learn what has become of the partition; `fetches` tells which brokers are there, and `min_insync_replicas`
        is what the topic wants. Returns whether anything did."""
        # Placeholders count (KIP-409): replicas that are missing are no reason to ask for less.
        needed_in_sync = min(min_insync_replicas, len(partition.replicas))
        led_from_here = partition.leader >= 0 and fetches(partition.leader)
        real = [replica for replica in partition.replicas if replica >= 0]
        fetching = {replica: led_from_here and replica != partition.leader and fetches(replica) for replica in real}
        if needed_in_sync == self._needed_in_sync and not self._is_news(partition, led_from_here, fetching):
            return False
        self.high_watermark(now_ms)
        had = {replica: self.log_end_offset(replica, now_ms) for replica in self._followers}
        if partition.leader >= 0 and partition.leader_epoch != self.leader_epoch:
            self._cut_off(had.get(partition.leader, self.log.log_start_offset))
            self.log.begin_leader_epoch(partition.leader_epoch)
            self.epoch_start = self.log.log_end_offset
        self.leader, self.leader_epoch, self.isr = partition.leader, partition.leader_epoch, partition.isr
        self._led_from_here, self._needed_in_sync = led_from_here, needed_in_sync
        # A replica that is added has no records. A partition begins with an empty log, which all its replicas have.
        start = self.log.log_start_offset
        self._followers = {
            replica: self._follower(replica, had.get(replica, start), now_ms if fetching[replica] else None)
            for replica in real
        }
        return True

    def _follower(self, broker_id: int, offset: int, since_ms: int | None) -> _Follower:
        """A replica that has everything below `offset`, as far as that is still there."""
        known = self._followers.get(broker_id)
        # Whoever just fetches on stays on its line: a new one would begin with another share of this millisecond.
        if known is not None and None not in (known.since_ms, since_ms):
            return known
        return _Follower(min(offset, self.log.log_end_offset), since_ms)

    def _is_news(self, partition: Partition, led_from_here: bool, fetching: dict[int, bool]) -> bool:
        return (
            led_from_here is not self._led_from_here
            or (partition.leader, partition.leader_epoch, partition.isr) != (self.leader, self.leader_epoch, self.isr)
            or list(self._followers) != list(fetching)  # in another order, too: those who join stand in it
            or any((self._followers[replica].since_ms is not None) != on for replica, on in fetching.items())
        )

    def _cut_off(self, end: int) -> None:
        """A new leader's log is the log: what it lacks is gone, whole batches of it."""
        end = self.log.batch_start(end)
        if end < self.log.log_end_offset:
            self.log.truncate_to(end)
            self.producers.truncate_to(end)
        self._high_watermark = min(self._high_watermark, self.log.log_end_offset)

    def caught_up(self, now_ms: int) -> tuple[int, ...]:
        """The followers outside the ISR that have what is committed, and something of the leader's epoch."""
        enough = max(self.high_watermark(now_ms), self.epoch_start)
        return tuple(
            replica
            for replica, follower in self._followers.items()
            if replica not in self.isr
            and follower.since_ms is not None
            and self.log_end_offset(replica, now_ms) >= enough
        )

    def fallen_behind(self, now_ms: int, replica_lag_time_max_ms: int) -> tuple[int, ...]:
        """The members of the ISR that have lacked a record for longer than they may."""
        return tuple(
            replica
            for replica, written_ms in self._lacked_since(now_ms)
            if now_ms - written_ms > replica_lag_time_max_ms
        )

    def _lacked_since(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """The members of the ISR that lack records, and when the first of those was written. Nobody tells of a leader
        that is down: it does not change the ISR."""
        if not self._led_from_here:
            return
        for replica in self.isr:
            if replica in self._followers:
                offset = self.log_end_offset(replica, now_ms)
                if offset < self.log.log_end_offset:
                    yield replica, self.log.appended_ms(offset)

    def reaches_at_ms(self, offset: int, now_ms: int) -> int | None:
        """When the high watermark is at `offset`, if nothing happens meanwhile; None: not before something does."""
        if self.high_watermark(now_ms) >= offset:
            return now_ms
        if offset > self.log.log_end_offset or self._is_under_min_isr:
            return None
        latest = now_ms
        for replica in self.isr:
            if replica in self._followers and self.log_end_offset(replica, now_ms) < offset:
                due_ms = self._has_at_ms(self._followers[replica], offset)
                if due_ms is None:
                    return None
                latest = max(latest, due_ms)
        return latest

    def has_at_ms(self, broker_id: int, offset: int, now_ms: int) -> int | None:
        """When a replica has everything below `offset`, if nothing happens meanwhile; None: not before something does.
        Raises KeyError for a broker that has none."""
        if self.log_end_offset(broker_id, now_ms) >= offset:
            return now_ms
        return None if offset > self.log.log_end_offset else self._has_at_ms(self._followers[broker_id], offset)

    def due_ms(self, now_ms: int, replica_lag_time_max_ms: int) -> int | None:
        """When to look again whether replicas join or leave the ISR; None: not before something happens."""
        times: list[int] = [written_ms + replica_lag_time_max_ms + 1 for _, written_ms in self._lacked_since(now_ms)]
        enough = max(self.high_watermark(now_ms), self.epoch_start)
        joining = [
            replica
            for replica, follower in self._followers.items()
            if replica not in self.isr and follower.since_ms is not None
        ]
        times += [due for replica in joining if (due := self.has_at_ms(replica, enough, now_ms)) is not None]
        return min(times, default=None)

    def _has_at_ms(self, follower: _Follower, offset: int) -> int | None:
        """When a follower that does not have it yet will have everything below `offset`."""
        if follower.since_ms is None:
            return None
        missing = offset - follower.offset
        return follower.since_ms - 1 - (-missing * 1000) // self._rate
