"""Replay: the only way to change the image, at start, in tests and for live requests.

`replay(image, records, first_offset)` applies one batch and returns its delta. The kind of state that a record belongs
to applies the record (`MetadataImage.kinds`). Runs of columns are applied as columns and give the same image as single
records (a property test compares both). A record that cannot be applied raises ReplayError, which ends the process:
the log must never contain such a record.
"""

from klamm.controller.log_records import Records
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.kind import ReplayError
from klamm.controller.metadata.replay_partitions import find_topic, replay_new_partitions
from klamm.protocol.columns import Columns
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord

__all__ = ["ReplayError", "replay"]

_BESIDE_NEW_PARTITIONS = frozenset({TopicRecord, ConfigRecord})
"""Records that may be applied before partition records that precede them, so that partitions of small topics are
appended together."""


def replay(image: MetadataImage, records: Records, first_offset: int) -> Delta:
    """Apply one batch of records whose first record has the offset `first_offset`. Returns what changed. Raises
    ReplayError."""
    offset, delta = first_offset, Delta()
    new: list[PartitionRecord] = []
    for record in records:
        if isinstance(record, PartitionRecord):
            find_topic(image.topics, record.topic_id)
            new.append(record)
            offset += 1
            continue
        kind = type(record)
        if new and kind not in _BESIDE_NEW_PARTITIONS:
            replay_new_partitions(image.topics, new, delta)
            new = []
        if kind in image.replays:
            image.replays[kind](record, delta)
            offset += 1
        elif isinstance(record, Columns):
            image.run_replays[record.message_class](record, delta)
            offset += len(record)
        else:
            raise ReplayError(f"{kind.__name__} is not a record that this version can replay")
    if new:
        replay_new_partitions(image.topics, new, delta)
    image.next_offset = delta.end_offset = offset
    return delta
