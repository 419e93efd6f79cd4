"""What handlers may read about brokers that is not in the log: sessions and unfinished departures, as one object."""

from collections.abc import Callable, Collection

from klamm.controller.sessions import BrokerSessions


class BrokerLiveness:
    """The sessions of brokers, and the unfinished removal of brokers from ISRs. Soft state of the controller."""

    def __init__(
        self, sessions: BrokerSessions, departing: Callable[[], Collection[int]], losses_pending: Callable[[], bool]
    ) -> None:
        self._sessions = sessions
        self._departing = departing
        self._losses_pending = losses_pending

    def has_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker has sent a heartbeat to this process within the session timeout."""
        return self._sessions.has_session(broker_id, now_ms)

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        """The offset after the records that began the broker's controlled shutdown; 0 if none has begun."""
        return self._sessions.controlled_shutdown_offset(broker_id)

    def is_departing(self, broker_id: int) -> bool:
        """Whether a former incarnation of the broker is still being removed from ISRs. The broker stays fenced until
        then."""
        return broker_id in self._departing()

    @property
    def losses_pending(self) -> bool:
        """Whether brokers that are not live are still in ISRs. If there are many, they are removed step by step."""
        return self._losses_pending()
