"""Reads the log with Klamm's own code: its batches, the state after replay, and whether all expected records occur.

Each record type that Klamm writes has to occur, because a log without it would not test that type.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.log.segment_files import list_segments
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import replay
from klamm.protocol.fields import Message, wire_fields
from klamm.protocol.record_batch import Batch, decode_batches
from klamm.protocol.record_versions import LATEST_METADATA_VERSION, record_type_of, written_version
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from tools.toolchain_checks.cluster_state import ClusterState, state_of_image

_SPARSE = (BrokerRegistrationChangeRecord, PartitionChangeRecord)
"""Records in which each field is a separate change."""
_WANTED = frozenset(
    {
        *("LeaderChangeMessage", "FeatureLevelRecord", "ConfigRecord", "TopicRecord", "RemoveTopicRecord"),
        "ClearElrRecord",
        *("RegisterBrokerRecord v4", "UnregisterBrokerRecord", "PartitionRecord v2", "PartitionChangeRecord v2"),
        *(f"BrokerRegistrationChangeRecord v{version}" for version in range(4)),
        *(f"BrokerRegistrationChangeRecord.{name}" for name in ("fenced", "in_controlled_shutdown", "log_dirs")),
        "BrokerRegistrationChangeRecord.cordoned_log_dirs",
        *(f"PartitionChangeRecord.{name}" for name in ("isr", "leader", "leader_recovery_state")),
        *(f"PartitionChangeRecord.{name}" for name in ("eligible_leader_replicas", "last_known_elr")),
    }
)


@dataclass(frozen=True, slots=True)
class OwnLog:
    """The log of a data directory, decoded by Klamm."""

    segments: tuple[Path, ...]
    batches: tuple[Batch, ...]

    @property
    def record_count(self) -> int:
        return sum(len(batch.records) for batch in self.batches)

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1

    @property
    def leader_epoch(self) -> int:
        return self.batches[-1].leader_epoch

    def replayed(self) -> ClusterState:
        """The image after replay."""
        image = MetadataImage()
        for batch in self.batches:
            if not batch.is_control:
                replay(image, batch.records, batch.base_offset)
        return state_of_image(image)

    def missing_kinds(self) -> list[str]:
        """The kinds of records and changes that Klamm writes and this log lacks."""
        found: set[str] = set()
        for batch in self.batches:
            for record in batch.records:
                found.update(_kinds(record))
        return sorted(_WANTED - found)


def decode_log(data_dir: Path) -> OwnLog:
    """Every batch of every segment."""
    segments = tuple(segment.path for segment in list_segments(data_dir / LOG_FOLDER))
    return OwnLog(segments, tuple(batch for path in segments for batch in decode_batches(path.read_bytes())))


def version_of(record: Message, is_control: bool) -> int:
    """The version in which the log has a record of this content."""
    return 0 if is_control else written_version(record_type_of(type(record)), record, LATEST_METADATA_VERSION)


def _kinds(record: Message) -> Iterator[str]:
    record_type = record_type_of(type(record))
    yield record_type.name
    if record_type.name == "LeaderChangeMessage":
        return
    yield f"{record_type.name} v{version_of(record, is_control=False)}"
    if isinstance(record, _SPARSE):
        for wire in wire_fields(type(record)):
            if wire.tag is not None and getattr(record, wire.name) != wire.default:
                yield f"{record_type.name}.{wire.name}"
