"""One simulated broker: what it keeps in memory, and the requests that it sends to the controller.

A broker registers, is unfenced by its first heartbeat, sends heartbeats, and leaves by a controlled shutdown or by
sending no more of them (KIP-631; golden/broker-join, sections 2 and 7). Its requests are the same as a real broker's,
submitted within this process. Broker registrations are stored in the metadata image only: a broker that is registered
and unfenced there when the process starts keeps its incarnation and its epoch.
"""

import math
from typing import Any, Final

from klamm.broker.fetch_sessions import FetchSessions
from klamm.broker.log_dirs.directories import new_log_dirs
from klamm.broker.telemetry.instances import ClientInstances
from klamm.broker.topic_creation_errors import CreationErrors
from klamm.controller.core import Call, Controller
from klamm.controller.metadata.broker import BrokerState, EndPoint
from klamm.controller.metadata.image import BROKER_RESOURCE
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CORDONS, FIRST_LEVEL_WITH_LOG_DIRS
from klamm.controller.quotas.usage import ClientRates, windows_of
from klamm.controller.transitions.config_changes import CORDONED_LOG_DIRS
from klamm.controller.transitions.features import supported_features
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import (
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    unregister_broker,
)
from klamm.protocol.messages.brokers.assign_replicas_to_dirs import AssignReplicasToDirsRequest, DirectoryData
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature, Listener
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.uuid import Uuid

HEARTBEATS_PER_SESSION: Final = 4
"""The least number of heartbeats per session, even if the session timeout is shorter than the heartbeat interval."""
HEARTBEAT_GROUPS: Final = 20
"""Brokers are divided into this many groups, whose heartbeats are spread over the interval. So the heartbeats of a
thousand brokers do not block the event loop."""
NO_IDS: Final = range(0)
NOT_ITS_ID: Final = frozenset({ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH})
"""The refusals of a heartbeat because the broker was unregistered, or because another process has its id now."""


class BrokerError(Exception):
    """A simulated broker cannot do what was requested. The text is one clause for users."""


