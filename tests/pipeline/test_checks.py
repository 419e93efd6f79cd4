"""`verify` on valid logs, and on logs that are damaged, cut, mixed, or break a rule."""

import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline.checks import check_logs
from klamm.pipeline.logs.metadata_logs import LOG_FOLDER
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import encode_batch, encode_control_batch
from klamm.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)
from klamm.protocol.records.cluster import NoOpRecord
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.histories import SEEDS, History
from tests.pipeline.logs.test_metadata_rows import forged, record

TOPIC_ID = Uuid(bytes(range(16)))


def _write_log(folder: Path, name: str, batches: list[list[Message]], epochs: tuple[int, ...] = ()) -> Path:
    """A data directory with a log of these batches, of a cluster with this id."""
    data_dir = folder / name.replace(" ", "-")
    (data_dir / LOG_FOLDER).mkdir(parents=True)
    _name(data_dir, name)
    offset, data = 0, b""
    for number, records in enumerate(batches):
        data += encode_batch(offset, epochs[number] if epochs else 1, 1_000 * number, records)
        offset += len(records)
    (data_dir / LOG_FOLDER / f"{0:020}.log").write_bytes(data)
    return data_dir


def _name(data_dir: Path, cluster_id: str) -> None:
    (data_dir / "meta.properties").write_text(f"cluster.id={cluster_id}\n", encoding="utf-8")


def _topic(name: str = "t", topic_id: Uuid = TOPIC_ID) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def _partition(**fields: Any) -> PartitionRecord:
    sound = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return PartitionRecord(partition_id=0, topic_id=TOPIC_ID, **{**sound, **fields})


def _change(partition_id: int = 0, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=partition_id, topic_id=TOPIC_ID, **fields)


def _broker(epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=1, broker_epoch=epoch, incarnation_id=TOPIC_ID)


BROKEN: dict[str, tuple[list[list[Message]], dict[str, list[int]]]] = {
    "nothing": ([[_topic(), _partition()], [_change(isr=[1, 2])]], {}),
    "a change of no partition": ([[_topic(), _partition()], [_change(7, isr=[1])]], {"change_has_partition": [2]}),
    "a partition of no topic": ([[_partition()]], {"partition_has_topic": [0]}),
    "a change behind the removal": (
        [[_topic(), _partition()], [RemoveTopicRecord(topic_id=TOPIC_ID)], [_change(isr=[1])]],
        {"partition_has_topic": [3]},
    ),
    "created twice": ([[_topic(), _partition(), _partition()]], {"partition_created_once": [2]}),
    "an id twice": ([[_topic("a"), _topic("b")]], {"topic_id_once": [0, 1]}),
    "a name twice": ([[_topic("a"), _topic("a", Uuid(bytes(15) + b"x"))]], {"topic_name_once": [0]}),
    "a replica twice": ([[_topic(), _partition(replicas=[1, 2, 3, 3])]], {"replicas_distinct": [1]}),
    "no replica": ([[_topic(), _partition(replicas=[], isr=[], leader=-1)]], {"replicas_not_empty": [1]}),
    "a stranger in sync": ([[_topic(), _partition(isr=[1, 9])]], {"isr_within_replicas": [1]}),
    "a leader behind": ([[_topic(), _partition()], [_change(isr=[2, 3])]], {"leader_in_isr": [2]}),
    "a placeholder first": ([[_topic(), _partition(replicas=[1, -1, 2], isr=[1, 2])]], {"placeholders_last": [1]}),
    "a placeholder in sync": ([[_topic(), _partition(replicas=[1, 2, -1], isr=[1, -1])]], {"isr_is_real": [1]}),
    "adding a stranger": ([[_topic(), _partition(adding_replicas=[8])]], {"moving_within_replicas": [1]}),
    "an old broker epoch": ([[_broker(5), _broker(5)]], {"broker_epoch_grows": [1]}),
    "a change of an old registration": (
        [[_broker(5)], [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=-1)]],
        {"broker_epoch_known": [1]},
    ),
    "fencings as before Kafka 3.3": (
        [[_broker(5), FenceBrokerRecord(id=1, epoch=5)], [UnfenceBrokerRecord(id=1, epoch=4)]],
        {"broker_epoch_known": [2]},
    ),
    "a change of no broker": (
        [[BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=-1)]],
        {"broker_registered": [0]},
    ),
}


def _flip(log: Path, _other: Path) -> None:
    first = min(log.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)


def _lose_segment(log: Path, _other: Path) -> None:
    sorted(log.glob("*.log"))[1].unlink()


def _mix(log: Path, other: Path) -> None:
    """Replace our last segment by the newest segment of another cluster."""
    shutil.copy(max(other.glob("*.log")), max(log.glob("*.log")))


def _truncate(log: Path, _other: Path) -> None:
    last = max(log.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])


def _empty(log: Path, _other: Path) -> None:
    for path in (*log.glob("*.log"), *log.glob("*.checkpoint")):
        path.unlink()
    (log / f"{0:020}.log").write_bytes(b"")


def _foreign(log: Path, _other: Path) -> None:
    max(log.glob("*.log")).write_bytes(b"2026-11-23 09:00 INFO all is well\n" * 99)


def _newer(log: Path, _other: Path) -> None:
    """A record of an unknown type at the beginning of another log."""
    _empty(log, log)
    (log / f"{0:020}.log").write_bytes(forged(record(b"\x01\xff\x01\x00later"), 1))


