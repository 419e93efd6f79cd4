"""Helpers of the log's tests: records to write, a log in a directory, and the bytes in that directory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import google_crc32c
from hypothesis import strategies as st

from klamm.controller.log import MetadataLog, SegmentLog
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import Batch, BatchBuilder, check_batch
from klamm.protocol.record_versions import LATEST_METADATA_VERSION
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.uuid import Uuid

CLUSTER_ID = "klammklammklammklammkl"
DIRECTORY_ID = Uuid(bytes(range(100, 116)))
TIMESTAMP_MS = 1_700_000_000_000
IN_MEMORY = Path("/dev/shm")

uuids = st.binary(min_size=16, max_size=16).map(Uuid)
int32 = st.integers(-(2**31), 2**31 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
broker_lists = st.lists(int32, max_size=5)

records = st.one_of(
    st.builds(TopicRecord, name=names, topic_id=uuids),
    st.builds(RemoveTopicRecord, topic_id=uuids),
    st.builds(ConfigRecord, resource_type=st.just(2), resource_name=names, name=names, value=st.none() | names),
    st.builds(PartitionRecord, partition_id=int32, topic_id=uuids, replicas=broker_lists, isr=broker_lists),
    st.builds(PartitionChangeRecord, partition_id=int32, topic_id=uuids, isr=st.none() | broker_lists),
)
appends = st.lists(records, min_size=1, max_size=4)
"""The records of one append."""


def open_log(
    data_dir: Path,
    *,
    warn: Callable[[str], None] | None = None,
    segment_bytes: int = 1 << 30,
    timestamp_ms: int = TIMESTAMP_MS,
    keep_history: bool = False,
    new_directory_id: Uuid = DIRECTORY_ID,
) -> SegmentLog:
    """The log in `data_dir`. Without `warn`, warnings are errors."""
    return SegmentLog.open(
        data_dir,
        new_cluster_id=CLUSTER_ID,
        new_directory_id=new_directory_id,
        timestamp_ms=timestamp_ms,
        warn=warn or _unexpected,
        segment_bytes=segment_bytes,
        keep_history=keep_history,
    )


def _unexpected(warning: str) -> None:
    raise AssertionError(warning)


def append_records(log: MetadataLog, records: Iterable[Message | Columns[Any]], timestamp_ms: int) -> tuple[int, int]:
    """Append records as one batch, as of the newest metadata version. Returns their first and last offset."""
    batch = BatchBuilder(LATEST_METADATA_VERSION)
    batch.add(records)
    return log.append_batch(batch, timestamp_ms)


def write_log(data_dir: Path, batches: Sequence[Sequence[Message]], segment_bytes: int = 1 << 30) -> None:
    """A log of one epoch with these batches, closed."""
    log = open_log(data_dir, segment_bytes=segment_bytes)
    for batch in batches:
        append_records(log, batch, TIMESTAMP_MS)
    log.sync()
    log.close()


def segment_files(data_dir: Path) -> list[Path]:
    return sorted((data_dir / "__cluster_metadata-0").glob("*.log"))


def forget_recovery_point(data_dir: Path) -> None:
    """Make the directory like one of a Klamm that wrote no recovery point: a start that finds the log shorter than
    before assumes that a process was killed."""
    (data_dir / "__cluster_metadata-0" / "recovery-point-checkpoint").unlink(missing_ok=True)


def batch_starts(data: bytes) -> list[int]:
    """The byte at which each batch of an intact segment begins, and at which the last one ends."""
    starts = [0]
    while starts[-1] < len(data):
        starts.append(check_batch(data, starts[-1]))
    return starts


def with_last_delta(batch: bytes, last_delta: int) -> bytes:
    """A batch with a last offset that differs from that of its records, and a correct checksum."""
    checked = batch[21:23] + last_delta.to_bytes(4, "big", signed=True) + batch[27:]
    checksum: int = google_crc32c.value(checked)
    return batch[:17] + checksum.to_bytes(4, "big") + checked


def data_batches(log: MetadataLog) -> list[Batch]:
    return [batch for batch in log.read() if not batch.is_control]


def written_records(log: MetadataLog) -> list[list[Message]]:
    """The appended records, batch by batch, in all epochs."""
    return [batch.records for batch in data_batches(log)]


def reopened(data_dir: Path, warn: Callable[[str], None] | None = None) -> list[list[Message]]:
    """The records that a new start finds."""
    log = open_log(data_dir, warn=warn)
    try:
        return written_records(log)
    finally:
        log.close()


@contextmanager
def memory_dir() -> Iterator[Path]:
    """A directory whose syncs cost nothing, if there is such a place."""
    with TemporaryDirectory(prefix="klamm-log-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@contextmanager
def fresh_dir() -> Iterator[Path]:
    """A directory for each hypothesis example, which does not exist yet; all examples would share `tmp_path`."""
    with memory_dir() as folder:
        yield folder / "data"
