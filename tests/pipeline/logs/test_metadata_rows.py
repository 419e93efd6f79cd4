"""Metadata logs as rows: the same for any split into pieces, for any bytes, and without exceptions."""

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import Mark, cut_log
from klamm.pipeline.logs.metadata_rows import read_pieces
from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import HEADER_BYTES, decode_batch, encode_batch, encode_control_batch
from klamm.protocol.record_versions import record_type_of
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.logs.logs import (
    CLUSTER_ID,
    TIMESTAMP_MS,
    Row,
    contents,
    encoded,
    problems,
    rows,
    runs,
    sound,
    write_log,
)

KAFKA_LOG = Path(__file__).parents[2] / "golden" / "wire" / "metadata-log.jsonl.gz"
TOPIC = Uuid(bytes(range(16)))


def rows_of(*segments: bytes) -> list[Row]:
    with TemporaryDirectory() as folder:
        return rows(write_log(Path(folder), *segments))


def topics(count: int) -> list[list[Message]]:
    return [[TopicRecord(name=f"t{n}", topic_id=TOPIC), PartitionRecord(topic_id=TOPIC)] for n in range(count)]


def forged(records: bytes, count: int, *, attributes: int = 0, timestamp_ms: int = TIMESTAMP_MS) -> bytes:
    """A batch with a correct checksum and content that no writer should write."""
    checked = struct.pack(">hiqqqhii", attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, 9 + len(checked), 1, 2, google_crc32c.value(checked)) + checked


def record(value: bytes) -> bytes:
    body = b"\0\0\0\1" + bytes([2 * len(value)]) + value + b"\0"
    return bytes([2 * len(body)]) + body


@given(contents, st.integers(1, 3000))
def test_the_rows_are_the_records_in_any_pieces(content: Sequence[Sequence[Message]], piece_bytes: int) -> None:
    with TemporaryDirectory() as folder:
        log = write_log(Path(folder), b"".join(encoded(content)))
        found = rows(log)
        assert rows(log, piece_bytes) == found
    assert [row["record_offset"] for row in found] == list(range(len(found)))
    assert {row["cluster_id"] for row in found} == {CLUSTER_ID}
    assert found[0]["type"] == "LeaderChangeMessage"
    records = [record for batch in content for record in batch]
    for row, message in zip(found[1:], records, strict=True):
        assert row["type"] == type(message).__name__
        assert row["raw"] is None
        if row["partition"] is None:
            assert json.loads(row["body"]) == message_to_json(message, row["version"])
        else:
            assert row["partition"]["partition_index"] == message.partition_id  # type: ignore[attr-defined]
            assert row["partition"]["topic_id"] == str(message.topic_id)  # type: ignore[attr-defined]
            assert row["partition"]["isr"] == (None if message.isr is None else list(message.isr))  # type: ignore[attr-defined]
            assert row["partition"]["leader"] == (None if message.leader == -2 else message.leader)  # type: ignore[attr-defined]


@given(runs())
def test_runs_as_columns_are_the_rows_that_they_are_one_by_one(batch: list[Message]) -> None:
    """A batch of its own for each record has no runs."""
    alone = rows_of(b"".join(encoded([[record] for record in batch])))
    together = rows_of(b"".join(encoded([batch])))
    same = ("record_offset", "type", "version", "partition", "body", "problem")
    assert [[row[name] for name in same] for row in together] == [[row[name] for name in same] for row in alone]


@given(contents)
def test_a_filter_leaves_the_rows_of_its_types(content: Sequence[Sequence[Message]]) -> None:
    with TemporaryDirectory() as folder:
        log = write_log(Path(folder), b"".join(encoded(content)))
        wanted = ("PartitionRecord", "TopicRecord")
        assert rows(log, types=wanted) == [row for row in rows(log) if row["type"] in wanted]


def some_of(size: int, borders: Sequence[int]) -> list[int]:
    """Every third byte, and those around each border between two batches."""
    near = {border + step for border in borders for step in (-1, 0, 1)}
    return sorted(byte for byte in {*range(0, size, 3), *near} if 0 <= byte < size)


