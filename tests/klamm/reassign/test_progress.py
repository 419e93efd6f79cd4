"""The progress of replicas: the KIP's table, for clusters with and without ReplicaStatus."""

from collections.abc import Mapping

import pytest
import trio

import klamm
from klamm.admin.partition_types import TopicPartition, TopicPartitionReplica
from klamm.protocol.messages.data.list_offsets import API as LIST_OFFSETS
from klamm.protocol.messages.partitions.replica_status import API as REPLICA_STATUS
from klamm.protocol.messages.topics.metadata import API as METADATA
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.reassign.files import Target
from klamm.reassign.progress import progress
from tests.klamm.admin.peer import Asked
from tests.klamm.admin.scripted_cluster import Partition, ScriptedCluster

KIP_TABLE = """\
Topic      Partition  Broker  Status
my_topic   0          0       In sync
my_topic   0          1       Behind: 10456 messages behind
asdf       0          1       Unknown topic
my_topic   42         1       Unknown partition
my_topic   0          42      Unknown broker
my_topic   1          0       Broker does not host this partition
my_topic   2          0       No leader
"""
"""The sample of KIP-179, with Klamm's addition at the end."""


def targets(*rows: tuple[str, int, tuple[int, ...]]) -> tuple[Target, ...]:
    return tuple(
        Target(TopicPartition(name, index), replicas, ("any",) * len(replicas)) for name, index, replicas in rows
    )


KIP_TARGETS = targets(
    ("my_topic", 0, (0, 1)),
    ("asdf", 0, (1,)),
    ("my_topic", 42, (1,)),
    ("my_topic", 0, (42,)),
    ("my_topic", 1, (0,)),
    ("my_topic", 2, (0,)),
)


async def table(cluster: ScriptedCluster, wanted: tuple[Target, ...]) -> str:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return "".join(f"{line}\n" for line in (await progress(admin, wanted)).lines)


async def statuses(cluster: ScriptedCluster, wanted: tuple[Target, ...]) -> list[str]:
    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        report = await progress(admin, wanted)
    return [replica["status"] for replica in report.content["replicas"]]


def kip_cluster(serves_status: bool) -> ScriptedCluster:
    cluster = ScriptedCluster(live={0, 1, 2}, serves_status=serves_status)
    cluster.partitions = {
        TopicPartition("my_topic", 0): Partition(0, (0, 1), {0: 20_000, 1: 9_544}),
        TopicPartition("my_topic", 1): Partition(1, (1, 2), {1: 5, 2: 5}),
        TopicPartition("my_topic", 2): Partition(-1, (0,), {0: 5}),
    }
    answers = [(0, 0), (0, 10_456), (17, -1), (37, -1), (25, -1), (3, -1), (6, -1)]
    replicas = [(*target.partition, one) for target in KIP_TARGETS for one in target.replicas]
    cluster.statuses = {TopicPartitionReplica(*r): said for r, said in zip(replicas, answers, strict=True)}
    return cluster


@pytest.mark.parametrize("serves_status", [True, False])
async def test_the_table_is_the_kip_s_whoever_is_asked(serves_status: bool, nursery: trio.Nursery) -> None:
    cluster = await kip_cluster(serves_status).start(nursery)
    assert await table(cluster, KIP_TARGETS) == KIP_TABLE
    assert bool(cluster.brokers_asked(REPLICA_STATUS)) is serves_status
    assert bool(cluster.brokers_asked(LIST_OFFSETS)) is not serves_status


async def test_a_partition_without_a_leader_is_looked_at_twice(nursery: trio.Nursery) -> None:
    cluster = await kip_cluster(serves_status=False).start(nursery)
    await table(cluster, KIP_TARGETS)
    bodies = [requested.body for _, requested in cluster.asked if isinstance(requested.body, MetadataRequest)]
    assert [[topic.name for topic in body.topics] for body in bodies if body.topics] == [["asdf", "my_topic"]] * 2 + [
        ["my_topic"]
    ]


