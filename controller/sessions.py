"""Broker sessions: who has been heard from, and since when not. Soft state, never logged and never replayed.

After a start every broker that the log calls unfenced is given one session timeout to be heard again.
"""

from dataclasses import dataclass

from klamm.controller.metadata.image import MetadataImage


@dataclass(slots=True)
class _Session:
    last_contact_ms: int
    heard: bool
    """False for a broker that is only granted time after a start: another incarnation may take its place."""
    controlled_shutdown_offset: int = 0


class BrokerSessions:
    """The sessions of registered brokers, at most one each."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, _Session] = {}

    def grant(self, image: MetadataImage, now_ms: int) -> None:
        """Start the clock for unfenced brokers that have not spoken to this process."""
        for broker in image.brokers.values():
            if not broker.fenced and broker.broker_id not in self._sessions:
                self._sessions[broker.broker_id] = _Session(now_ms, heard=False)

    def touch(self, broker_id: int, now_ms: int, controlled_shutdown_offset: int | None = None) -> None:
        """A broker was heard from."""
        session = self._sessions.setdefault(broker_id, _Session(now_ms, heard=True))
        session.last_contact_ms, session.heard = now_ms, True
        if controlled_shutdown_offset is not None:
            session.controlled_shutdown_offset = controlled_shutdown_offset

    def await_records(self, broker_id: int, end_offset: int) -> None:
        """Records below `end_offset` take a broker out of ISRs: one in controlled shutdown may not stop before it has
        read them."""
        if session := self._sessions.get(broker_id):
            session.controlled_shutdown_offset = end_offset

    def end(self, broker_id: int) -> None:
        """Whoever this broker was is no more."""
        self._sessions.pop(broker_id, None)

    def has_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker spoke to this process within the timeout."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard and now_ms - session.last_contact_ms < self._timeout_ms

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return session.controlled_shutdown_offset if session else 0

    def expired(self, image: MetadataImage, now_ms: int) -> list[int]:
        """Unfenced brokers that have been silent for too long, by id. Sessions of brokers that are gone are dropped."""
        for broker_id in self._sessions.keys() - image.brokers.keys():
            del self._sessions[broker_id]
        self.grant(image, now_ms)
        return sorted(
            broker_id
            for broker_id, session in self._sessions.items()
            if not image.brokers[broker_id].fenced and now_ms - session.last_contact_ms >= self._timeout_ms
        )
