"""Snapshots compared with the log: those of Klamm's controller and of Apache Kafka agree; each difference is
reported."""

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from klamm.controller.log.snapshot_files import SnapshotContent, SnapshotFile, snapshot_path, write_snapshot
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.snapshots import AHEAD, COMPARED, DAMAGED, DIFFERENT, FOUND, Finding, judge_snapshots
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batches, encode_batch, encode_control_batch
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import UserScramCredentialRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.histories import play_history
from tests.pipeline.logs.logs import write_log
from tests.pipeline.logs.test_metadata_rows import forged, record

ID, OTHER = Uuid(bytes(range(16))), Uuid(bytes(15) + b"x")
KAFKA = Path(__file__).parents[2] / "golden" / "pipeline" / "kafka-4.3.0-snapshots"
TOPIC = TopicRecord(name="orders", topic_id=ID)
CONFIG = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
SECRET = UserScramCredentialRecord(name="ann", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server")
END, EPOCH = 6, 3
NAME = f"{END:020}-{EPOCH:010}.checkpoint"


def _partition(**fields: Any) -> PartitionRecord:
    sound = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return PartitionRecord(partition_id=0, topic_id=ID, **{**sound, "directories": [ID, ID], **fields})


CHANGE = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1])
LOG: list[list[Message]] = [[TOPIC, _partition()], [CONFIG], [SECRET, CHANGE], [CONFIG], [CONFIG]]
"""Offsets 0 to 6: a snapshot at offset 6 does not have the last one."""
SOUND: list[Message] = [TOPIC, _partition(isr=[1], partition_epoch=1), CONFIG, SECRET]


def _log(folder: Path, batches: Sequence[Sequence[Message]] = LOG, epoch: int = EPOCH) -> Path:
    offset, data = 0, b""
    for records in batches:
        data += encode_batch(offset, epoch, 1_000, records)
        offset += len(records)
    return write_log(folder, data)


def _snapshot(records: Sequence[Message], epoch: int = EPOCH) -> list[bytes]:
    """Header, records and footer of a snapshot."""
    return [
        encode_control_batch(0, epoch, 1_000, [SnapshotHeaderRecord()]),
        encode_batch(1, epoch, 1_000, records),
        encode_control_batch(1 + len(records), epoch, 1_000, [SnapshotFooterRecord()]),
    ]


def _judge(folder: Path) -> list[Finding]:
    [log] = find_metadata_logs([str(folder)])
    return list(judge_snapshots(log))


def _counts(findings: Sequence[Finding]) -> Counter[str]:
    return Counter(finding.kind for finding in findings)


def _problems(findings: Sequence[Finding]) -> list[tuple[str, int, str]]:
    return [(kind, offset, problem) for kind, offset, problem in findings if problem is not None]


