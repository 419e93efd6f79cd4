"""The metadata log for observers: Fetch and FetchSnapshot on the controller's listener, by what a log in memory has."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.controller.metadata_log_reader import EpochEnd, MetadataLogReader, SnapshotId
from klamm.controller.server_answer import LogAnswer, LogPart
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from klamm.protocol.messages.raft.fetch_snapshot import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    TopicSnapshot,
)
from klamm.protocol.messages.raft.fetch_snapshot import SnapshotId as WantedSnapshot
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID
from tests.controller.handlers.cluster import CLUSTER_ID, DrivenCluster

EPOCH = 1
"""The epoch of a log in memory."""


@pytest.fixture
def cluster() -> DrivenCluster:
    return DrivenCluster(1)


def asking(
    offset: int = 0,
    *,
    epoch: int = EPOCH,
    last_epoch: int = 0,
    high_watermark: int = -1,
    max_bytes: int = 1 << 20,
    wait_ms: int = 500,
    cluster_id: str | None = CLUSTER_ID,
    version: int = 18,
    topic_id: Any = METADATA_TOPIC_ID,
    partition: int = 0,
) -> FetchRequest:
    asked = FetchPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last_epoch
    )
    if version >= 18:
        asked.high_watermark = high_watermark
    topic = FetchTopic(partitions=[asked])
    if version < 13:
        topic.topic = "__cluster_metadata"
    else:
        topic.topic_id = topic_id
    request = FetchRequest(cluster_id=cluster_id, max_wait_ms=wait_ms, max_bytes=max_bytes, topics=[topic])
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=7)
    else:
        request.replica_id = 7
    return request


def part(cluster: DrivenCluster, request: FetchRequest, version: int = 18) -> LogPart:
    """What an accepted request finds in the log."""
    answer = cluster.submit(request, version=version, broker_id=None).response
    assert isinstance(answer, LogAnswer), answer
    return answer.read(cluster.log.reader())


def found(response: Any) -> fetch.PartitionData:
    (topic,) = response.responses
    (partition,) = topic.partitions
    assert isinstance(partition, fetch.PartitionData)
    return partition


def test_an_observer_gets_the_log_as_it_is_stored(cluster: DrivenCluster) -> None:
    got, offset, last_epoch = b"", 0, 0
    while True:
        read = part(cluster, asking(offset, last_epoch=last_epoch, max_bytes=1, high_watermark=offset))
        one = found(read.response)
        assert (one.error_code, one.high_watermark, one.log_start_offset) == (0, cluster.log.end_offset, 0)
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (3000, EPOCH)
        assert read.end_offset == cluster.log.end_offset
        if not one.records:
            break
        (batch,) = decode_batches(one.records)
        assert batch.base_offset == offset, "with room for one byte there is one batch"
        got, offset, last_epoch = got + one.records, batch.last_offset + 1, EPOCH
    assert got == cluster.log.log_bytes()
    assert offset == cluster.log.end_offset


@pytest.mark.parametrize(
    ("high_watermark", "version", "is_final"),
    [(0, 18, False), (-1, 18, True), (-2, 17, False)],
    ids=["knows the end", "knows an older end", "says nothing about it"],
)
def test_an_observer_that_has_all_waits_unless_it_does_not_know_the_high_watermark(
    high_watermark: int, version: int, is_final: bool, cluster: DrivenCluster
) -> None:
    end = cluster.log.end_offset
    request = asking(end, last_epoch=EPOCH, high_watermark=end + high_watermark, version=version)
    read = part(cluster, request, version)
    assert (read.is_final, found(read.response).records, found(read.response).high_watermark) == (is_final, b"", end)


REFUSALS: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "an older epoch": ({"epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
    "a negative offset": ({"offset": -1}, ErrorCode.INVALID_REQUEST),
    "a negative epoch of the last record": ({"last_epoch": -1}, ErrorCode.INVALID_REQUEST),
    "a negative wait": ({"wait_ms": -1}, ErrorCode.INVALID_REQUEST),
    "a last record of an epoch behind the leader's": ({"last_epoch": EPOCH + 1}, ErrorCode.INVALID_REQUEST),
    "such a record, and an older epoch": ({"epoch": EPOCH - 1, "last_epoch": EPOCH}, ErrorCode.INVALID_REQUEST),
    "such a record, and no epoch": ({"epoch": -1}, ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_partition_names_the_leader(case: str, cluster: DrivenCluster) -> None:
    fields, code = REFUSALS[case]
    one = found(cluster.ask(asking(**fields), broker_id=None))
    assert (one.error_code, one.records, one.high_watermark) == (code, b"", -1)
    assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (3000, EPOCH)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asking(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (asking(topic_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (asking(partition=1), ErrorCode.INVALID_REQUEST),
        (FetchRequest(), ErrorCode.INVALID_REQUEST),
        (FetchRequest(topics=[*asking().topics, *asking().topics]), ErrorCode.INVALID_REQUEST),
    ],
    ids=["another cluster", "another topic", "another partition", "nothing", "the log twice"],
)
def test_what_is_not_about_this_log_is_refused_as_a_whole(
    request_: FetchRequest, code: ErrorCode, cluster: DrivenCluster
) -> None:
    response = cluster.ask(request_, broker_id=None)
    assert (response.error_code, list(response.responses)) == (code, [])


@pytest.mark.parametrize("version", range(12, 19))
def test_every_version_that_observers_have_used_reads_the_log(version: int, cluster: DrivenCluster) -> None:
    response = cluster.ask(asking(version=version), version=version, broker_id=None)
    assert found(response).records == cluster.log.log_bytes()


def longer(**fields: Any) -> Callable[[DrivenCluster], FetchRequest]:
    return lambda cluster: asking(cluster.log.end_offset + 5, **fields)


@pytest.mark.parametrize(
    "make",
    [
        longer(last_epoch=EPOCH, high_watermark=10_000),
        longer(last_epoch=EPOCH, version=17),
        longer(epoch=EPOCH + 1, last_epoch=EPOCH + 1, high_watermark=10_000),
    ],
    ids=["more records", "more records, without a high watermark", "a later epoch"],
)
def test_an_observer_with_more_than_this_log_learns_nothing_that_makes_it_cut_its_own(
    make: Callable[[DrivenCluster], FetchRequest], cluster: DrivenCluster
) -> None:
    request = make(cluster)
    version = 17 if request.topics[0].partitions[0].high_watermark == 2**63 - 1 else 18
    read = part(cluster, request, version)
    one = found(read.response)
    assert one.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (one.diverging_epoch.epoch, one.diverging_epoch.end_offset) == (-1, -1)
    assert (one.current_leader.leader_id, one.current_leader.leader_epoch, one.high_watermark) == (-1, -1, -1)
    assert not read.is_final, "it is answered late, so that it does not ask at once again"
    assert read.warning.startswith("broker 7 fetches the metadata log from offset ")


class OtherHistory:
    """A log whose epoch 0 ends at 40, which is where the log of an observer diverges."""

    start_offset, end_offset, snapshots = 0, 60, ()

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return EpochEnd(min(epoch, 0), 40)


@pytest.mark.parametrize(("high_watermark", "diverges"), [(39, True), (40, True), (41, False)])
def test_records_that_no_high_watermark_covered_are_to_be_cut(
    high_watermark: int, diverges: bool, cluster: DrivenCluster
) -> None:
    request = asking(50, last_epoch=EPOCH, high_watermark=high_watermark)
    answer = cluster.submit(request, version=18, broker_id=None).response
    assert isinstance(answer, LogAnswer)
    history: Any = OtherHistory()
    one = found(answer.read(history).response)
    expected = (0, 40, 0) if diverges else (-1, -1, ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert (one.diverging_epoch.epoch, one.diverging_epoch.end_offset, one.error_code) == expected


def with_snapshot(cluster: DrivenCluster) -> SnapshotId:
    """The snapshot that replaces the records so far, of a cluster with records behind it."""
    pending = cluster.controller.begin_snapshot(roll=True)
    assert pending is not None
    pending.write()
    cluster.create("after")
    (snapshot,) = cluster.log.reader().snapshots
    return snapshot


@pytest.mark.parametrize(
    ("offset", "last_epoch", "wanted"),
    [(0, 0, True), (-1, EPOCH, True), (0, EPOCH, True), (None, EPOCH, False), (None, EPOCH - 1, True)],
    ids=["a new one", "one below the start", "one that knows the epoch", "one at the start", "one of another epoch"],
)
def test_an_observer_below_the_log_gets_the_newest_snapshot(
    offset: int | None, last_epoch: int, wanted: bool, cluster: DrivenCluster
) -> None:
    snapshot = with_snapshot(cluster)
    start = cluster.log.reader().start_offset
    at = {None: start, -1: start - 1}.get(offset, 0)
    one = found(part(cluster, asking(at, last_epoch=last_epoch)).response)
    if wanted:
        assert (one.snapshot_id.end_offset, one.snapshot_id.epoch) == snapshot
        assert one.records == b""
    else:
        assert (one.snapshot_id.end_offset, one.snapshot_id.epoch) == (-1, -1)
        assert one.records


def asking_for(
    snapshot: SnapshotId, position: int = 0, *, max_bytes: int = 1 << 20, epoch: int = EPOCH, **fields: Any
) -> FetchSnapshotRequest:
    partition = PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=WantedSnapshot(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
    )
    values: dict[str, Any] = {"cluster_id": CLUSTER_ID, "name": "__cluster_metadata", **fields}
    topic = TopicSnapshot(name=values["name"], partitions=[partition])
    return FetchSnapshotRequest(cluster_id=values["cluster_id"], replica_id=7, max_bytes=max_bytes, topics=[topic])


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_a_snapshot_is_fetched_in_parts_of_any_size(max_bytes: int, cluster: DrivenCluster) -> None:
    snapshot = with_snapshot(cluster)
    reader: MetadataLogReader = cluster.log.reader()
    whole = reader.read_snapshot(snapshot, 0, 1 << 30).data
    got = b""
    while len(got) < len(whole):
        response = cluster.ask(asking_for(snapshot, len(got), max_bytes=max_bytes), broker_id=None)
        one = response.topics[0].partitions[0]
        assert (one.error_code, one.size, one.position) == (0, len(whole), len(got))
        assert 0 < len(one.unaligned_records) <= max_bytes
        got += one.unaligned_records
        if max_bytes == 1 and len(got) > 100:
            return
    assert got == whole


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"position": 10**9}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"name": "t"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"snapshot": SnapshotId(1, EPOCH)}, ErrorCode.SNAPSHOT_NOT_FOUND),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_part_that_is_not_there_is_refused(fields: dict[str, Any], code: ErrorCode, cluster: DrivenCluster) -> None:
    snapshot = with_snapshot(cluster)
    response = cluster.ask(asking_for(**{"snapshot": snapshot, **fields}), broker_id=None)
    assert response.topics[0].partitions[0].error_code == code


def test_a_snapshot_of_another_cluster_is_refused(cluster: DrivenCluster) -> None:
    response = cluster.ask(asking_for(with_snapshot(cluster), cluster_id="other"), broker_id=None)
    assert (response.error_code, list(response.topics)) == (ErrorCode.INCONSISTENT_CLUSTER_ID, [])
