"""The controller's work beside requests: session expiry, elections, ISR changes, placeholder fills, long departures.

The work is found by deltas of commits (`follow`), by the clock (`tick`) and by requests that leave a part of their work
(`begin`). `step` does a bounded part of it. Pending work is not logged, so after a start everything is checked once.
"""

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from klamm.controller.effects import Departing, WentOffline
from klamm.controller.local_brokers import Replication
from klamm.controller.log_records import Record, Records, count_records
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.sessions import BrokerSessions
from klamm.controller.settings import Settings
from klamm.controller.transitions.broker_lifecycle import MAX_CHANGES_AT_ONCE, BrokerStatus, plan_status
from klamm.controller.transitions.delegation_tokens import TokenSweep
from klamm.controller.transitions.leadership import COST_ALONE, find_lost, plan_broker_loss, plan_isrs
from klamm.controller.transitions.long_work import (
    CatchUp,
    Departure,
    LongWork,
    LostDirectories,
    Periods,
    Returns,
    unfinished_departures,
    unfinished_directory_losses,
)
from klamm.controller.transitions.placeholders import PlaceholderFills

MANY_CHANGES: Final = 1_000
"""A step ends when it has logged more changes than this."""
COST_OF_RECORDS: Final = 8
"""The cost of a change of a partition that holds records, relative to one that holds none."""


