"""`klamm wire dump`: the content of a log, record by record, and the position of damage."""

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.record_batch import encode_batch, encode_control_batch
from klamm.protocol.records.control import LeaderChangeMessage
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from klamm.wire.dump import dump_lines

TOPICS = [TopicRecord(name=f"t{number}", topic_id=Uuid(bytes([number]) * 16)) for number in range(1, 4)]
TIMESTAMP_MS = 1_700_000_000_123


def log(folder: Path, *batches: bytes) -> Path:
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    return path


def dumped(path: Path) -> list[tuple[dict[str, Any], bool]]:
    return [(json.loads(text), well) for text, well in dump_lines(path)]


def test_each_record_is_a_line_with_its_place(tmp_path: Path) -> None:
    control = encode_control_batch(0, 3, TIMESTAMP_MS, [LeaderChangeMessage(version=0, leader_id=3000)])
    found = dumped(log(tmp_path, control, encode_batch(1, 3, TIMESTAMP_MS, TOPICS)))
    assert all(well for _, well in found)
    lines = [line for line, _ in found]
    assert [(one["offset"], one["leaderEpoch"], one["batch"], one["record"]) for one in lines] == [
        (0, 3, 0, "LeaderChangeMessage"), *((offset, 3, len(control), "TopicRecord") for offset in (1, 2, 3)),
    ]  # fmt: skip
    assert {one["timestampMs"] for one in lines} == {TIMESTAMP_MS}
    assert [one["body"] for one in lines[1:]] == [message_to_json(topic, 0) for topic in TOPICS]
    assert {one["version"] for one in lines} == {0}


def test_a_record_of_a_newer_kafka_is_told_with_its_bytes_and_those_behind_it_as_ever(tmp_path: Path) -> None:
    whole = encode_batch(0, 1, TIMESTAMP_MS, TOPICS)
    value = bytes((1, 2, 0))  # frame version, id and version of a TopicRecord
    first = whole.index(value)
    newer = bytearray(whole)
    newer[first + 1] = 127
    found = dumped(log(tmp_path, _with_checksum(bytes(newer))))
    assert [well for _, well in found] == [False, True, True]
    reported = found[0][0]
    assert (reported["offset"], reported["key"], reported["version"]) == (0, 127, 0)
    assert reported["error"] == {"reason": "no metadata record 127 of version 0"}
    assert bytes.fromhex(reported["hex"])[1] == 127


@pytest.mark.parametrize("damage", ["torn", "flipped", "zeros", "text"])
def test_reading_ends_at_what_is_no_batch(tmp_path: Path, damage: str) -> None:
    first, second = encode_batch(0, 1, TIMESTAMP_MS, TOPICS[:1]), encode_batch(1, 1, TIMESTAMP_MS, TOPICS[1:])
    bad = {
        "torn": second[:-1],
        "flipped": second[:-1] + bytes([second[-1] ^ 1]),
        "zeros": bytes(100),
        "text": b"What is this doing here? " * 10,
    }[damage]
    (_, well), (reported, also_well) = dumped(log(tmp_path, first, bad))
    assert (well, also_well) == (True, False)
    assert reported["position"] == len(first)
    assert reported["error"]["reason"]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert dumped(log(tmp_path)) == []


def _with_checksum(batch: bytes) -> bytes:
    import google_crc32c

    checksum: int = google_crc32c.value(batch[21:])
    return batch[:17] + checksum.to_bytes(4, "big") + batch[21:]
