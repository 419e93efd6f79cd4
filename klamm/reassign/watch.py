"""`--watch`: polls the cluster until every replica is in sync or has a permanent error.

A `Screen` shows each state: a table on a terminal, else lines of text or JSON. A replica that a reassignment in
progress is adding is not complete even with a lag of 0, because it has yet to join the ISR.
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
"""The speed is the average over this time."""


class Seen:
    """The current rows, and what the progress is computed from: largest lags and the polls of the last seconds."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self._most_behind: dict[TopicPartitionReplica, int] = {}
        self._looks: list[tuple[float, dict[TopicPartitionReplica, int]]] = []

    def add(self, rows: Sequence[Row], now: float) -> None:
        """Add the rows of a poll; `now` is its time in seconds."""
        self.rows = rows
        for row in rows:
            self._most_behind[row.replica] = max(self._most_behind.get(row.replica, 0), row.lag or 0)
        self._looks = [look for look in self._looks if now - look[0] <= _SPEED_OVER_SECONDS]
        self._looks.append((now, {row.replica: row.lag for row in rows if row.lag}))

    @property
    def lag(self) -> int:
        """The sum of the lags of all replicas, in messages."""
        return sum(row.lag or 0 for row in self.rows)

    @property
    def in_sync(self) -> int:
        """The number of replicas in sync."""
        return sum(row.in_sync for row in self.rows)

    @property
    def messages_per_second(self) -> float:
        """The decrease of the total lag per second; 0 if it grows, and before the second poll."""
        (first, before), (last, now) = self._looks[0], self._looks[-1]
        return max((sum(before.values()) - sum(now.values())) / (last - first), 0.0) if last > first else 0.0

    @property
    def seconds_to_go(self) -> float:
        """The time until the last replica is in sync if each keeps its speed; replicas that do not get nearer are
        ignored. 0 if no replica gets nearer."""
        (first, before), (last, now) = self._looks[0], self._looks[-1]
        copied = {replica: before.get(replica, 0) - lag for replica, lag in now.items()}
        return max((now[one] * (last - first) / count for one, count in copied.items() if count > 0), default=0.0)

    def share_done(self, row: Row) -> float:
        """The share of the replica's largest lag that it has caught up with, 0 to 1; 0 for a problem."""
        most = self._most_behind[row.replica]
        return 0.0 if row.lag is None else 1.0 - row.lag / most if most else 1.0

    def sentence(self) -> str:
        """A summary of all replicas in one line."""
        said = f"{self.in_sync} of {len(self.rows)} replicas in sync, {self.lag} messages behind"
        speed, rest = self.messages_per_second, self.seconds_to_go
        return f"{said}, {speed:.0f} messages/s, {rest:.0f} s to go" if speed and rest else said


Screen = Callable[[Seen], None]
"""Shows the state; called after each poll."""


async def watch(admin: AdminClient, targets: Sequence[Target], show: Screen) -> Report:
    """Poll until all rows are final. Returns the report of the last poll, a failure unless all replicas are in sync."""
    replicas, partitions = wanted_replicas(targets), {target.partition for target in targets}
    seen = Seen()
    while True:
        try:
            joining, rows = await _joining(admin, partitions), await look(admin, replicas)
        except ClusterUnreachable:
            # The broker of this connection has just stopped: try once more, with another broker.
            joining, rows = await _joining(admin, partitions), await look(admin, replicas)
        seen.add(rows, trio.current_time())
        show(seen)
        if all(_is_final(row, joining) for row in seen.rows):
            break
        await trio.sleep(POLL_SECONDS)
    report = progress_report(seen.rows)
    return report if all_in_sync(seen.rows) else Report(report.lines, report.content, _failure(seen.rows))


async def _joining(admin: AdminClient, partitions: set[TopicPartition]) -> set[TopicPartitionReplica]:
    """The replicas that reassignments in progress are adding."""
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
