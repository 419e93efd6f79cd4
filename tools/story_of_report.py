"""Makes the logs of the example in docs/pipeline.md: a morning in a cluster of three brokers.

    scripts/story DIR

Brokers are restarted one after the other while topics are created (KIP-409), a limit is reached (KIP-578), and
partitions move to an added fourth broker. Writes DIR/data (the data directory) and DIR/requests.jsonl (the request
log). The cluster runs in this process, on a clock that skips the time in which nothing happens.
"""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import trio
import trio.testing
from confluent_kafka import KafkaException, Producer
from confluent_kafka import admin as confluent

import klamm
from klamm.admin.partition_types import TopicPartition
from klamm.admin.types import ConfigAlteration, ConfigResource, ConfigResourceType

BEGINS = datetime(2026, 11, 23, 9, tzinfo=UTC)
REPLICATION_RATE = 200
ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
MESSAGES = 6_000
REFUSED_PARTITIONS = 12
DEADLINE_SECONDS = 120.0


class Morning:
    """The cluster, a client of it, and its clock."""

    def __init__(self, cluster: klamm.Cluster, admin: klamm.AdminClient, clock: trio.testing.MockClock) -> None:
        self.cluster, self.admin, self.clock = cluster, admin, clock

    async def wait(self, seconds: int) -> None:
        """Second by second, so that brokers send their heartbeats."""
        for _ in range(seconds):
            self.clock.jump(1)
            await trio.testing.wait_all_tasks_blocked(0.002)

    async def create(self, *topics: klamm.NewTopic) -> None:
        for result in await self.admin.create_topics(topics):
            result.raise_for_error()

    async def configure(self, **configs: str) -> None:
        """Set dynamic defaults of all brokers."""
        edits = [ConfigAlteration(name.replace("_", "."), value) for name, value in configs.items()]
        for result in await self.admin.incremental_alter_configs({ALL_BROKERS: edits}):
            result.raise_for_error()

    async def move(self, moves: dict[tuple[str, int], tuple[int, ...] | None]) -> None:
        wanted = {TopicPartition(*key): to for key, to in moves.items()}
        for result in await self.admin.alter_partition_reassignments(wanted):
            result.raise_for_error()

    async def until_moved(self) -> None:
        while await self.admin.list_partition_reassignments():
            await self.wait(1)


def produce(bootstrap_servers: str, topic_name: str, partitions: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "client.id": "shop", "acks": 1})
    for partition in partitions:
        for number in range(MESSAGES):
            # The cluster's date, because brokers refuse records that are more than an hour ahead of their clock.
            timestamp_ms = int(BEGINS.timestamp() * 1000)
            producer.produce(topic_name, b"%d" % number, partition=partition, timestamp=timestamp_ms)
    if producer.flush(DEADLINE_SECONDS):
        raise TimeoutError("messages were not taken")


def ask_wrongly(bootstrap_servers: str) -> None:
    """Errors of another client: an existing topic, an invalid name, more replicas than brokers."""
    client = confluent.AdminClient({"bootstrap.servers": bootstrap_servers, "client.id": "deploy-7"})
    topics = [("orders", 1, 1), ("no good/name", 1, 1), ("wide", 1, 9)]
    for future in client.create_topics([confluent.NewTopic(*topic) for topic in topics]).values():
        try:
            future.result(DEADLINE_SECONDS)
        except KafkaException:
            continue
        raise AssertionError("was not refused")


async def rolling_restart(morning: Morning) -> None:
    """A topic is created while each broker is down: its third replica waits for that broker."""
    await morning.configure(enable_under_replicated_topic_creation="true")
    for broker_id, name in ((1, "invoices"), (2, "refunds"), (3, "parcels")):
        await morning.cluster.stop_broker(broker_id)
        await morning.wait(20)
        await morning.create(klamm.NewTopic(name, 4, 3))
        await morning.wait(25)
        await morning.cluster.start_broker(broker_id)
        await morning.wait(60)
    await morning.configure(enable_under_replicated_topic_creation="false")


async def limit(morning: Morning) -> None:
    """A limit of replicas per broker is set, reached, and raised."""
    await morning.configure(max_broker_partitions="34")
    await morning.create(klamm.NewTopic("returns", 2, 3))
    for _ in range(3):
        (refused,) = await morning.admin.create_topics([klamm.NewTopic("clicks", REFUSED_PARTITIONS, 3)])
        assert refused.error is not None
        await morning.wait(40)
    await morning.configure(max_broker_partitions="60")
    await morning.create(klamm.NewTopic("clicks", REFUSED_PARTITIONS, 3))
    await morning.wait(60)


async def fourth_broker(morning: Morning) -> None:
    """A broker is added and takes a part of the replicas; one reassignment is cancelled."""
    await trio.to_thread.run_sync(produce, morning.cluster.bootstrap_servers, "orders", range(3))
    await morning.wait(40)
    added = await morning.cluster.add_broker("a")
    await morning.wait(10)
    moves = {("orders", 0): (added, 2, 3), ("orders", 1): (2, 3, added), ("orders", 2): (3, added, 2)}
    await morning.move({**moves, ("clicks", 0): (added, 3, 2), ("clicks", 1): (2, 3, added)})
    await morning.wait(8)
    await morning.move({("orders", 2): None})
    await morning.until_moved()
    await morning.wait(30)


async def play(folder: Path) -> None:
    """The whole morning, into `folder`."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    start = int(BEGINS.timestamp() * 1000)
    cluster = klamm.Cluster(
        brokers=3,
        racks=("a", "b", "c"),
        seed=7,
        replication_rate=REPLICATION_RATE,
        data_dir=folder / "data",
        request_log=folder / "requests.jsonl",
        start_ms=start,
    )
    async with cluster, klamm.AdminClient(cluster.bootstrap_servers, client_id="morning") as admin:
        morning = Morning(cluster, admin, clock)
        await morning.create(klamm.NewTopic("orders", 6, 3), klamm.NewTopic("payments", 4, 3))
        await morning.wait(60)
        await rolling_restart(morning)
        await trio.to_thread.run_sync(ask_wrongly, cluster.bootstrap_servers)
        await limit(morning)
        await fourth_broker(morning)
        await admin.delete_topics(["refunds", "no-such-topic"])
        await morning.wait(5)


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    trio.run(play, folder, clock=trio.testing.MockClock(rate=1.0))
    sys.stdout.write(f"{folder / 'data'}\n{folder / 'requests.jsonl'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
