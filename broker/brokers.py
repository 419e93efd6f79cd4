"""The simulated brokers of one process.

All brokers of a process share one `DataPlane`: a partition has one log, and each of its replicas has a part of it.
What belongs to one broker alone is in its `SimulatedBroker`.
"""

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.cleanup import Cleanup
from klamm.broker.coordinator.coordinators import Coordinators, NewState
from klamm.broker.coordinator.outbox import CoordinatorState
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.kept import Kept
from klamm.broker.data.record_file import RecordFile
from klamm.broker.fetch_sessions import FetchSessions, SessionMemory
from klamm.broker.log_dirs.log_dir_work import LogDirWork
from klamm.broker.outgoing import Outgoing
from klamm.broker.simulated_broker import BrokerError, SimulatedBroker
from klamm.broker.telemetry.collected import CollectedMetrics
from klamm.broker.telemetry.instances import ClientInstances
from klamm.broker.telemetry.subscriptions import Subscriptions
from klamm.broker.topic_changes import TopicChanges
from klamm.broker.transactions.markers import TransactionMarkers
from klamm.broker.transactions.settings import transaction_settings
from klamm.broker.transactions.transactions import Transactions
from klamm.broker.zookeeper_offsets import ZooKeeperOffsets
from klamm.controller.busy import Busy
from klamm.controller.core import Controller
from klamm.controller.metadata.broker import EndPoint
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

if TYPE_CHECKING:
    from klamm.broker.coordinator.shard import Shard
    from klamm.broker.shares import Shares

MAX_BROKER_ID: Final = 2**31 - 1
TRANSACTION_VERSION: Final = "transaction.version"


class NoSuchBroker(BrokerError):
    """No simulated broker has this id."""


