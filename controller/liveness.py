"""What handlers may read about brokers that is not in the log, as one object: sessions, unfinished departures, and who
fetches the metadata log."""

from collections.abc import Collection
from typing import Protocol

from klamm.controller.local_brokers import Replication
from klamm.controller.observers import Observers
from klamm.controller.sessions import BrokerSessions


class Departures(Protocol):
    """The unfinished removal of brokers from ISRs."""

    @property
    def departing(self) -> Collection[int]: ...

    @property
    def losses_pending(self) -> bool: ...


class BrokerLiveness:
    """The sessions of brokers, and the unfinished removal of brokers from ISRs. Soft state of the controller."""

    def __init__(
        self,
        sessions: BrokerSessions,
        replication: Replication,
        observers: Observers,
        departures: "Departures",
    ) -> None:
        self._sessions = sessions
        self._replication = replication
        self.observers = observers
        """The replicas that fetch the metadata log."""
        self._departures = departures

    def has_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker has sent a heartbeat to this process within the session timeout."""
        return self._sessions.has_session(broker_id, now_ms)

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        """The offset after the records that began the broker's controlled shutdown; 0 if none has begun."""
        return self._sessions.controlled_shutdown_offset(broker_id)

    def is_simulated(self, broker_id: int) -> bool:
        """Whether the broker is one of this process: it reads the image and fetches no log."""
        simulated = self._replication.simulated
        return simulated is None or broker_id in simulated

    def is_departing(self, broker_id: int) -> bool:
        """Whether a former incarnation of the broker is still being removed from ISRs. The broker stays fenced until
        then."""
        return broker_id in self._departures.departing

    @property
    def losses_pending(self) -> bool:
        """Whether brokers that are not live are still in ISRs. If there are many, they are removed step by step."""
        return self._departures.losses_pending
