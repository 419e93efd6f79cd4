"""The snapshot: every partition as the image has it, and the panels."""

from copy import copy

import numpy as np
import pytest
import trio

import klamm
from klamm import NewTopic
from klamm.control.page import cells as cells_module
from klamm.control.page.cells import (
    MOVING,
    NO_LEADER,
    NOT_PREFERRED,
    RECOVERING,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    CellWriter,
    leader_counts,
)
from klamm.controller.configs import min_insync_replicas
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.protocol.fields import Message
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.klamm.control.control_cluster import controlled_cluster
from tests.klamm.control.page.open_page import Cell, cells_of, take_snapshot

CONFIGS = {"min.insync.replicas": "2", "max.broker.partitions": "40", "max.partitions": "30"}


def expected(image: MetadataImage, settings: Settings) -> dict[tuple[int, int], Cell]:
    """The cells of all partitions, by the values of each."""
    found = {}
    for row, topic in image.topics_by_row.items():
        for index in range(image.partition_count(topic)):
            minimum = min_insync_replicas(image.configs, settings, topic.name)
            partition = image.partitions.read(row, index)
            found[row, index] = cell_of(partition, minimum)
    return found


def cell_of(partition: Partition, minimum: int) -> Cell:
    placeholders = sum(replica < 0 for replica in partition.replicas)
    expected_in_sync = len(partition.replicas) - placeholders - len(partition.adding_replicas)
    state = NO_LEADER if partition.leader < 0 else 0
    state |= UNDER_REPLICATED if len(partition.isr) < expected_in_sync else 0
    state |= UNDER_MIN_ISR if len(partition.isr) < min(minimum, len(partition.replicas)) else 0
    state |= MOVING if partition.reassigning else 0
    state |= NOT_PREFERRED if 0 <= partition.leader != partition.replicas[0] else 0
    state |= RECOVERING if partition.leader_recovery_state else 0
    counts = (len(partition.isr), len(partition.replicas), placeholders)
    return (partition.leader, state, *(min(count, 255) for count in counts))


def image_with(partitions: list[PartitionRecord], **configs: str) -> MetadataImage:
    """An image with these partitions; the topics of rows 0 and 2 have the configs."""
    image = MetadataImage()
    ids = [Uuid(bytes([1, *([0] * 14), row])) for row in range(3)]
    records: list[Message] = [TopicRecord(name=f"t{row}", topic_id=topic_id) for row, topic_id in enumerate(ids)]
    records += [
        ConfigRecord(resource_type=2, resource_name=f"t{row}", name=name.replace("_", "."), value=value)
        for row in (0, 2)
        for name, value in configs.items()
    ]
    counts, partitions = [0, 0, 0], [copy(one) for one in partitions]
    for at, record in enumerate(partitions):
        record.topic_id, record.partition_id = ids[at % 3], counts[at % 3]
        counts[at % 3] += 1
    replay(image, [*records, *partitions], 0)
    return image


def partition(
    replicas: list[int], isr: list[int], leader: int, *, moving: bool = False, recovery: int = 0
) -> PartitionRecord:
    return PartitionRecord(
        replicas=replicas,
        isr=isr,
        leader=leader,
        adding_replicas=[9] if moving else [],
        leader_recovery_state=recovery,
        directories=[Uuid(16 * b"\1")] * len(replicas),
    )


ROWS = [
    partition([1, 2, 3], [1, 2, 3], 1),
    partition([1, 2, 3], [1, 2], 1),
    partition([1, 2, 3], [1], 1),
    partition([1, 2, 3], [2], 2),
    partition([1, 2, 3], [3], -1),
    partition([1, 2, -1], [1, 2], 1),
    partition([1, -1, -2], [1], 1),
    partition([1], [1], 1),
    partition([9, 2, 3], [2, 3], 2, moving=True),
    partition([9, 2, 3], [2], 2, moving=True),
    partition([2, 3], [2], 2, moving=True),
    partition([4, 5, 6, 7, 8], [8, 7], 8, recovery=1),
    partition(list(range(300)), list(range(290)), 3),
    partition(list(range(300)), list(range(300)), 0),
]


