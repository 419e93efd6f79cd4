"""`klamm.Cluster`: a simulated cluster inside a trio program, for tests and experiments.

It is what `klamm serve` starts, without the process: the same server on real sockets, in the caller's event loop, on
the caller's clock (`trio.testing.MockClock` included: sessions and heartbeats then last no time at all).
"""

import os
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from klamm.cluster.assembly import START_ERRORS, ClusterPlan, open_cluster
from klamm.cluster.options import (
    MAX_BROKER_ID,
    MAX_BROKERS,
    MAX_SEED,
    checked_broker_configs,
    checked_configs,
    checked_number,
    checked_racks,
)
from klamm.cluster.topic_policy import TopicPolicy, checked_topic_policy, named_topic_policy
from klamm.control.client import TakenSnapshot
from klamm.controller.data_limits import (
    DEFAULT_DATA_LIMITS,
    DEFAULT_SNAPSHOT_RECORDS,
    MAX_DATA_BYTES,
    MAX_REPLICATION_RATE,
    MAX_SNAPSHOT_RECORDS,
    DataLimits,
)
from klamm.controller.metadata_log import SnapshotFailed
from klamm.controller.settings import Profile, Settings, SettingsError
from klamm.server.addresses import decode_address
from klamm.server.brokers import BrokerError
from klamm.server.listener import PortTaken
from klamm.server.server import Server

T = TypeVar("T")


class ClusterError(Exception):
    """The cluster cannot start, or a broker cannot do what is asked of it; the text is one clause for people."""