OTHER_SALT = UserScramCredentialRecord(name="ann", mechanism=1, salt=b"pepper", stored_key=b"stored")
LONG = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="9" * 500)
OTHER_VALUES = "PartitionRecord orders-0 has other values"
OTHER_CREDENTIALS = "UserScramCredentialRecord 'ann' 1 has other values"
DIFFERENCES: dict[str, tuple[list[Message], list[tuple[int, str]]]] = {
    "none": (SOUND, []),
    "none, in another order": (SOUND[::-1], []),
    "of a partition": (
        [TOPIC, _partition(partition_epoch=1), *SOUND[2:]],
        [(4, f"{OTHER_VALUES}: isr is [1, 2], by the log [1]")],
    ),
    "of two fields": (
        [TOPIC, _partition(isr=[1], leader=2), *SOUND[2:]],
        [(4, f"{OTHER_VALUES}: leader is 2, by the log 1; partition_epoch is 0, by the log 1")],
    ),
    "of directories": (
        [TOPIC, _partition(isr=[1], partition_epoch=1, directories=[ID, OTHER]), *SOUND[2:]],
        [(4, f"{OTHER_VALUES}: directories is [{ID}, {OTHER}], by the log [{ID}, {ID}]")],
    ),
    "a partition is missing": ([TOPIC, *SOUND[2:]], [(4, "PartitionRecord orders-0 is not in it")]),
    "a topic is missing": ([*SOUND[1:]], [(0, f"TopicRecord orders ({ID}) is not in it")]),
    "a topic too many": (
        [*SOUND, TopicRecord(name="ghost", topic_id=OTHER)],
        [(5, f"TopicRecord ghost ({OTHER}) is in it, and not in the log")],
    ),
    "a record twice": ([*SOUND, CONFIG], [(5, "ConfigRecord 2 'orders' 'retention.ms' is twice in it")]),
    "of secrets, which are not told": (
        [*SOUND[:3], OTHER_SALT],
        [
            (3, f"{OTHER_CREDENTIALS}: salt is 6 bytes, by the log 4 bytes; server_key is 0 bytes, by the log 6 bytes")
        ],
    ),
    "of a long value": (
        [*SOUND[:2], LONG, SECRET],
        [(5, f"ConfigRecord 2 'orders' 'retention.ms' has other values: value is '{'9' * 119}…, by the log '1'")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_difference_is_told_with_the_offset(tmp_path: Path, name: str) -> None:
    records, expected = DIFFERENCES[name]
    folder = _log(tmp_path)
    (folder / NAME).write_bytes(b"".join(_snapshot(records)))
    findings = _judge(folder)
    assert _problems(findings) == [(DIFFERENT, offset, f"{NAME}: {problem}") for offset, problem in expected]
    counts = _counts(findings)
    assert (counts[FOUND], counts[COMPARED]) == (1, 1)


def test_an_epoch_that_the_log_does_not_have_there(tmp_path: Path) -> None:
    folder = _log(tmp_path, epoch=2)
    (folder / NAME).write_bytes(b"".join(_snapshot(SOUND)))
    assert _problems(_judge(folder)) == [(DIFFERENT, 5, f"{NAME}: the record before its end is of epoch 2")]


def _cut(parts: list[bytes]) -> bytes:
    return b"".join(parts)[:-1]


def _flip(parts: list[bytes]) -> bytes:
    data = bytearray(b"".join(parts))
    data[len(parts[0]) + 80] ^= 1
    return bytes(data)


DAMAGES: dict[str, tuple[Callable[[list[bytes]], bytes], str]] = {
    "empty": (lambda _: b"", "it ends without a footer"),
    "cut off": (_cut, " are no batch, and nothing follows"),
    "flipped": (_flip, "checksum"),
    "without a footer": (lambda parts: b"".join(parts[:-1]), "it ends without a footer"),
    "without a header": (
        lambda _: (
            encode_batch(0, EPOCH, 1_000, SOUND) + encode_control_batch(4, EPOCH, 1_000, [SnapshotFooterRecord()])
        ),
        "it begins without a header",
    ),
    "more behind the footer": (
        lambda parts: b"".join(parts) + encode_batch(6, EPOCH, 1_000, [CONFIG]),
        "it continues after its footer",
    ),
    "of another epoch": (lambda _: b"".join(_snapshot(SOUND, epoch=9)), "it has a batch of epoch 9"),
    "foreign": (lambda _: b"a letter to my aunt " * 10, "are no batch, and nothing follows"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_snapshot_that_is_not_whole_is_told_and_not_compared(tmp_path: Path, name: str) -> None:
    damage, expected = DAMAGES[name]
    folder = _log(tmp_path)
    (folder / NAME).write_bytes(damage(_snapshot(SOUND)))
    findings = _judge(folder)
    assert _counts(findings) == {FOUND: 1, DAMAGED: 1}
    [(_, offset, problem)] = _problems(findings)
    assert offset == END - 1
    assert problem.startswith(f"{NAME}: ")
    assert expected in problem


def test_a_log_that_ends_before_its_snapshot(tmp_path: Path) -> None:
    folder = _log(tmp_path, LOG[:2])
    (folder / NAME).write_bytes(b"".join(_snapshot(SOUND)))
    assert _problems(_judge(folder)) == [(AHEAD, 5, f"{NAME}: the log ends before the snapshot does")]


def test_nothing_is_compared_behind_damage_of_the_log(tmp_path: Path) -> None:
    folder = _log(tmp_path)
    (folder / NAME).write_bytes(b"".join(_snapshot(SOUND[:1])))
    segment = folder / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[80] ^= 1
    segment.write_bytes(data)
    assert _counts(_judge(folder)) == {FOUND: 1}


def test_the_snapshot_that_a_log_begins_with_stands_for_what_was_before(tmp_path: Path) -> None:
    """There is nothing to compare it with; a later snapshot is compared with it and the records after it."""
    records: list[list[Message]] = [[CHANGE], [CHANGE], [CONFIG]]  # The first one is in the snapshot.
    data = b"".join(encode_batch(offset, EPOCH, 1_000, batch) for offset, batch in enumerate(records, END - 1))
    folder = write_log(tmp_path, data, base_offsets=(END - 1,))
    (folder / NAME).write_bytes(b"".join(_snapshot(SOUND)))
    later = f"{END + 1:020}-{EPOCH:010}.checkpoint"
    (folder / later).write_bytes(b"".join(_snapshot(SOUND)))
    findings = _judge(folder)
    assert (_counts(findings)[FOUND], _counts(findings)[COMPARED]) == (2, 1)
    reported = f"{later}: PartitionRecord orders-0 has other values: partition_epoch is 1, by the log 2"
    assert _problems(findings) == [(DIFFERENT, END, reported)]
    (folder / NAME).write_bytes(_cut(_snapshot(SOUND)))
    assert _counts(_judge(folder)) == {FOUND: 2, DAMAGED: 1}


@pytest.mark.parametrize(
    ("value", "compared"),
    [(b"\x01\x02\x63later", 0), (b"\x01\x63\x00later", 1)],
    ids=["a version that is not known", "a type that is not known"],
)
def test_what_a_newer_kafka_wrote(tmp_path: Path, value: bytes, compared: int) -> None:
    """An unknown version of a known type might change anything, so nothing is compared; an unknown type is ignored."""
    folder = write_log(tmp_path, forged(record(value), 1) + encode_batch(1, 1, 1_000, [TOPIC]))
    (folder / f"{2:020}-{1:010}.checkpoint").write_bytes(b"".join(_snapshot([TOPIC], epoch=1)))
    assert _counts(_judge(folder)) == Counter({FOUND: 1, COMPARED: compared})


def test_a_snapshot_at_any_offset_of_random_clusters_agrees(tmp_path: Path) -> None:
    """Those that our controller would write after each batch, and the two that it did write."""
    compared = 0
    for seed in (1, 3, 4):
        history = play_history(seed, tmp_path, whole=seed == 1)
        image, folder = MetadataImage(), Path(history.log.folder)
        for file in history.log.files:
            for batch in decode_batches(Path(file.path).read_bytes()):
                if batch.is_control or (not file.is_snapshot and batch.base_offset < history.log.files[0].base_offset):
                    continue
                replay(image, batch.contents, batch.base_offset)
                end = batch.last_offset + 1
                path = snapshot_path(folder, end, batch.leader_epoch)
                if not file.is_snapshot and not path.exists():
                    write_snapshot(
                        SnapshotFile(end, batch.leader_epoch, path),
                        SnapshotContent(snapshot_batches(copy_image(image)), 1_000, 1_000),
                    )
        findings = _judge(folder)
        assert _problems(findings) == []
        begins_with_one = history.log.files[0].is_snapshot
        older = sum(int(path.name[:20]) <= history.log.files[0].base_offset for path in folder.glob("*.checkpoint"))
        assert _counts(findings)[FOUND] - _counts(findings)[COMPARED] == (older if begins_with_one else 0)
        compared += _counts(findings)[COMPARED]
    assert compared > 100


def test_what_apache_kafka_wrote_agrees(tmp_path: Path) -> None:
    """The log and all snapshots of a real controller, with fencing, a move, quotas, ACLs and credentials."""
    for packed in KAFKA.glob("*.gz"):
        (tmp_path / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    findings = _judge(tmp_path)
    assert _problems(findings) == []
    assert _counts(findings) == {FOUND: 6, COMPARED: 6}
