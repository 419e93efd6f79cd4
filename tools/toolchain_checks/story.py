"""Writes the log for the checks: all operations of a cluster, in three runs on one data directory.

Runs one and two are a `klamm.Cluster`, whose brokers stop, crash, start again, and are added and removed; the third is
`klamm serve` as a process, stopped by SIGTERM. The last answers that clients got are the `Ending`; nothing changes
after it.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import trio

from klamm import (
    AdminClient,
    Broker,
    Cluster,
    ClusterMetadata,
    ConfigAlteration,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    NewPartitions,
    NewTopic,
    TopicDescription,
)
from klamm.cluster.server_process import ServerProcess
from tools.toolchain_checks.outside_broker import OUTSIDE_BROKER, OUTSIDE_TOPIC, SECOND_BROKER, play_outside_broker
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.report import CheckFailed

RACKS = ("a", "b", "c")
BROKERS = 9
PORTS_OF_A_RUN = BROKERS + 2  # one for the broker that is added, one for the controller
SEED = 7
CONFIGS = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "metadata.log.segment.bytes": str(8 * 1024 * 1024),  # the smallest that Kafka allows
}
WIDE_PARTITIONS = 9000
DELETED = "doomed"
ALONE = "alone"
UNCLEAN = "unclean"
RELAXED = "strict-no-more"
# Three replicas make a small record, nine a large one: three such topics fill a segment.
BULK = tuple(NewTopic(f"bulk-{number}", WIDE_PARTITIONS, BROKERS) for number in range(3))
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ending:
    """The last answers that clients got."""

    cluster: ClusterMetadata
    brokers: tuple[Broker, ...]
    """Including fenced ones."""
    topics: tuple[TopicDescription, ...]
    """With eligible leader replicas."""
    configs: dict[str, dict[str, str | None]]
    """The topics' own configs, by topic."""
    log_end_offset: int
    """The end offset of the metadata log that the last line of the request log has."""


def play_story(data_dir: Path, request_log: Path) -> Ending:
    """Leave a log in `data_dir`. Returns the last answers that clients got."""
    first = free_ports(2 * PORTS_OF_A_RUN)
    later = first + PORTS_OF_A_RUN
    trio.run(_play_runs_one_and_two, data_dir, first, later)
    arguments = [
        *("--data-dir", str(data_dir), "--request-log", str(request_log), "--seed", str(SEED)),
        *("--brokers", str(BROKERS - 1), "--racks", ",".join(RACKS), "--listen", f"127.0.0.1:{later}"),
        *(part for name, value in CONFIGS.items() for part in ("--set", f"{name}={value}")),
        *("--snapshot-records", "0"),  # so that the readers read all of it
        *("--real-topics", OUTSIDE_TOPIC),
    ]
    with ServerProcess(*arguments) as server:
        shown = trio.run(_play_run_three, server.bootstrap_servers)
        server.stop()
    return Ending(*shown, _last_log_end_offset(request_log))


async def _play_runs_one_and_two(data_dir: Path, first_port: int, later_port: int) -> None:
    controller_listener = f"127.0.0.1:{first_port + PORTS_OF_A_RUN - 1}"
    cluster = _cluster(data_dir, first_port, controller_listener)
    async with cluster, AdminClient(cluster.bootstrap_servers) as admin:
        await _make_topics(admin)
        await _stop_and_start_brokers(cluster, admin)
        await _elect_unclean(cluster, admin)
        await play_outside_broker(cluster, admin)
    # On other ports: the brokers register again, each as the same incarnation.
    cluster = _cluster(data_dir, later_port, None)
    async with cluster, AdminClient(cluster.bootstrap_servers) as admin:
        await _made(admin, BULK)
        strict = {"min.insync.replicas": "3", "cleanup.policy": "compact"}
        placed = {"after-the-roll": (1, 2, BROKERS), RELAXED: (1, 2, 3)}
        topics = [NewTopic(name, configs=strict, replica_assignments={0: row}) for name, row in placed.items()]
        await _made(admin, topics)


def _cluster(data_dir: Path, first_port: int, controller_listener: str | None) -> Cluster:
    return Cluster(
        real_topics=OUTSIDE_TOPIC,
        brokers=BROKERS,
        racks=RACKS,
        seed=SEED,
        configs=CONFIGS,
        data_dir=data_dir,
        snapshot_records=0,
        listen=f"127.0.0.1:{first_port}",
        controller_listener=controller_listener,
    )


async def _make_topics(admin: AdminClient) -> None:
    by_hand = {0: (3, 1), 1: (2, 3), 2: (1, 2)}
    await _made(
        admin,
        [
            NewTopic("orders", 12, 3, {"retention.ms": "86400000", "min.insync.replicas": "2"}),
            NewTopic("by-hand", replica_assignments=by_hand),
            NewTopic(ALONE, 2 * BROKERS, 1),
            NewTopic("two.of_them", 12, 2, {"cleanup.policy": "compact,delete"}),
            NewTopic(UNCLEAN, configs={"unclean.leader.election.enable": "true"}, replica_assignments={0: (5, 6)}),
            NewTopic(DELETED, 4, 2, {"retention.ms": "1000"}),
            NewTopic("wide", WIDE_PARTITIONS, 3),
        ],
    )
    (refused,) = await admin.create_topics([NewTopic("refused", 1, BROKERS + 1)])
    if refused.error is None:
        raise CheckFailed("a topic with more replicas than brokers was made")
    enlarged = [NewPartitions("orders", 20), NewPartitions("by-hand", 5, [(4, 5), (5, 6)])]
    for result in await admin.create_partitions(enlarged):
        result.raise_for_error()
    await _delete(admin, [DELETED])
    # The same name with another id, deleted by that id.
    (again,) = await _made(admin, [NewTopic(DELETED, 1, 1)])
    if again.topic_id is None:
        raise CheckFailed("a topic was made without an id")
    for deleted in await admin.delete_topics([again.topic_id]):
        deleted.raise_for_error()