class Cluster:
    """A running cluster: `async with klamm.Cluster(brokers=3, racks=("a", "b", "c"), seed=7) as cluster:`.

    Args:
        brokers: how many there are at first, 1 to 1000. Their ids begin with 1.
        racks: taken by the brokers in turn; none: brokers have no rack.
        seed: the same seed, configs and requests, in the same order, give the same answers. None: another each time.
        profile: whose word counts where the KIPs and Apache Kafka differ.
        configs: broker configs as in server.properties, such as `{"num.partitions": "3"}`; values are strings.
        broker_configs: the same for single brokers, by id, such as `{2: {"max.broker.partitions": "100"}}`; they count
            more than `configs`, for their broker alone, which may also be one that is added later.
        listen: HOST:PORT of the first broker; the others take the next ports, or free ones with port 0.
        controller_listener: HOST:PORT of the controller's own listener; None: there is none.
        data_dir: where the metadata log is kept; None: in memory.
        snapshot_records: after how many records the metadata log gets a snapshot, as it does at the end (docs/
            snapshots.md); 0: only by `snapshot`, and nothing is ever dropped from the log.
        request_log: a file that gets one JSON line per request; None: none is written.
        topic_policy: a function that is asked about each topic before it is made, and refuses it by raising
            `klamm.PolicyViolation`; called in a thread (docs/topic-policy.md). It takes the place of the config
            `create.topic.policy.class.name`.
        kip_578_versions: serve the versions that KIP-578 raises, as `klamm serve --kip-578-versions` does.
        replication_rate: messages that each follower fetches in a second, of each partition.
        data_bytes_per_partition: of record batches, which are kept in memory; the oldest go when there would be more.
        data_bytes: of record batches in all partitions; beyond it a partition has only its own room. After a restart
            partitions start empty at their former log end.
        start_ms: what the cluster takes for the time at its start, in ms since 1970, for tests that compare bytes;
            None: the real time.

    Raises:
        ClusterError: on entering, for a bad value, a taken port or an unusable data directory; from the methods, for
            a broker that is not there, or up or down already.

    A failure of the log while the cluster runs cancels the block and is raised from it, in an exception group.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        racks: Sequence[str] = (),
        seed: int | None = None,
        profile: Profile = "kip",
        configs: Mapping[str, str] | None = None,
        broker_configs: Mapping[int, Mapping[str, str]] | None = None,
        listen: str = "127.0.0.1:0",
        controller_listener: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        snapshot_records: int = DEFAULT_SNAPSHOT_RECORDS,
        request_log: str | os.PathLike[str] | None = None,
        topic_policy: TopicPolicy | None = None,
        kip_578_versions: bool = False,
        replication_rate: int = DEFAULT_DATA_LIMITS.replication_rate,
        data_bytes_per_partition: int = DEFAULT_DATA_LIMITS.bytes_per_partition,
        data_bytes: int = DEFAULT_DATA_LIMITS.bytes_in_all,
        start_ms: int | None = None,
    ) -> None:
        try:
            if seed is not None:
                checked_number("seed", seed, 0, MAX_SEED)
            settings = Settings(
                profile=profile,
                seed=seed,
                static_configs=checked_configs(configs or {}),
                broker_static_configs=checked_broker_configs(broker_configs or {}),
                kip_578_versions=kip_578_versions,
                data_limits=DataLimits(
                    replication_rate=checked_number("replication_rate", replication_rate, 1, MAX_REPLICATION_RATE),
                    bytes_per_partition=checked_number(
                        "data_bytes_per_partition", data_bytes_per_partition, 1, MAX_DATA_BYTES
                    ),
                    bytes_in_all=checked_number("data_bytes", data_bytes, 1, MAX_DATA_BYTES),
                ),
                snapshot_records=checked_number("snapshot_records", snapshot_records, 0, MAX_SNAPSHOT_RECORDS),
            )
            self._plan = ClusterPlan(
                settings=settings,
                topic_policy=(
                    named_topic_policy(settings) if topic_policy is None else checked_topic_policy(topic_policy)
                ),
                listen=decode_address(listen),
                brokers=checked_number("brokers", brokers, 1, MAX_BROKERS),
                racks=checked_racks(racks),
                data_dir=None if data_dir is None else Path(data_dir),
                request_log=None if request_log is None else Path(request_log),
                controller_listener=None if controller_listener is None else decode_address(controller_listener),
                start_ms=start_ms,
            )
        except (SettingsError, ValueError) as error:
            raise ClusterError(str(error)) from error
        self._running = AsyncExitStack()
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
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
        """HOST:PORT of every broker that is up, comma-separated, by id."""
        return self._up.bootstrap_servers

    @property
    def controller_bootstrap_servers(self) -> str:
        """HOST:PORT of the controller's listener; `ClusterError` if it was not asked for."""
        servers = self._up.controller_bootstrap_servers
        if servers is None:
            raise ClusterError("the cluster has no controller listener: give it controller_listener='127.0.0.1:0'")
        return servers

    async def stop_broker(self, broker_id: int, mode: Literal["shutdown", "crash"] = "shutdown") -> None:
        """Take a broker down; its port closes.

        A shutdown gives its leaderships away first and returns when the controller has fenced it. A crash closes its
        connections at once; the controller notices when the broker's session is over (`broker.session.timeout.ms`).
        """
        if mode not in ("shutdown", "crash"):
            raise ClusterError(f"{mode!r} is no way to stop a broker: 'shutdown' or 'crash'")
        await self._told(self._up.stop_broker(_checked(broker_id), mode))

    async def start_broker(self, broker_id: int) -> None:
        """Bring a broker back on its old port; returns when clients may use it.

        After a crash that is not before the session of its former self is over.
        """
        await self._told(self._up.start_broker(_checked(broker_id)))

    async def add_broker(self, rack: str | None = None) -> int:
        """Bring up one more broker, in `rack` or in the rack whose turn it is; returns its id."""
        server = self._up
        try:
            checked_racks(() if rack is None else (rack,))
        except ValueError as error:
            raise ClusterError(str(error)) from error
        return await self._told(server.add_broker(rack))

    async def remove_broker(self, broker_id: int) -> None:
        """Shut a broker down, if it is up, and have the cluster forget it."""
        await self._told(self._up.remove_broker(_checked(broker_id)))

    async def snapshot(self) -> TakenSnapshot:
        """Write a snapshot of the metadata log, which stands for all that was changed so far, to the data directory."""
        taken = await self._told(self._up.snapshot())
        return TakenSnapshot(end_offset=taken.end_offset, records=taken.record_count)

    @property
    def _up(self) -> Server:
        if self._server is None:
            raise ClusterError("the cluster is not running: use it inside `async with`")
        return self._server

    @staticmethod
    async def _told(change: Coroutine[object, object, T]) -> T:
        try:
            return await change
        except (BrokerError, PortTaken, SnapshotFailed) as error:
            raise ClusterError(str(error)) from error


def _checked(broker_id: int) -> int:
    try:
        return checked_number("broker id", broker_id, 0, MAX_BROKER_ID)
    except ValueError as error:
        raise ClusterError(str(error)) from error
