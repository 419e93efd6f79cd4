"""The records of one partition, and the log end offset of each replica as a function of time.

All replicas share one log, the leader's; each follower has a prefix of it. A follower that fetches has reached
`offset + rate * elapsed`, up to the log end offset. So its offset at a given time, and the time at which it reaches an
offset, are computed on request; no periodic work is needed. Only these events change the function: an append while a
follower has everything, a change of leader, ISR or replicas, and a broker that goes down or comes up. If a new leader
lacks the end of the log, the log is truncated (KIP-101).

The high watermark is the lowest log end offset in the ISR. It never decreases while one leader leads. It does not
advance while the ISR is smaller than min.insync.replicas (KIP-966), because such records could be lost.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

from klamm.broker.data.control_batches import read_marker
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.producers import ProducerStates
from klamm.broker.data.record_batches import ProducedBatch
from klamm.broker.data.transactions import PartitionTransactions
from klamm.controller.metadata.partition import Partition
from klamm.quick_dataclasses import dataclass


@dataclass(slots=True)
class _Follower:
    """A replica's log end offset, and since when (ms) it fetches from there; None: it does not fetch."""

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
        "_rates",
        "epoch_start",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "offline_replicas",
        "producers",
        "reserved_end",
        "transactions",
    )

    def __init__(
        self, log: PartitionLog, replication_rate: int, rates: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """A partition without replicas, which `follow` sets. `replication_rate`: messages per second and follower;
        `rates`: those of single brokers, which may change after `anchor`."""
        self.log = log
        self.reserved_end = log.log_end_offset
        """Offsets below this one may be assigned. Set by `Reservations`."""
        self.producers = ProducerStates()
        self.transactions = PartitionTransactions()
        self.leader = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.offline_replicas: Collection[int] = ()
        """The replicas in log directories that are offline. Set by the data plane."""
        self._rate = replication_rate
        self._rates = rates
        self._led_from_here = False
        """Whether there is a leader and its broker is up."""
        self.epoch_start = log.log_end_offset
        """The log end offset at which the current leader epoch began. Set by `follow`."""
        self._followers: dict[int, _Follower] = {}
        """All replicas by broker id, the leader included."""
        self._needed_in_sync = 0
        """With a smaller ISR the high watermark does not advance."""
        self._high_watermark = log.log_end_offset

    @property
    def is_led(self) -> bool:
        """Whether there is a leader and its broker is up."""
        return self._led_from_here

    @property
    def replicas(self) -> Collection[int]:
        return self._followers.keys()

    def log_end_offset(self, broker_id: int, now_ms: int) -> int:
        """The log end offset of a replica. Raises KeyError if the broker has no replica."""
        follower = self._followers[broker_id]
        if broker_id == self.leader:
            return self.log.log_end_offset
        if follower.since_ms is None:
            return follower.offset
        # The current millisecond counts as a whole, so that a few records arrive in the millisecond of their append.
        fetched = follower.offset + self._rate_of(broker_id) * (now_ms - follower.since_ms + 1) // 1000
        return max(min(fetched, self.log.log_end_offset), self.log.log_start_offset)

    def _rate_of(self, broker_id: int) -> int:
        return self._rates.get(broker_id, self._rate) if self._rates else self._rate

    def anchor(self, broker_id: int, now_ms: int) -> None:
        """Note how far a follower is, before its rate changes."""
        follower = self._followers.get(broker_id)
        if follower is not None and follower.since_ms is not None and broker_id != self.leader:
            follower.offset, follower.since_ms = self.log_end_offset(broker_id, now_ms), now_ms

    def lag(self, broker_id: int, now_ms: int) -> int:
        """The lag of a replica in messages. Raises KeyError if the broker has no replica."""
        return self.log.log_end_offset - self.log_end_offset(broker_id, now_ms)

    def high_watermark(self, now_ms: int) -> int:
        """The offset below which records are committed."""
        if not self._is_under_min_isr:
            in_sync = [self.log_end_offset(replica, now_ms) for replica in self.isr if replica in self._followers]
            if in_sync:
                self._high_watermark = max(self._high_watermark, min(in_sync))
        return max(self._high_watermark, self.log.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which all records of transactions are decided. At most the high watermark."""
        return max(self.transactions.last_stable_offset(high_watermark), self.log.log_start_offset)

    @property
    def _is_under_min_isr(self) -> bool:
        return len(self.isr) < self._needed_in_sync

    def append(self, batch: ProducedBatch, now_ms: int, *, log_append_time: bool = False) -> int:
        """Append a produced batch to the leader's log and return its first offset. With `log_append_time` its records
        get the timestamp `now_ms`."""
        end = self.log.log_end_offset
        for broker_id, follower in self._followers.items():
            if follower.since_ms is not None and self.log_end_offset(broker_id, now_ms) == end:
                follower.offset, follower.since_ms = end, now_ms
        base_offset = self.log.append(batch, self.leader_epoch, now_ms, log_append_time=log_append_time)
        if batch.is_control:
            self.producers.end_transaction(batch, read_marker(batch).coordinator_epoch)
        else:
            self.producers.append(batch, base_offset, now_ms if log_append_time else batch.max_timestamp_ms)
        if batch.is_transactional:
            self.transactions.append(batch, base_offset, self.log.log_start_offset)
        return base_offset

    def follow(
        self, partition: Partition, fetches: Callable[[int], bool], now_ms: int, min_insync_replicas: int = 1
    ) -> bool:
        """Apply the partition's current leader, ISR and replicas. `fetches` returns whether a broker is up, and
        `min_insync_replicas` is the topic's config. Returns whether anything changed."""
        # Placeholders count as replicas here (KIP-409), so that they do not lower the number that is needed.
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
        # An added replica has no records. The first replicas of a partition all begin with its empty log.
        start = self.log.log_start_offset
        self._followers = {
            replica: self._follower(replica, had.get(replica, start), now_ms if fetching[replica] else None)
            for replica in real
        }
        return True

    def begin_whole(self, partition: Partition) -> None:
        """Give all replicas of a log that was just made all of its records. `follow` has to be called next."""
        end = self.log.log_end_offset
        self._followers = {replica: _Follower(end, None) for replica in partition.replicas if replica >= 0}

    def _follower(self, broker_id: int, offset: int, since_ms: int | None) -> _Follower:
        """A replica with the log end offset `offset`, or the end of the log if that is lower."""
        known = self._followers.get(broker_id)
        # A follower that goes on fetching keeps its state, because a new one would count this millisecond twice.
        if known is not None and None not in (known.since_ms, since_ms):
            return known
        return _Follower(min(offset, self.log.log_end_offset), since_ms)

    def _is_news(self, partition: Partition, led_from_here: bool, fetching: dict[int, bool]) -> bool:
        return (
            led_from_here is not self._led_from_here
            or (partition.leader, partition.leader_epoch, partition.isr) != (self.leader, self.leader_epoch, self.isr)
            or list(self._followers) != list(fetching)  # the order matters, because replicas join the ISR in it
            or any((self._followers[replica].since_ms is not None) != on for replica, on in fetching.items())
        )

    def _cut_off(self, end: int) -> None:
        """Truncate the log to what a new leader has, at a batch boundary."""
        end = self.log.batch_start(end)
        if end < self.log.log_end_offset:
            self.log.truncate_to(end)
            self.producers.truncate_to(end)
            self.transactions.truncate_to(end)
        self._high_watermark = min(self._high_watermark, self.log.log_end_offset)

    def caught_up(self, now_ms: int) -> tuple[int, ...]:
        """The followers outside the ISR that have reached the high watermark and `epoch_start`, and so may join it."""
        enough = max(self.high_watermark(now_ms), self.epoch_start)
        return tuple(
            replica
            for replica, follower in self._followers.items()
            if replica not in self.isr
            and follower.since_ms is not None
            and self.log_end_offset(replica, now_ms) >= enough
        )

    def fallen_behind(self, now_ms: int, replica_lag_time_max_ms: int) -> tuple[int, ...]:
        """The members of the ISR that have lacked a record for more than `replica_lag_time_max_ms`."""
        return tuple(
            replica
            for replica, written_ms in self._lacked_since(now_ms)
            if now_ms - written_ms > replica_lag_time_max_ms
        )

    def _lacked_since(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """The members of the ISR that lack records, and when (ms) the first of those records was written. Empty while
        the leader is down, because it cannot change the ISR then."""
        if not self._led_from_here:
            return
        for replica in self.isr:
            if replica in self._followers:
                offset = self.log_end_offset(replica, now_ms)
                if offset < self.log.log_end_offset:
                    yield replica, self.log.appended_ms(offset)

    def reaches_at_ms(self, offset: int, now_ms: int) -> int | None:
        """When (ms) the high watermark reaches `offset` if nothing else changes; None if it does not then."""
        if self.high_watermark(now_ms) >= offset:
            return now_ms
        if offset > self.log.log_end_offset or self._is_under_min_isr:
            return None
        latest = now_ms
        for replica in self.isr:
            if replica in self._followers and self.log_end_offset(replica, now_ms) < offset:
                due_ms = self._has_at_ms(replica, offset)
                if due_ms is None:
                    return None
                latest = max(latest, due_ms)
        return latest

    def has_at_ms(self, broker_id: int, offset: int, now_ms: int) -> int | None:
        """When (ms) a replica reaches `offset` if nothing else changes; None if it does not then. Raises KeyError if
        the broker has no replica."""
        if self.log_end_offset(broker_id, now_ms) >= offset:
            return now_ms
        return None if offset > self.log.log_end_offset else self._has_at_ms(broker_id, offset)

    def due_ms(self, now_ms: int, replica_lag_time_max_ms: int) -> int | None:
        """When (ms) to check next whether replicas join or leave the ISR; None if not before another change."""
        times: list[int] = [written_ms + replica_lag_time_max_ms + 1 for _, written_ms in self._lacked_since(now_ms)]
        enough = max(self.high_watermark(now_ms), self.epoch_start)
        joining = [
            replica
            for replica, follower in self._followers.items()
            if replica not in self.isr and follower.since_ms is not None
        ]
        times += [due for replica in joining if (due := self.has_at_ms(replica, enough, now_ms)) is not None]
        return min(times, default=None)

    def _has_at_ms(self, broker_id: int, offset: int) -> int | None:
        """When (ms) a follower reaches `offset`, which it has not reached yet; None if it does not fetch."""
        follower, rate = self._followers[broker_id], self._rate_of(broker_id)
        if follower.since_ms is None or not rate:
            return None
        missing = offset - follower.offset
        return follower.since_ms - 1 - (-missing * 1000) // rate
