"""A snapshot has the whole content of the image: its records rebuild it, and the rest of a log continues from there."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.authorizer import Acl
from klamm.controller.log_records import count_records
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import BATCH_BYTES, copy_image, snapshot_batches
from klamm.controller.settings import Settings
from klamm.controller.transitions.features import bootstrap_records
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import encode_batch
from klamm.protocol.records.brokers import (
    BrokerFeature,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import ControllerEndpoint, FeatureLevelRecord, RegisterControllerRecord
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord, EntityData
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence, uuid_of
from tests.controller.snapshots import lasting_facts, rebuilt
from tests.controller.test_replay import History, histories, new_partitions

MAX_KAFKA_BATCH_BYTES = 8 << 20


@given(histories(), st.data())
def test_a_snapshot_at_any_offset_and_the_rest_of_the_log_give_the_image(history: History, data: st.DataObject) -> None:
    singles = history.singles()
    cut = data.draw(st.integers(0, len(singles)))
    image = MetadataImage()
    replay(image, singles[:cut], 0)
    found = rebuilt(image)
    assert lasting_facts(found) == lasting_facts(image)
    replay(found, singles[cut:], cut)
    assert lasting_facts(found) == lasting_facts(history.image)


@given(new_partitions())
def test_partitions_of_every_shape_are_in_a_snapshot_as_they_are(records: list[PartitionRecord]) -> None:
    """Of every length, with placeholders, in reassignment, with eligible leader replicas, without directories."""
    image = MetadataImage()
    topics = [TopicRecord(name="t", topic_id=uuid_of(1)), TopicRecord(name="__consumer_offsets", topic_id=uuid_of(2))]
    replay(image, [*topics, *records], 0)
    assert lasting_facts(rebuilt(image)) == lasting_facts(image)


def every_kind() -> MetadataImage:
    """A cluster with one of everything, and with things that were created and removed."""
    image = live_cluster(4)
    add_topic(image, 1, [[1, 2], [2, 3]], retention_ms="5")
    add_topic(image, 2, [[1, 2, 3]] * 100, min_insync_replicas="2", retention_ms="7")
    for index in range(0, 100, 7):  # so that ISRs of unequal length are adjacent
        apply(image, PartitionChangeRecord(partition_id=index, topic_id=uuid_of(2), isr=[1], leader=1))
    add_topic(image, 3, [[1]])
    apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
    add_topic(image, 4, [[4, -1], [3, -2]])
    apply(
        image,
        RegisterBrokerRecord(
            broker_id=9,
            broker_epoch=77,
            incarnation_id=uuid_of(5),
            rack=None,
            features=[BrokerFeature(name="group.version", min_supported_version=0, max_supported_version=1)],
            log_dirs=[uuid_of(6), uuid_of(7)],
            cordoned_log_dirs=[uuid_of(7)],
            in_controlled_shutdown=True,
            fenced=False,
        ),
    )
    apply(image, UnregisterBrokerRecord(broker_id=2, broker_epoch=2), registration(2, "z", epoch=99), fence(3))
    end_point = ControllerEndpoint(name="CONTROLLER", host="ü", port=9093)
    apply(image, RegisterControllerRecord(controller_id=3001, end_points=(end_point,), features=()))
    apply(image, ProducerIdsRecord(broker_id=1, next_producer_id=5000))
    apply(image, ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t3", name="a", value=""))
    apply(image, ConfigRecord(resource_type=32, resource_name="group", name="x", value="ü" * 9))
    entity = [EntityData(entity_type="user", entity_name="ü"), EntityData(entity_type="client-id", entity_name=None)]
    for key in ("request_percentage", "producer_byte_rate", "consumer_byte_rate"):
        apply(image, ClientQuotaRecord(entity=entity, key=key, value=0.5))
    apply(image, ClientQuotaRecord(entity=entity[::-1], key="producer_byte_rate", remove=True))
    for number, host in enumerate(("*", "::1", "10.0.0.1")):
        acl = Acl(2, f"name {number % 2}", 3, "User:ä", host, 4, 2)
        apply(image, AccessControlEntryRecord(id=uuid_of(100 - number), **acl._asdict()))
    apply(image, RemoveAccessControlEntryRecord(id=uuid_of(99)))
    for user, mechanism in (("ü", 2), ("b", 1), ("ü", 1), ("a", 1)):
        apply(image, UserScramCredentialRecord(name=user, mechanism=mechanism, salt=b"s", iterations=4096))
    apply(image, RemoveUserScramCredentialRecord(name="b", mechanism=1))
    for token_id in ("c", "b", "a"):
        apply(image, DelegationTokenRecord(token_id=token_id, owner="User:ü", renewers=["User:b"], max_timestamp=9))
    apply(image, DelegationTokenRecord(token_id="c", owner="User:ü", max_timestamp=10))
    apply(image, RemoveDelegationTokenRecord(token_id="b"))
    return image


def test_every_kind_of_thing_is_in_a_snapshot() -> None:
    image = every_kind()
    assert lasting_facts(rebuilt(image)) == lasting_facts(image)


def test_narrow_and_wide_partitions_side_by_side_are_in_a_snapshot_as_they_are() -> None:
    """In one batch: the ISRs that were read of wide partitions may be wider than the rows of the narrow ones."""
    image = live_cluster(9)
    for number in range(1, 7):
        width = 9 if number % 2 else 3
        add_topic(image, number, [list(range(1, width + 1))] * 50)
        for index in range(0, 50, 3):
            isr = list(range(1, width - index % 2))
            apply(image, PartitionChangeRecord(partition_id=index, topic_id=uuid_of(number), isr=isr))
    assert lasting_facts(rebuilt(image)) == lasting_facts(image)


def test_a_snapshot_of_a_snapshot_is_the_same() -> None:
    image = every_kind()
    again = snapshot_batches(copy_image(rebuilt(image)))
    assert [list(map(str, batch)) for batch in again] == [
        list(map(str, batch)) for batch in snapshot_batches(copy_image(image))
    ]


def test_a_copy_stays_as_the_image_was() -> None:
    """Whatever follows: rows that move to a wider table, new configs of a resource, deleted topics."""
    image = every_kind()
    before = [encode_batch(0, 1, 0, batch) for batch in snapshot_batches(copy_image(image))]
    taken = copy_image(image)
    frozen = copy.deepcopy(lasting_facts(image))
    for number in range(2000):
        add_topic(image, 1000 + number, [[1, 2, 3]])
    image.partitions.make_room([(image.topics_by_name["t2"].row, [0])], 5)
    apply(image, ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t3", name="b", value="1"), unfence(3))
    apply(image, RemoveTopicRecord(topic_id=uuid_of(2)), FeatureLevelRecord(name="share.version", feature_level=0))
    apply(image, ProducerIdsRecord(broker_id=1, next_producer_id=9000))
    assert [encode_batch(0, 1, 0, batch) for batch in snapshot_batches(taken)] == before
    assert lasting_facts(image) != frozen


def test_the_metadata_version_comes_first_and_partitions_behind_their_topic() -> None:
    image = MetadataImage()
    apply(image, FeatureLevelRecord(name="group.version", feature_level=1), *bootstrap_records(Settings()))
    apply(image, registration(1), unfence(1))
    add_topic(image, 1, [[1]])
    records = [record for batch in snapshot_batches(copy_image(image)) for record in batch]
    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert [type(record) for record in records if isinstance(record, TopicRecord | PartitionRecord)] == [
        TopicRecord,
        PartitionRecord,
    ]


def test_batches_stay_well_below_what_kafka_writes() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2, 3]] * 30_000)
    for number in range(200):
        value = "\N{GRINNING FACE}" * 8_000  # four bytes each, and almost as much as a string can have
        apply(image, ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t1", name=f"c{number}", value=value))
    batches = list(snapshot_batches(copy_image(image)))
    sizes = [len(encode_batch(0, 1, 0, batch)) for batch in batches]
    assert len(batches) > 5
    assert max(sizes) < MAX_KAFKA_BATCH_BYTES
    assert sum(size > BATCH_BYTES // 2 for size in sizes) >= len(sizes) - 1  # and they are large
    assert sum(map(count_records, batches)) == 30_000 + 200 + sum(map(count_records, snapshot_of_the_rest()))


def snapshot_of_the_rest() -> list[list[Message | Columns[PartitionRecord]]]:
    image = live_cluster(3)
    apply(image, TopicRecord(name="t1", topic_id=uuid_of(1)))
    return list(snapshot_batches(copy_image(image)))


LONG = "\N{GRINNING FACE}" * 8_000


@pytest.mark.parametrize(
    "record",
    [
        lambda number: ClientQuotaRecord(
            entity=[EntityData(entity_type="user", entity_name=f"{number}{LONG}")], key="request_percentage", value=1.0
        ),
        lambda number: AccessControlEntryRecord(
            id=uuid_of(number), resource_name=f"{number}{LONG}", principal=f"User:{LONG}"
        ),
    ],
    ids=["quotas", "ACLs"],
)
def test_records_with_long_names_fill_no_batch_beyond_what_kafka_writes(record: Callable[[int], Message]) -> None:
    image = live_cluster(1)
    apply(image, *[record(number) for number in range(400)])
    sizes = [len(encode_batch(0, 1, 0, batch)) for batch in snapshot_batches(copy_image(image))]
    assert len(sizes) > 1
    assert max(sizes) < MAX_KAFKA_BATCH_BYTES


def test_columns_give_the_bytes_that_single_records_give() -> None:
    image = live_cluster(4)
    add_topic(image, 1, [[1, 2, 3], [2, 3, 4], [3, 4, 1]] * 50)
    # Rows of unequal length: some have lost an ISR member.
    table = image.partitions.tables[3]
    assert isinstance(image.partitions, PartitionTable)
    table.isr_count[::7] = 1
    table.leader_recovery_state[5] = 1
    (batch,) = snapshot_batches(copy_image(image))
    assert any(isinstance(record, Columns) for record in batch)
    singles = [one for record in batch for one in (record if isinstance(record, Columns) else [record])]
    assert encode_batch(0, 1, 0, batch) == encode_batch(0, 1, 0, singles)
    assert np.count_nonzero(table.isr_count == 1)