class Background:
    """The background work of one controller. `commit` appends and replays the records of this work, and then calls
    `follow` with their delta."""

    def __init__(
        self,
        image: MetadataImage,
        settings: Settings,
        replication: Replication,
        sessions: BrokerSessions,
        commit: Callable[[Records], object],
        clock_ms: Callable[[], int],
    ) -> None:
        """`image` must be replayed up to the end of the log."""
        self._image = image
        self._settings = settings
        self._replication = replication
        self._sessions = sessions
        self._commit = commit
        self._clock_ms = clock_ms
        self._periods = Periods(settings, clock_ms())
        self._token_sweep = TokenSweep(settings, clock_ms())
        self._fills = PlaceholderFills(image, settings)
        self._long: deque[LongWork] = deque((*unfinished_departures(image), *unfinished_directory_losses(image)))
        # After a start everything is checked once, as if all brokers had just registered.
        self._losing = True
        """Whether ISRs may contain brokers that are not live."""
        self._looked_for_losses = False
        """Whether ISRs have been checked completely once in this process."""
        self._lost: int | None = None
        """The broker that is being removed from ISRs; None between two brokers."""
        self._may_have_returned = True
        self._live: frozenset[int] = frozenset()
        """The live brokers at the last check for brokers that returned."""
        self._may_catch_up = True
        """Whether replicas of partitions without records may join the ISR."""
        self._catching_up: CatchUp | None = None
        self._replicating = False
        """Whether the ISRs of partitions with records have to be checked before the next tick."""

    def follow(self, delta: Delta) -> None:
        """Note the work that a replayed batch causes."""
        if delta.brokers or delta.unregistered:
            self._losing = self._may_have_returned = self._may_catch_up = True
        if delta.has_new_leaders or delta.has_new_replicas:
            self._may_catch_up = True
        self._fills.follow(delta)

    def brokers_went_down(self) -> None:
        """Note that the set of stopped brokers has changed, which no record says."""
        self._may_catch_up = True

    def begin(self, left: Departing | WentOffline) -> None:
        """Continue a request that has to remove a broker from more ISRs than one request may change."""
        most = self._changes_at_once
        if isinstance(left, Departing):
            self._long.append(Departure(left.broker_id, unclean=left.unclean, most=most))
        else:
            self._long.append(LostDirectories(left.broker_id, left.directories, most=most))

    def tick(self) -> None:
        """Expire broker sessions, begin periodic work and do one step. Raises LogError."""
        self._long += self._periods.due(self._clock_ms())
        for broker_id in self._sessions.expired(self._image, self._clock_ms()):
            self._commit(plan_status(self._image, self._settings, self._image.brokers[broker_id], BrokerStatus.FENCED))
        self._log_changes(self._token_sweep.plan(self._image, self._clock_ms()))
        if self._catching_up is None and self._may_catch_up:
            self._may_catch_up = False
            self._catching_up = CatchUp(self._replication, most=MAX_CHANGES_AT_ONCE)
        self._replicating = True
        self.step()

    @property
    def next_due_ms(self) -> float:
        """When `tick` may have something to do if nothing happens before, in ms on the controller's clock."""
        if self._may_catch_up or self.has_work:
            return self._clock_ms()
        return min(
            self._sessions.next_due_ms(self._image),
            self._replication.next_due_ms,
            self._periods.next_due_ms,
            self._token_sweep.next_due_ms,
        )

    @property
    def has_to_fence(self) -> bool:
        """Whether the session of a broker has expired."""
        return any(True for _ in self._sessions.expired(self._image, self._clock_ms()))

    @property
    def has_work(self) -> bool:
        """Whether `step` has something to do."""
        waiting = (
            self._may_have_returned
            or self._losing
            or self._fills.is_due
            or self._replicating
            or self._replication.is_behind
        )
        return waiting or bool(self._long) or self._catching_up is not None

    @property
    def is_filling_many(self) -> bool:
        """Whether filling placeholders would take a step so long that no response should wait for it."""
        return self._fills.is_due and self._image.usage.placeholders > MAX_CHANGES_AT_ONCE

    @property
    def losses_pending(self) -> bool:
        """Whether brokers that are not live may still be in ISRs."""
        return self._losing

    @property
    def departing(self) -> Collection[int]:
        """Ids of the brokers whose former incarnation is still being removed from ISRs."""
        return [work.broker_id for work in self._long if isinstance(work, Departure)]

    def step(self, budget: int | None = None) -> None:
        """Do a part of the work, up to about `budget` changes of partitions (None: `MANY_CHANGES`). Call it until
        `has_work` is False. Raises LogError."""
        budget = MANY_CHANGES if budget is None else budget
        self._notice_returns()
        changes = 0
        for step in (self._follow_on, self._lose, self._go_on, self._fill, self._catch_up, self._replicate):
            changes += step(budget)
            if changes > budget:
                return

    @property
    def _changes_at_once(self) -> int:
        """The most partitions that one piece of work may change."""
        return MAX_CHANGES_AT_ONCE if self._replication.is_empty else MAX_CHANGES_AT_ONCE // COST_OF_RECORDS

    def _notice_returns(self) -> None:
        """Begin elections in partitions without a leader that may wait for brokers which have become live."""
        if not self._may_have_returned:
            return
        self._may_have_returned = False
        live = frozenset(self._image.live_brokers().ids.tolist())
        if returned := live - self._live:
            self._long.append(Returns(returned))
        self._live = live

    def _follow_on(self, budget: int) -> int:
        """One step for the partitions with records, whose roles and ISRs depend on changed brokers and configs."""
        followed = self._replication.follow_on(self._image, self._clock_ms())
        return max(followed, budget + 1) if self._replication.is_behind else followed

    def _go_on(self, budget: int) -> int:
        """One step of the oldest long work; if several pieces of work are small, of all of those."""
        changes = 0
        while self._long and changes <= budget:
            work = self._long[0]
            changes += self._log_changes(work.plan(self._image, self._settings))
            if not work.is_over(self._image):
                return max(changes, budget + 1)  # the step examined many partitions, even if it changed few
            self._long.popleft()
        return changes

    def _lose(self, _budget: int) -> int:
        """One step in which ISRs lose brokers that are not live."""
        if not self._losing or self.departing:
            return 0
        lost = self._lost
        if lost is None or lost not in self._image.brokers or self._image.brokers[lost].live:
            # A former process may have been interrupted while a broker left ISRs that has been unregistered since then.
            lost = self._lost = find_lost(self._image, registered=self._looked_for_losses)
        if lost is None:
            self._losing, self._looked_for_losses = False, True
            return 0
        changes = self._log_changes(plan_broker_loss(self._image, self._settings, lost, most=self._changes_at_once))
        if changes:
            self._sessions.await_records(lost, self._image.next_offset)
        else:
            self._lost = None
        return changes

    def _fill(self, budget: int) -> int:
        """One step in which brokers with room take placeholders."""
        changes = 0
        while self._fills.is_due and changes <= budget:
            records = self._fills.plan(MAX_CHANGES_AT_ONCE)
            changes += self._log_changes(records)
            if not records and self._fills.is_due:
                return max(changes, budget + 1)  # the step examined many partitions
        return changes

    def _catch_up(self, _budget: int) -> int:
        """One step in which replicas of partitions without records join the ISR."""
        if self._catching_up is None:
            return 0
        changes = self._log_changes(self._catching_up.plan(self._image, self._settings))
        if self._catching_up.is_over(self._image):
            self._catching_up = None
        return changes

    def _replicate(self, _budget: int) -> int:
        """One step for partitions with records whose replicas caught up or fell behind."""
        if not self._replicating:
            return 0
        now_ms, most = self._clock_ms(), max(1, MAX_CHANGES_AT_ONCE // COST_ALONE)
        due = self._replication.due(now_ms, most)
        self._replicating = self._replication.next_due_ms <= now_ms
        if due:
            self._log_changes(plan_isrs(self._image, self._settings, due))
        return COST_ALONE * len(due)

    def _log_changes(self, records: list[Record]) -> int:
        if records:
            self._commit(records)
        return count_records(records)
