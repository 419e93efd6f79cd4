"""Draws the picture in docs/reassign-partitions.md: a watched reassignment, halfway and at the end.

    scripts/picture

confluent-kafka fills a cluster of four brokers, partitions are moved, and rich records the output of `--watch`. The
cluster and the watch run on a mock clock, so each run draws the same picture.
"""

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import trio
import trio.testing
from confluent_kafka import Producer
from rich.console import Console, RenderableType
from rich.text import Text

import klamm
from klamm.admin.partition_types import TopicPartition
from klamm.reassign.files import Target
from klamm.reassign.live_table import drawn
from klamm.reassign.watch import POLL_SECONDS, Seen, watch

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "watch.svg"
CALL = "klamm reassign-partitions --bootstrap-server 127.0.0.1:9092 --watch --reassignment-json-file moves.json"
COLUMNS = len(CALL) + 3
MESSAGES_PER_SECOND = 1_000
HALFWAY_SECONDS = 4.0
FLUSH_SECONDS = 20.0
MESSAGES = {
    TopicPartition("orders", 0): 12_000,
    TopicPartition("orders", 1): 8_000,
    TopicPartition("orders", 2): 3_000,
    TopicPartition("payments", 0): 5_000,
}
"""Records in a partition. They are on brokers 1 and 2 at first, and are moved to 3 and 4, or to one of them."""
MOVES = ((3, 4), (4, 3), (3, 1), (2, 4))


def produce(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": 1})
    for partition, count in MESSAGES.items():
        for number in range(count):
            producer.produce(partition.topic_name, b"%d" % number, partition=partition.partition_index)
    left = producer.flush(FLUSH_SECONDS)
    if left:
        raise TimeoutError(f"{left} messages were not taken within {FLUSH_SECONDS:g} s")


async def fill(cluster: klamm.Cluster, admin: klamm.AdminClient, clock: trio.testing.MockClock) -> None:
    """Create the topics, produce, and let the followers copy all records."""
    rows: dict[str, dict[int, tuple[int, int]]] = {}
    for topic_name, index in MESSAGES:
        rows.setdefault(topic_name, {})[index] = (1, 2)
    topics = [klamm.NewTopic(name, replica_assignments=assigned) for name, assigned in rows.items()]
    for result in await admin.create_topics(topics):
        result.raise_for_error()
    await trio.to_thread.run_sync(produce, cluster.bootstrap_servers)
    followers = [(*partition, 2) for partition in MESSAGES]
    while any(status.lag for status in await admin.replica_status(followers)):
        clock.jump(POLL_SECONDS)


async def watched_frames(clock: trio.testing.MockClock) -> Mapping[float, RenderableType]:
    """The output of a watch, by the seconds since the reassignments began."""
    frames: dict[float, RenderableType] = {}
    cluster = klamm.Cluster(brokers=4, racks=("a", "b"), seed=7, replication_rate=MESSAGES_PER_SECOND)
    async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await fill(cluster, admin, clock)
        targets = [Target(one, to, ("any",) * len(to)) for one, to in zip(MESSAGES, MOVES, strict=True)]
        started = trio.current_time()
        for result in await admin.alter_partition_reassignments(dict(zip(MESSAGES, MOVES, strict=True))):
            result.raise_for_error()
        looked, hear_of_looks = trio.open_memory_channel[None](1)

        def show(seen: Seen) -> None:
            frames[trio.current_time() - started] = drawn(seen, len(seen.rows))
            looked.send_nowait(None)

        async def move_the_clock() -> None:
            async for _ in hear_of_looks:
                await trio.testing.wait_all_tasks_blocked()
                clock.jump(POLL_SECONDS)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(move_the_clock)
            report = await watch(admin, targets, show)
            nursery.cancel_scope.cancel()
        if report.failure is not None:
            raise klamm.ClusterError(report.failure)
    return frames


def as_svg(frames: Mapping[float, RenderableType]) -> str:
    """One terminal with both frames. No fonts are downloaded: the viewer uses a local one of fixed width."""
    last = max(frames)
    console = Console(record=True, file=StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "dim"), (CALL, "bold")))
    for seconds, when in ((HALFWAY_SECONDS, f"after {HALFWAY_SECONDS:g} s"), (last, f"and after {last:g} s")):
        console.print(Text(f"\n{when}\n", style="dim italic"), frames[seconds])
    console.print(Text.assemble(("\n$ ", "dim"), ("echo $?", "bold"), "\n0"))
    svg = console.export_svg(title="klamm reassign-partitions --watch", unique_id="watch")
    svg = re.sub(r"\s*@font-face \{.*?\}|\s*<!--.*?-->", "", svg, flags=re.DOTALL)
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines()).replace("Fira Code, monospace", "monospace")


def picture() -> str:
    clock = trio.testing.MockClock()
    return as_svg(trio.run(watched_frames, clock, clock=clock))


if __name__ == "__main__":
    PICTURE.write_text(picture())