async def _stop_and_start_brokers(cluster: Cluster, admin: AdminClient) -> None:
    await cluster.stop_broker(2)
    await cluster.stop_broker(3)
    await cluster.start_broker(2)
    await cluster.start_broker(3)
    await _until("all replicas are in sync again", lambda: _all_in_sync(admin))
    await cluster.stop_broker(7, "crash")
    await _until("broker 7 is fenced", lambda: _fenced(admin, 7))
    await cluster.start_broker(7)
    added = await cluster.add_broker("d")
    await _made(admin, [NewTopic("on-the-added-one", replica_assignments={0: (added, 1), 1: (2, added)})])
    await cluster.remove_broker(4)


async def _elect_unclean(cluster: Cluster, admin: AdminClient) -> None:
    """Replica 5 leaves, replica 6 stops, and 5 returns: it leads although it lacks records."""
    await cluster.stop_broker(5)
    await cluster.stop_broker(6, "crash")
    await _until("broker 6 is fenced", lambda: _fenced(admin, 6))
    await cluster.start_broker(5)
    (topic,) = (await admin.metadata([UNCLEAN])).topics
    if [partition.leader for partition in topic.partitions] != [5]:
        raise CheckFailed(f"no unclean election: {topic}")
    await cluster.start_broker(6)


async def _play_run_three(
    bootstrap_servers: str,
) -> tuple[ClusterMetadata, tuple[Broker, ...], tuple[TopicDescription, ...], dict[str, dict[str, str | None]]]:
    async with AdminClient(bootstrap_servers) as admin:
        # Brokers of former runs that are not started: the ninth, the added one, those from outside.
        gone = (9, 10, OUTSIDE_BROKER, SECOND_BROKER)
        await _until("the brokers of former runs are fenced", lambda: _fenced(admin, *gone))
        await _made(admin, [NewTopic("last", 5, 3, {"retention.bytes": "1000000"})])
        await _alter_configs(admin)
        await _delete(admin, [BULK[-1].name])
        topics = await admin.describe_topic_partitions()
        resources = [ConfigResource.topic(topic.topic_name or "") for topic in topics]
        configs = {
            described.resource.name: {
                entry.name: entry.value
                for entry in described.configs.values()
                if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            }
            for described in await admin.describe_configs(resources)
        }
        brokers = (await admin.describe_cluster(include_fenced_brokers=True)).brokers
        return await admin.metadata(), brokers, topics, configs


async def _alter_configs(admin: AdminClient) -> None:
    """Of every kind of resource. All replicas of the topic with a lower minimum are in the ISR: Kafka's image (4.3)
    does not clear eligible leader replicas of a topic whose creation it reads in the same batch, as at a start."""
    results = await admin.incremental_alter_configs(
        {
            ConfigResource.topic(RELAXED): [ConfigAlteration("min.insync.replicas", "1")],
            ConfigResource.topic("orders"): [
                ConfigAlteration.delete("retention.ms"),
                ConfigAlteration.append("cleanup.policy", "compact"),
            ],
            ConfigResource.broker(): [ConfigAlteration("max.partitions", "1000000")],
            ConfigResource.broker(1): [ConfigAlteration("max.broker.partitions", "900000")],
            ConfigResource(ConfigResourceType.GROUP, "g"): [
                ConfigAlteration("share.isolation.level", "read_committed")
            ],
            ConfigResource(ConfigResourceType.CLIENT_METRICS, "m"): [ConfigAlteration("interval.ms", "500")],
        }
    )
    for result in results:
        result.raise_for_error()


async def _made(admin: AdminClient, topics: Iterable[NewTopic]) -> list[TopicDescription]:
    for result in await admin.create_topics(wanted := list(topics)):
        result.raise_for_error()
    return list((await admin.metadata([topic.name for topic in wanted])).topics)


async def _delete(admin: AdminClient, names: list[str]) -> None:
    for result in await admin.delete_topics(names):
        result.raise_for_error()


async def _until(what: str, is_so: Callable[[], Awaitable[bool]]) -> None:
    with trio.move_on_after(WAIT_SECONDS):
        while True:
            if await is_so():
                return
            await trio.sleep(POLL_SECONDS)
    raise CheckFailed(f"waited {WAIT_SECONDS:.0f} s in vain until {what}")


async def _fenced(admin: AdminClient, *broker_ids: int) -> bool:
    brokers = (await admin.describe_cluster(include_fenced_brokers=True)).brokers
    return {broker.broker_id for broker in brokers if broker.fenced} >= set(broker_ids)


async def _all_in_sync(admin: AdminClient) -> bool:
    topics = (await admin.metadata()).topics
    return all(set(p.isr) == set(p.replicas) for topic in topics for p in topic.partitions)


def _last_log_end_offset(request_log: Path) -> int:
    last = json.loads(request_log.read_text(encoding="utf-8").splitlines()[-1])
    if last["record_offsets"] is not None:
        raise CheckFailed(f"the last request changed something: {last}")
    end_offset: int = last["log_end_offset"]
    return end_offset
