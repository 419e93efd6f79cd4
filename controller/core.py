"""The controller: image and log, and the only place where they change.

`submit` decides one request: handle, append, replay. It is synchronous, hence atomic. The caller encodes the answer at
once (it may view live columns) and lets it leave when the log is durable up to `Answer.durable_at`; that is so for
reads too, for what they saw may not be durable yet. A failed append raises LogError, a failed replay ReplayError: both
are fatal. Any other exception is a bug of a handler: nothing was changed and the request alone fails.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controller.dispatch import HANDLERS, SERVED
from controller.metadata.image import MetadataImage
from controller.metadata.replay import replay
from controller.metadata_log import CONTROLLER_ID, MetadataLog
from controller.outcome import ClusterIdentity, Record, Records, RequestContext
from controller.random_ids import new_uuid
from controller.sessions import BrokerSessions
from controller.settings import Settings
from controller.transitions.broker_lifecycle import BrokerStatus, plan_status
from controller.transitions.features import bootstrap_records
from controller.transitions.leadership import plan_isr_growth
from protocol.api import Api, Listener
from protocol.fields import Message
from protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it reaches the core: decoded, and by whom it was received."""

    api: Api[Any, Any]
    api_version: int
    request: Message
    listener: Listener = "broker"
    broker_id: int | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A decided request. The response may leave when the log is durable up to `durable_at`."""

    response: Message
    durable_at: int
    log_end_offset: int
    """The offset that the request's first record could have got: the state that it saw."""
    record_offsets: tuple[int, int] | None
    """First and last offset of the request's records; None if it changed nothing."""


class Controller:
    """The state machine of one cluster."""

    def __init__(self, settings: Settings, log: MetadataLog, clock_ms: Callable[[], int]) -> None:
        """Replay `log`, and begin it if it holds no records yet. Raises LogError and ReplayError."""
        self.settings = settings
        self.image = MetadataImage()
        self.identity = ClusterIdentity(log.cluster_id, CONTROLLER_ID)
        self._log = log
        self._clock_ms = clock_ms
        self._sessions = BrokerSessions(settings.broker_session_timeout_ms)
        for batch in log.read():
            if not batch.is_control:
                replay(self.image, batch.records, batch.base_offset)
        # One seed gives one history. A log that goes on needs other numbers than those that began it.
        seed = secrets.randbits(64) if settings.seed is None else settings.seed
        self.rng = np.random.Generator(np.random.PCG64([seed, log.end_offset]))
        if not self.image.features:
            self._commit(bootstrap_records(settings))
        self._sessions.grant(self.image, clock_ms())
        self._liveness_seen = -1

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._log.end_offset

    def new_uuid(self) -> Uuid:
        """A fresh id from the controller's generator, for those who speak to it as brokers."""
        return new_uuid(self.rng.bytes)

    def advertise(self, host: str, port: int) -> None:
        """Say where the controller's own listener is reached (KIP-919)."""
        self.identity = replace(self.identity, controller_end_point=(host, port))

    def submit(self, call: Call) -> Answer:
        """Decide one request. Raises LogError if its records cannot be appended."""
        log_end_offset, now_ms = self._log.end_offset, self._clock_ms()
        outcome = HANDLERS[call.api](self.image, call.request, self.context(call, now_ms))
        record_offsets = self._commit(outcome.records) if outcome.records else None
        if outcome.contact:
            contact = outcome.contact
            self._sessions.touch(contact.broker_id, now_ms, contact.controlled_shutdown_offset)
        return Answer(outcome.response, self._log.end_offset, log_end_offset, record_offsets)

    def context(self, call: Call, now_ms: int) -> RequestContext:
        """The context in which a call is decided at `now_ms`."""
        return RequestContext(
            settings=self.settings,
            cluster=self.identity,
            api_version=call.api_version,
            now_ms=now_ms,
            rng=self.rng,
            log_end_offset=self._log.end_offset,
            broker_id=call.broker_id,
            listener=call.listener,
            client_id=call.client_id,
            served_apis=SERVED[call.listener],
            has_session=lambda broker_id: self._sessions.has_session(broker_id, now_ms),
            controlled_shutdown_offset=self._sessions.controlled_shutdown_offset,
        )

    def tick(self) -> None:
        """What time brings: silent brokers are fenced, replicas that caught up join the ISR. Raises LogError."""
        for broker_id in self._sessions.expired(self.image, self._clock_ms()):
            broker = self.image.brokers[broker_id]
            self._commit(plan_status(self.image, self.settings, broker, BrokerStatus.FENCED))
        if self._liveness_seen != self.image.liveness_changes:
            self._liveness_seen = self.image.liveness_changes
            self._commit(plan_isr_growth(self.image, self.settings))

    def _commit(self, records: Records | list[Record]) -> tuple[int, int] | None:
        """Append one batch and replay it; returns its first and last offset."""
        if not records:
            return None
        first, last = self._log.append(records, self._clock_ms())
        replay(self.image, records, first)
        return first, last
