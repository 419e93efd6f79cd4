"""The simulated brokers: which are up, and the requests that they send to the controller.

A broker registers, is unfenced by its first heartbeat, sends heartbeats, and leaves by a controlled shutdown or by
sending no more of them (KIP-631; golden/broker-join, sections 2 and 7). Its requests are the same as a real broker's,
submitted within this process. Broker registrations are stored in the metadata image only: a broker that is registered
and unfenced there when the process starts keeps its incarnation and its epoch. This module opens no sockets:
`klamm.server.server` opens and closes a broker's listeners around these calls.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from klamm.controller.core import Call, Controller
from klamm.controller.long_decision import Busy
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration, unregister_broker
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature, Listener
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.uuid import Uuid
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.node_listeners import NodeListeners
from klamm.server.turns import Turns

REGISTERED_FEATURES = tuple((name, *levels) for name, levels in SUPPORTED_FEATURES.items())
"""The features in a simulated broker's registration, as in the image: all that the cluster supports."""
ASK_AGAIN_SECONDS = 0.1
"""The pause between two requests to the controller while a broker waits to be registered, unfenced or shut down."""
GIVE_UP_SECONDS = 300.0
"""A start or a controlled shutdown that takes longer fails. Real brokers also allow a shutdown five minutes."""
HEARTBEATS_PER_SESSION = 4
"""The least number of heartbeats per session, even if the session timeout is shorter than the heartbeat interval."""
HEARTBEAT_GROUPS = 20
"""Brokers are divided into this many groups, whose heartbeats are spread over the interval. So the heartbeats of a
thousand brokers do not block the event loop."""


class BrokerError(Exception):
    """A simulated broker cannot do what was requested. The text is one clause for users."""


class NoSuchBroker(BrokerError):
    """No simulated broker has this id."""


class BrokerTimedOut(BrokerError):
    """A start or a controlled shutdown took longer than `GIVE_UP_SECONDS`."""


@dataclass(slots=True)
class SimulatedBroker:
    """One broker. `broker_epoch` and `incarnation_id` are those of its latest registration."""

    broker_id: int
    rack: str | None
    listeners: NodeListeners
    broker_epoch: int = -1
    incarnation_id: Uuid | None = None
    is_up: bool = False
    stopped_cleanly: bool = False
    """Whether the broker last went down by a controlled shutdown."""
    next_heartbeat_at: float = math.inf
    """When the next heartbeat is due, by trio's clock in seconds; infinite while the broker sends none."""


