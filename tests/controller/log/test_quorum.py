"""The control records of a dynamic quorum (KIP-853): where they are written, when they change, what a start finds."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from klamm.controller.log import MemoryLog, SegmentLog
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.quorum import QuorumPlan
from klamm.controller.metadata_log import MetadataLog
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, append_records

DYNAMIC = QuorumPlan(is_dynamic=True, listener_name="CONTROLLER", end_point=("h", 9093))
STATIC = QuorumPlan(listener_name="CONTROLLER", end_point=("h", 9093))
MOVED = QuorumPlan(listener_name="CONTROLLER", end_point=("h", 9094))
VERSION = KRaftVersionRecord(kraft_version=1)
LOG = "__cluster_metadata-0/00000000000000000000.log"


def voters(port: int | None = 9093, voter_id: int = 3000) -> VotersRecord:
    end_points = [] if port is None else [Endpoint(name="CONTROLLER", host="h", port=port)]
    voter = VotersRecordVoter(
        voter_id=voter_id,
        voter_directory_id=DIRECTORY_ID,
        endpoints=end_points,
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    return VotersRecord(voters=[voter])


def opened(data_dir: Path, plan: QuorumPlan, *, keep_history: bool = False) -> SegmentLog:
    return SegmentLog.open(
        data_dir,
        new_cluster_id=CLUSTER_ID,
        new_directory_id=DIRECTORY_ID,
        timestamp_ms=TIMESTAMP_MS,
        warn=pytest.fail,
        keep_history=keep_history,
        quorum=plan,
    )


def new_log(data_dir: Path, plan: QuorumPlan, in_memory: bool) -> MetadataLog:
    return MemoryLog(CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, quorum=plan) if in_memory else opened(data_dir, plan)


def controls(log: MetadataLog) -> list[list[Message]]:
    """The control records of each control batch, from the snapshot on."""
    return [list(batch.records) for batch in log.read() if batch.is_control]


def behind_leader_changes(log: MetadataLog) -> list[Sequence[Message]]:
    found = controls(log)
    assert all(isinstance(batch[0], LeaderChangeMessage) for batch in found)
    return [batch[1:] for batch in found]


def state(data_dir: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((data_dir / "__cluster_metadata-0" / "quorum-state").read_text())
    return found


def snapshot(log: MetadataLog) -> list[Message]:
    """Write a snapshot; returns the records of its first batch."""
    log.sync()
    place = log.begin_snapshot(roll=True)
    assert place is not None
    place.write([[TopicRecord(name="t", topic_id=Uuid(bytes(16)))]], TIMESTAMP_MS)
    return list(next(iter(log.read_snapshot())).records)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_dynamic_quorum_is_in_the_first_batch(tmp_path: Path, in_memory: bool) -> None:
    log = new_log(tmp_path, DYNAMIC, in_memory)
    assert log.is_quorum_dynamic
    assert behind_leader_changes(log) == [[VERSION, voters()]]
    assert log.end_offset == 3
    assert log.reader().end_offset == 3
    log.close()


def test_a_static_quorum_has_no_records(tmp_path: Path) -> None:
    log = opened(tmp_path, STATIC)
    assert not log.is_quorum_dynamic
    assert behind_leader_changes(log) == [[]]
    assert snapshot(log) == [SnapshotHeaderRecord(last_contained_log_timestamp=TIMESTAMP_MS)]
    log.close()
    assert state(tmp_path) == {
        "clusterId": "",
        "leaderId": 3000,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 3000}],
        "data_version": 0,
    }


def test_the_voters_are_written_again_only_where_they_change(tmp_path: Path) -> None:
    for plan in (DYNAMIC, STATIC, MOVED, MOVED, QuorumPlan(), QuorumPlan(controller_id=1)):
        log = opened(tmp_path, plan)
        assert log.is_quorum_dynamic  # kraft.version has no way back
        log.close()
    log = opened(tmp_path, MOVED)
    assert behind_leader_changes(log) == [
        [VERSION, voters()], [], [voters(9094)], [], [voters(None)], [voters(None, 1)], [voters(9094)]
    ]  # fmt: skip
    log.close()
    assert state(tmp_path) == {
        "leaderId": 3000,
        "leaderEpoch": 7,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }


def test_a_static_quorum_becomes_dynamic_at_a_start_that_wants_it(tmp_path: Path) -> None:
    opened(tmp_path, STATIC).close()
    log = opened(tmp_path, DYNAMIC)
    assert behind_leader_changes(log) == [[], [VERSION, voters()]]
    log.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_static_quorum_becomes_dynamic_while_it_leads(tmp_path: Path, in_memory: bool) -> None:
    log = new_log(tmp_path, STATIC, in_memory)
    log.make_quorum_dynamic(TIMESTAMP_MS + 5)
    log.make_quorum_dynamic(TIMESTAMP_MS + 9)
    assert log.is_quorum_dynamic
    assert controls(log)[1:] == [[VERSION, voters()]]
    assert log.end_offset == 3
    assert snapshot(log)[0] == SnapshotHeaderRecord(last_contained_log_timestamp=TIMESTAMP_MS + 5)
    log.close()
    if not in_memory:
        log = opened(tmp_path, STATIC)
        assert log.is_quorum_dynamic
        assert behind_leader_changes(log) == [[]]  # only what is behind the snapshot
        log.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_snapshot_has_the_quorum_of_its_end(tmp_path: Path, in_memory: bool) -> None:
    log = new_log(tmp_path, STATIC, in_memory)
    place = log.begin_snapshot(roll=True)
    assert place is not None
    log.make_quorum_dynamic(TIMESTAMP_MS)  # behind the snapshot's end
    log.sync()
    place.write([], TIMESTAMP_MS)
    assert len(next(iter(log.read_snapshot())).records) == 1
    first = snapshot(log)
    assert first[1:] == [VERSION, voters()]
    records = [batch.base_offset for batch in log.read_snapshot()]
    assert records == [0, 3, 4]
    log.close()


def test_a_start_finds_the_quorum_in_a_snapshot_whose_log_is_gone(tmp_path: Path) -> None:
    log = opened(tmp_path, DYNAMIC)
    for _ in range(3):
        append_records(log, [TopicRecord(name="t", topic_id=Uuid(bytes(16)))], TIMESTAMP_MS)
        snapshot(log)
    log.close()
    assert not (tmp_path / LOG).exists()
    log = opened(tmp_path, QuorumPlan(end_point=("h", 9093)))
    assert log.is_quorum_dynamic
    assert behind_leader_changes(log) == [[]]
    log.close()


def test_other_voters_of_a_log_from_elsewhere_are_replaced(tmp_path: Path) -> None:
    opened(tmp_path, STATIC).close()
    others = VotersRecord(voters=[*voters().voters, *voters(voter_id=3001).voters])
    (tmp_path / LOG).write_bytes(encode_leader_change(0, 1, TIMESTAMP_MS, [VERSION, others]))
    (tmp_path / "__cluster_metadata-0" / "recovery-point").unlink(missing_ok=True)
    log = opened(tmp_path, STATIC)
    assert behind_leader_changes(log) == [[VERSION, others], [voters()]]
    log.close()


def test_the_bytes_are_those_that_kafka_reads(tmp_path: Path) -> None:
    """Checked by hand with Kafka 4.3's DumpLogSegments and a broker: both values have the version 0."""
    log = opened(tmp_path, DYNAMIC)
    log.close()
    (batch,) = decode_batches((tmp_path / LOG).read_bytes())
    assert [record.version for record in batch.records] == [0, 0, 0]  # type: ignore[attr-defined]