def test_a_log_cut_at_any_byte_has_the_rows_of_its_whole_batches(tmp_path: Path) -> None:
    parts = encoded(topics(3))
    whole, full = b"".join(parts), rows_of(b"".join(parts))
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    for size in some_of(len(whole), ends):
        for zeros in (0, 700):
            data = whole[:size] + bytes(zeros)
            there = sum(1 if n == 0 else 2 for n, end in enumerate(ends) if data[:end] == whole[:end])
            found = rows(write_log(tmp_path, data))
            assert sound(found) == full[:there], (size, zeros)
            # Zeros that replace less than a sector count as damage.
            assert not problems(found) or (zeros and size not in ends), (size, zeros)


def test_every_flipped_byte_is_told(tmp_path: Path) -> None:
    """And no other batch loses a row. Epochs are compared with those of the neighbours; the first batch has none before
    it."""
    parts = encoded([*topics(3), [PartitionRecord(partition_id=n, topic_id=TOPIC, replicas=[1]) for n in range(33)]])
    whole, full = b"".join(parts), rows_of(b"".join(parts))
    batch_of = [index for index, part in enumerate(parts) for _ in part]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    last = starts[-1] + HEADER_BYTES
    for byte in (*some_of(last, starts), *range(last, len(whole), 17)):
        flipped = bytearray(whole)
        flipped[byte] ^= 1 << byte % 8
        write_log(tmp_path, bytes(flipped))
        found = rows(tmp_path)
        assert problems(found), byte
        lost = batch_of[byte]
        is_epoch = 12 <= byte - starts[lost] < 16
        kept = [row for row in full if row["batch_offset"] != sum(len(p) for p in _records(parts[:lost]))]
        others = sound(found) if not is_epoch else [{**row, "leader_epoch": 1} for row in sound(found)]
        assert [row for row in others if row in kept] == kept, byte
        assert [row for row in others if row not in full] == [], byte


def _records(parts: Sequence[bytes]) -> list[list[Message]]:
    return [decode_batch(part, 0).records for part in parts]


def test_the_first_byte_of_a_log_may_be_the_damaged_one() -> None:
    parts = encoded(topics(2))
    assert [row["record_offset"] for row in sound(rows_of(b"\xff" + b"".join(parts)[1:]))] == [1, 2, 3, 4]


def test_damage_in_the_middle_is_one_row_and_reading_goes_on() -> None:
    parts = encoded(topics(3))
    junk = b"junk " * 40
    found = rows_of(parts[0] + parts[1] + junk + parts[2] + parts[3])
    assert [row["record_offset"] for row in found] == [0, 1, 2, 3, 3, 4, 5, 6]
    start = len(parts[0] + parts[1])
    reported = f"bytes {start} to {start + len(junk)} are no batch of offset 3, and a sound one follows"
    assert problems(found) == [reported]
    assert found[3]["raw"] == junk


def test_a_length_that_swallows_the_next_batches_loses_only_its_own() -> None:
    parts = encoded(topics(4))
    for swallowed in (1, 2):
        length = sum(map(len, parts[1 : 2 + swallowed])) - 12
        for wrong in (length, length - 20):
            damaged = parts[1][:8] + wrong.to_bytes(4, "big") + parts[1][12:]
            found = rows_of(parts[0] + damaged + b"".join(parts[2:]))
            assert [row["record_offset"] for row in sound(found)] == [0, 3, 4, 5, 6, 7, 8]
            assert len(problems(found)) == 1


def test_missing_batches_and_segments_are_told(tmp_path: Path) -> None:
    parts = encoded(topics(4))
    found = rows_of(parts[0] + parts[2] + parts[3])
    assert [row["record_offset"] for row in sound(found)] == [0, 3, 4, 5, 6]
    assert problems(found) == ["offsets 1 to 2 are missing"]
    found = rows(write_log(tmp_path, parts[0], parts[2] + parts[3], base_offsets=(0, 3)))
    assert [row["record_offset"] for row in sound(found)] == [0, 3, 4, 5, 6]
    assert problems(found) == ["offsets 1 to 2 are missing"]


def test_a_tail_that_another_segment_follows_is_damage(tmp_path: Path) -> None:
    parts = encoded(topics(2))
    found = rows(write_log(tmp_path, parts[0] + parts[1][:70], parts[2], base_offsets=(0, 3)))
    assert [row["record_offset"] for row in sound(found)] == [0, 3, 4]
    assert problems(found) == [
        f"bytes {len(parts[0])} to {len(parts[0]) + 70} are no batch, and nothing follows",
        "offsets 1 to 2 are missing",
    ]