async def test_a_cell_has_what_the_partition_is(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(static_configs={"min.insync.replicas": "2"})
    image = image_with(ROWS * 4, min_insync_replicas="3")
    wanted = expected(image, settings)
    for rows_at_once in (cells_module.SLICE_ROWS, 3):
        monkeypatch.setattr(cells_module, "SLICE_ROWS", rows_at_once)
        assert cells_of(b"".join(await CellWriter(settings).all(image))) == wanted
    states = {state for _, state, *_ in wanted.values()}
    assert {bit for bit in (1 << at for at in range(6)) for state in states if state & bit} == {1, 2, 4, 8, 16, 32}


@pytest.mark.parametrize("steps", range(5))
async def test_rows_that_move_meanwhile_are_not_missed(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(cells_module, "SLICE_ROWS", 1)
    settings, found = Settings(), list[bytes]()
    image = image_with([partition([1, 2, 3], [1, 2, 3], 1) for _ in range(6)])

    async def write() -> None:
        found.extend(await CellWriter(settings).all(image))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        image.partitions.make_room([(0, [0, 1]), (1, [0, 1])], 8)
    assert cells_of(b"".join(found)) == expected(image, settings)


@pytest.mark.parametrize("few", [0, 5, 1000])
async def test_the_changed_partitions_are_found_one_by_one_and_among_all(
    monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(cells_module, "FEW", few)
    monkeypatch.setattr(cells_module, "SLICE_ROWS", 7)
    settings = Settings()
    image = image_with(ROWS * 4)
    everything = expected(image, settings)
    wanted = [(0, 0), (0, 1), (0, 15), (1, 3), (2, 15)]
    keys = np.array(sorted(row << 32 | index for row, index in [*wanted, (2, 99), (7, 0), (0, 1)]))
    found: dict[tuple[int, int], Cell] = {}
    async for some in CellWriter(settings).changed(image, keys):
        found |= cells_of(some.tobytes())
    assert found == {key: everything[key] for key in wanted}


async def test_a_config_of_a_topic_counts_from_the_next_look() -> None:
    settings = Settings()
    image = image_with([partition([1, 2, 3], [1], 1)])
    writer = CellWriter(settings)
    assert cells_of(b"".join(await writer.all(image)))[0, 0][1] == UNDER_REPLICATED
    image.configs[2, "t0"] = {"min.insync.replicas": "2"}
    writer.configs_changed()
    assert cells_of(b"".join(await writer.all(image)))[0, 0][1] == UNDER_REPLICATED | UNDER_MIN_ISR


def test_leaders_are_counted_whatever_their_ids() -> None:
    rows = [partition([one, 1], [one], one) for one in (2_000_000_000, 0, 5, 5)] + [partition([7, 1], [7], -1)]
    assert leader_counts(image_with(rows).partitions) == {2_000_000_000: 1, 0: 1, 5: 2}
    assert leader_counts(image_with([partition([3], [3], 3), partition([5], [5], 5)]).partitions) == {3: 1, 5: 1}
    assert leader_counts(image_with([]).partitions) == {}


async def test_a_snapshot_has_the_cluster(autojump_clock: trio.testing.MockClock) -> None:
    async with controlled_cluster(racks=("a", "b"), configs=CONFIGS) as cluster:
        async with klamm.AdminClient(cluster.server.bootstrap_servers) as admin:
            for made in await admin.create_topics([NewTopic("orders", 12, 3), NewTopic("clicks", 3, 1)]):
                made.raise_for_error()
        await cluster.server.stop_broker(2)
        page = await take_snapshot(cluster)
        image = cluster.server.image
        assert page.cells == expected(image, cluster.server.observed.settings)
        assert any(state & UNDER_REPLICATED for _, state, *_ in page.cells.values())
        assert page.head["topics"] == [[row, topic.name] for row, topic in image.topics_by_row.items()]
        found = page.head["cluster"]
        assert found["cluster_id"] == cluster.server.identity.cluster_id
        assert (found["partitions"], found["counted_partitions"], found["partition_limit"]) == (15, 15, 30)
        brokers = page.head["brokers"]
        assert [(one["id"], one["rack"], one["up"], one["fenced"]) for one in brokers] == [
            (1, "a", True, False),
            (2, "b", False, True),
            (3, "a", True, False),
        ]
        assert sum(one["leaders"] for one in brokers) == 15 - sum(leader < 0 for leader, *_ in page.cells.values())
        assert [one["replicas"] for one in brokers] == [image.usage.replicas[one] for one in (1, 2, 3)]
        assert {one["limit"] for one in brokers} == {40}
        assert page.head["requests"][-1]["api"] in ("CreateTopics", "ApiVersions")
        assert page.head["errors"]["6"] == "NOT_LEADER_OR_FOLLOWER"
        assert (page.head["clock"], page.head["moves"]) == ({"clock": "real"}, {"count": 0, "shown": []})


async def test_no_limit_is_null() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        page = await take_snapshot(cluster)
        assert (page.head["cluster"]["partition_limit"], page.head["brokers"][0]["limit"]) == (None, None)
        assert (page.head["topics"], page.cells) == ([], {})