DAMAGES: dict[str, tuple[Callable[[Path, Path], None], set[str]]] = {
    "flipped": (_flip, {"record_decoded", "offsets_without_gap"}),
    "a segment missing": (_lose_segment, {"offsets_without_gap"}),
    "truncated": (_truncate, {"log_ends_whole"}),
    "empty": (_empty, {"log_has_records"}),
    "foreign": (_foreign, {"record_decoded"}),
    "newer": (_newer, {"record_type_known"}),
    # The reader reports that the other cluster's segment does not follow the one before it.
    "mixed": (_mix, {"record_decoded"}),
}


def _write_snapshot(data_dir: Path, end: int, records: list[Message]) -> Path:
    path = data_dir / LOG_FOLDER / f"{end:020}-{1:010}.checkpoint"
    footer = encode_control_batch(1 + len(records), 1, 0, [SnapshotFooterRecord()])
    path.write_bytes(encode_control_batch(0, 1, 0, [SnapshotHeaderRecord()]) + encode_batch(1, 1, 0, records) + footer)
    return path


class Verdicts(NamedTuple):
    """The results of one run over all logs."""

    told: dict[str, Any]
    sound: list[str]

    def failed(self, cluster_id: str) -> dict[str, list[int]]:
        """The checks that failed for a cluster, with the offsets."""
        offsets: dict[str, list[int]] = defaultdict(list)
        for check in self.told["checks"]:
            for place in check["places"]:
                if place["cluster_id"] == cluster_id:
                    offsets[check["name"]].append(place["record_offset"])
        return offsets


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, histories: list[History], tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    folder = tmp_path_factory.mktemp("logs")
    logs = [_write_log(folder, name, batches) for name, (batches, _) in BROKEN.items()]
    logs.append(_write_log(folder, "an old leader", [[NoOpRecord()]] * 3, epochs=(1, 2, 1)))
    sound, several = [histories[SEEDS.index(seed)] for seed in (3, 5, 13)], histories[SEEDS.index(4)]
    for name, (damage, _) in DAMAGES.items():
        data_dir = Path(shutil.copytree(several.data_dir, folder / f"damaged-{name}"))
        _name(data_dir, name)
        damage(data_dir / LOG_FOLDER, Path(sound[0].log.folder))
        logs.append(data_dir)
    logs += [history.data_dir for history in sound]
    for name, isr in (("a snapshot agrees", [1, 2]), ("a snapshot differs", [2, 1])):
        logs.append(_write_log(folder, name, [[_topic(), _partition()], [_change(isr=[1, 2])], [NoOpRecord()]]))
        _write_snapshot(logs[-1], 3, [_topic(), _partition(isr=isr, partition_epoch=1)])
    logs.append(_write_log(folder, "a snapshot is cut off", [[_topic(), _partition()]]))
    path = _write_snapshot(logs[-1], 2, [_topic(), _partition()])
    path.write_bytes(path.read_bytes()[:-1])
    logs.append(_write_log(folder, "a snapshot is ahead", [[_topic(), _partition()]]))
    _write_snapshot(logs[-1], 9, [_topic(), _partition()])
    return Verdicts(check_logs(spark, [str(log) for log in logs]), [history.cluster_id for history in sound])


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_found_broken_where_it_is(verdicts: Verdicts, name: str) -> None:
    _, expected = BROKEN[name]
    assert verdicts.failed(name) == expected


def test_an_old_leader_is_found(verdicts: Verdicts) -> None:
    assert verdicts.failed("an old leader")["epochs_never_back"] == [2]


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_told(verdicts: Verdicts, name: str) -> None:
    _, expected = DAMAGES[name]
    assert verdicts.failed(name).keys() & expected


def test_random_clusters_pass_beside_damaged_ones(verdicts: Verdicts) -> None:
    for cluster_id in verdicts.sound:
        assert not verdicts.failed(cluster_id)
    assert verdicts.told["passed"] is False
    assert set(verdicts.sound) < set(verdicts.told["clusters"])


def test_snapshots_are_held_against_the_log(verdicts: Verdicts) -> None:
    found = {name: verdicts.failed(f"a snapshot {name}") for name in ("agrees", "differs", "is cut off", "is ahead")}
    assert found == {
        "agrees": {},
        "differs": {"snapshot_says_what_the_log_says": [2]},
        "is cut off": {"snapshot_whole": [1]},
        "is ahead": {"snapshot_within_log": [8]},
    }
    [problem] = [
        place["problem"]
        for check in verdicts.told["checks"]
        for place in check["places"]
        if place["cluster_id"] == "a snapshot differs"
    ]
    name = f"{3:020}-{1:010}.checkpoint"
    assert problem == f"{name}: PartitionRecord t-0 has other values: isr is [2, 1], by the log [1, 2]"
    severities = {check["name"]: check["severity"] for check in verdicts.told["checks"]}
    assert severities["snapshot_within_log"] == "warning"
    assert severities["snapshot_whole"] == severities["snapshot_says_what_the_log_says"] == "error"
    counts = verdicts.told["snapshots"]
    assert counts["compared"] >= 2
    assert counts["found"] >= counts["compared"] + 2


def test_what_is_told_of_sound_logs(spark: SparkSession, tmp_path: Path) -> None:
    log = _write_log(tmp_path, "sound", [[_topic(), _partition()]])
    reported = check_logs(spark, [str(log)])
    assert (reported["passed"], reported["clusters"], reported["records"]) == (True, ["sound"], 2)
    assert {check["failed"] for check in reported["checks"]} == {0}
    assert reported["snapshots"] == {"found": 0, "compared": 0}
