"""The answers of Apache Kafka 4.3 to batches with faults in every codec (tests/golden/records), and ours, to requests
that go through the handler."""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from klamm.broker.data.codecs import unpack
from klamm.broker.data.record_batches import HEADER_BYTES, decode_header
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import produce, read
from tests.controller.handlers.cluster import DrivenCluster

GOLDEN = Path(__file__).parents[2] / "golden" / "records" / "batches.jsonl.gz"
FRONT_BYTES = 21
CODEC_BITS = 7
OFFSETS_AND_EPOCH = slice(8, 12), slice(16, 21)
SOON_MS = 2_000
"""How much later than `now_ms` the recorded broker may have decided."""
RANGE = re.compile(r"\[(-?\d+), (-?\d+)\]")


@cache
def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().splitlines()]


@cache
def cluster_with_topics() -> DrivenCluster:
    """Every topic of the recording, with its configs."""
    cluster = DrivenCluster(1, racks=("a",), profile="kafka")
    partitions: dict[str, int] = {}
    for row in rows():
        partitions[row["topic"]] = max(partitions.get(row["topic"], 0), row["partition"] + 1)
    for topic, configs in {row["topic"]: row["configs"] for row in rows()}.items():
        entries = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        assert cluster.create_at(topic, *[[1]] * partitions[topic], configs=entries).error_code == 0
    return cluster


def unplaced(text: str | None) -> tuple[str | None, list[tuple[int, int]]]:
    """A text without the times in it, and those times."""
    if text is None:
        return None, []
    return RANGE.sub("[, ]", text), [(int(low), int(high)) for low, high in RANGE.findall(text)]


def same_text(ours: str | None, theirs: str | None) -> bool:
    (our_text, our_times), (their_text, their_times) = unplaced(ours), unplaced(theirs)
    near = all(
        0 <= their_low - our_low == their_high - our_high <= SOON_MS
        for (our_low, our_high), (their_low, their_high) in zip(our_times, their_times, strict=True)
    )
    return our_text == their_text and near


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['topic']}-{row['partition']} {row['case']}")
def test_a_batch_is_answered_and_stored_as_by_kafka(row: dict[str, Any]) -> None:
    cluster = cluster_with_topics()
    cluster.clock.now_ms = row["now_ms"]
    sent = {"topic_name": row["topic"], "partition": row["partition"]}
    answer = produce(cluster, bytes.fromhex(row["records"]), version=row["api_version"], **sent)
    assert (answer.error_code, answer.base_offset) == (row["error_code"], row["base_offset"])
    assert answer.log_start_offset == row["log_start_offset"]
    assert same_text(answer.error_message, row["error_message"])
    ours = [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]
    assert [index for index, _ in ours] == [index for index, _ in row["record_errors"]]
    for (_, reason), (_, recorded) in zip(ours, row["record_errors"], strict=True):
        assert same_text(reason, recorded)
    is_stamped = row["log_append_time_ms"] >= 0
    assert (answer.log_append_time_ms >= 0) == is_stamped
    if row["stored"]:
        stored = read(cluster, **sent)
        compare_stored(stored, bytes.fromhex(row["stored"]), row)


def test_the_level_of_a_topic_is_used() -> None:
    cluster = DrivenCluster(1, racks=("a",))
    rng = Random(1)
    data = batch(1, value=bytes(rng.choices(b"abcdefgh", k=20_000)), timestamp_ms=cluster.clock.now_ms)
    sizes = []
    for level in ("-50", "19"):
        configs = {"compression.type": "zstd", "compression.zstd.level": level, "compression.gzip.level": "1"}
        entries = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        assert cluster.create_at(f"level{level}", [1], configs=entries).error_code == 0
        assert produce(cluster, data, topic_name=f"level{level}").error_code == 0
        sizes.append(len(read(cluster, topic_name=f"level{level}")))
    assert sizes[1] < sizes[0] * 0.8


def compare_stored(ours: bytes, theirs: bytes, row: dict[str, Any]) -> None:
    """Another compressor makes other bytes, of the same records."""
    our_batch, their_batch = decode_header(ours), decode_header(theirs)
    codec = their_batch.attributes & CODEC_BITS
    assert our_batch.attributes == their_batch.attributes
    if row["log_append_time_ms"] >= 0:
        assert our_batch.max_timestamp_ms == row["now_ms"]
        assert 0 <= their_batch.max_timestamp_ms - row["now_ms"] <= SOON_MS
    else:
        assert our_batch.max_timestamp_ms == their_batch.max_timestamp_ms
    for name in ("base_offset", "last_offset_delta", "base_timestamp_ms", "record_count"):
        assert getattr(our_batch, name) == getattr(their_batch, name), name
    for name in ("producer_id", "producer_epoch", "base_sequence"):
        assert getattr(our_batch, name) == getattr(their_batch, name), name
    assert unpack(codec, ours[HEADER_BYTES:], 1 << 22) == unpack(codec, theirs[HEADER_BYTES:], 1 << 22)
    if bytes.fromhex(row["records"])[HEADER_BYTES:] == theirs[HEADER_BYTES:]:
        assert ours[HEADER_BYTES:] == theirs[HEADER_BYTES:]
