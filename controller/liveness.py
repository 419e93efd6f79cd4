"""What is known of brokers that no record says: one object, which handlers read."""

from collections.abc import Callable, Collection

from klamm.controller.sessions import BrokerSessions


class BrokerLiveness:
    """The sessions of brokers, and what is left to do about those that went. Soft state of the controller."""

    def __init__(
        self, sessions: BrokerSessions, departing: Callable[[], Collection[int]], losses_pending: Callable[[], bool]
    ) -> None:
        self._sessions = sessions
        self._departing = departing
        self._losses_pending = losses_pending

    def has_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker's heartbeats are up to date."""
        return self._sessions.has_session(broker_id, now_ms)

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        """The offset behind the records that began the broker's controlled shutdown; 0 if it began none."""
        return self._sessions.controlled_shutdown_offset(broker_id)

    def is_departing(self, broker_id: int) -> bool:
        """Whether a former life of the broker is still in ISRs, which it leaves in steps: it stays fenced till then."""
        return broker_id in self._departing()

    @property
    def losses_pending(self) -> bool:
        """Whether brokers that went are still in ISRs: that is logged in steps when they are many."""
        return self._losses_pending()
