"""The last write cut short at every byte: a start finds everything before it, reports it, and continues. The log is
that of a cluster with a story. The test tries what a kill or a power failure leaves of the last two batches, in one
segment and on both sides of a border between two, also with what file systems put behind a cut: zeros, or former
content of the disk."""

import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from klamm.controller.core import Controller
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import Clock, DrivenCluster
from tests.controller.image_facts import image_facts
from tests.controller.log.logs import TIMESTAMP_MS, append_records, batch_starts, memory_dir, open_log

TAILS = {"nothing": b"", "zeros": bytes(4096), "garbage": random.Random(7).randbytes(333)}
ADDED = [TopicRecord(name="added", topic_id=Uuid(bytes(15) + b"\7"))]


class Story(NamedTuple):
    """A log in one piece, the borders of its batches, and the image after each of them."""

    data: bytes
    starts: list[int]
    """One more than batches: the last is the log end offset."""
    offsets: list[int]
    facts: list[dict[str, Any]]
    """Before each batch, and after the last one."""


@pytest.fixture(scope="module")
def story() -> Story:
    cluster = DrivenCluster()
    cluster.create("orders", 3, 2)
    cluster.create("doomed", 2, 3)
    cluster.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=5)], timeout_ms=1000))
    cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=1000))
    cluster.create("last", 2, 1)
    altered = [AlterableConfig(name=name, config_operation=0, value="1000") for name in ("retention.ms", "flush.ms")]
    resource = AlterConfigsResource(resource_type=2, resource_name="last", configs=altered)
    cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    data = cluster.log.log_bytes()
    image, facts, offsets = MetadataImage(), [], []
    for batch in decode_batches(data):
        facts.append(deepcopy(image_facts(image)))
        offsets.append(batch.base_offset)
        if not batch.is_control:
            replay(image, batch.records, batch.base_offset)
    assert image_facts(image) == image_facts(cluster.image)
    return Story(data, batch_starts(data), [*offsets, cluster.log.end_offset], [*facts, image_facts(image)])


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    with memory_dir() as folder:
        open_log(folder).close()
        yield folder


def lay_down(data_dir: Path, *segments: tuple[int, bytes]) -> list[Path]:
    """Make the directory with these segments, given by base offset, as after its first start."""
    folder = data_dir / "__cluster_metadata-0"
    for path in (*folder.glob("*.log"), folder / "quorum-state", folder / "recovery-point-checkpoint"):
        path.unlink(missing_ok=True)
    paths = [folder / f"{base_offset:020}.log" for base_offset, _ in segments]
    for path, (_, data) in zip(paths, segments, strict=True):
        path.write_bytes(data)
    return paths


def start(data_dir: Path) -> tuple[dict[str, Any], list[str]]:
    """The image and the warnings of a start, which also adds a topic of its own."""
    warnings: list[str] = []
    log = open_log(data_dir, warn=warnings.append)
    try:
        facts = image_facts(Controller(Settings(seed=1), log, Clock()).image)
        append_records(log, ADDED, TIMESTAMP_MS)
        log.sync()
    finally:
        log.close()
    return facts, warnings


def expect_all_before(data_dir: Path, story: Story, batch: int, cut_in: Path | None, at_byte: int) -> None:
    """A start finds all batches before number `batch`, names the position of a cut, and the next start has no
    warning."""
    facts, warnings = start(data_dir)
    assert facts == story.facts[batch]
    if cut_in is None:
        assert warnings == []
    else:
        (warning,) = warnings
        assert f"cut off the torn tail of {cut_in}: " in warning
        assert f" from byte {at_byte} on, where the batch of offset {story.offsets[batch]} began" in warning
    log = open_log(data_dir)  # a second warning would fail here
    try:
        image = Controller(Settings(seed=1), log, Clock()).image
        added = image.topics_by_name["added"].topic_id
        assert added == ADDED[0].topic_id
        assert image_facts(image)["partitions"] == story.facts[batch]["partitions"]
    finally:
        log.close()


def is_whole(story: Story, cut: int, end: int, tail: bytes) -> bool:
    """Whether the bytes behind the cut are those that had been there, because a batch ends with a zero."""
    return tail.startswith(story.data[cut:end])


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("from_the_end", [1, 2])
def test_a_cut_at_every_byte_of_the_last_batches_of_a_segment(
    data_dir: Path, story: Story, from_the_end: int, tail: str
) -> None:
    """At every byte of the last batch, and of the one before it if none of the last has been written."""
    batch = len(story.offsets) - 1 - from_the_end
    begin, end = story.starts[batch], story.starts[batch + 1]
    assert 100 < end - begin < 400
    for cut in range(begin, end):
        (segment,) = lay_down(data_dir, (0, story.data[:cut] + TAILS[tail]))
        whole = is_whole(story, cut, end, TAILS[tail])
        is_clean = cut == begin and not TAILS[tail]
        expect_all_before(data_dir, story, batch + whole, None if is_clean else segment, end if whole else begin)


@pytest.mark.parametrize("tail", TAILS)
def test_a_cut_at_every_byte_of_the_first_batch_of_a_segment(data_dir: Path, story: Story, tail: str) -> None:
    batch = len(story.offsets) - 2
    border, end = story.starts[batch], story.starts[batch + 1]
    for cut in range(border, end):
        written = story.data[border:cut] + TAILS[tail]
        *_, segment = lay_down(data_dir, (0, story.data[:border]), (story.offsets[batch], written))
        whole = is_whole(story, cut, end, TAILS[tail])
        expect_all_before(data_dir, story, batch + whole, segment if written else None, end - border if whole else 0)


@pytest.mark.parametrize("next_segment", ["not there", "empty"])
@pytest.mark.parametrize("tail", TAILS)
def test_a_cut_at_every_byte_before_a_segment_that_was_never_written(
    data_dir: Path, story: Story, tail: str, next_segment: str
) -> None:
    """The file of a segment may be on the disk before the end of the previous segment: nothing had been promised."""
    batch = len(story.offsets) - 3
    begin, border = story.starts[batch], story.starts[batch + 1]
    created = [(story.offsets[batch + 1], b"")] if next_segment == "empty" else []
    for cut in range(begin, border):
        segment, *_ = lay_down(data_dir, (0, story.data[:cut] + TAILS[tail]), *created)
        whole = is_whole(story, cut, border, TAILS[tail])
        is_clean = cut == begin and not TAILS[tail]
        expect_all_before(data_dir, story, batch + whole, None if is_clean else segment, border if whole else begin)