async def test_a_leader_that_comes_meanwhile_is_found(nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster()
    partition = cluster.partitions[TopicPartition("a", 0)] = Partition(-1, (1, 2), {1: 10, 2: 3})

    def elect(asked: Asked) -> None:
        if len(cluster.brokers_asked(METADATA)) == 2:
            partition.leader = 1

    cluster.before_answer = elect
    await cluster.start(nursery)
    assert await statuses(cluster, targets(("a", 0, (1, 2)))) == ["In sync", "Behind: 7 messages behind"]


@pytest.mark.parametrize(("ends", "expected"), [
    ({1: 10, 2: 10}, "In sync"),
    ({1: 10, 2: 11}, "In sync"),  # The leader was asked before.
    ({1: 10, 2: 9}, "Behind: 1 messages behind"),
    ({1: 10, 2: 0}, "Behind: 10 messages behind"),
    ({1: 10}, "Behind: 10 messages behind"),  # It has no log yet.
    ({1: 0}, "In sync"),
])  # fmt: skip
async def test_without_replica_status_the_lag_is_the_difference_of_the_logs(
    ends: dict[int, int], expected: str, nursery: trio.Nursery
) -> None:
    cluster = ScriptedCluster(partitions={TopicPartition("a", 0): Partition(1, (1, 2), ends)})
    await cluster.start(nursery)
    assert await statuses(cluster, targets(("a", 0, (2,)))) == [expected]
    assert cluster.brokers_asked(LIST_OFFSETS) == [1, 2]


async def test_broker_0_is_a_leader_like_any_other(nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster(live={0, 1}, partitions={TopicPartition("a", 0): Partition(0, (0, 1), {0: 5, 1: 4})})
    await cluster.start(nursery)
    assert await statuses(cluster, targets(("a", 0, (0, 1)))) == ["In sync", "Behind: 1 messages behind"]


async def test_a_broker_that_a_move_in_progress_adds_is_a_host(nursery: trio.Nursery) -> None:
    """The metadata of the broker that answers may be older than that of the controller."""
    partition = TopicPartition("a", 0)
    cluster = ScriptedCluster(partitions={partition: Partition(1, (1, 2), {1: 9, 2: 9})})
    cluster.moves[partition] = ((3, 1, 2), (3,), (1, 2))
    await cluster.start(nursery)
    assert await statuses(cluster, targets(("a", 0, (3,)))) == ["Behind: 9 messages behind"]


async def test_a_broker_that_is_down_is_no_unknown_broker(nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster(fenced={4, 6}, partitions={TopicPartition("a", 0): Partition(1, (1, 4), {1: 9})})
    await cluster.start(nursery)
    assert await statuses(cluster, targets(("a", 0, (4, 5, 6)))) == [
        "Broker cannot be reached",
        "Unknown broker",
        "Broker does not host this partition",
    ]


async def test_what_may_not_be_asked_is_an_error(nursery: trio.Nursery) -> None:
    cluster = kip_cluster(serves_status=True)
    cluster.statuses = dict.fromkeys(cluster.statuses, (31, -1))
    await cluster.start(nursery)
    with pytest.raises(klamm.RequestFailed, match="CLUSTER_AUTHORIZATION_FAILED"):
        await table(cluster, KIP_TARGETS)


WIDTHS: Mapping[str, int] = {"a": 11, "a" * 8: 11, "a" * 9: 12, "a" * 249: 252}


@pytest.mark.parametrize("name", WIDTHS)
async def test_the_first_column_is_as_wide_as_the_longest_name_needs(name: str, nursery: trio.Nursery) -> None:
    cluster = ScriptedCluster(serves_status=True, partitions={TopicPartition(name, 0): Partition(1, (1,))})
    cluster.statuses[TopicPartitionReplica(name, 0, 1)] = (0, 0)
    await cluster.start(nursery)
    heading, row = (await table(cluster, targets((name, 0, (1,))))).splitlines()
    assert heading == "Topic".ljust(WIDTHS[name]) + "Partition  Broker  Status"
    assert row == name.ljust(WIDTHS[name]) + "0          1       In sync"
