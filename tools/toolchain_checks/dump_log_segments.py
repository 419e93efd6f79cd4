"""DumpLogSegments: Kafka's decoding of every record of every segment, compared with ours.

The tool's exit code is always 0, so its words count: `isvalid: false`, `skipping` and `invalid bytes` are what it
says about a wrong checksum, a record that it cannot read, and a torn tail.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.fields import Message
from klamm.protocol.record_versions import record_type_of
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.own_log import OwnLog, version_of
from tools.toolchain_checks.report import expect_none

DUMP_SECONDS = 180.0
_COMPLAINTS = ("isvalid: false", "skipping", "invalid bytes")
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (-?\d+) .*"
    r"isControl: (true|false) .*CreateTime: (\d+) size: (\d+) magic: 2 compresscodec: none .*isvalid: true"
)
_RECORD = re.compile(r"\| offset: (\d+) .* (payload|LeaderChange): (\{.*\})")
# The tool expects the first segment: of the second one it always reports that offset -1 comes before it.
_HOLE = re.compile(r"\s*(-?\d+) is followed by (\d+)")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class DumpedBatch(NamedTuple):
    """A batch in the tool's output."""

    base_offset: int
    last_offset: int
    record_count: int
    leader_epoch: int
    is_control: bool
    timestamp_ms: int
    size_bytes: int


class DumpedRecord(NamedTuple):
    """A record in the tool's output; `content` is JSON."""

    offset: int
    type_name: str
    version: int
    content: dict[str, Any]


class Dump:
    """The tool's output about the segments."""

    def __init__(self, path: Path, complaints_of_tool: str) -> None:
        self.batches: list[DumpedBatch] = []
        self.complaints = [line for line in complaints_of_tool.splitlines() if _is_complaint(line)]
        self._path = path
        for line in self._lines():
            if line.startswith("baseOffset"):
                self._add_batch(line)
            elif _is_complaint(line):
                self.complaints.append(line)

    def _add_batch(self, line: str) -> None:
        match = _BATCH.match(line)
        if match is None:
            self.complaints.append(line)
            return
        base, last, count, epoch, is_control, time, size = match.groups()
        self.batches.append(
            DumpedBatch(int(base), int(last), int(count), int(epoch), is_control == "true", int(time), int(size))
        )

    def records(self) -> Iterator[DumpedRecord]:
        """The records, in order; they are read from the file each time."""
        for line in self._lines():
            if line.startswith("|"):
                yield _decode_record(line)

    def _lines(self) -> Iterator[str]:
        with self._path.open(encoding="utf-8") as lines:
            yield from lines


def dump_segments(java: Java, segments: tuple[Path, ...]) -> Dump:
    """Let the tool dump the segments, in order."""
    files = ",".join(str(path) for path in segments)
    arguments = ["--cluster-metadata-decoder", "--files", files]
    output = java.run("dump-log-segments", "org.apache.kafka.tools.DumpLogSegments", arguments, DUMP_SECONDS)
    return Dump(output, output.with_suffix(".err").read_text(encoding="utf-8"))


def compare_batches(dump: Dump, log: OwnLog) -> None:
    """Every batch has the same offsets, epoch, kind, time and size in both."""
    ours = [
        DumpedBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            record_count=len(batch.records),
            leader_epoch=batch.leader_epoch,
            is_control=batch.is_control,
            timestamp_ms=batch.timestamp_ms,
            size_bytes=batch.size_bytes,
        )
        for batch in log.batches
    ]
    pairs = zip(ours, dump.batches, strict=False)
    found = [f"we have {own}\nKafka has {dumped}" for own, dumped in pairs if own != dumped]
    if len(ours) != len(dump.batches):
        found.append(f"we have {len(ours)} batches, Kafka has {len(dump.batches)}")
    expect_none(found, "batches that differ")


def compare_records(dump: Dump, log: OwnLog) -> None:
    """Every record has the same type, version and content in both."""
    found: list[str] = []
    dumped = dump.records()
    for batch in log.batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            ours, theirs = _as_dumped(offset, record, is_control=batch.is_control), next(dumped, None)
            if ours != theirs:
                found.append(f"we have {ours}\nKafka has {theirs}")
    found += [f"Kafka alone has {record}" for record in dumped]
    expect_none(found, "records that differ")


def _as_dumped(offset: int, record: Message, *, is_control: bool) -> DumpedRecord:
    version = version_of(record, is_control)
    name = kafkas_name(record_type_of(type(record)).name)
    return DumpedRecord(offset, name, version, message_to_json(record, version))


def kafkas_name(type_name: str) -> str:
    """The tool's name of a record type."""
    return _WORD_START.sub("_", type_name).upper()


def _decode_record(line: str) -> DumpedRecord:
    match = _RECORD.match(line)
    if match is None:
        return DumpedRecord(-1, line, -1, {})
    offset, kind, text = match.groups()
    content = json.loads(text)
    if kind == "LeaderChange":
        return DumpedRecord(int(offset), "LEADER_CHANGE_MESSAGE", content["version"], content)
    return DumpedRecord(int(offset), content["type"], content["version"], content["data"])


def _is_complaint(line: str) -> bool:
    if line.startswith("|"):
        # The words may be a record's content. A record that the tool could not read has no JSON after it.
        return _RECORD.match(line) is None
    hole = _HOLE.match(line)
    return (hole is not None and hole[1] != "-1") or any(complaint in line.lower() for complaint in _COMPLAINTS)
