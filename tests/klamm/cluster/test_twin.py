"""Clusters that begin as another one: what they have of it, what they leave alone, and sources that cannot be used."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

import klamm
from klamm.controller.core import Controller
from klamm.controller.log import MemoryLog
from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.past import read_past
from klamm.controller.settings import Settings
from klamm.protocol.record_batch import check_batch, decode_batch_header, encode_batch
from klamm.protocol.records.cluster import FeatureLevelRecord
from klamm.protocol.uuid import ZERO_UUID
from tests.controller.snapshots import lasting_facts

RACKS = ("a", "b", "c")
CONFIGS = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
async def original(tmp_path: Path) -> Path:
    """The data directory of a cluster whose broker 3 is down; its log has a snapshot and records behind it."""
    data_dir = tmp_path / "original"
    async with klamm.Cluster(
        brokers=3, racks=RACKS, data_dir=data_dir, cluster_id=CLUSTER_ID, configs=CONFIGS, seed=1, snapshot_records=0
    ) as cluster:
        await cluster.create_topic("before", num_partitions=6, replication_factor=3, configs={"retention.ms": "7"})
        await cluster.stop_broker(3)
        await cluster.snapshot()
        await cluster.create_topic("behind", num_partitions=2, replication_factor=2)
    return data_dir


def files(data_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data_dir)): path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}


async def test_a_twin_has_the_brokers_racks_partitions_and_configs_of_the_original(original: Path) -> None:
    before = files(original)
    async with klamm.Cluster(twin=original) as twin, klamm.AdminClient(twin.bootstrap_servers) as admin:
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
        assert cluster.cluster_id == CLUSTER_ID
        assert {(one.broker_id, one.rack) for one in cluster.brokers} == {(1, "a"), (2, "b"), (3, "c")}
        assert len(twin.bootstrap_servers.split(",")) == 2, "the broker that was down is not simulated"
        image = twin._up.image
        assert image.brokers[3].fenced
        partitions = [image.partitions.read(image.topics_by_name["before"].row, at) for at in range(6)]
        assert all(3 not in one.isr and 3 in one.replicas and one.leader in (1, 2) for one in partitions)
        assert image.partition_count(image.topics_by_name["behind"]) == 2
        await twin.create_topic("of-the-twin", replication_factor=2)
    assert files(original) == before


async def test_partitions_and_configs_are_those_of_the_original(original: Path) -> None:
    """The brokers continue with their incarnations, so that no leader and no ISR changes."""
    expected = Controller(Settings(seed=1), MemoryLog("x", ZERO_UUID, 0, past=read_past(original)), lambda: 0)
    wanted = lasting_facts(expected.image)
    async with klamm.Cluster(twin=original) as twin:
        found = lasting_facts(twin._up.image)
    assert {kind for kind in wanted if found[kind] != wanted[kind]} <= {"brokers", "next_offset", "live_replicas"}
    for broker_id, broker in wanted["brokers"].items():
        assert (found["brokers"][broker_id].incarnation_id, found["brokers"][broker_id].fenced) == (
            broker.incarnation_id,
            broker.fenced,
        )


async def test_the_twin_lives_on_its_own(original: Path) -> None:
    async with klamm.Cluster(twin=original, configs=CONFIGS) as twin:
        await twin.stop_broker(2)
        image = twin._up.image
        partitions = [image.partitions.read(image.topics_by_name["before"].row, at) for at in range(6)]
        assert {one.leader for one in partitions} == {1}


@pytest.mark.parametrize(
    "part", [lambda d: d, lambda d: d / LOG_FOLDER, lambda d: next((d / LOG_FOLDER).glob("*.checkpoint"))]
)
async def test_a_directory_a_log_folder_and_a_snapshot_are_sources(
    original: Path, part: Callable[[Path], Path]
) -> None:
    async with klamm.Cluster(twin=part(original)) as twin, klamm.AdminClient(twin.bootstrap_servers) as admin:
        names = {topic.topic_name for topic in (await admin.metadata()).topics}
    assert "before" in names
    assert ("behind" in names) == (part(original).suffix != ".checkpoint")


async def test_a_log_from_its_beginning_is_a_source(original: Path, tmp_path: Path) -> None:
    (segment, *_) = sorted((original / LOG_FOLDER).glob("*.log"))
    alone = tmp_path / segment.name
    alone.write_bytes(b"".join(path.read_bytes() for path in sorted((original / LOG_FOLDER).glob("*.log"))))
    async with klamm.Cluster(twin=alone) as twin:
        assert twin._up._parts.controller.identity.cluster_id != CLUSTER_ID, "the file does not say it"
        assert "behind" in twin._up.image.topics_by_name


async def test_what_the_owner_has_not_written_whole_is_left_out(original: Path) -> None:
    last = max((original / LOG_FOLDER).glob("*.log"))
    last.write_bytes(last.read_bytes() + encode_leader_change(10**6, 9, 0)[:-3])
    async with klamm.Cluster(twin=original) as twin:
        assert "behind" in twin._up.image.topics_by_name


def _without_snapshot(data_dir: Path) -> None:
    for path in (data_dir / LOG_FOLDER).glob("*.checkpoint"):
        path.unlink()
    min((data_dir / LOG_FOLDER).glob("*.log")).unlink()


def _damaged(data_dir: Path) -> None:
    for path in (data_dir / LOG_FOLDER).glob("*.checkpoint"):
        path.unlink()
    first = min((data_dir / LOG_FOLDER).glob("*.log"))
    raw = bytearray(first.read_bytes())
    raw[len(raw) // 2] ^= 1
    first.write_bytes(bytes(raw))


def _empty(data_dir: Path) -> None:
    for path in (data_dir / LOG_FOLDER).iterdir():
        path.unlink()


def _with_record_of_a_newer_release(path: Path, topic: str) -> None:
    """The TopicRecord becomes one of kind 120, in a batch whose checksum is right."""
    raw, start = bytearray(path.read_bytes()), 0
    kind = raw.index(b"\1\2\0" + bytes([len(topic) + 1]) + topic.encode()) + 1
    while (end := check_batch(bytes(raw), start)) <= kind:
        start = end
    raw[kind] = 120
    raw[start + 17 : start + 21] = google_crc32c.value(bytes(raw[start + 21 : end])).to_bytes(4, "big")
    path.write_bytes(bytes(raw))


def _newer_record_in_the_log(data_dir: Path) -> None:
    _with_record_of_a_newer_release(max((data_dir / LOG_FOLDER).glob("*.log")), "behind")


def _newer_record_in_the_snapshot(data_dir: Path) -> None:
    _with_record_of_a_newer_release(next((data_dir / LOG_FOLDER).glob("*.checkpoint")), "before")


def _with_pipe(suffix: str) -> Callable[[Path], None]:
    def spoil(data_dir: Path) -> None:
        path = max((data_dir / LOG_FOLDER).glob(f"*.{suffix}"))
        path.unlink()
        os.mkfifo(path)

    return spoil


def _with_feature(name: str, level: int) -> Callable[[Path], None]:
    def spoil(data_dir: Path) -> None:
        past = read_past(data_dir)
        end = decode_batch_header(past.batches[-1], 0).last_offset + 1
        batch = encode_batch(end, past.leader_epoch, 0, [FeatureLevelRecord(name=name, feature_level=level)])
        with max((data_dir / LOG_FOLDER).glob("*.log")).open("ab") as file:
            file.write(batch)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_with_pipe("log"), r"\.log is not a regular file"),
        (_with_pipe("checkpoint"), r"\.checkpoint is not a regular file"),
        (_newer_record_in_the_log, "the metadata log cannot be read: .* no metadata record 120 of version 0"),
        (_newer_record_in_the_snapshot, "the metadata log cannot be read: .* no metadata record 120 of version 0"),
        (_with_feature("metadata.version", 99), "is at metadata.version 99, and Klamm supports only"),
        (_with_feature("share.version", 9), "is at level 9 of share.version, and Klamm supports it only up to"),
        (_with_feature("future.version", 1), "is at level 1 of future.version, and Klamm does not know"),
        (_without_snapshot, "offsets 0 to .* are missing"),
        (_damaged, "is corrupt at byte"),
        (_empty, "has no metadata log"),
    ],
)
async def test_a_source_that_is_not_whole_is_refused(
    original: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(original)
    with pytest.raises(klamm.ClusterError, match=reason):
        async with klamm.Cluster(twin=original):
            pass


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "No such file"), ("letter.txt", "neither a data directory nor a file")]
)
async def test_a_source_that_is_none_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(klamm.ClusterError, match=reason):
        async with klamm.Cluster(twin=tmp_path / name):
            pass


@pytest.mark.parametrize(
    "beside", [{"brokers": 3}, {"broker_ids": (1,)}, {"racks": ("a",)}, {"data_dir": "x"}, {"cluster_id": CLUSTER_ID}]
)
def test_what_the_metadata_says_cannot_be_given(beside: dict[str, Any]) -> None:
    with pytest.raises(klamm.ClusterError, match="cannot be given beside a twin"):
        klamm.Cluster(twin="x", **beside)


async def test_a_cluster_without_brokers_has_nothing_to_simulate(tmp_path: Path) -> None:
    async with klamm.Cluster(brokers=0, controller_listener="127.0.0.1:0", data_dir=tmp_path / "empty"):
        pass
    with pytest.raises(klamm.ClusterError, match="has no broker that was up"):
        async with klamm.Cluster(twin=tmp_path / "empty"):
            pass
