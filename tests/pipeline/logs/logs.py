"""Helpers of the readers' tests: metadata logs made of any batches, and the rows that readers make of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import cut_log
from klamm.pipeline.logs.metadata_rows import read_pieces
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import encode_batch, encode_control_batch
from klamm.protocol.record_versions import load_record_type
from klamm.protocol.records.control import LeaderChangeMessage
from klamm.protocol.records.index import METADATA
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.protocol.strategies import messages

CLUSTER_ID = "klammklammklammklammkl"
TIMESTAMP_MS = 1_700_000_000_000
Row = dict[str, Any]

_kinds = [kind for key in METADATA if (kind := load_record_type(key)) is not None]


@st.composite
def records(draw: st.DrawFn) -> Message:
    """A record of any type."""
    kind = draw(st.sampled_from(_kinds))
    version = max(kind.versions)
    message: Message = draw(messages(kind.message, version, kind.flexible(version)))
    return message


@st.composite
def runs(draw: st.DrawFn) -> list[Message]:
    """Partitions of one topic, enough of them to be columns, with other records in between."""
    topic_id = Uuid(draw(st.binary(min_size=16, max_size=16)))
    replicas = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    count = draw(st.integers(32, 60))
    change = draw(st.booleans())
    made: list[Message] = [
        PartitionChangeRecord(
            partition_id=n, topic_id=topic_id, isr=replicas, leader=draw(st.sampled_from([-2, -1, 3]))
        )
        if change
        else PartitionRecord(partition_id=n, topic_id=topic_id, replicas=replicas, isr=replicas, leader=replicas[0])
        for n in range(count)
    ]
    if draw(st.booleans()):
        made.insert(draw(st.integers(0, count)), TopicRecord(name="in between", topic_id=topic_id))
    return made


batches = st.lists(records(), min_size=1, max_size=4) | runs()
"""The records of one batch."""
contents = st.lists(batches, min_size=1, max_size=6)


def encoded(content: Sequence[Sequence[Message]], base_offset: int = 0, epoch: int = 1) -> list[bytes]:
    """The batches of a log, with the LeaderChange batch at the beginning."""
    leader = LeaderChangeMessage(version=0, leader_id=1, voters=[], granting_voters=[])
    made = [encode_control_batch(base_offset, epoch, TIMESTAMP_MS, [leader])]
    offset = base_offset + 1
    for index, batch in enumerate(content):
        made.append(encode_batch(offset, epoch, TIMESTAMP_MS + index, batch))
        offset += len(batch)
    return made


def write_log(folder: Path, *segments: bytes, base_offsets: Sequence[int] = (0,)) -> Path:
    """A log folder with these segments."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER_ID}\n")
    for base_offset, segment in zip(base_offsets, segments, strict=True):
        (folder / f"{base_offset:020}.log").write_bytes(segment)
    return folder


def rows(folder: Path, piece_bytes: int = 1 << 62, types: Sequence[str] | None = None) -> list[Row]:
    """Each row of a log, in the order of reading."""
    return [
        row
        for log in find_metadata_logs([str(folder)])
        for piece in cut_log(log, None, piece_bytes)
        for batch in read_pieces([piece], types)
        for row in batch.to_pylist()
    ]


def sound(given: Sequence[Row]) -> list[Row]:
    return [row for row in given if row["problem"] is None]


def problems(given: Sequence[Row]) -> list[str]:
    return [row["problem"] for row in given if row["problem"] is not None]
