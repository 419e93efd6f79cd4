"""Logs of random clusters, with the image that the controller's own replay makes of them: the tables have to agree with
it. The histories are those of the simulation (docs/simulation.md): real servers and clients, crashes, power failures,
brokers that start and stop, reassignments, elections, limits, placeholders, and snapshots that replace the beginning of
the log."""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.replay import replay
from klamm.pipeline.logs.metadata_logs import MetadataLog, find_metadata_logs
from klamm.protocol.record_batch import decode_batches
from tests.simulation.cluster.simulation import play
from tests.simulation.cluster.world import World

STEPS = 150
SEEDS = (3, 4, 5, 13)
"""Their histories have windows of every sort, and snapshots; that of 4 has several segments."""
WHOLE_SEEDS = (7, 1005)
"""Of histories whose servers take no snapshot while they run; the log of the second one begins at offset 0."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The image after one batch of a log."""

    base_offset: int
    last_offset: int
    image: MetadataImage


@dataclass
class History:
    """A data directory and its content."""

    data_dir: Path
    log: MetadataLog = field(init=False)

    def __post_init__(self) -> None:
        [self.log] = find_metadata_logs([str(self.data_dir)])

    @property
    def cluster_id(self) -> str:
        return self.log.cluster_id

    def batches(self) -> Iterator[Batch]:
        """Batch by batch, with the image after it. The image is one object, which changes."""
        image = MetadataImage()
        for file in self.log.files:
            for batch in decode_batches(Path(file.path).read_bytes()):
                if batch.is_control or (not file.is_snapshot and batch.base_offset < self.log.files[0].base_offset):
                    continue
                replay(image, batch.contents, batch.base_offset)
                if not file.is_snapshot:
                    yield Batch(batch.base_offset, batch.last_offset, image)
            if file.is_snapshot:
                yield Batch(file.base_offset - 1, file.base_offset - 1, image)

    def final_image(self) -> MetadataImage:
        """The image after the whole log."""
        image = MetadataImage()
        for batch in self.batches():
            image = batch.image
        return image


def play_history(seed: int, folder: Path, *, steps: int = STEPS, whole: bool = False) -> History:
    """The data directory that a seed leaves, in a new folder. `whole`: without snapshots, so that the log begins at
    offset 0."""
    world = World(seed, folder / "simulation", None)
    if whole:
        world.snapshot_records = 0
    play(world, steps)
    data_dir = folder / f"seed-{seed}"
    shutil.copytree(world.disk.data_dir, data_dir, ignore=shutil.ignore_patterns(".lock"))
    shutil.rmtree(world.root)
    return History(data_dir)


def partitions_of(image: MetadataImage) -> Iterator[tuple[str, str, int, Partition]]:
    """Topic id, topic, index and state of every partition."""
    for topic in image.topics_by_name.values():
        for index in range(image.partition_count(topic)):
            yield str(topic.topic_id), topic.name, index, image.partitions.read(topic.row, index)


def count_load(image: MetadataImage, unlimited: Any) -> dict[int, tuple[int, int, int, int]]:
    """By broker: replicas, replicas that count for KIP-578, leaders, preferred leaders. Brokers without any are
    missing."""
    counts = [Counter[int]() for _ in range(4)]
    for _, topic, _, partition in partitions_of(image):
        for position, replica in enumerate(partition.replicas):
            if replica < 0:
                continue
            leads = replica == partition.leader
            for counter, counted in zip(
                counts, (True, topic not in unlimited, leads, leads and not position), strict=True
            ):
                counter[replica] += counted
    return {broker_id: tuple(counter[broker_id] for counter in counts) for broker_id in counts[0]}  # type: ignore[misc]
