"""What a server is made of, as its caller gives it (`klamm.cluster.assembly`)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.kept_partitions import KeptPartitions
from klamm.controller.core import Controller
from klamm.controller.metadata_log import MetadataLog
from klamm.quick_dataclasses import dataclass
from klamm.server.clock import ManualClock
from klamm.server.event_log import EventLog
from klamm.server.faults.rule import FaultRule
from klamm.server.limits import ServerLimits
from klamm.server.listeners import ListenerPlan
from klamm.server.log_end_keeper import LogEndStore
from klamm.server.node_listeners import NodeListeners
from klamm.server.outgoing import InterBroker
from klamm.server.policy_asker import Judge
from klamm.server.request_log import RequestLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """What a server is made of."""

    controller: Controller
    brokers: SimulatedBrokers
    """The brokers of this process: none yet. The server makes one for each key of `broker_listeners`."""
    log: MetadataLog
    clock_ms: Callable[[], int]
    """The controller's clock, in ms since the epoch."""
    manual_clock: ManualClock | None = None
    """The same clock, if it is a manual one."""
    listeners: ListenerPlan
    """The configured listeners of the brokers and of the controller."""
    broker_listeners: Mapping[int, NodeListeners]
    """The open listeners of each broker, by its id. The order is that of the brokers' racks and ports."""
    controller_listeners: NodeListeners | None = None
    """The controller's open listener; None: it has none."""
    racks: Sequence[str | None] = ()
    """Brokers get these racks in turn. Empty: brokers have no rack."""
    limits: ServerLimits
    events: EventLog
    request_log: RequestLog | None = None
    judge_topic: Judge | None = None
    """Calls the create-topic policy. It may block, and runs in a thread. None: there is no policy."""
    log_end_offsets: LogEndStore | None = None
    """Stores the end offsets of partition logs; runs in a thread. None: they begin at 0 after a restart."""
    inter_broker: InterBroker | None = None
    """How simulated brokers reach real ones; None: they do not."""
    large_in_threads: bool = False
    """Whether large requests are decoded and decided in a thread while others are served (decision 18). Without it the
    order of events depends on nothing but trio's clock, which may be a test's."""
    kept_partitions: KeptPartitions | None = None
    """Keeps the records of internal topics; None: they end with the process."""
    fault_rules: Sequence[FaultRule] = ()
    """Rules of simulated faults that apply from the start."""
    client_files: Path | None = None
    """The directory with the files that clients need for TLS, if the caller has made some."""
    fatal_errors: tuple[type[Exception], ...]
    """Exceptions after which the process must not go on: the log or the image can no longer be trusted."""

    def tick(self) -> None:
        """Let the controller, then the brokers, do what is due. To be called regularly. Raises LogError."""
        self.controller.tick()
        self.brokers.tick()

    @property
    def next_due_ms(self) -> float:
        """When `tick` may have something to do if nothing happens before, in ms on the controller's clock."""
        return self.clock_ms() if self.has_work else min(self.controller.next_due_ms, self.brokers.next_due_ms)

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return self.controller.has_work or self.brokers.has_work

    def work(self) -> None:
        """Do a step of the controller's background work, or else of the brokers' long work. Raises LogError."""
        if self.controller.has_work:
            self.controller.work()
        else:
            self.brokers.work()

    def is_fatal(self, error: BaseException) -> bool:
        """Whether an error, or one of a group, is among `fatal_errors`."""
        if isinstance(error, BaseExceptionGroup):
            return error.subgroup(self.fatal_errors) is not None
        return isinstance(error, self.fatal_errors)