class SimulatedBrokers:
    """The brokers by id, and the partition logs of all of them. They are the `LocalBrokers` of the controller that
    `klamm.broker.assembly` joins them to."""

    controller: Controller
    """The controller that the brokers send their requests to. Set by `klamm.broker.assembly`."""
    body_bytes: Callable[[Api[Any, Any], int, Message], int]
    """Measures a response of an API in a version, without its header. Set by `klamm.broker.assembly`."""

    def __init__(
        self,
        settings: Settings,
        clock_ms: Callable[[], int],
        log_end_offsets: Mapping[LogKey, int] = MappingProxyType({}),
        kept: Kept | None = None,
        record_file: RecordFile | None = None,
    ) -> None:
        """`clock_ms` is the controller's clock. Partition logs begin empty, at their former end in `log_end_offsets`,
        but those of internal topics with the records in `kept`. `record_file`: where records beyond the memory budget
        go; None: in a temporary file."""
        self.by_id: dict[int, SimulatedBroker] = {}
        self.outgoing = Outgoing()
        """What they ask real brokers."""
        self.data = DataPlane(settings, record_file)
        self.data.kept = kept
        self.data.simulated = self.by_id.keys()
        states: dict[str, NewState] = {
            CONSUMER_OFFSETS: self._new_groups,
            TRANSACTION_STATE: self._new_transactions,
            SHARE_GROUP_STATE: self._new_share_states,
        }
        self.coordinators = Coordinators(settings, self.data, states)
        """The coordinators of all brokers."""
        markers = TransactionMarkers(self.coordinators, self.data)
        self.coordinators.after_operations(TRANSACTION_STATE, markers.follow)
        self.log_dir_work = LogDirWork(self.by_id, self.data, settings)
        """Which log directory each replica is in, and moves between them."""
        self.zookeeper_offsets = ZooKeeperOffsets()
        """The offsets of the first versions of OffsetCommit."""
        self._session_memory = SessionMemory()
        self._cleanup = Cleanup(self.data, settings)
        self.subscriptions = Subscriptions()
        """Which metrics clients shall push; they follow the metadata log."""
        self.collected_metrics = CollectedMetrics() if settings.client_telemetry else None
        """What clients pushed; None: it is not read."""
        self.topic_changes = TopicChanges()
        """What consumer groups have to compare anew; it follows the metadata log."""
        self._shares: Shares | None = None
        self.coordinators.after_operations(CONSUMER_OFFSETS, self._follow_groups)
        self._settings = settings
        self._clock_ms = clock_ms
        self._log_end_offsets = log_end_offsets

    def add(self, broker_id: int, rack: str | None = None, end_points: tuple[EndPoint, ...] = ()) -> SimulatedBroker:
        """Make a broker, which is down and not registered yet."""
        broker = self.by_id[broker_id] = SimulatedBroker(self.controller, broker_id, rack, end_points)
        return broker

    def forget(self, broker_id: int) -> None:
        """Remove a broker that is down and is simulated no longer: another process may register under its id."""
        forgotten = self.by_id.pop(broker_id, None)
        if forgotten is not None and forgotten.fetch_sessions is not None:
            forgotten.fetch_sessions.retire()
        self.note_who_is_down()

    def find(self, broker_id: int) -> SimulatedBroker:
        """The broker with this id. Raises NoSuchBroker; its text differs if the id is registered in the metadata."""
        if broker_id in self.by_id:
            return self.by_id[broker_id]
        reason = f"there is no simulated broker {broker_id}"
        if broker_id in self.controller.image.brokers:
            reason += (
                ", though the metadata has one: it is another process's, or from before a restart that did not "
                "count it with --brokers"
            )
        raise NoSuchBroker(reason)

    def client_instances(self, broker_id: int | None) -> ClientInstances:
        """The client instances of a broker that push metrics; no simulated broker remembers none."""
        broker = None if broker_id is None else self.by_id.get(broker_id)
        return ClientInstances() if broker is None else broker.client_instances

    def fetch_sessions(self, broker_id: int | None) -> FetchSessions:
        """The fetch sessions of a broker; those of no simulated broker have no room."""
        broker = None if broker_id is None else self.by_id.get(broker_id)
        if broker is None:
            return FetchSessions(0, self._session_memory, self.controller.new_fetch_session_id)
        if broker.fetch_sessions is None:
            slots = self._settings.static_int("max.incremental.fetch.session.cache.slots", broker_id)
            broker.fetch_sessions = FetchSessions(slots, self._session_memory, self.controller.new_fetch_session_id)
        return broker.fetch_sessions

    def next_id(self, lowest: int = 1) -> int:
        """The next id after those of all simulated and registered brokers, from `lowest` on. Raises BrokerError if
        there is none."""
        broker_id = max(lowest, *(taken + 1 for ids in (self.by_id, self.controller.image.brokers) for taken in ids))
        broker_id += broker_id == self.controller.identity.controller_id
        if broker_id > MAX_BROKER_ID:
            raise BrokerError(f"there is no broker id after {MAX_BROKER_ID}")
        return broker_id

    def beat(
        self, now: float, refused: Callable[[int, ErrorCode], None], ended: Callable[[SimulatedBroker], None]
    ) -> None:
        """Send the heartbeats that are due at `now`, by the event loop's clock in seconds. `ended` is called with each
        broker that goes down because of the response, or because it could not report that a log directory failed.
        `refused` is called with the broker's id and the error of each other heartbeat that the controller refuses. A
        heartbeat that would change the metadata while a long request is decided remains due."""
        for broker in self.by_id.values():
            was_up = broker.is_up
            if broker.has_unreported_loss(self._clock_ms()):
                broker.go_down(cleanly=False)
            try:
                code = broker.beat(now)
            except Busy:
                continue
            if was_up and not broker.is_up:
                self.note_who_is_down()
                ended(broker)
            elif code:
                refused(broker.broker_id, code)

    def note_who_is_down(self) -> None:
        """Apply which brokers are down: they neither serve nor fetch records, even while their session lasts. To be
        called after each change of `SimulatedBroker.is_up`."""
        down = [broker_id for broker_id, broker in self.by_id.items() if not broker.is_up]
        self.log_dir_work.note_who_is_up(self._clock_ms())
        self.coordinators.leaders_may_have_changed()
        if self.data.set_down(self.controller.image, down, self._clock_ms()):
            self.controller.brokers_went_down()
        if self._shares is not None:
            self._shares.leaders.follow_leaders()

    def now_ms(self) -> int:
        """The controller's clock."""
        return self._clock_ms()

    @property
    def shares(self) -> "Shares":
        """What the brokers do for share groups beside their coordinators. Its modules are imported when there is a
        group coordinator, see `dispatch`."""
        if self._shares is None:
            from klamm.broker.shares import Shares

            self._shares = Shares(
                self.coordinators,
                self.outgoing,
                self.data,
                self._settings,
                lambda: self.controller.image,
                self._clock_ms,
            )
        return self._shares

    def _follow_groups(self, image: MetadataImage, shard: "Shard", now_ms: int) -> bool:
        self.shares.initializer.follow(image, shard, now_ms)
        return False

    def connection_closed(self, connection_id: int) -> None:
        """A connection to a broker has ended."""
        if self._shares is not None:
            self._shares.leaders.connection_closed(connection_id)

    def follow(self, delta: Delta) -> None:
        """Apply the changes of a batch of the metadata log, beside those that the coordinators follow."""
        self.log_dir_work.follow(self.controller.image, delta)
        if self._shares is not None and (delta.has_new_leaders or delta.removed_topics):
            self._shares.leaders.follow_leaders()

    def tick(self) -> None:
        """Do what is due: coordinators load partitions and fire timers, retention and compaction remove records. To be
        called regularly."""
        self.coordinators.tick(self.controller.image, self._clock_ms())
        if self._shares is not None:
            self._shares.tick()
        self._cleanup.tick(self.controller.image, self._clock_ms())
        self.log_dir_work.tick(self.controller.image, self._clock_ms())

    @property
    def next_due_ms(self) -> float:
        """When `tick` may have something to do if nothing happens before, in ms on the controller's clock."""
        now_ms = self._clock_ms()
        due = (self._cleanup.next_due_ms, self.log_dir_work.next_due_ms, self.coordinators.next_due_ms(now_ms))
        return min(due) if self._shares is None else min(*due, self._shares.next_due_ms)

    @property
    def next_heartbeat_at(self) -> float:
        """When `beat` has something to do, by the event loop's clock in seconds; infinite: no broker is up."""
        brokers = self.by_id.values()
        if any(broker.lost_directory_at_ms is not None for broker in brokers):
            return 0
        return min((broker.next_heartbeat_at for broker in brokers), default=inf)

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return self._shares is not None and self._shares.persister.has_work

    def work(self) -> None:
        """Do a step of long work that requests have begun. Call it until `has_work` is False."""
        if self._shares is not None:
            self._shares.persister.work()

    def make_cleanup_due(self) -> None:
        """Let the next ticks apply retention and compaction, whenever that was done last."""
        self._cleanup.make_due(self._clock_ms())

    @property
    def is_cleaning(self) -> bool:
        """Whether retention or compaction has a part of its work left for the next tick."""
        return self._cleanup.is_busy

    def _new_groups(self, broker_id: int) -> CoordinatorState:
        # The modules of groups are imported when there is a group coordinator, see `dispatch`.
        from klamm.broker.groups.new_shard import new_groups

        controller = self.controller
        new_uuid = controller.new_uuid_outside_the_log
        return new_groups(lambda: controller.image, new_uuid, self.topic_changes, self._settings, broker_id)

    def _new_share_states(self, broker_id: int) -> CoordinatorState:
        from klamm.broker.share_state.new_shard import new_share_states

        return new_share_states(lambda: self.controller.image, self.topic_changes, self._settings, broker_id)

    def _new_transactions(self, broker_id: int) -> Transactions:
        return Transactions(
            transaction_settings(self._settings, broker_id),
            lambda: self._new_producer_id(broker_id),
            lambda: self.controller.image.features.get(TRANSACTION_VERSION, 0),
        )

    def _new_producer_id(self, broker_id: int) -> int | None:
        """The next id of the broker's block; None: it has to ask for a block first."""
        broker = self.by_id.get(broker_id)
        if broker is None or not broker.producer_ids:
            return None
        first, broker.producer_ids = broker.producer_ids[0], broker.producer_ids[1:]
        return first

    # For the controller: `klamm.controller.local_brokers.LocalBrokers`.

    @property
    def replication(self) -> DataPlane:
        return self.data

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        self.data.restore(image, self._log_end_offsets, now_ms)

    def root_log_level(self, broker_id: int) -> str | None:
        broker = self.by_id.get(broker_id)
        return None if broker is None else broker.root_log_level

    def set_root_log_level(self, broker_id: int, level: str) -> None:
        if broker_id in self.by_id:
            self.by_id[broker_id].root_log_level = level
