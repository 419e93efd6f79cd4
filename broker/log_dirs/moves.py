"""Moves of replicas between the log directories of one broker (AlterReplicaLogDirs, KIP-113): the future replicas.

A future replica copies the records of the present one, and takes its place when it has all of them. How far it is, is a
function of time, as for followers (`klamm.broker.data.replicated_log`). Soft state: it ends with the process.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from math import ceil, inf
from typing import Final

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

MAX_MOVES: Final = 10_000
"""The most moves that are in progress in the cluster."""
LONGEST_PAUSE_MS: Final = 1000
"""A move is checked this often at least, because rates and logs change."""


@dataclass(slots=True)
class FutureReplica:
    """The copy of a replica in another log directory: up to `offset`, growing since `since_ms`; None: it pauses,
    because its broker is down."""

    directory_id: Uuid
    offset: int
    since_ms: int | None
    rate: float
    """The messages per second that it has copied since then."""


class Moves:
    """The moves in progress."""

    def __init__(self, rate_of: Mapping[int, int], rate: int) -> None:
        """`rate`: the messages per second that a move copies; `rate_of`: those of single brokers."""
        self._rates, self._rate = rate_of, rate
        self._moves: dict[tuple[int, LogKey], FutureReplica] = {}
        self._counts: Counter[int] = Counter()
        """The moves of each broker."""
        self._throttles: dict[int | None, int] = {}
        self._due: list[tuple[int, int, LogKey]] = []
        """When (ms) to check each move, as a heap, which also has outdated entries."""

    def __len__(self) -> int:
        return len(self._moves)

    def find(self, broker_id: int, key: LogKey) -> FutureReplica | None:
        """The future replica of a partition on a broker, if there is one."""
        return self._moves.get((broker_id, key)) if self._moves else None

    def of_broker(self, broker_id: int) -> Iterator[tuple[LogKey, FutureReplica]]:
        """The future replicas on a broker."""
        return ((key, future) for (owner, key), future in self._moves.items() if owner == broker_id)

    def begin(self, broker_id: int, key: LogKey, directory_id: Uuid, found: ReplicatedLog | None, now_ms: int) -> None:
        """Begin to copy a replica into a directory; `found` is the partition, None if it never held a record."""
        start_offset = 0 if found is None else found.log.log_start_offset
        self._counts[broker_id] += (broker_id, key) not in self._moves
        self._moves[broker_id, key] = FutureReplica(directory_id, start_offset, now_ms, self._rate_of(broker_id, found))
        heappush(self._due, (now_ms, broker_id, key))

    def cancel(self, broker_id: int, key: LogKey) -> None:
        """Give a move up, if there is one."""
        if self._moves.pop((broker_id, key), None) is not None:
            self._counts[broker_id] -= 1

    def lose(self, broker_id: int, directory_id: Uuid) -> None:
        """Give the moves into a directory up, because it went offline."""
        lost = [key for key, future in self.of_broker(broker_id) if future.directory_id == directory_id]
        for key in lost:
            self.cancel(broker_id, key)

    def pause(self, broker_id: int, data: DataPlane, now_ms: int) -> None:
        """Stop copying on a broker that goes down."""
        for key, future in self.of_broker(broker_id):
            future.offset = self.end_offset(broker_id, future, data.find(*key), now_ms)
            future.since_ms = None

    def resume(self, broker_id: int, now_ms: int) -> None:
        """Go on copying on a broker that has come up."""
        for key, future in self.of_broker(broker_id):
            future.since_ms = now_ms
            heappush(self._due, (now_ms, broker_id, key))

    def end_offset(self, broker_id: int, future: FutureReplica, found: ReplicatedLog | None, now_ms: int) -> int:
        """The log end offset of a future replica; `found` is the partition, None if it never held a record."""
        if found is None or broker_id not in found.replicas:
            return 0
        copied = future.offset
        if future.since_ms is not None:
            copied += int(future.rate * (now_ms - future.since_ms + 1) / 1000)
        return max(min(copied, found.log_end_offset(broker_id, now_ms)), found.log.log_start_offset)

    @property
    def next_due_ms(self) -> float:
        """When `due` may have a move to check; infinite: there is none."""
        return self._due[0][0] if self._due else inf

    def due(self, now_ms: int) -> Iterator[tuple[int, LogKey, FutureReplica]]:
        """The moves to check now: whether each one is complete. Call `postpone` for one that is not."""
        checked = len(self._due)
        while checked and self._due and self._due[0][0] <= now_ms:
            checked -= 1
            _, broker_id, key = heappop(self._due)
            future = self.find(broker_id, key)
            if future is not None and future.since_ms is not None:
                yield broker_id, key, future

    def postpone(self, broker_id: int, key: LogKey, missing: int, found: ReplicatedLog, now_ms: int) -> None:
        """Check a move again when it will have copied so many more messages, or sooner. From now on it copies at the
        rate of now."""
        future, rate = self._moves[broker_id, key], self._rate_of(broker_id, found)
        if rate != future.rate:
            future.offset = self.end_offset(broker_id, future, found, now_ms)
            future.since_ms, future.rate = now_ms, rate
        wait_ms = min(ceil(missing * 1000 / rate), LONGEST_PAUSE_MS) if rate else LONGEST_PAUSE_MS
        heappush(self._due, (now_ms + max(1, wait_ms), broker_id, key))

    def throttle(self, broker_id: int | None, bytes_per_second: int | None) -> None:
        """Bound what the moves of a broker copy in a second, together; None: without a bound of its own. The broker
        None is every other one."""
        self._throttles.pop(broker_id, None)
        if bytes_per_second is not None:
            self._throttles[broker_id] = bytes_per_second

    def _rate_of(self, broker_id: int, found: ReplicatedLog | None) -> float:
        """The messages per second that a move copies. The moves of a broker share its throttle evenly, and a message
        has the average size of the partition's."""
        rate = self._rates.get(broker_id, self._rate)
        bound = self._throttles.get(broker_id, self._throttles.get(None))
        if bound is None or found is None:
            return rate
        log = found.log
        average = log.size_bytes / max(1, log.log_end_offset - log.log_start_offset)
        return min(rate, bound / max(1, self._counts[broker_id]) / average) if average else rate