class SimulatedBroker:
    """One broker. Everything here is soft state, which a restart of the process loses."""

    __slots__ = (
        "_controller",
        "_heartbeat_seconds",
        "broker_epoch",
        "broker_id",
        "client_instances",
        "creation_errors",
        "disk_is_away",
        "end_points",
        "fetch_sessions",
        "incarnation_id",
        "is_up",
        "log_dirs",
        "lost_directory_at_ms",
        "next_heartbeat_at",
        "producer_ids",
        "rack",
        "rates",
        "root_log_level",
        "stopped_cleanly",
    )

    def __init__(
        self, controller: Controller, broker_id: int, rack: str | None = None, end_points: tuple[EndPoint, ...] = ()
    ) -> None:
        """A broker that is down. `end_points` are those that its listeners advertise."""
        self.broker_id = broker_id
        self.rack = rack
        self.end_points = end_points
        self.incarnation_id: Uuid | None = None
        """The id of its present or latest incarnation; None before the first one."""
        self.broker_epoch = -1
        """The epoch of its latest registration."""
        self.is_up = False
        self.stopped_cleanly = False
        """Whether the broker last went down by a controlled shutdown."""
        self.next_heartbeat_at = math.inf
        """When the next heartbeat is due, by the event loop's clock in seconds; infinite while the broker sends
        none."""
        self.producer_ids = NO_IDS
        """The unused rest of its block of producer ids. The metadata log has the allocated blocks."""
        self.root_log_level: str | None = None
        """The level of its root logger, if a request has set it."""
        self.client_instances = ClientInstances()
        """The clients that push metrics to it (KIP-714)."""
        self.fetch_sessions: FetchSessions | None = None
        """The fetch sessions of its clients; None before the first one."""
        self.creation_errors = CreationErrors()
        """Why internal topics of streams groups could not be created."""
        self.lost_directory_at_ms: int | None = None
        """When a log directory went offline, by the controller's clock; None: the controller knows it."""
        self.disk_is_away = False
        """Whether heartbeats report all directories as offline. The broker stays up, so that clients get its errors."""
        self._controller = controller
        settings = controller.settings
        self.log_dirs = new_log_dirs(settings, controller.identity.cluster_id, broker_id)
        self.rates = ClientRates(windows_of(settings, "quota", broker_id))
        """At which rates clients use the broker's part of their quotas."""
        longest_ms = settings.broker_session_timeout_ms / HEARTBEATS_PER_SESSION
        self._heartbeat_seconds = min(settings.broker_heartbeat_interval_ms, longest_ms) / 1000

    def begin_incarnation(self) -> None:
        """Choose the incarnation that `register` registers: a new one, or the one of a former process that goes on.
        Raises BrokerError if its log directories are offline."""
        known = self._controller.image.brokers.get(self.broker_id)
        if known is not None:
            self.log_dirs.adopt(known.log_dirs)
        self.read_cordons()
        reason = "its disk is away" if self.disk_is_away else self.log_dirs.start()
        if reason is not None:
            raise BrokerError(f"broker {self.broker_id} cannot start: {reason}")
        if self.incarnation_id is None and known is not None and known.live:
            # This process has just started and the log has the broker unfenced, so the broker goes on as it was.
            self.incarnation_id, self.broker_epoch = known.incarnation_id, known.broker_epoch
        else:
            self.incarnation_id = self._controller.new_uuid()

    def register(self) -> bool:
        """Ask to be registered, unless the incarnation is registered with the same values already. Returns False if the
        session of the previous incarnation has to expire first. Raises BrokerError if the controller refuses."""
        known = self._controller.image.brokers.get(self.broker_id)
        if known is not None and self._is_as_registered(known):
            return True
        if self.incarnation_id is None:
            raise ValueError("registering without an incarnation")
        cluster_id = self._controller.identity.cluster_id
        request = BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                Listener(name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol)
                for at in self.end_points
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, lowest, highest in self._features
            ],
            rack=self.rack,
            log_dirs=[one.directory_id for one in self.log_dirs.online],
            previous_broker_epoch=(
                known.broker_epoch if known and (self.stopped_cleanly or known.in_controlled_shutdown) else -1
            ),
        )
        response = self._ask(broker_registration.API, request)
        if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return False  # its previous incarnation crashed, and that session has not expired
        if response.error_code:
            raise BrokerError(f"broker {self.broker_id} cannot register: {_error_name(response.error_code)}")
        self.broker_epoch = response.broker_epoch
        return True

    def ask_to_be_unfenced(self) -> bool:
        """Send a heartbeat. Returns whether the broker is unfenced. Raises BrokerError if the controller refuses."""
        return not _accepted(self.broker_id, self._heartbeat(want_shut_down=False)).is_fenced

    def ask_to_shut_down(self) -> bool:
        """Send a heartbeat that asks for a controlled shutdown. Returns whether the broker may stop, also because it
        was unregistered or another process has its id. Raises BrokerError if the controller refuses otherwise."""
        response = self._heartbeat(want_shut_down=True)
        return response.error_code in NOT_ITS_ID or _accepted(self.broker_id, response).should_shut_down

    def come_up(self, now: float) -> None:
        """Begin to serve: the broker is unfenced. Its heartbeats begin after a part of the interval."""
        self.is_up, self.stopped_cleanly = True, False
        group = self.broker_id % HEARTBEAT_GROUPS + 1
        self.next_heartbeat_at = now + self._heartbeat_seconds * group / HEARTBEAT_GROUPS

    def go_down(self, *, cleanly: bool) -> None:
        """Stop: `cleanly` after a controlled shutdown, or without a registration. Otherwise the controller fences the
        broker when its session expires."""
        self.is_up, self.next_heartbeat_at, self.lost_directory_at_ms = False, math.inf, None
        if self.fetch_sessions is not None:
            self.fetch_sessions.clear()
        self.rates, self.client_instances = ClientRates(self.rates.windows), ClientInstances()
        if cleanly:
            known = self._controller.image.brokers.get(self.broker_id)
            self.stopped_cleanly = known is not None and known.broker_epoch == self.broker_epoch
            if self.stopped_cleanly:
                self._controller.end_session(self.broker_id)

    def beat(self, now: float) -> ErrorCode:
        """Send the heartbeat if it is due at `now`. Returns why the controller refused it, or NONE. Raises Busy if it
        would change the metadata while a long request is decided: then the heartbeat remains due.

        The broker goes down if the response ends a controlled shutdown, or if the broker was unregistered or another
        process has its id. After other refusals the broker goes on, as in Kafka, and does not register again."""
        if self.next_heartbeat_at > now:
            return ErrorCode.NONE
        known = self._controller.image.brokers.get(self.broker_id)
        is_own = known is not None and known.incarnation_id == self.incarnation_id
        if known is not None and is_own and not known.log_dirs and self._has_registered_dirs:
            self.register()  # metadata.version was raised: the log gets the broker's directories, as in Kafka
        # A controlled shutdown that another client has begun in the broker's name cannot be undone, only ended.
        response = self._heartbeat(want_shut_down=known is not None and known.in_controlled_shutdown)
        self.next_heartbeat_at = max(self.next_heartbeat_at + self._heartbeat_seconds, now)
        if response.should_shut_down or response.error_code in NOT_ITS_ID:
            self.go_down(cleanly=True)
        return ErrorCode(response.error_code)

    def expire_session(self) -> None:
        """Let the broker's session with the controller be over at the next tick."""
        self._controller.expire_session(self.broker_id)

    def report_disks(self) -> ErrorCode:
        """Send a heartbeat at once, because a directory went offline. Returns why the controller refused it, or NONE.
        A broker that was fenced by hand sends none."""
        if not self.is_up or math.isinf(self.next_heartbeat_at):
            return ErrorCode.NONE
        return ErrorCode(self._heartbeat(want_shut_down=False).error_code)

    def assign_replicas(self, directories: list[DirectoryData]) -> ErrorCode:
        """Report the directories of replicas. Returns why the controller refuses the whole request, or NONE."""
        request = AssignReplicasToDirsRequest(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, directories=directories
        )
        return ErrorCode(self._ask(assign_replicas_to_dirs.API, request).error_code)

    def unregister(self) -> ErrorCode:
        """Ask to remove the registration of this broker, which is down. Returns why the controller refuses, or NONE,
        also if there is no registration."""
        response = self._ask(unregister_broker.API, UnregisterBrokerRequest(broker_id=self.broker_id))
        code = ErrorCode(response.error_code)
        return ErrorCode.NONE if code is ErrorCode.BROKER_ID_NOT_REGISTERED else code

    def _is_as_registered(self, known: BrokerState) -> bool:
        return (known.incarnation_id, known.end_points, known.rack, known.features, set(known.log_dirs)) == (
            self.incarnation_id,
            self.end_points,
            self.rack,
            self._features,
            {one.directory_id for one in self.log_dirs.online} if self._has_registered_dirs else set(),
        )

    @property
    def _features(self) -> tuple[tuple[str, int, int], ...]:
        """The features in its registration, as in the image."""
        supported = supported_features(self._controller.settings, self._controller.image)
        return tuple((name, *levels) for name, levels in supported.items())

    @property
    def _has_registered_dirs(self) -> bool:
        """Whether registrations have log directories."""
        return self._controller.image.features.metadata_version >= FIRST_LEVEL_WITH_LOG_DIRS

    def _heartbeat(self, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._controller.log_end_offset - 1,
            # Below 3.7-IV2 the log has no directories: Kafka's broker halts when it has none left.
            want_fence=not self._has_registered_dirs and len(self._offline_log_dirs()) == len(self.log_dirs.all),
            want_shut_down=want_shut_down,
            offline_log_dirs=self._offline_log_dirs(),
            cordoned_log_dirs=self._cordoned_log_dirs(),
        )
        response: BrokerHeartbeatResponse = self._ask(broker_heartbeat.API, request)
        return response

    def _offline_log_dirs(self) -> list[Uuid]:
        if self.disk_is_away:
            return [one.directory_id for one in self.log_dirs.all]
        return self.log_dirs.offline_ids

    def read_cordons(self) -> None:
        """Close and open log directories to new replicas as `cordoned.log.dirs` of this broker says."""
        own = self._controller.image.config(BROKER_RESOURCE, str(self.broker_id))
        # An empty value of the broker's own ends what its static configs say.
        static = self._controller.settings.static_configs_of(self.broker_id)
        paths = own.get(CORDONED_LOG_DIRS, static.get(CORDONED_LOG_DIRS, ""))
        self.log_dirs.cordon(paths)

    def _cordoned_log_dirs(self) -> list[Uuid] | None:
        """What a heartbeat reports; None while none was ever cordoned, or the log cannot have cordons."""
        image = self._controller.image
        cordoned = sorted(one.directory_id for one in self.log_dirs.all if one.is_cordoned)
        known = image.brokers.get(self.broker_id)
        is_said = cordoned or (known is not None and known.cordoned_log_dirs is not None)
        return cordoned if is_said and image.features.metadata_version >= FIRST_LEVEL_WITH_CORDONS else None

    def has_unreported_loss(self, now_ms: int) -> bool:
        """Whether a log directory has been offline for `log.dir.failure.timeout.ms` without the controller's having
        noted it. Kafka's broker halts then."""
        if self.lost_directory_at_ms is None or not self.is_up:
            return False
        known = self._controller.image.brokers.get(self.broker_id)
        listed = known.log_dirs if known is not None and known.incarnation_id == self.incarnation_id else ()
        if set(listed).isdisjoint(self.log_dirs.offline_ids):
            self.lost_directory_at_ms = None
            return False
        settings = self._controller.settings
        return now_ms - self.lost_directory_at_ms >= settings.static_int("log.dir.failure.timeout.ms", self.broker_id)

    def _ask(self, api: Api[Any, Any], request: Message) -> Any:
        call = Call(api, api.latest_stable, request, "controller", client_id=str(self.broker_id))
        return self._controller.submit(call).response


def _accepted(broker_id: int, response: BrokerHeartbeatResponse) -> BrokerHeartbeatResponse:
    if response.error_code:
        raise BrokerError(f"heartbeat of broker {broker_id} refused: {_error_name(response.error_code)}")
    return response


def _error_name(code: int) -> str:
    return ErrorCode(code).name
