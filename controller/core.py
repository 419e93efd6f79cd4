"""The controller: image and log, and the only place where they change.

`submit` decides one request: handle it, encode the response (which may view live columns), append the records, replay
them. It is synchronous, hence atomic. The response may be sent when the log is durable up to `Answer.durable_at`. That
holds for reads too, because the state that they saw may not be durable yet. A failed append raises LogError, a failed
replay ReplayError; both are fatal. Any other exception is a bug of a handler or of the codec: nothing was changed, and
only the request fails.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from klamm.controller.authorizer import Access
from klamm.controller.background import Background
from klamm.controller.busy import Busy
from klamm.controller.calls import Answer, Call, Encoded, PendingSnapshot
from klamm.controller.client import Client
from klamm.controller.context import ClusterIdentity, Ledger, RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.generators import new_generator
from klamm.controller.handler import Handlers
from klamm.controller.liveness import BrokerLiveness
from klamm.controller.local_brokers import NO_BROKERS, LocalBrokers
from klamm.controller.log_records import Records
from klamm.controller.long_decision import LongDecision, as_steps
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image
from klamm.controller.metadata_log import CONTROLLER_ID, MetadataLog
from klamm.controller.observers import Observers
from klamm.controller.outcome import Outcome
from klamm.controller.quotas.mutations import UNLIMITED, MutationBuckets, MutationQuota
from klamm.controller.quotas.usage import ClientRates, windows_of
from klamm.controller.random_ids import new_uuid, random_bytes
from klamm.controller.restore import restore
from klamm.controller.served_apis import ServedApis, served_with
from klamm.controller.sessions import BrokerSessions
from klamm.controller.settings import Settings
from klamm.controller.steps import ITEMS_AT_ONCE, run_whole
from klamm.controller.topic_policy import Unjudged
from klamm.controller.transitions.features import (
    bootstrap_records,
    new_metadata_version,
    refuse_other_metadata_version,
)
from klamm.controller.transitions.first_credentials import first_credentials
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import BatchBuilder
from klamm.protocol.records.transactions import AbortTransactionRecord
from klamm.protocol.uuid import Uuid

__all__ = ["Answer", "Call", "Controller", "PendingSnapshot"]


class Controller:
    """The state machine of one cluster."""

    items_at_once = ITEMS_AT_ONCE
    """About how many items of a long request are decided in one step."""

    def __init__(
        self,
        settings: Settings,
        log: MetadataLog,
        clock_ms: Callable[[], int],
        handlers: Handlers = MappingProxyType({}),
        brokers: LocalBrokers = NO_BROKERS,
    ) -> None:
        """Replay `log`, beginning with its snapshot, and write the first records if it has none. The controller
        serves the APIs of `handlers`; `brokers` are those of this process. Raises LogError and ReplayError."""
        self.settings = settings
        self.served: ServedApis = served_with(settings, handlers)
        self.image = MetadataImage()
        self.identity = ClusterIdentity(
            log.cluster_id,
            CONTROLLER_ID if settings.controller_id is None else settings.controller_id,
            log.directory_id,
            log.is_quorum_dynamic,
            leader_epoch=log.leader_epoch,
        )
        self._log = log
        self._clock_ms = clock_ms
        self._authorizer = settings.authorizer
        self._sessions = BrokerSessions(settings.broker_session_timeout_ms)
        self._deciding: LongDecision | None = None
        self.handlers = handlers
        """The handler of each API that this controller serves."""
        self.rates = ClientRates(windows_of(settings, "quota"))
        """At which rates clients use the controller's part of their quotas."""
        self._mutations = MutationBuckets(windows_of(settings, "controller.quota"))
        self._brokers = brokers
        self._replication = brokers.replication
        self._root_log_level: str | None = None
        """The level of the controller's own root logger, if a request has set it."""
        self._followers: list[Callable[[Delta], None]] = []
        """The subscribers to deltas. They are called in this order, after `_replication`."""
        self.appending: AbstractContextManager[None] = nullcontext()
        """Is entered for each append to the log; the server measures its duration."""
        is_in_transaction = restore(self.image, log)
        self.rng = new_generator(settings.seed, log.end_offset)
        self._rng_outside_the_log = new_generator(settings.seed, log.end_offset, 1)
        self._rng_of_fetch_sessions = new_generator(settings.seed, log.end_offset, 2)
        self._commit([AbortTransactionRecord(reason="controller failover")] if is_in_transaction else [])
        if not self.image.features:
            self._commit([*bootstrap_records(settings), *first_credentials(settings.add_scram, self.rng.bytes)])
        refuse_other_metadata_version(self.image, settings)
        self._sessions.grant(self.image, clock_ms())
        brokers.begin(self.image, clock_ms())
        self._background = Background(self.image, settings, self._replication, self._sessions, self._commit, clock_ms)
        self._followers.append(self._background.follow)
        self.observers = Observers()
        self._liveness = BrokerLiveness(self._sessions, self._replication, self.observers, self._background)
        self._soft = SoftState(
            image=self.image,
            set_root_log_level=self._set_root_log_level,
            touch_session=self._sessions.touch,
            leave_work=self._background.begin,
            make_quorum_dynamic=self._make_quorum_dynamic,
        )

    def subscribe(self, follow: Callable[[Delta], None]) -> None:
        """Call `follow` with the delta of each batch, after it is replayed and the controller has processed the delta
        itself. Subscribers are called in the order of their subscription. They must not submit requests."""
        self._followers.append(follow)

    def snapshot_room(self) -> PartitionTable:
        """A table for `begin_snapshot` to copy into. Call it in a thread: allocating takes longer than copying."""
        return self.image.partitions.room()

    def begin_snapshot(self, *, roll: bool, room: PartitionTable | None = None) -> PendingSnapshot | None:
        """A copy of the image, and the place to write it; None, without `roll`: no later start will need it. Raises
        LogError."""
        place = self._log.begin_snapshot(roll=roll)
        return None if place is None else PendingSnapshot(place, copy_image(self.image, room), self._clock_ms())

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._log.end_offset

    def new_uuid(self) -> Uuid:
        """A new id from the controller's generator, for callers that act as brokers."""
        return new_uuid(random_bytes(self.rng))

    def new_uuid_outside_the_log(self) -> Uuid:
        """A new id for what is not in the metadata log, such as members of groups. It may be drawn while a long request
        is decided, and is from another generator than `new_uuid`: the end of the long request sets that one back."""
        return new_uuid(random_bytes(self._rng_outside_the_log))

    def new_fetch_session_id(self) -> int:
        """A random id for a fetch session, from 1 to 2^31 - 1, from a generator of its own."""
        return 1 + int(self._rng_of_fetch_sessions.bit_generator.random_raw()) % (2**31 - 1)

    def advertise(self, host: str, port: int) -> None:
        """Set the end point of the controller's own listener (KIP-919)."""
        self.identity = replace(self.identity, controller_end_point=(host, port))

    def _make_quorum_dynamic(self) -> None:
        self._log.make_quorum_dynamic(self._clock_ms())
        self.identity = replace(self.identity, is_dynamic=True)

    def submit(self, call: Call) -> Answer:
        """Decide one request. Raises LogError if its records cannot be appended. Raises, with nothing changed, Unjudged
        if a policy has to be asked first, Unread if a thread has to read something first, and Busy if the request would
        change state during a long decision."""
        context, rng_state = self._prepare(call)
        decision = self.handlers[call.api](self.image, call.request, context)
        return self._accept(call, context, run_whole(decision), rng_state)

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        """Do what `submit` does, or, if the handler pauses, only its first step. In that case call `advance` for the
        other steps, or `abandon` to give the request up. With `others_wait` a request whose handler may pause raises
        Busy, too."""
        context, rng_state = self._prepare(call)
        decision = self.handlers[call.api](self.image, call.request, context)
        if isinstance(decision, Outcome):
            return self._accept(call, context, decision, rng_state)
        if self._deciding or others_wait:
            raise Busy
        rng_state = self.rng.bit_generator.state
        try:
            next(decision)
        except StopIteration as end:
            return self._accept(call, context, end.value, rng_state)
        self._deciding = LongDecision(call, context, decision, rng_state, self._new_batch())
        return self._deciding

    def answer_from(self, image: MetadataImage, call: Call) -> Answer:
        """The answer that a request would have got from another image of the metadata. Nothing changes."""
        rng_state = self.rng.bit_generator.state
        try:
            outcome = run_whole(self.handlers[call.api](image, call.request, self.context(call, self._clock_ms())))
        finally:
            self.rng.bit_generator.state = rng_state
        end = self._log.end_offset
        return Answer(outcome.response, end, end, None, outcome.log_only_errors, call.encoded(outcome.response))

    def begin_large(self, call: Call, *, may_be_interrupted: bool) -> LongDecision:
        """Begin a long request for a thread: call `LongDecision.run` there, then `finish` here, or `abandon`. No other
        long request may be under way. With `may_be_interrupted` a tick that has to fence a broker abandons it."""
        assert not self._deciding, "another long request is under way"
        rng_state = self.rng.bit_generator.state
        # The thread has random numbers of its own: requests that are served meanwhile draw from, and restore, others.
        rng = new_generator(0, 0)
        rng.bit_generator.state = rng_state
        context = replace(self.context(call, self._clock_ms()), rng=rng)
        steps = as_steps(lambda: self.handlers[call.api](self.image, call.request, context))
        decision = self._deciding = LongDecision(call, context, steps, rng_state, self._new_batch())
        decision.may_be_interrupted = may_be_interrupted
        return decision

    def finish(self, decision: LongDecision) -> Answer:
        """Commit a long request whose steps were all done by `LongDecision.run`. Raises LogError, and what the steps
        raised."""
        failure, decision.failure = decision.failure, None  # its traceback may refer to the decision
        if failure is not None:
            self.abandon(decision)
            try:
                raise failure
            finally:
                del failure
        self.rng.bit_generator.state = decision.context.rng.bit_generator.state
        return self.commit(decision)

    def _prepare(self, call: Call) -> tuple[RequestContext, Mapping[str, Any] | None]:
        may_be_dropped = call.verdicts is not None or self._deciding
        return self.context(call, self._clock_ms()), self.rng.bit_generator.state if may_be_dropped else None

    def _accept(
        self, call: Call, context: RequestContext, outcome: Outcome, rng_state: Mapping[str, Any] | None
    ) -> Answer:
        if rng_state is not None and (context.ledger.unjudged or (self._deciding and outcome.records)):
            self.rng.bit_generator.state = rng_state
            raise Unjudged(context.ledger.unjudged) if context.ledger.unjudged else Busy
        return self._settle(call, context, outcome, call.encoded(outcome.response))

    def advance(self, decision: LongDecision) -> Answer | LongDecision:
        """Do the next step of a long request; the last one commits it. Raises LogError, and Unjudged with nothing
        changed."""
        return decision if decision.advance() else self.commit(decision)

    def commit(self, decision: LongDecision) -> Answer:
        """Append and replay the records of a long request whose steps are all done. Raises LogError."""
        assert decision is self._deciding, "it is the one under way"
        assert decision.outcome is not None, "all its steps were taken"
        self._deciding = None
        return self._settle(decision.call, decision.context, decision.outcome, decision.payload, decision.batch)

    def abandon(self, decision: LongDecision) -> None:
        """Give a long request up, unless it is committed. The state is as if it had not been made."""
        if decision is self._deciding:
            self._deciding = None
            decision.is_interrupted = True
            self.rng.bit_generator.state = decision.rng_state

    @property
    def is_deciding(self) -> bool:
        """Whether a long request is being decided. Meanwhile `work` does nothing; `tick` may abandon the request."""
        return self._deciding is not None

    def _settle(
        self,
        call: Call,
        context: RequestContext,
        outcome: Outcome,
        payload: Encoded | None,
        batch: BatchBuilder | None = None,
    ) -> Answer:
        record_offsets = self._commit(outcome.records, batch) if outcome.records else None
        for effect in outcome.effects:
            effect.apply(self._soft, context.now_ms)
        response = outcome.response
        if response is not None and not isinstance(response, Message):
            completed = response.try_complete(self.image, context.now_ms)
            if completed is not None:
                # Encoded here, because background work may change what the response's columns view.
                response, payload = completed, call.encoded(completed)
        if record_offsets and self._background.has_work and not self._background.is_filling_many:
            self.work()
        return Answer(
            response,
            self._log.end_offset,
            context.log_end_offset,
            record_offsets,
            outcome.log_only_errors,
            payload,
        )

    def try_complete(self, call: Call, answer: Answer) -> Answer:
        """The same answer, with its response if that was delayed and is complete now or has passed its deadline."""
        if answer.response is None or isinstance(answer.response, Message):
            return answer
        response = answer.response.try_complete(self.image, self._clock_ms())
        if response is None:
            return answer
        return replace(answer, response=response, durable_at=self._log.end_offset, payload=call.encoded(response))

    def expire_session(self, broker_id: int) -> None:
        """Make the session of a broker as old as it may get: `tick` fences the broker."""
        self._sessions.expire(broker_id, self._clock_ms())

    def end_session(self, broker_id: int) -> None:
        """Note that a broker's process has ended and is fenced: another process can take its id at once."""
        self._sessions.end(broker_id)

    def brokers_went_down(self) -> None:
        """Note that other brokers of this process are down than before, which no record says."""
        self._background.brokers_went_down()

    def context(self, call: Call, now_ms: int) -> RequestContext:
        """The context in which a call is decided at `now_ms`."""
        return RequestContext(
            requester=call.requester,
            api_version=call.api_version,
            access=self._access(call),
            served=call.served or self.served.to(Client(call.listener, call.broker_id)),
            now_ms=now_ms,
            log_end_offset=self._log.end_offset,
            rng=self.rng,
            settings=self.settings,
            cluster=self.identity,
            root_log_level=self._root_log_level_of,
            liveness=self._liveness,
            ledger=Ledger(verdicts=call.verdicts),
            readings=call.readings,
            at_once=self.items_at_once,
            mutations=self._mutation_quota(call, now_ms),
            throttle_time_ms=call.throttle_time_ms,
        )

    def _mutation_quota(self, call: Call, now_ms: int) -> MutationQuota:
        quotas = self.image.client_quotas
        return self._mutations.quota_of(quotas, call.requester, now_ms) if quotas else UNLIMITED

    def _root_log_level_of(self, node_id: int) -> str | None:
        own = node_id == self.identity.controller_id
        return self._root_log_level if own else self._brokers.root_log_level(node_id)

    def _set_root_log_level(self, node_id: int, level: str) -> None:
        if node_id == self.identity.controller_id:
            self._root_log_level = level
        else:
            self._brokers.set_root_log_level(node_id, level)

    def _access(self, call: Call) -> Access | None:
        guard, principal, index = self._authorizer, call.principal, self.image.acls.index
        return None if guard is None or principal is None else guard.access(index, principal, call.host)

    def tick(self) -> None:
        """Expire broker sessions; do periodic work: ISR changes, unclean and preferred elections. Raises LogError."""
        if self._deciding and self._deciding.may_be_interrupted and self._background.has_to_fence:
            self.abandon(self._deciding)
        if not self._deciding:
            self._background.tick()

    @property
    def next_due_ms(self) -> float:
        """When `tick` may have something to do if nothing happens before, in ms on the controller's clock."""
        return self._clock_ms() if self._deciding else self._background.next_due_ms

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return self._background.has_work

    def work(self) -> None:
        """Do a step of the background work (`Background.step`). Call it until `has_work` is False. Raises LogError."""
        if not self._deciding:
            self._background.step()

    def commit_steered(self, records: Records) -> None:
        """Commit records of a change that a user of the simulation makes by hand. Raises LogError."""
        self._commit(records)

    def _commit(self, records: Records, batch: BatchBuilder | None = None) -> tuple[int, int] | None:
        """Append one batch and replay it; returns its first and last offset. `batch` has the records encoded, if
        given."""
        assert not self._deciding, "a long decision stands on the image as it is"
        if not records:
            return None
        if batch is None:
            batch = self._new_batch()
            batch.add(records)
        with self.appending:
            first, last = self._log.append_batch(batch, self._clock_ms())
        delta = replay(self.image, records, first)
        self._replication.follow(self.image, delta, self._clock_ms())
        for follow in self._followers:
            follow(delta)
        return first, last

    def _new_batch(self) -> BatchBuilder:
        """An empty batch in the record versions of the metadata.version, in a new log that of the first records."""
        return BatchBuilder(self.image.features.metadata_version or new_metadata_version(self.settings))
