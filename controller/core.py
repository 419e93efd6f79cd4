"""The controller: image and log, and the only place where they change.

`submit` decides one request: handle, append, replay. It is synchronous, hence atomic. The caller encodes the answer at
once (it may view live columns) and lets it leave when the log is durable up to `Answer.durable_at`; that is so for
reads too, for what they saw may not be durable yet. A failed append raises LogError, a failed replay ReplayError: both
are fatal. Any other exception is a bug of a handler: nothing was changed and the request alone fails.
"""

import secrets
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from klamm.controller.authorizer import Access
from klamm.controller.calls import Answer, Call, PendingSnapshot
from klamm.controller.data.data_plane import DataPlane, LogKey
from klamm.controller.dispatch import HANDLERS, IN_STRETCHES, SERVED
from klamm.controller.long_decision import Busy, LongDecision
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image
from klamm.controller.metadata_log import CONTROLLER_ID, MetadataLog
from klamm.controller.outcome import (
    ITEMS_AT_ONCE,
    ClusterIdentity,
    Outcome,
    Record,
    Records,
    RequestContext,
    Waiting,
    count_records,
)
from klamm.controller.random_ids import new_uuid, random_bytes
from klamm.controller.sessions import BrokerSessions
from klamm.controller.settings import Settings
from klamm.controller.topic_policy import Unjudged
from klamm.controller.transitions.broker_lifecycle import MAX_CHANGES_AT_ONCE, BrokerStatus, plan_status
from klamm.controller.transitions.features import bootstrap_records, refuse_other_metadata_version
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
from klamm.protocol.messages.transactions import init_producer_id
from klamm.protocol.record_batch import BatchBuilder
from klamm.protocol.uuid import Uuid

__all__ = ["Answer", "Call", "Controller", "PendingSnapshot"]

MANY_CHANGES = 1_000
"""A step that logged so many is over: what else there is to do waits for the next one."""
COST_OF_RECORDS = 8
"""How many times more a change may take where partitions hold records, which follow it one by one."""


