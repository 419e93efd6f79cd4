"""Follows the metadata quorum of another cluster, for ever: what its leader has is appended to the copy.

The states are the lines that a reader sees: connected to a leader, its epoch has changed, the leader has moved, the
connection was lost, a snapshot was fetched, the copy was cut back. Everything that can mend itself is tried again, from
0.1 s up to 5 s apart; what cannot ends with one line.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from klamm.admin.connection import Connection
from klamm.admin.streams import AccessRefused, ConnectionLost
from klamm.controller.log.errors import CorruptSnapshot
from klamm.protocol.record_batch import CorruptBatch
from klamm.server.addresses import Address
from klamm.twin.followed_log import FollowedLog
from klamm.twin.leader import Leader, NotFollowable, NotTheLeader, Position

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
KEEP_STATE_SECONDS: Final = 1.0
UNKNOWN_CLUSTER: Final = ""

Connect = Callable[[Address], Awaitable[Connection]]
"""Opens a connection as the cluster demands it: plain text, TLS, SASL."""
Say = Callable[[str], None]


@dataclass
class Follower:
    """Follows a quorum into a copy. `addresses` are controllers of it; `say` gets a line for each change."""

    log: FollowedLog
    addresses: Sequence[Address]
    connect: Connect
    say: Say
    cluster_id: str | None = None
    """What the cluster must be; None: what the copy or the first controller says."""
    timeout_seconds: float = math.inf
    """So long without progress end it."""
    _patience: trio.CancelScope = field(default_factory=trio.CancelScope)
    _next: int = 0
    _named: Address | None = None
    _pause: float = FIRST_PAUSE_SECONDS
    _last_line: str = ""
    _kept_at: float = field(default=0.0)

    async def follow(self, *, until_caught_up: bool = False) -> None:
        """Follow for ever, or until the copy has everything below the leader's high watermark. Raises LogError and
        NotFollowable, also after `timeout_seconds` without progress: with `until_caught_up` this is that the copy
        changes, without it that the leader answers."""
        with trio.CancelScope() as self._patience:
            self._note_progress()
            await self._follow_on_and_on(until_caught_up=until_caught_up)
        if self._patience.cancelled_caught:
            raise NotFollowable(f"gave up after {self.timeout_seconds:g} s without progress")

    def _note_progress(self) -> None:
        self._patience.deadline = trio.current_time() + self.timeout_seconds

    async def _follow_on_and_on(self, *, until_caught_up: bool) -> None:
        while True:
            address = self._choose()
            try:
                connection = await self.connect(address)
                try:
                    if await self._follow_on(Leader(connection), until_caught_up=until_caught_up):
                        return
                finally:
                    await connection.aclose()
            except NotTheLeader as moved:
                self._named = moved.at
                self._tell(f"{moved}; {'going there' if moved.at else 'trying the next controller'}")
            except AccessRefused as refused:
                raise NotFollowable(str(refused)) from None
            except (ConnectionLost, CorruptBatch, CorruptSnapshot) as error:
                self._tell(f"{error}; trying again")
            await trio.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def _choose(self) -> Address:
        """The address that was named, once; else the next of the given ones."""
        if self._named is not None:
            named, self._named = self._named, None
            return named
        address = self.addresses[self._next % len(self.addresses)]
        self._next += 1
        return address

    async def _follow_on(self, leader: Leader, *, until_caught_up: bool) -> bool:
        await self._identify(leader)
        await self._compare(leader)
        epoch = 0
        while True:
            identity = self.log.identity
            assert identity is not None, "the cluster was identified"
            position = Position(self.log.end_offset, self.log.last_epoch, self.log.high_watermark)
            found = await leader.fetch_behind(position, identity)
            if leader.epoch != epoch:
                epoch = leader.epoch
                who = f"controller {leader.leader_id} at {leader.connection.address}"
                self._tell(f"following {who} in epoch {epoch} from offset {position.offset} on")
            self._pause = FIRST_PAUSE_SECONDS
            if found.diverging is not None:
                end = self.log.truncate(*found.diverging)
                self._tell(f"the leader has other records from offset {end} on: the copy was cut back to it")
            elif found.snapshot is not None:
                snapshot = await leader.fetch_snapshot(found.snapshot, self.log.folder, identity, self._note_progress)
                self.log.begin_anew(snapshot)
                self._tell(f"fetched snapshot {snapshot.path.name}; the copy begins behind it")
            else:
                await trio.to_thread.run_sync(self.log.append, found.records)
                self.log.note_high_watermark(found.high_watermark)
                await self._keep_state()
                if until_caught_up and self.log.end_offset >= found.high_watermark >= 0:
                    self.log.keep_state()
                    return True
            if found.records or found.diverging or found.snapshot or not until_caught_up:
                self._note_progress()

    async def _identify(self, leader: Leader) -> None:
        """Compare the cluster's id with that of the copy before a byte is written."""
        said = await leader.cluster_id()
        if said is not None and self.cluster_id is not None and said != self.cluster_id:
            raise NotFollowable(f"{leader.connection.address} is of cluster {said}, not {self.cluster_id}")
        known = said or self.cluster_id
        if known is None and self.log.identity is None:
            raise NotFollowable(
                f"{leader.connection.address} does not say its cluster's id, as controllers before 3.7: give "
                "--cluster-id"
            )
        if known is not None:
            self.log.name(known)

    async def _compare(self, leader: Leader) -> None:
        """Compare the last committed batch of the copy with the leader's, which a new cluster of the same id has not.
        Raises LogError. A leader that keeps a snapshot in its place cannot be compared."""
        batch, identity = self.log.last_committed(), self.log.identity
        if batch is None or identity is None:
            return
        found = await leader.fetch_behind(Position(batch.base_offset, batch.epoch_before, batch.base_offset), identity)
        if found.diverging is not None:
            self.log.truncate(*found.diverging)
        self.log.compare(batch, found.records)

    async def _keep_state(self) -> None:
        now = trio.current_time()
        if now >= self._kept_at + KEEP_STATE_SECONDS:
            self._kept_at = now
            await trio.to_thread.run_sync(self.log.keep_state)

    def _tell(self, line: str) -> None:
        """Say a line, unless it was the last one."""
        if line != self._last_line:
            self._last_line = line
            self.say(line)