def test_a_snapshot_stands_before_the_segments(tmp_path: Path) -> None:
    header = encode_control_batch(0, 3, TIMESTAMP_MS, [SnapshotHeaderRecord()])
    content = encode_batch(1, 3, TIMESTAMP_MS, topics(1)[0])
    footer = encode_control_batch(3, 3, TIMESTAMP_MS, [SnapshotFooterRecord()])
    folder = write_log(tmp_path, *encoded(topics(2), 100, 4)[:1], base_offsets=(100,))
    (folder / f"{100:020}-{3:010}.checkpoint").write_bytes(header + content + footer)
    (folder / f"{0:020}-{0:010}.checkpoint").write_bytes(b"Kafka's voters")
    for piece_bytes in (1, 1 << 62):
        found = rows(folder, piece_bytes)
        assert [(row["record_offset"], row["snapshot_position"]) for row in found] == [
            *((99, 0), (99, 1), (99, 2), (99, 3)),
            (100, None),
        ]
        assert [row["type"] for row in found][1:3] == ["TopicRecord", "PartitionRecord"]
    (folder / f"{100:020}.log").unlink()
    assert len(rows(folder)) == 4
    (folder / f"{100:020}-{3:010}.checkpoint").write_bytes(header + content + footer[:50])
    assert [row["record_offset"] for row in rows(folder)] == [99, 99, 99, 99]
    assert problems(rows(folder)) == [
        f"bytes {len(header + content)} to {len(header + content) + 50} are no batch, and nothing follows"
    ]


def test_what_kafka_wrote_is_read() -> None:
    with gzip.open(KAFKA_LOG, "rt") as file:
        vectors = [json.loads(line) for line in file]
    for vector in vectors:
        data = bytes.fromhex(vector["hex"])
        with TemporaryDirectory() as folder:
            base_offset = vector["batch"]["baseOffset"]
            log = write_log(Path(folder), data, base_offsets=(base_offset,))
            (log / f"{base_offset:020}-{1:010}.checkpoint").write_bytes(b"") if base_offset else None
            found = rows(log)
        assert problems(found) == []
        assert [row["record_offset"] for row in found] == [
            reported["offset"] for reported in vector["batch"]["records"]
        ]


def test_records_of_a_newer_kafka_are_kept_as_they_are() -> None:
    unknown_id, unknown_version = b"\x01\xff\x01\x00later", b"\x01\x02\xff\xff\x07later"
    found = rows_of(forged(record(unknown_id) + record(unknown_version).replace(b"\0\0\0\1", b"\0\0\2\1", 1), 2))
    assert problems(found) == []
    assert [(row["type"], row["version"], row["raw"]) for row in found] == [
        ("unknown:255", 0, unknown_id),
        ("unknown:2", None, unknown_version),
    ]


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (forged(record(b"\x02\x02\x00later"), 1), "frame version 2"),
        (forged(record(b"") + record(b"\x01\x02"), 2), "the value ends too early"),
        (forged(record(b"hello"), 3), "frame version 104"),
        (forged(b"\x08\0\0\0\1\1\0", 1), "value"),
        (forged(b"gibberish", 1), "record"),
        (forged(b"", 1), "has 1 records, and has 0"),
        (forged(record(b"hello"), 1, attributes=2), "compressed"),
        (forged(record(b"hello"), 1, timestamp_ms=-1), "frame version"),
        (forged(record(b"hello"), 1, timestamp_ms=1 << 62), "frame version"),
        (forged(record(b"\x01"), 1, attributes=32), "control record key of 0 bytes"),
    ],
)
def test_foreign_batches_are_rows_with_a_problem(batch: bytes, problem: str) -> None:
    found = rows_of(batch)
    assert sound(found) == []
    assert any(problem in reported for reported in problems(found)), problems(found)


@pytest.mark.parametrize("content", [b"a diary, and no log at all\n" * 9, bytes(range(256)) * 3])
def test_a_file_of_something_else_is_one_row_with_a_problem(content: bytes) -> None:
    found = rows_of(content)
    assert sound(found) == []
    assert problems(found) == [f"bytes 0 to {len(content)} are no batch, and nothing follows"]


