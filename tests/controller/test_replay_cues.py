"""Replay counts what may be a cue for long work: brokers that come and go, room for placeholders, replicas to catch up.

Work that misses a cue waits for the next one, maybe for ever. A cue too many costs a look at all partitions.
"""

from typing import Any

import pytest

from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batches, encode_batch
from klamm.protocol.records.brokers import ProducerIdsRecord, UnregisterBrokerRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence, uuid_of

PARTITIONS = 40
"""So many changes come from bytes as a run."""
LIVENESS, ROOM, CATCH_UP = "liveness_changes", "room_changes", "catch_up_changes"
ALL = {LIVENESS, ROOM, CATCH_UP}


def cues(image: MetadataImage) -> dict[str, int]:
    return {name: getattr(image, name) for name in (LIVENESS, ROOM, CATCH_UP)}


def grown(before: dict[str, int], image: MetadataImage) -> set[str]:
    after = cues(image)
    assert all(after[name] >= before[name] for name in before)
    return {name for name in before if after[name] > before[name]}


def described(value: object) -> str:
    """A name for a test, the same in every process."""
    return " ".join(sorted(value)) if isinstance(value, set) else repr(value)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (registration(4), ALL),
        (registration(1), ALL),
        (fence(1), ALL),
        (unfence(1), ALL),
        (UnregisterBrokerRecord(broker_id=1, broker_epoch=1), {LIVENESS, CATCH_UP}),
        (TopicRecord(name="u", topic_id=uuid_of(9)), set()),
        (RemoveTopicRecord(topic_id=uuid_of(1)), {ROOM}),
        (
            ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="max.broker.partitions", value="9"),
            {ROOM},
        ),
        (ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name="max.partitions", value=None), {ROOM}),
        (ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t1", name="retention.ms", value="9"), set()),
        (ClearElrRecord(), set()),
        (ProducerIdsRecord(next_producer_id=1000), set()),
    ],
    ids=described,
)
def test_records_that_are_a_cue_for_work(record: Message, expected: set[str]) -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]] * PARTITIONS)
    before = cues(image)
    apply(image, record)
    assert grown(before, image) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, set()),
        ({"isr": [1]}, set()),
        ({"leader_recovery_state": 1}, set()),
        ({"eligible_leader_replicas": [2], "last_known_elr": [1]}, set()),
        ({"leader": 2}, {CATCH_UP}),
        ({"leader": -1, "isr": []}, {CATCH_UP}),
        ({"replicas": [1, 2, 3], "directories": [uuid_of(number) for number in (1, 2, 3)]}, {ROOM, CATCH_UP}),
        ({"replicas": [1, 3]}, {ROOM, CATCH_UP}),
        ({"adding_replicas": [2]}, set()),
        ({"removing_replicas": []}, {ROOM}),
    ],
    ids=described,
)
@pytest.mark.parametrize("partitions", [1, PARTITIONS], ids=["a record", "a run"])
def test_changes_of_partitions_that_are_a_cue_for_work(
    change: dict[str, Any], expected: set[str], partitions: int
) -> None:
    """When a reassignment ends, what it removed is no longer kept from being filled: also if no replicas change."""
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]] * PARTITIONS)
    records = [PartitionChangeRecord(partition_id=index, topic_id=uuid_of(1), **change) for index in range(partitions)]
    [batch] = decode_batches(encode_batch(image.next_offset, 1, 0, records))
    assert isinstance(batch.contents[0], Columns) == (partitions == PARTITIONS)
    before = cues(image)
    apply(image, *batch.contents)
    assert grown(before, image) == expected
