"""Many batches read as a block give the same rows as one by one, whatever they contain."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.pipeline.logs.record_blocks import Block
from klamm.pipeline.logs.record_rows import RecordContent, record_content
from klamm.protocol.fields import Message
from klamm.protocol.raw_records import RawRecord
from klamm.protocol.record_batch import encode_batch
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.logs.logs import TIMESTAMP_MS, Row, contents, encoded, problems, rows, sound, write_log
from tests.pipeline.logs.test_metadata_rows import forged, record, topics

TOPIC = Uuid(bytes(range(16)))


def one_by_one(log: Path, types: Sequence[str] | None = None) -> list[Row]:
    """The rows of a log, read without blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Block, "add", lambda *_: False)
        return rows(log, types=types)


@given(contents, st.integers(0, 4000), st.sampled_from([None, ("PartitionRecord", "TopicRecord"), ("ConfigRecord",)]))
def test_blocks_are_the_rows_that_batches_are_one_by_one(
    content: Sequence[Sequence[Message]], flipped: int, types: Sequence[str] | None
) -> None:
    whole = bytearray(b"".join(encoded(content)))
    whole[flipped % len(whole)] ^= 1 << flipped % 8
    with TemporaryDirectory() as folder:
        log = write_log(Path(folder), bytes(whole))
        assert rows(log, types=types) == one_by_one(log, types)


def test_what_is_alike_in_a_block_is_found_across_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of three partitions have no run of their own."""
    content = [
        [
            TopicRecord(name=f"t{n}", topic_id=TOPIC),
            *(
                PartitionRecord(partition_id=p, topic_id=TOPIC, replicas=[n, 2, 3][: 1 + n % 3], isr=[n])
                for p in range(3)
            ),
            PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=n, isr=[n] if n % 2 else None),
        ]
        for n in range(40)
    ]
    log = write_log(tmp_path, b"".join(encoded(content)))
    alone: list[RecordContent] = []

    def kept(record: RawRecord, *, is_control: bool) -> RecordContent:
        alone.append(record_content(record, is_control=is_control))
        return alone[-1]

    monkeypatch.setattr("klamm.pipeline.logs.record_blocks.record_content", kept)
    found = rows(log)
    kinds = Counter(content.type for content in alone)
    assert kinds == {"LeaderChangeMessage": 1, "TopicRecord": 40}
    assert found == one_by_one(log)
    assert [row["record_offset"] for row in found] == list(range(1 + 40 * 5))


def test_each_record_of_a_block_keeps_its_own_version(tmp_path: Path) -> None:
    old = [PartitionRecord(partition_id=n, topic_id=TOPIC, replicas=[1]) for n in range(8)]
    new = [PartitionRecord(partition_id=n, topic_id=TOPIC, replicas=[1], directories=[TOPIC]) for n in range(8)]
    parts = [encode_batch(0, 1, TIMESTAMP_MS, old, metadata_version=7), encode_batch(8, 1, TIMESTAMP_MS, new)]
    found = rows(write_log(tmp_path, b"".join(parts)))
    versions = [row["version"] for row in found]
    assert versions == [0] * 8 + versions[-1:] * 8
    assert versions[-1] > 0
    assert found == one_by_one(tmp_path)


def test_records_whose_inside_is_wrong_do_not_harm_those_of_other_batches(tmp_path: Path) -> None:
    parts = encoded(topics(2))
    broken = forged(b"\x08\0\0\0\1", 1)
    whole = b"".join(parts[:2]) + (3).to_bytes(8, "big") + broken[8:] + b"".join(encoded(topics(2), 3)[1:])
    found = rows(write_log(tmp_path, whole))
    assert [row["record_offset"] for row in sound(found)] == [0, 1, 2, 4, 5, 6, 7]
    assert len(problems(found)) == 1


def test_rows_with_a_problem_come_whatever_types_are_wanted(tmp_path: Path) -> None:
    """A record with a valid frame and an unknown content: the block accepts its batch."""
    silent = forged(record(b"hello"), 1)
    parts = encoded(topics(1))
    log = write_log(tmp_path, parts[0] + (1).to_bytes(8, "big") + silent[8:])
    found = rows(log, types=("ConfigRecord",))
    assert [(row["record_offset"], row["type"]) for row in found] == [(1, "corrupt")]
    assert found == one_by_one(log, ("ConfigRecord",))