class SimulatedBrokers:
    """Sends the simulated brokers' requests to the controller."""

    def __init__(self, controller: Controller, flusher: Flusher, events: EventLog, turns: Turns) -> None:
        self.by_id: dict[int, SimulatedBroker] = {}
        self._controller = controller
        self._flusher = flusher
        self._events = events
        self._turns = turns
        settings = controller.settings
        longest_ms = settings.broker_session_timeout_ms / HEARTBEATS_PER_SESSION
        self._heartbeat_seconds = min(settings.broker_heartbeat_interval_ms, longest_ms) / 1000

    def find(self, broker_id: int) -> SimulatedBroker:
        """The broker with this id. Raises NoSuchBroker; its text differs if the id is registered in the metadata."""
        if broker_id in self.by_id:
            return self.by_id[broker_id]
        reason = f"there is no simulated broker {broker_id}"
        if broker_id in self._controller.image.brokers:
            reason += (
                ", though the metadata has one: it is another process's, or from before a restart that did not "
                "count it with --brokers"
            )
        raise NoSuchBroker(reason)

    def next_id(self) -> int:
        """An id that neither a simulated nor a registered broker has."""
        return max(0, *self.by_id.keys(), *self._controller.image.brokers.keys()) + 1

    async def join(self, brokers: Sequence[SimulatedBroker]) -> None:
        """Register the brokers, in order. Returns when every broker is unfenced and those records are durable."""
        async with self._turns.of_changes:
            for broker in brokers:
                self._become_incarnation(broker)
        # All brokers take the same step together, so that each step needs one group commit.
        await self._until_each("register", brokers, self._register)
        await self._until_each("be unfenced", brokers, self._unfence)
        for broker in brokers:
            broker.is_up, broker.stopped_cleanly = True, False
            group = broker.broker_id % HEARTBEAT_GROUPS + 1
            broker.next_heartbeat_at = trio.current_time() + self._heartbeat_seconds * group / HEARTBEAT_GROUPS
        self._tell_who_is_down()

    async def leave(self, broker: SimulatedBroker) -> None:
        """Shut the broker down: its leaderships move, it is fenced, and it sends no more heartbeats."""
        broker.next_heartbeat_at = math.inf
        await self._until_each("shut down", [broker], self._shut_down)
        self._controller.end_session(broker.broker_id)
        broker.is_up, broker.stopped_cleanly = False, True
        self._tell_who_is_down()

    def crash(self, broker: SimulatedBroker) -> None:
        """Stop the broker's heartbeats. The controller fences it when its session expires."""
        broker.is_up = False
        broker.next_heartbeat_at = math.inf
        self._tell_who_is_down()

    async def unregister(self, broker: SimulatedBroker) -> None:
        """Remove the registration of a broker that is down. Raises BrokerError if the controller refuses."""
        request = UnregisterBrokerRequest(broker_id=broker.broker_id)
        async with self._turns.of_changes:
            response = self._submit(unregister_broker.API, request, broker)
        await self._flusher.wait_all_durable()  # before a refusal, too: it tells what the controller saw
        if response.error_code not in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED):
            raise BrokerError(f"broker {broker.broker_id} cannot be unregistered: {_error_name(response.error_code)}")

    def beat(self, now: float) -> None:
        """Send the heartbeats that are due at `now`. One that would change the metadata while a long request is decided
        is sent again at the next tick."""
        for broker in self.by_id.values():
            if broker.next_heartbeat_at <= now:
                try:
                    response = self._heartbeat(broker, want_shut_down=False)
                except Busy:
                    continue
                broker.next_heartbeat_at = max(broker.next_heartbeat_at + self._heartbeat_seconds, now)
                if response.error_code:  # as in Kafka: a broker logs it, goes on, and does not register again
                    error = _error_name(response.error_code)
                    self._events.warning_rarely("heartbeat refused", broker_id=broker.broker_id, error=error)

    def _tell_who_is_down(self) -> None:
        """Set which brokers are down. They neither serve nor fetch records, even while their session lasts."""
        self._controller.set_down([broker_id for broker_id, broker in self.by_id.items() if not broker.is_up])

    async def _until_each(
        self, what: str, brokers: Iterable[SimulatedBroker], step: Callable[[SimulatedBroker], bool]
    ) -> None:
        """Repeat `step` with each broker until it returns True for it. After each round, and before a refusal is
        raised, wait until the metadata log is durable."""
        give_up_at = trio.current_time() + GIVE_UP_SECONDS
        while True:
            try:
                async with self._turns.of_changes:
                    brokers = [broker for broker in brokers if not step(broker)]
            except BrokerError:
                await self._flusher.wait_all_durable()
                raise
            await self._flusher.wait_all_durable()
            if not brokers:
                return
            await trio.sleep(ASK_AGAIN_SECONDS)
            if trio.current_time() > give_up_at:
                raise BrokerTimedOut(f"broker {brokers[0].broker_id} could not {what} within {GIVE_UP_SECONDS:.0f} s")

    def _become_incarnation(self, broker: SimulatedBroker) -> None:
        known = self._controller.image.brokers.get(broker.broker_id)
        if broker.incarnation_id is None and known is not None and known.live:
            # This process has just started and the log has the broker unfenced, so the broker goes on as it was.
            broker.incarnation_id, broker.broker_epoch = known.incarnation_id, known.broker_epoch
        else:
            broker.incarnation_id = self._controller.new_uuid()

    def _register(self, broker: SimulatedBroker) -> bool:
        known = self._controller.image.brokers.get(broker.broker_id)
        if known is not None and _is_as_registered(broker, known):
            return True
        if broker.incarnation_id is None:
            raise ValueError("registering without an incarnation")
        request = BrokerRegistrationRequest(
            broker_id=broker.broker_id,
            cluster_id=self._controller.identity.cluster_id,
            incarnation_id=broker.incarnation_id,
            listeners=[
                Listener(name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol)
                for at in broker.listeners.end_points
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, lowest, highest in REGISTERED_FEATURES
            ],
            rack=broker.rack,
            log_dirs=known.log_dirs if known else [disk_of(self._controller.identity.cluster_id, broker.broker_id)],
            previous_broker_epoch=(
                known.broker_epoch if known and (broker.stopped_cleanly or known.in_controlled_shutdown) else -1
            ),
        )
        response = self._submit(broker_registration.API, request, broker)
        if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return False  # its previous incarnation crashed, and that session has not expired
        if response.error_code:
            raise BrokerError(f"broker {broker.broker_id} cannot register: {_error_name(response.error_code)}")
        broker.broker_epoch = response.broker_epoch
        return True

    def _unfence(self, broker: SimulatedBroker) -> bool:
        return not self._heartbeat_or_raise(broker, want_shut_down=False).is_fenced

    def _shut_down(self, broker: SimulatedBroker) -> bool:
        return self._heartbeat_or_raise(broker, want_shut_down=True).should_shut_down

    def _heartbeat_or_raise(self, broker: SimulatedBroker, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        response = self._heartbeat(broker, want_shut_down=want_shut_down)
        if response.error_code:
            raise BrokerError(f"heartbeat of broker {broker.broker_id} refused: {_error_name(response.error_code)}")
        return response

    def _heartbeat(self, broker: SimulatedBroker, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            current_metadata_offset=self._controller.log_end_offset - 1,
            want_fence=False,
            want_shut_down=want_shut_down,
        )
        response: BrokerHeartbeatResponse = self._submit(broker_heartbeat.API, request, broker)
        return response

    def _submit(self, api: Api[Any, Any], request: Message, broker: SimulatedBroker) -> Any:
        call = Call(api, api.latest_stable, request, "controller", client_id=str(broker.broker_id))
        return self._controller.submit(call).response


def disk_of(cluster_id: str, broker_id: int) -> Uuid:
    """The id of a simulated broker's only log directory. It never changes, so a broker that is removed and added again
    still has its replicas. (A real broker with an empty disk gets a new directory id, KIP-858.)"""
    return Uuid(hashlib.blake2b(f"{cluster_id}/{broker_id}".encode(), digest_size=16).digest())


def _is_as_registered(broker: SimulatedBroker, known: BrokerState) -> bool:
    return (known.incarnation_id, known.end_points, known.rack, known.features) == (
        broker.incarnation_id,
        broker.listeners.end_points,
        broker.rack,
        REGISTERED_FEATURES,
    )


def _error_name(code: int) -> str:
    return ErrorCode(code).name