@given(st.binary(max_size=200), st.data())
def test_any_bytes_make_no_exception(junk: bytes, data: st.DataObject) -> None:
    whole = b"".join(encoded(topics(2)))
    at = data.draw(st.integers(0, len(whole)))
    rows_of(whole[:at] + junk + whole[at:])
    rows_of(forged(junk, data.draw(st.integers(0, 40)), attributes=data.draw(st.sampled_from([0, 32]))))


@given(contents, st.integers(1, 2000), st.integers(0, 2000), st.randoms(use_true_random=False))
def test_reading_on_from_any_piece_has_all_rows_once(
    content: Sequence[Sequence[Message]], piece_bytes: int, flipped: int, random: Random
) -> None:
    """Also in a damaged log: what was read defines the position, and reading continues from there."""
    whole = bytearray(b"".join(encoded(content)))
    whole[flipped % len(whole)] ^= 0x10
    with TemporaryDirectory() as folder:
        log = find_metadata_logs([str(write_log(Path(folder), bytes(whole)))])[0]
        marks = [piece.behind for piece in cut_log(log, None, 1)]
        chosen: list[Mark | None] = [None, *sorted(random.sample(marks, len(marks) // 2), key=marks.index)]
        found = []
        for start, end in zip(chosen, [*chosen[1:], None], strict=True):
            pieces = list(cut_log(log, start, piece_bytes, end))
            assert end is None or pieces[-1].behind == end
            found += [row for batch in read_pieces(pieces) for row in batch.to_pylist()]
        assert found == rows(Path(folder))


def test_half_a_batch_is_read_when_it_is_whole(tmp_path: Path) -> None:
    parts = encoded(topics(2))
    whole = b"".join(parts)
    for size in range(len(parts[0]) + 1, len(whole)):
        log = find_metadata_logs([str(write_log(tmp_path, whole[:size]))])[0]
        first = list(cut_log(log, None, 1))
        log = find_metadata_logs([str(write_log(tmp_path, whole))])[0]
        rest = list(cut_log(log, first[-1].behind, 1))
        assert [row["record_offset"] for b in read_pieces([*first, *rest]) for row in b.to_pylist()] == [0, 1, 2, 3, 4]


def test_segments_may_be_deleted_behind_what_was_read_and_not_beyond(tmp_path: Path) -> None:
    parts = encoded(topics(3))
    folder = write_log(tmp_path, parts[0], parts[1], parts[2] + parts[3], base_offsets=(0, 1, 3))
    marks = {piece.behind.offset: piece.behind for piece in cut_log(find_metadata_logs([str(folder)])[0], None, 1)}
    (folder / f"{0:020}.log").unlink()
    (folder / f"{1:020}.log").unlink()
    (folder / f"{5:020}-{1:010}.checkpoint").write_bytes(b"")
    log = find_metadata_logs([str(folder)])[0]
    assert [piece.behind.offset for piece in cut_log(log, marks[3], 1)] == [5, 7]
    assert [piece.behind.offset for piece in cut_log(log, marks[5], 1)] == [7]
    with pytest.raises(PipelineError, match="was read up to offset 1 and begins at 3 by now: records are lost"):
        list(cut_log(log, marks[1], 1))
    (folder / f"{3:020}.log").unlink()
    log = find_metadata_logs([str(folder)])[0]
    with pytest.raises(PipelineError, match="was read up to offset 3 and begins at 5 by now: records are lost"):
        list(cut_log(log, marks[3]._replace(file=f"{1:020}.log"), 1))
    with pytest.raises(PipelineError, match="ends before it by now: it is another log"):
        list(cut_log(log, marks[7], 1))


def test_a_log_that_is_another_one_by_now_is_refused(tmp_path: Path) -> None:
    parts = encoded(topics(3))
    mark = list(cut_log(find_metadata_logs([str(write_log(tmp_path, b"".join(parts)))])[0], None, 1))[-1].behind
    log = find_metadata_logs([str(write_log(tmp_path, parts[0]))])[0]
    with pytest.raises(PipelineError, match="is shorter than the part that was read: it is another log"):
        list(cut_log(log, mark, 1))


def test_version_columns_fit(tmp_path: Path) -> None:
    message = TopicRecord(name="t", topic_id=TOPIC)
    found = rows(write_log(tmp_path, encode_batch(0, 1, TIMESTAMP_MS, [message])))
    assert found[0]["version"] == max(record_type_of(TopicRecord).versions)
    assert len(encode_batch(0, 1, TIMESTAMP_MS, [message])) > HEADER_BYTES
