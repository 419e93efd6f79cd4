"""Starts a cluster: settings, ports, log, controller and server, in the order in which each can still fail.

The one place that knows all the parts; `klamm serve` and `klamm.Cluster` both start here. To be called inside trio.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import trio

from klamm.assignment.wording import counted
from klamm.broker.assembly import assemble
from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.record_file import RecordFile
from klamm.broker.kept_partitions import KeptPartitions
from klamm.broker.log_end_offsets import LogEndOffsets
from klamm.broker.simulated_broker import BrokerError
from klamm.cluster.inter_broker import inter_broker
from klamm.cluster.plan import ClusterPlan
from klamm.cluster.topic_policy import TopicJudge
from klamm.cluster.twin import as_twin
from klamm.controller.core import Controller
from klamm.controller.log import LogError, MemoryLog, MetadataLog, SegmentLog
from klamm.controller.log.past import read_past
from klamm.controller.log.quorum import QuorumPlan
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.controller.random_ids import new_uuid
from klamm.controller.settings import Settings
from klamm.server.admission import RESERVED_FILES, open_files_allowed
from klamm.server.clock import ManualClock, RealClock
from klamm.server.event_log import EventLog
from klamm.server.keys_unavailable import KeysUnavailable
from klamm.server.limits import ServerLimits
from klamm.server.listener import PortTaken
from klamm.server.listeners import refuse_impossible_ports
from klamm.server.node_listeners import NodeListeners, open_node
from klamm.server.parts import ServerParts
from klamm.server.recent_requests import RecentRequests
from klamm.server.request_counts import RequestCounts
from klamm.server.request_log import RequestLine, RequestLog, RequestLogError
from klamm.server.server import Server, open_server

if TYPE_CHECKING:
    from klamm.server.jwks import AddressKeys
    from klamm.server.request_topic import RequestTopic

START_ERRORS = (PortTaken, KeysUnavailable, LogError, ReplayError, RequestLogError, BrokerError)
"""The errors that prevent the start of a cluster; each has a text of one line."""
FATAL_ERRORS = (LogError, ReplayError)
"""The errors that end a running cluster, because its log or its image is not reliable any more."""


@asynccontextmanager
async def open_cluster(
    plan: ClusterPlan, events: EventLog | None = None, *, large_in_threads: bool = False
) -> AsyncIterator[Server]:
    """A running cluster, ready to answer. With `large_in_threads` large requests are decided in a thread, which needs
    trio's own clock: a test's clock would jump meanwhile. Raises one of `START_ERRORS`; one of `FATAL_ERRORS` ends it,
    in an exception group."""
    events = events or EventLog()
    for warning in plan.warnings:
        events.warning(warning)
    clock_ms = _clock(plan)
    keys = await _fetched_keys(plan)
    with ExitStack() as undo:
        # Ports come first: they are the most frequent error, and nothing has to be undone then. The brokers of a twin
        # are known when its metadata has been read.
        broker_listeners = {} if plan.twin else _open_broker_ports(plan, undo)
        controller_listeners = None
        if plan.listeners.controller is not None:
            controller_listeners = open_node([plan.listeners.controller])
            undo.callback(controller_listeners.close)
        log = _open_log(plan, controller_listeners, clock_ms(), events)
        undo.callback(log.close)
        log_end_offsets, kept = None, None
        if plan.data_dir is not None:
            log_end_offsets = LogEndOffsets(plan.data_dir)
            undo.callback(log_end_offsets.close)
            kept = _kept_partitions(plan.data_dir, events)
        loaded = log_end_offsets.loaded if log_end_offsets else {}
        undo.callback((record_file := _record_file(plan, events)).close)
        controller, brokers = assemble(Controller, plan.settings, log, clock_ms, loaded, kept, record_file)
        if plan.twin is not None:
            plan = as_twin(plan, controller.image)
            broker_listeners = _open_broker_ports(plan, undo)
        topic = _request_topic(plan, controller, brokers, clock_ms, events)
        request_log = _open_request_log(plan, log.cluster_id, events, topic)
        parts = ServerParts(
            controller=controller,
            brokers=brokers,
            log=log,
            clock_ms=clock_ms,
            manual_clock=clock_ms if isinstance(clock_ms, ManualClock) else None,
            listeners=plan.listeners,
            broker_listeners=broker_listeners,
            controller_listeners=controller_listeners,
            racks=plan.racks,
            limits=_limits(plan),
            events=events,
            request_log=request_log,
            judge_topic=TopicJudge(plan.topic_policy) if plan.topic_policy else None,
            log_end_offsets=log_end_offsets,
            inter_broker=inter_broker(plan.inter_broker),
            large_in_threads=large_in_threads,
            kept_partitions=kept,
            fault_rules=plan.fault_rules,
            client_files=_add_security(plan, controller, undo),
            fatal_errors=FATAL_ERRORS,
        )
        async with open_server(parts) as server, _kept_fresh(keys, parts.events):
            await _open_request_topic(server, request_log)
            yield server


def _open_broker_ports(plan: ClusterPlan, undo: ExitStack) -> dict[int, NodeListeners]:
    """The open listeners of each broker, by its id. Raises PortTaken."""
    _limits(plan)
    refuse_impossible_ports(plan.listeners, plan.broker_ids)
    broker_listeners = {}
    for broker_id in plan.broker_ids:
        broker_listeners[broker_id] = open_node(plan.listeners.of_broker(broker_id, plan.broker_ids))
        undo.callback(broker_listeners[broker_id].close)
    return broker_listeners


async def _fetched_keys(plan: ClusterPlan) -> "Sequence[AddressKeys]":
    """The public keys of tokens that the listeners get from addresses, each once. Raises KeysUnavailable."""
    securities = [one.security for one in plan.listeners.every if one.security is not None]
    validators = [security.sasl.validate_token for security in securities if security.sasl is not None]
    if not validators:
        return ()
    # A start without SASL imports nothing of it.
    from klamm.server.jwks import AddressKeys
    from klamm.server.sasl.signed_tokens import SignedTokens

    sources = [validator.keys for validator in validators if isinstance(validator, SignedTokens)]
    found = list({id(source): source for source in sources if isinstance(source, AddressKeys)}.values())
    for source in found:
        await source.fetch_first()
    return found


@asynccontextmanager
async def _kept_fresh(keys: "Sequence[AddressKeys]", events: EventLog) -> AsyncIterator[None]:
    """The keys are fetched again in the block. Exceptions leave it as they are, without a group."""
    if not keys:
        yield
        return
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        for source in keys:
            nursery.start_soon(source.keep_fresh, events)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again outside, where the nursery does not wrap it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _add_security(plan: ClusterPlan, controller: Controller, undo: ExitStack) -> Path | None:
    """Add the users of the plan, and make the files for their clients. Returns the directory of the files."""
    if plan.security is None:
        return None
    plan.security.add_credentials(controller)
    return undo.enter_context(plan.security.files())


def _record_file(plan: ClusterPlan, events: EventLog) -> RecordFile:
    return RecordFile(
        plan.settings.data_limits.file_bytes,
        None if plan.data_dir is None else [plan.data_dir],
        lambda reason: events.warning("Produce is refused until there is room for records", reason=reason),
    )


def _clock(plan: ClusterPlan) -> RealClock | ManualClock:
    start_ms = time.time_ns() // 1_000_000 if plan.start_ms is None else plan.start_ms
    return ManualClock(start_ms) if plan.clock == "manual" else RealClock(start_ms)


def _limits(plan: ClusterPlan) -> ServerLimits:
    listeners, allowed = plan.listeners.count(plan.broker_ids), open_files_allowed()
    taken = listeners + plan.kept_files + RESERVED_FILES
    if allowed <= taken:
        raise PortTaken(
            f"{counted(listeners, 'listener')} and one connection need {taken + 1} open files, and the system allows "
            f"{allowed} (ulimit -n)"
        )
    settings = plan.settings
    return ServerLimits(
        socket_request_max_bytes=settings.socket_request_max_bytes,
        connections_max_idle_ms=settings.connections_max_idle_ms,
        max_connections=settings.max_connections,
        open_files=allowed - taken,
    )


def _open_request_log(
    plan: ClusterPlan, cluster_id: str, events: EventLog, topic: "RequestTopic | None"
) -> RequestLog | None:
    recent = RecentRequests[RequestLine]() if plan.keeps_requests else None
    if plan.request_log is None and recent is None and topic is None:
        return None
    return RequestLog(
        plan.request_log,
        cluster_id,
        events,
        recent=recent,
        counts=RequestCounts() if plan.counts_requests else None,
        topic=topic,
        keeps_bodies=plan.journal_bodies,
        measures_time=plan.clock == "real",
    )


def _request_topic(
    plan: ClusterPlan, controller: Controller, brokers: SimulatedBrokers, clock_ms: Callable[[], int], events: EventLog
) -> "RequestTopic | None":
    if plan.request_topic is None:
        return None
    from klamm.server.request_topic import RequestTopic

    return RequestTopic(plan.request_topic, lambda: controller.image, brokers, clock_ms, events)


async def _open_request_topic(server: Server, request_log: RequestLog | None) -> None:
    if request_log is not None and request_log.topic is not None:
        from klamm.cluster.request_topic import open_request_topic

        await open_request_topic(server, request_log, request_log.topic)


def _kept_partitions(data_dir: Path, events: EventLog) -> KeptPartitions:
    return KeptPartitions(data_dir, lambda what: events.warning("an internal topic was repaired", what=what))


def _open_log(
    plan: ClusterPlan, controller_listeners: NodeListeners | None, now_ms: int, events: EventLog
) -> MetadataLog:
    # Only a new log uses these; the same seed gives the same cluster id.
    seed = plan.settings.seed
    random = Random(secrets.randbits(64) if seed is None else seed)
    made_up, directory_id = str(new_uuid(random.randbytes)), new_uuid(random.randbytes)
    past = None if plan.twin is None else read_past(plan.twin)
    cluster_id = plan.cluster_id or (past and past.cluster_id) or made_up
    quorum = _quorum(plan.settings, controller_listeners)
    if plan.data_dir is None:
        return MemoryLog(cluster_id, directory_id, now_ms, keep_history=plan.keep_history, quorum=quorum, past=past)
    return SegmentLog.open(
        plan.data_dir,
        new_cluster_id=cluster_id,
        expected_cluster_id=plan.cluster_id,
        new_directory_id=directory_id,
        timestamp_ms=now_ms,
        warn=lambda what: events.warning("the metadata log was repaired", what=what),
        segment_bytes=plan.settings.metadata_log_segment_bytes,
        keep_history=plan.keep_history,
        quorum=quorum,
    )


def _quorum(settings: Settings, controller_listeners: NodeListeners | None) -> QuorumPlan:
    end_points = controller_listeners.end_points if controller_listeners else ()
    return QuorumPlan(
        settings.is_quorum_dynamic,
        settings.controller_listener_name,
        (end_points[0].host, end_points[0].port) if end_points else None,
        CONTROLLER_ID if settings.controller_id is None else settings.controller_id,
    )