class Controller:
    """The state machine of one cluster."""

    items_at_once = ITEMS_AT_ONCE
    """About as many items of a long request are decided in one stretch."""

    def __init__(
        self,
        settings: Settings,
        log: MetadataLog,
        clock_ms: Callable[[], int],
        log_end_offsets: Mapping[LogKey, int] = MappingProxyType({}),
    ) -> None:
        """Replay `log`, its snapshot first, and begin it if it holds no records yet; partitions begin, empty, where
        `log_end_offsets` says that they ended. Raises LogError and ReplayError."""
        self.settings = settings
        self.image = MetadataImage()
        self.identity = ClusterIdentity(log.cluster_id, CONTROLLER_ID)
        self._log = log
        self._clock_ms = clock_ms
        self._authorizer = settings.authorizer
        self._sessions = BrokerSessions(settings.broker_session_timeout_ms)
        self._root_log_levels: dict[int, str] = {}
        self._deciding: LongDecision | None = None
        self.data = DataPlane(settings)
        self._restore(log)
        # One seed gives one history. A log that goes on needs other numbers than those that began it.
        seed = secrets.randbits(64) if settings.seed is None else settings.seed
        self.rng = np.random.Generator(np.random.PCG64([seed, log.end_offset]))
        if not self.image.features:
            self._commit(bootstrap_records(settings))
        refuse_other_metadata_version(self.image)
        self._sessions.grant(self.image, clock_ms())
        self.data.restore(self.image, log_end_offsets, clock_ms())
        # What the image looked like when there was nothing left to do about it. A start looks at everything once.
        self._losses_seen = self._catch_up_seen = -1
        self._fills = PlaceholderFills(self.image, settings)
        self._catching_up: CatchUp | None = None
        self._replicating = False
        self._lost: int | None = None
        self._long: deque[LongWork] = deque(
            (*unfinished_departures(self.image), *unfinished_directory_losses(self.image))
        )
        self._live: frozenset[int] = frozenset()
        self._live_seen = -1
        self._periods = Periods(settings, clock_ms())

    def _restore(self, log: MetadataLog) -> None:
        if log.snapshot is not None:
            for batch in log.read_snapshot():
                if not batch.is_control:
                    replay(self.image, batch.contents, batch.base_offset)
            # Its records have offsets of their own, from 0 on.
            self.image.next_offset = log.snapshot.end_offset
        for batch in log.read():
            if not batch.is_control:
                replay(self.image, batch.contents, batch.base_offset)

    def snapshot_room(self) -> PartitionTable:
        """Room for `begin_snapshot`. To be called in a thread: to get much memory takes longer than to copy into it."""
        return self.image.partitions.room()

    def begin_snapshot(self, *, roll: bool, room: PartitionTable | None = None) -> PendingSnapshot | None:
        """What the image says now, and where to write that; None: this log keeps no snapshots. Raises LogError."""
        place = self._log.begin_snapshot(roll=roll)
        return None if place is None else PendingSnapshot(place, copy_image(self.image, room), self._clock_ms())

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._log.end_offset

    def new_uuid(self) -> Uuid:
        """A fresh id from the controller's generator, for those who speak to it as brokers."""
        return new_uuid(random_bytes(self.rng))

    def advertise(self, host: str, port: int) -> None:
        """Say where the controller's own listener is reached (KIP-919)."""
        self.identity = replace(self.identity, controller_end_point=(host, port))

    def submit(self, call: Call) -> Answer:
        """Decide one request. Raises LogError if its records cannot be appended, and with nothing changed Unjudged, if
        a policy has to be asked first, and Busy, if it would change what a long decision under way is based on."""
        if self._deciding and call.api is init_producer_id.API:
            raise Busy  # its handler gives ids away at once
        context = self.context(call, self._clock_ms())
        chance = None if call.verdicts is None and not self._deciding else self.rng.bit_generator.state
        outcome = HANDLERS[call.api](self.image, call.request, context)
        if chance is not None and (context.unjudged or (self._deciding and outcome.records)):
            self.rng.bit_generator.state = chance
            raise Unjudged(context.unjudged) if context.unjudged else Busy
        return self._settle(context, outcome)

    def begin(self, call: Call) -> Answer | LongDecision:
        """`submit`, or the first stretch of it, if the request comes to much. Then `commit` or `abandon` ends it."""
        if call.api not in IN_STRETCHES:
            return self.submit(call)
        if self._deciding:
            raise Busy
        context = self.context(call, self._clock_ms())
        chance = self.rng.bit_generator.state
        stretches = IN_STRETCHES[call.api](self.image, call.request, context)
        try:
            next(stretches)
        except StopIteration as end:
            if context.unjudged:
                self.rng.bit_generator.state = chance
                raise Unjudged(context.unjudged) from None
            return self._settle(context, end.value)
        self._deciding = LongDecision(context, stretches, chance)
        return self._deciding

    def commit(self, decision: LongDecision) -> Answer:
        """What a long request comes to, once all its stretches were taken. Raises LogError."""
        assert decision is self._deciding, "it is the one under way"
        assert decision.outcome is not None, "all its stretches were taken"
        self._deciding = None
        return self._settle(decision.context, decision.outcome, decision.batch)

    def abandon(self, decision: LongDecision) -> None:
        """Give a long request up, unless it is over: it is as if nobody had asked."""
        if decision is self._deciding:
            self._deciding = None
            self.rng.bit_generator.state = decision.chance

    @property
    def is_deciding(self) -> bool:
        """Whether a long request is under way. Meanwhile time brings nothing, and `work` does nothing."""
        return self._deciding is not None

    def _settle(self, context: RequestContext, outcome: Outcome, batch: BatchBuilder | None = None) -> Answer:
        log_end_offset = context.log_end_offset
        record_offsets = self._commit(outcome.records, batch) if outcome.records else None
        if outcome.contact:
            contact = outcome.contact
            self._sessions.touch(contact.broker_id, context.now_ms, contact.controlled_shutdown_offset)
        self._root_log_levels.update(outcome.root_log_levels)
        if outcome.departing:
            departing = outcome.departing
            self._long.append(Departure(departing.broker_id, unclean=departing.unclean, most=self._changes_at_once))
        if outcome.went_offline:
            lost = outcome.went_offline
            self._long.append(LostDirectories(lost.broker_id, lost.directories, most=self._changes_at_once))
        # Where many placeholders are to be looked at, nobody's answer waits for that.
        if record_offsets and not (self._filling and self.image.usage.placeholders > MAX_CHANGES_AT_ONCE):
            self.work()
        return Answer(outcome.response, self._log.end_offset, log_end_offset, record_offsets, outcome.unsaid)

    def look(self, answer: Answer) -> Answer:
        """The same answer, with its response if what it waits for is there or its time is over."""
        assert isinstance(answer.response, Waiting), "an answer that is there has been given"
        response = answer.response.look(self.image, self.data, self._clock_ms())
        return answer if response is None else replace(answer, response=response, durable_at=self._log.end_offset)

    def end_session(self, broker_id: int) -> None:
        """Say that a broker's process is over and fenced: another one need not wait for what it leaves behind."""
        self._sessions.end(broker_id)

    def set_down(self, broker_ids: Collection[int]) -> None:
        """Say which brokers are down, though their sessions may last: they neither serve nor replicate records."""
        if self.data.set_down(self.image, broker_ids, self._clock_ms()):
            self._catch_up_seen = -1  # whoever returns catches up, though nothing is logged

    def context(self, call: Call, now_ms: int) -> RequestContext:
        """The context in which a call is decided at `now_ms`."""
        return RequestContext(
            settings=self.settings,
            cluster=self.identity,
            api_version=call.api_version,
            now_ms=now_ms,
            rng=self.rng,
            log_end_offset=self._log.end_offset,
            data=self.data,
            broker_id=call.broker_id,
            listener=call.listener,
            client_id=call.client_id,
            principal=call.principal,
            host=call.host,
            listener_name=call.listener_name,
            access=self._access(call),
            verdicts=call.verdicts,
            served_apis=SERVED[call.listener],
            root_log_levels=self._root_log_levels,
            departing=self._departing(),
            at_once=self.items_at_once,
            losses_pending=self._losing,
            has_session=lambda broker_id: self._sessions.has_session(broker_id, now_ms),
            controlled_shutdown_offset=self._sessions.controlled_shutdown_offset,
        )

    def _access(self, call: Call) -> Access | None:
        if self._authorizer is None or call.principal is None:
            return None
        return self._authorizer.access(self.image.acls.index, call.principal, call.host)

    def tick(self) -> None:
        """What time brings: silent brokers are fenced, replicas that caught up join the ISR, now and then leaders are
        elected uncleanly or go back to the preferred ones. Raises LogError."""
        if self._deciding:
            return
        self._long += self._periods.due(self._clock_ms())
        for broker_id in self._sessions.expired(self.image, self._clock_ms()):
            broker = self.image.brokers[broker_id]
            self._commit(plan_status(self.image, self.settings, broker, BrokerStatus.FENCED))
        if self._catching_up is None and self._catch_up_seen != self.image.catch_up_changes:
            self._catch_up_seen = self.image.catch_up_changes
            self._catching_up = CatchUp(self.data, most=MAX_CHANGES_AT_ONCE)
        self._replicating = True
        self.work()

    @property
    def has_work(self) -> bool:
        """Whether `work` would find something to look at."""
        waiting = self._losing or self._filling or self._replicating or self.data.is_behind
        return waiting or bool(self._long) or self._catching_up is not None

    @property
    def _changes_at_once(self) -> int:
        return MAX_CHANGES_AT_ONCE if self.data.is_empty else MAX_CHANGES_AT_ONCE // COST_OF_RECORDS

    @property
    def _losing(self) -> bool:
        return self._losses_seen != self.image.liveness_changes

    @property
    def _filling(self) -> bool:
        return self._fills.is_due

    def work(self) -> None:
        """A step of what follows from changes and may take long: brokers that went leave ISRs, partitions that waited
        for a broker elect, placeholders are filled, replicas that caught up join. To be called until `has_work` is
        over. Raises LogError."""
        if self._deciding:
            return
        self._notice_returns()
        changes = 0
        for step in (self._follow_on, self._lose, self._go_on, self._fill, self._catch_up, self._replicate):
            changes += step()
            if changes > MANY_CHANGES:
                return

    def _notice_returns(self) -> None:
        """Partitions may wait for brokers that have become live."""
        if self._live_seen == self.image.liveness_changes:
            return
        self._live_seen = self.image.liveness_changes
        live = frozenset(self.image.live_brokers().ids.tolist())
        if returned := live - self._live:
            self._long.append(Returns(returned))
        self._live = live

    def _follow_on(self) -> int:
        """A stretch of the partitions with records, which follow what became of brokers and configs."""
        followed = self.data.follow_on(self.image, self._clock_ms())
        return max(followed, MANY_CHANGES + 1) if self.data.is_behind else followed

    def _go_on(self) -> int:
        """A stretch of the oldest long work, or all of those that come to little."""
        changes = 0
        while self._long and changes <= MANY_CHANGES:
            work = self._long[0]
            changes += self._log_changes(work.plan(self.image, self.settings))
            if not work.is_over(self.image):
                return max(changes, MANY_CHANGES + 1)  # it looked at many, even if it changed few
            self._long.popleft()
        return changes

    def _lose(self) -> int:
        """A stretch of the ISRs that brokers which are not live have to leave."""
        if not self._losing or self._departing():
            return 0
        lost = self._lost
        if lost is None or lost not in self.image.brokers or self.image.brokers[lost].live:
            # A former process may have been interrupted while a broker left that is unknown by now.
            lost = self._lost = find_lost(self.image, registered=self._losses_seen >= 0)
        if lost is None:
            self._losses_seen = self.image.liveness_changes
            return 0
        changes = self._log_changes(plan_broker_loss(self.image, self.settings, lost, most=self._changes_at_once))
        if changes:
            self._sessions.await_records(lost, self._log.end_offset)
        else:
            self._lost = None
        return changes

    def _departing(self) -> list[int]:
        return [work.broker_id for work in self._long if isinstance(work, Departure)]

    def _fill(self) -> int:
        """A stretch of the placeholders for which brokers have room."""
        changes = 0
        while self._filling and changes <= MANY_CHANGES:
            records = self._fills.plan(MAX_CHANGES_AT_ONCE)
            changes += self._log_changes(records)
            if not records and self._filling:
                return max(changes, MANY_CHANGES + 1)  # it looked at many
        return changes

    def _catch_up(self) -> int:
        """A stretch of the replicas that join the ISR, of partitions without records."""
        if self._catching_up is None:
            return 0
        changes = self._log_changes(self._catching_up.plan(self.image, self.settings))
        if self._catching_up.is_over(self.image):
            self._catching_up = None
        return changes

    def _replicate(self) -> int:
        """A stretch of the partitions with records of which replicas caught up, or fell behind."""
        if not self._replicating:
            return 0
        now_ms, most = self._clock_ms(), max(1, MAX_CHANGES_AT_ONCE // COST_ALONE)
        due = self.data.due(now_ms, most)
        self._replicating = self.data.is_due(now_ms)
        if due:
            self._log_changes(plan_isrs(self.image, self.settings, due))
        return COST_ALONE * len(due)

    def _log_changes(self, records: list[Record]) -> int:
        self._commit(records)
        return count_records(records)

    def _commit(self, records: Records | list[Record], batch: BatchBuilder | None = None) -> tuple[int, int] | None:
        """Append one batch, which may be encoded already, and replay it; returns its first and last offset."""
        assert not self._deciding, "a long decision stands on the image as it is"
        if not records:
            return None
        now_ms = self._clock_ms()
        first, last = self._log.append_batch(batch, now_ms) if batch else self._log.append(records, now_ms)
        replay(self.image, records, first)
        self.data.follow(self.image, records, self._clock_ms())
        return first, last
