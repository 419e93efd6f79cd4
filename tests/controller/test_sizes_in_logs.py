"""Records that no controller writes: a start refuses them with one line."""

import pytest

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import ReplayError, replay
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batch, encode_batch
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid

TOPIC_ID = Uuid(bytes(range(16)))
DIRECTORY = Uuid(bytes(16))
WIDE = list(range(40_000))
RUN = 20
"""The number of records of one shape that are decoded as columns."""


def new(index: int, **fields: object) -> PartitionRecord:
    values = {"replicas": [1], "isr": [1], "leader": 1, "directories": [DIRECTORY], **fields}
    return PartitionRecord(partition_id=index, topic_id=TOPIC_ID, **values)  # type: ignore[arg-type]


def change(index: int, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([new(0, replicas=list(range(100_000)))], "a partition has 100000 replicas, and 32767 are possible"),
        ([new(index, replicas=WIDE) for index in range(RUN)], "a partition has 40000 replicas"),
        ([new(0, isr=WIDE)], "a partition has an ISR of 40000 and 1 replicas"),
        ([new(index, isr=[1, 2, 3]) for index in range(RUN)], "a partition has an ISR of 3 and 1 replicas"),
        ([new(0, directories=[DIRECTORY] * 3)], "a partition has 1 replicas in 3 directories"),
        ([new(index, directories=[DIRECTORY] * 3) for index in range(RUN)], "1 replicas in 3 directories"),
        ([new(0), change(0, replicas=WIDE)], "a partition has 40000 replicas"),
        ([new(0), change(0, isr=[1, 2, 3])], "a partition has an ISR of 3 and 1 replicas"),
        ([new(0), change(0, directories=[DIRECTORY] * 3)], "1 replicas in 3 directories"),
        (
            [
                *(new(index) for index in range(RUN)),
                *(change(index, replicas=WIDE, directories=[DIRECTORY] * 40_000) for index in range(RUN)),
            ],
            "a partition has 40000 replicas",
        ),
    ],
)
def test_lists_that_no_partition_has_are_refused(records: list[Message], reason: str, as_columns: bool) -> None:
    image = MetadataImage()
    replay(image, [TopicRecord(name="t", topic_id=TOPIC_ID)], 0)
    batch = decode_batch(encode_batch(1, 1, 1, records), 0)
    with pytest.raises(ReplayError, match=reason):
        replay(image, batch.contents if as_columns else batch.records, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "a/b", "a\0b", "x" * 250, "ä"])
def test_names_that_no_topic_has_are_refused(name: str) -> None:
    with pytest.raises(ReplayError, match=r"^no topic may be called '[^\n\0]*'$"):
        replay(MetadataImage(), [TopicRecord(name=name, topic_id=TOPIC_ID)], 0)
