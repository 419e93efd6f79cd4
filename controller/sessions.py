"""Broker sessions: when each broker was last heard from. Soft state, never logged and never replayed.

After a start every broker that is unfenced in the log gets one session timeout to send a heartbeat.
"""

from math import inf

from klamm.controller.metadata.image import MetadataImage
from klamm.quick_dataclasses import dataclass


@dataclass(slots=True)
class _Session:
    last_contact_ms: int
    heard: bool
    """False for a broker that has not sent a heartbeat since the start: another incarnation may replace it."""
    controlled_shutdown_offset: int = 0


class BrokerSessions:
    """The sessions of registered brokers, at most one each."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, _Session] = {}

    def grant(self, image: MetadataImage, now_ms: int) -> None:
        """Begin sessions of unfenced brokers that this process has not heard from."""
        for broker in image.brokers.values():
            if not broker.fenced and broker.broker_id not in self._sessions:
                self._sessions[broker.broker_id] = _Session(now_ms, heard=False)

    def touch(self, broker_id: int, now_ms: int, controlled_shutdown_offset: int | None = None) -> None:
        """Extend the session of a broker that was heard from."""
        session = self._sessions.setdefault(broker_id, _Session(now_ms, heard=True))
        session.last_contact_ms, session.heard = now_ms, True
        if controlled_shutdown_offset is not None:
            session.controlled_shutdown_offset = controlled_shutdown_offset

    def await_records(self, broker_id: int, end_offset: int) -> None:
        """Note that records below `end_offset` remove a broker from ISRs: in a controlled shutdown it may not stop
        before it has read them."""
        if session := self._sessions.get(broker_id):
            session.controlled_shutdown_offset = end_offset

    def expire(self, broker_id: int, now_ms: int) -> None:
        """Make a session as old as it may get."""
        if session := self._sessions.get(broker_id):
            session.last_contact_ms = now_ms - self._timeout_ms

    def end(self, broker_id: int) -> None:
        """End the session of a broker whose process has ended."""
        self._sessions.pop(broker_id, None)

    def has_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether this process heard from the broker within the session timeout."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard and now_ms - session.last_contact_ms < self._timeout_ms

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return session.controlled_shutdown_offset if session else 0

    def next_due_ms(self, image: MetadataImage) -> float:
        """When the first session of an unfenced broker expires without another heartbeat; infinite: there is none."""
        brokers = image.brokers
        last_contacts = (
            session.last_contact_ms
            for broker_id, session in self._sessions.items()
            if broker_id in brokers and not brokers[broker_id].fenced
        )
        return min(last_contacts, default=inf) + self._timeout_ms

    def expired(self, image: MetadataImage, now_ms: int) -> list[int]:
        """Ids of unfenced brokers whose session has expired, ascending. Drops the sessions of unregistered brokers."""
        for broker_id in self._sessions.keys() - image.brokers.keys():
            del self._sessions[broker_id]
        self.grant(image, now_ms)
        return sorted(
            broker_id
            for broker_id, session in self._sessions.items()
            if not image.brokers[broker_id].fenced and now_ms - session.last_contact_ms >= self._timeout_ms
        )
