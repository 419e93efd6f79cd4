"""`klamm.Cluster`: a simulated cluster inside a trio program, for tests and experiments.

It runs the same server as `klamm serve`, on real sockets, but in the caller's event loop and on the caller's clock.
With `trio.testing.MockClock` a test does not wait for session timeouts and heartbeats.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from inspect import isawaitable
from types import TracebackType
from typing import Literal, NoReturn, Self, TypeVar, Unpack

import trio

from klamm.broker.simulated_broker import BrokerError
from klamm.cluster import topics
from klamm.cluster.arguments import ClusterArguments
from klamm.cluster.assembly import START_ERRORS, open_cluster
from klamm.cluster.client_config_methods import ClientConfigVerbs
from klamm.cluster.client_configs import Access, access_of
from klamm.cluster.errors import ClusterError
from klamm.cluster.fault_methods import FaultMethods
from klamm.cluster.options import (
    MAX_BROKER_ID,
    checked_configs,
    checked_number,
    checked_options,
    checked_racks,
)
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.cluster.request_methods import RequestMethods
from klamm.cluster.scenario_methods import ScenarioMethods
from klamm.cluster.server_process import POLL_SECONDS, WAIT_SECONDS
from klamm.cluster.steering_methods import SteeringMethods
from klamm.cluster.topic_policy import TopicPolicy, checked_topic_policy
from klamm.control.client import TakenSnapshot
from klamm.control.durations import Duration, milliseconds
from klamm.control.recorded import MAX_RECORD_BYTES, IsolationLevel, Record
from klamm.controller.metadata_log import SnapshotFailed
from klamm.controller.settings import SettingsError
from klamm.server.advancing import MAX_ADVANCE_MS, NoManualClock
from klamm.server.listener import PortTaken
from klamm.server.server import Server

__all__ = ["Cluster", "ClusterError"]
T = TypeVar("T")
_ELSEWHERE = "elsewhere use klamm.ServerProcess(control=True) or the pytest fixture klamm_cluster"


class Cluster(FaultMethods, RequestMethods, SteeringMethods, ScenarioMethods, ClientConfigVerbs):
    """A running cluster: `async with klamm.Cluster(brokers=3, racks=("a", "b", "c"), seed=7) as cluster:`.

    Args:
        listen: HOST:PORT of the first broker's PLAINTEXT listener. The other brokers use the next ports, and with port
            0 free ports. None: free ports of 127.0.0.1, unless `listeners` or `configs` have addresses.
        listeners: several listeners of the first broker, such as `("PLAINTEXT://127.0.0.1:0",
            "INTERNAL://127.0.0.1:0")` (docs/listeners.md). They replace `listen`.
        advertise: HOST or HOST:PORT that clients receive instead of `listen`. The port is that of the first broker.
        controller_listener: HOST:PORT of the controller's own listener. None: no such listener.
        brokers: the number of brokers at the start, 0 to 1000. The default is the number of `broker_ids`, or 3.
        broker_ids: the ids of the brokers at the start, such as `(0, 1, 2)`, in the order of their racks and ports.
            Empty: from 1 on. `add_broker` continues after the highest id.
        racks: the racks, assigned to the brokers in turn. Empty: brokers have no rack.
        config: the path of a server.properties file. `configs` override it.
        configs: broker configs as in server.properties, such as `{"num.partitions": 3}`. Values are strings, numbers or
            booleans.
        broker_configs: configs of single brokers, by id, such as `{2: {"max.broker.partitions": "100"}}`. They override
            `configs`. The broker may be added later.
        profile: "kip" follows the KIPs where Apache Kafka deviates from them, "kafka" follows Apache Kafka 4.3.
        kafka_version: the release of Apache Kafka that the brokers behave like, such as "2.8" (docs/old-versions.md).
            It may differ for a listener or client ids: "4.3,EXTERNAL=2.8,client:legacy-*=2.1". None: 4.3.
        max_version: the newest served versions of single APIs, such as "Metadata=9,Fetch=11".
        metadata_version: the metadata.version of a new log, a level or a name such as "4.0-IV3". None: that of
            `kafka_version`.
        kip_578_versions: also serve the API versions that KIP-578 adds.
        real_topics: a pattern such as "orders-*". New topics with a matching name are on real brokers, if the cluster
            has real and simulated brokers.
        dynamic_quorum: begin the metadata log with kraft.version 1 and the controller as voter (KIP-853).
        client_telemetry: ask clients for their metrics (KIP-714), and keep these metrics.
        log_dirs: the number of log directories of each broker. None: those of the config `log.dirs`, one by default.
        replication_rate: messages per second that each follower fetches from each partition.
        data_memory_bytes: memory for record batches, in bytes. Beyond it, the oldest batches are in a file, which the
            cluster deletes at its end.
        data_file_bytes: record batches in the file, in bytes. Beyond it, Produce is refused. After a restart,
            partitions are empty and begin at their former log end offset.
        seed: the same seed, configs and requests, in the same order, give the same responses. None: a random seed.
        cluster_id: the id of a new cluster. A data directory with another id is refused. None: a generated id.
        data_dir: the directory of the metadata log. None: the log is in memory.
        twin: a data directory, or a FILE.checkpoint or FILE.log of one. The cluster begins with this metadata, and
            simulates its brokers (docs/twins.md). Klamm only reads the directory.
        snapshot_records: the number of records of the metadata log after which Klamm writes a snapshot. It also writes
            one at the end (docs/snapshots.md). 0: only `snapshot` writes one, and the log is never shortened.
        keep_history: snapshots delete nothing from the log, so `klamm pipeline` can read it from the beginning. A data
            directory with a request log has the same effect.
        request_log: a file with one JSON line per request. None: no such file.
        request_topic: the name of a topic with the same lines (docs/request-log.md). None: no such topic.
        start_ms: the cluster's time at its start, in ms since 1970, for tests that compare bytes. None: the real time.
        clock: with "manual", only `advance` advances the cluster's time (docs/time.md).
        journal_bodies: `requests` also returns the requests and responses in full, as JSON.
        faults: a JSON or YAML file with fault rules that apply from the start (docs/faults.md). None: no rules.
        security: the protocol of the brokers' listener, "ssl", "sasl_plaintext" or "sasl_ssl", with certificates that
            Klamm makes (docs/security.md). None: PLAINTEXT, or SASL_PLAINTEXT with `users`.
        users: users and their passwords, such as `{"alice": "secret"}`. `client_config` returns the settings of
            clients.
        add_scram: SCRAM credentials of a new cluster, such as `["SCRAM-SHA-256=[name=alice,password=secret]"]`, in the
            form of `kafka-storage format --add-scram`.
        topic_policy: a function that Klamm calls in a thread before it creates a topic. It refuses the topic by raising
            `klamm.PolicyViolation` (docs/topic-policy.md). It replaces the config `create.topic.policy.class.name`.

    Raises:
        ClusterError: when the block is entered, for a bad value, a port in use or an unusable data directory. From the
            methods, for a broker that does not exist, or already has the state.

    If the log fails while the cluster runs, the block is cancelled and raises the failure in an exception group."""

    def __init__(self, *, topic_policy: TopicPolicy | None = None, **options: Unpack[ClusterArguments]) -> None:
        try:
            self._plan = plan_cluster(
                checked_options(options),
                {},
                FREE_PORTS,
                None if topic_policy is None else checked_topic_policy(topic_policy),
            )
        except (SettingsError, ValueError) as error:
            raise ClusterError(str(error)) from error
        self._plan = replace(self._plan, keeps_requests=True)
        self._running = AsyncExitStack()
        self._server: Server | None = None

    def __repr__(self) -> str:
        return f"<klamm.Cluster {self._server.bootstrap_servers}>" if self._server else "<klamm.Cluster, not running>"

    def __enter__(self) -> NoReturn:
        raise ClusterError(f"klamm.Cluster needs `async with`, on trio; {_ELSEWHERE}")

    def __exit__(self, *_: object) -> None:
        """Never called, because `__enter__` raises."""

    async def __aenter__(self) -> Self:
        try:
            trio.lowlevel.current_task()
        except RuntimeError:
            raise ClusterError(f"klamm.Cluster runs on trio, not on asyncio; {_ELSEWHERE}") from None
        if self._server is not None:
            raise ClusterError("the cluster is running already")
        try:
            self._server = await self._running.enter_async_context(open_cluster(self._plan))
        except (*START_ERRORS, BrokerError) as error:
            raise ClusterError(str(error)) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._server = None
        return await self._running.__aexit__(kind, error, traceback)

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the first client listener of each broker that is up, separated by commas, in the order of
        ids."""
        return self._up.bootstrap_servers

    @property
    def listeners(self) -> Mapping[str, str]:
        """The addresses of each further listener of the brokers, by name. Empty if each broker has one listener."""
        return self._up.listeners

    @property
    def controller_bootstrap_servers(self) -> str:
        """HOST:PORT of the controller's listener. Raises `ClusterError` without such a listener."""
        servers = self._up.controller_bootstrap_servers
        if servers is None:
            raise ClusterError("the cluster has no controller listener: give it controller_listener='127.0.0.1:0'")
        return servers

    async def stop_broker(self, broker_id: int, mode: Literal["shutdown", "crash"] = "shutdown") -> None:
        """Stop a broker and close its ports.

        A shutdown moves its leaderships first and returns when the controller has fenced it. A crash closes its
        connections at once. The controller fences the broker when its session expires (`broker.session.timeout.ms`).
        """
        if mode not in ("shutdown", "crash"):
            raise ClusterError(f"{mode!r} is no way to stop a broker: 'shutdown' or 'crash'")
        await self._with_cluster_errors(self._up.stop_broker(_checked(broker_id), mode))

    async def kill_broker(self, broker_id: int) -> None:
        """Crash a broker: `stop_broker` with mode "crash"."""
        await self.stop_broker(broker_id, "crash")

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker on its former ports. Returns when clients may use it.

        After a crash, it can register only when its former session has expired."""
        await self._with_cluster_errors(self._up.start_broker(_checked(broker_id)))

    async def add_broker(self, rack: str | None = None) -> int:
        """Start one more broker, in `rack` or in the next rack in turn. Returns its id."""
        server = self._up
        try:
            checked_racks(() if rack is None else (rack,))
        except ValueError as error:
            raise ClusterError(str(error)) from error
        return await self._with_cluster_errors(server.add_broker(rack))

    async def remove_broker(self, broker_id: int) -> None:
        """Shut a broker down, if it is up, and unregister it."""
        await self._with_cluster_errors(self._up.remove_broker(_checked(broker_id)))

    async def snapshot(self) -> TakenSnapshot:
        """Write a snapshot of the metadata log to the data directory. It replaces all records so far."""
        taken = await self._with_cluster_errors(self._up.snapshot())
        return TakenSnapshot(end_offset=taken.end_offset, records=taken.record_count)

    async def create_topic(
        self,
        name: str,
        num_partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float] | None = None,
    ) -> None:
        """Create a topic. Returns when the metadata has it. None means the broker's default."""
        try:
            given = checked_configs({} if configs is None else configs)
            await topics.create_topic(self._up, name, num_partitions, replication_factor, given)
        except (topics.TopicError, TypeError, ValueError) as error:
            raise ClusterError(str(error)) from error

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Returns when the metadata no longer has it."""
        try:
            await topics.delete_topic(self._up, name)
        except (topics.TopicError, TypeError, ValueError) as error:
            raise ClusterError(str(error)) from error

    async def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        max_bytes: int = MAX_RECORD_BYTES,
    ) -> tuple[Record, ...]:
        """All records of a topic or of one partition, uncompressed, in the order of partitions and offsets.

        `read_uncommitted` returns all records in the leaders' logs. This includes records that are not replicated yet,
        and records of aborted transactions. `read_committed` returns the records that a consumer with this isolation
        level gets. Raises `ClusterError` if keys, values and headers together have more than `max_bytes`."""
        found: list[Record] = []
        size_bytes, page = 0, topics.Page([], 0, 0)
        while page.next_partition is not None:
            await trio.lowlevel.checkpoint()
            try:
                page = topics.read_page(
                    self._up,
                    topic,
                    partition,
                    isolation_level=isolation_level,
                    from_partition=page.next_partition,
                    from_offset=page.next_offset,
                )
            except topics.TopicError as error:
                raise ClusterError(str(error)) from error
            found += page.records
            size_bytes += sum(record.size_bytes for record in page.records)
            if size_bytes > max_bytes:
                raise ClusterError(f"the records of {topic!r} have more than max_bytes ({max_bytes})")
        return tuple(found)

    async def now_ms(self) -> int:
        """The controller's time, in ms since 1970."""
        await trio.lowlevel.checkpoint()
        return self._up.now_ms()

    async def advance(self, duration: Duration) -> int:
        """Advance a manual clock (`clock="manual"`). `duration` is a number of ms, a text such as "5m", or a timedelta.
        Returns the controller's time, in ms since 1970."""
        try:
            ms = checked_number("duration in ms", milliseconds(duration), 1, MAX_ADVANCE_MS)
            await self._up.time.advance(ms)
        except (ValueError, NoManualClock) as error:
            raise ClusterError(str(error)) from None
        return self._up.now_ms()

    async def wait_until(
        self, condition: Callable[[], object | Awaitable[object]], timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Call `condition`, a function or an async function, every few milliseconds until its value is true. Raises
        `TimeoutError` after `timeout_seconds` on trio's clock. Exceptions of `condition` are raised, too."""
        with trio.move_on_after(timeout_seconds):
            while True:
                found = condition()
                if await found if isawaitable(found) else found:
                    return
                await trio.sleep(POLL_SECONDS)
        raise TimeoutError(f"the condition was not true within {timeout_seconds:g} s")

    def _access(self, user: str | None, mechanism: str) -> Access:
        security = self._plan.security
        users = {} if security is None else security.users
        protocol = None if security is None else security.protocol.name.lower()
        return access_of(self.bootstrap_servers, protocol, users, user, mechanism, self._up.client_files)

    @property
    def _up(self) -> Server:
        if self._server is None:
            raise ClusterError("the cluster is not running: use it inside `async with`")
        return self._server

    @staticmethod
    async def _with_cluster_errors(change: Coroutine[object, object, T]) -> T:
        try:
            return await change
        except (BrokerError, PortTaken, SnapshotFailed) as error:
            raise ClusterError(str(error)) from error


def _checked(broker_id: int) -> int:
    try:
        return checked_number("broker id", broker_id, 0, MAX_BROKER_ID)
    except ValueError as error:
        raise ClusterError(str(error)) from error
