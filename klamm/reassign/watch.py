"""`--watch`: looks until every replica is in sync, or in an error that waiting cannot change.

What is seen is shown by a `Screen`: a live table on a terminal, else lines for people or for programs. A replica whose
move is still listed as in progress is waited for even if it lags no more: it has yet to join the ISR.
"""

from collections.abc import Callable, Sequence
from typing import Final

import trio

from klamm.admin.client import AdminClient
from klamm.admin.errors import ClusterUnreachable
from klamm.admin.partition_types import TopicPartition, TopicPartitionReplica
from klamm.reassign.files import Target
from klamm.reassign.progress import Row, all_in_sync, look, progress_report, wanted_replicas
from klamm.reassign.report import Report

POLL_SECONDS: Final = 0.5
_SPEED_OVER_SECONDS: Final = 10.0
"""The speed is that of the last so many seconds."""


class Seen:
    """What has been seen so far: the rows as they are now, and what is known from before."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self._most_behind: dict[TopicPartitionReplica, int] = {}
        self._looks: list[tuple[float, dict[TopicPartitionReplica, int]]] = []

    def add(self, rows: Sequence[Row], now: float) -> None:
        """Take in what is the case at a time, in seconds."""
        self.rows = rows
        for row in rows:
            self._most_behind[row.replica] = max(self._most_behind.get(row.replica, 0), row.lag or 0)
        self._looks = [look for look in self._looks if now - look[0] <= _SPEED_OVER_SECONDS]
        self._looks.append((now, {row.replica: row.lag for row in rows if row.lag}))

    @property
    def lag(self) -> int:
        """Messages that all replicas together are behind."""
        return sum(row.lag or 0 for row in self.rows)

    @property
    def in_sync(self) -> int:
        """How many replicas are in sync."""
        return sum(row.in_sync for row in self.rows)

    @property
    def messages_per_second(self) -> float:
        """How fast the lag shrinks; 0 while that is not known, or where it grows."""
        (first, before), (last, now) = self._looks[0], self._looks[-1]
        return max((sum(before.values()) - sum(now.values())) / (last - first), 0.0) if last > first else 0.0

    @property
    def seconds_to_go(self) -> float:
        """Until the last replica that gets nearer is in sync, if each goes on as it does; 0 where none does."""
        (first, before), (last, now) = self._looks[0], self._looks[-1]
        copied = {replica: before.get(replica, 0) - lag for replica, lag in now.items()}
        return max((now[one] * (last - first) / count for one, count in copied.items() if count > 0), default=0.0)

    def share_done(self, row: Row) -> float:
        """Between 0 and 1: how much of the largest lag seen has been made up for; 0 for an error."""
        most = self._most_behind[row.replica]
        return 0.0 if row.lag is None else 1.0 - row.lag / most if most else 1.0

    def sentence(self) -> str:
        """All replicas in one line."""
        said = f"{self.in_sync} of {len(self.rows)} replicas in sync, {self.lag} messages behind"
        speed, rest = self.messages_per_second, self.seconds_to_go
        return f"{said}, {speed:.0f} messages/s, {rest:.0f} s to go" if speed and rest else said


Screen = Callable[[Seen], None]
"""Shows what is seen; called after each look."""


async def watch(admin: AdminClient, targets: Sequence[Target], show: Screen) -> Report:
    """Look until there is nothing to wait for; the last look's report, a failure unless all is in sync."""
    replicas, partitions = wanted_replicas(targets), {target.partition for target in targets}
    seen = Seen()
    while True:
        try:
            joining, rows = await _joining(admin, partitions), await look(admin, replicas)
        except ClusterUnreachable:
            # The broker that was asked has just gone; there may be others.
            joining, rows = await _joining(admin, partitions), await look(admin, replicas)
        seen.add(rows, trio.current_time())
        show(seen)
        if all(_is_final(row, joining) for row in seen.rows):
            break
        await trio.sleep(POLL_SECONDS)
    report = progress_report(seen.rows)
    return report if all_in_sync(seen.rows) else Report(report.lines, report.content, _failure(seen.rows))


async def _joining(admin: AdminClient, partitions: set[TopicPartition]) -> set[TopicPartitionReplica]:
    """The replicas that moves in progress are adding."""
    return {
        TopicPartitionReplica(*move.partition, broker_id)
        for move in await admin.list_partition_reassignments(partitions)
        for broker_id in move.adding_replicas
    }


def _is_final(row: Row, joining: set[TopicPartitionReplica]) -> bool:
    if row.problem is not None:
        return not row.problem.may_pass
    return row.in_sync and row.replica not in joining


def _failure(rows: Sequence[Row]) -> str:
    failed = [row for row in rows if not row.in_sync]
    first = f"{failed[0].replica.partition} on broker {failed[0].replica.broker_id}: {failed[0].status}"
    return f"{len(failed)} of {len(rows)} replicas cannot get in sync; {first}"
