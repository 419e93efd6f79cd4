"""The image keeps every field of every record, and the next snapshot has it, in every form of a record. The fields come
from the declarations, so that a new field or record fails here by its name until replay and snapshot handle it. All
values differ from the defaults."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from klamm.controller.metadata.broker import BrokerState, EndPoint
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import Partition
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message, wire_fields
from klamm.protocol.record_batch import decode_batches, encode_batch
from klamm.protocol.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import (
    NoOpRecord,
    ZkMigrationStateRecord,
)
from klamm.protocol.records.configs import ClientQuotaRecord
from klamm.protocol.records.facts import KEYS, REMOVALS
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import (
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.records.transactions import AbortTransactionRecord
from tests.controller.cluster_states import apply, uuid_of
from tests.controller.record_examples import CHANGES_OF_ALL, SAYING, TOPIC
from tests.controller.snapshots import rebuilt

CHANGING = {
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    ClearElrRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    RemoveDelegationTokenRecord,
}
"""Records that change the content of other records: no snapshot has them."""
SAYING_NOTHING = {NoOpRecord, ZkMigrationStateRecord, AbortTransactionRecord}
NOT_KEPT = {
    (ClientQuotaRecord, "remove"): "a quota that was removed is in no snapshot",
    (RegisterBrokerRecord, "is_migrating_zk_broker"): "Kafka 4 has no such brokers",
    (ProducerIdsRecord, "broker_id"): "who was given the last ids changes nothing",
    (ProducerIdsRecord, "broker_epoch"): "who was given the last ids changes nothing",
}
SPARSE_FIELDS = ("removing_replicas", "adding_replicas", "eligible_leader_replicas", "last_known_elr")
"""Fields of few partitions, which are written as single records: columns lack them."""
MANY = 60


def kept_fields(kind: type[Message]) -> list[str]:
    return [wire.name for wire in wire_fields(kind) if (kind, wire.name) not in NOT_KEPT]


def snapshot_of(image: MetadataImage) -> list[Message | Columns[PartitionRecord]]:
    return [record for batch in snapshot_batches(copy_image(image)) for record in batch]


def singles(records: Sequence[Message | Columns[PartitionRecord]], kind: type[Message]) -> list[Message]:
    alone = [one for record in records for one in (record if isinstance(record, Columns) else [record])]
    return [one for one in alone if isinstance(one, kind)]


def test_every_record_that_can_be_replayed_is_accounted_for_here() -> None:
    assert set(CHANGES_OF_ALL) == CHANGING
    assert {*SAYING, *CHANGING, *SAYING_NOTHING} == set(MetadataImage().replays)


def all_kinds_said() -> MetadataImage:
    """An image after the replay of every record in `SAYING`, with `TOPIC` first."""
    image = MetadataImage()
    apply(image, TOPIC)
    for kind, record in SAYING.items():
        if kind is not TopicRecord:
            apply(image, record)
    apply(image, RegisterBrokerRecord(broker_id=10, broker_epoch=78, fenced=True))
    return image


@pytest.mark.parametrize("kind", list(MetadataImage().replays), ids=lambda kind: kind.__name__)
def test_what_each_type_of_record_says_is_in_the_image_and_in_the_next_snapshot(kind: type[Message]) -> None:
    """A kind of state that is missing in snapshots would be gone after a restart: it fails here by its name."""
    assert kind in {*SAYING, *CHANGES_OF_ALL, *SAYING_NOTHING}, f"{kind.__name__} has no example here"
    image = all_kinds_said() if kind in CHANGES_OF_ALL else MetadataImage()
    if kind is PartitionRecord:
        apply(image, TOPIC)
    before = copy.deepcopy(image.facts())
    record = SAYING.get(kind) or CHANGES_OF_ALL.get(kind) or kind()
    apply(image, record)
    assert (image.facts() != before) == (kind not in SAYING_NOTHING), f"what {kind.__name__} says is in no facts"
    assert rebuilt(image).facts() == image.facts(), f"what {kind.__name__} says is in no snapshot"


def test_what_is_known_of_records_agrees_with_replay() -> None:
    """`klamm.protocol.records.facts` has for each replayed record which key it sets or removes."""
    assert set(SAYING) <= set(KEYS)
    assert {kind for kind in CHANGING if kind.__name__.startswith(("Remove", "Unregister"))} <= set(REMOVALS)


KEPT = [(kind, name) for kind in SAYING for name in kept_fields(kind)]


@pytest.mark.parametrize(("kind", "name"), KEPT, ids=[f"{kind.__name__}.{name}" for kind, name in KEPT])
def test_each_field_of_a_record_is_in_the_next_snapshot(kind: type[Message], name: str) -> None:
    record = SAYING[kind]
    default = next(wire.default for wire in wire_fields(kind) if wire.name == name)
    assert getattr(record, name) != default or (kind, name) == (PartitionRecord, "partition_id"), "no value of its own"
    image = MetadataImage()
    apply(image, *([TOPIC, record] if kind is PartitionRecord else [record]))
    for found in (image, rebuilt(image)):
        [written] = singles(snapshot_of(found), kind)
        assert _plain(getattr(written, name)) == _plain(getattr(record, name))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else value


def many_partitions() -> list[PartitionRecord]:
    """As many partitions as columns take, of equal width but of unequal lengths, each with other values."""
    return [
        PartitionRecord(
            partition_id=index,
            topic_id=TOPIC.topic_id,
            replicas=[index + number for number in range(5 + index % 3)],
            isr=[index + number for number in range(index % 4)],
            leader=index + 1,
            leader_recovery_state=index % 2,
            leader_epoch=100 + index,
            partition_epoch=200 + index,
            directories=[uuid_of(100 + index % 7 + number) for number in range(5 + index % 3)],
        )
        for index in range(MANY)
    ]


@pytest.mark.parametrize("name", [name for name in kept_fields(PartitionRecord) if name not in SPARSE_FIELDS])
def test_each_field_of_a_partition_is_in_the_columns_of_many(name: str) -> None:
    made = many_partitions()
    distinct = {_plain(getattr(record, name)) for record in made}
    assert len(distinct) > 1 or name == "topic_id", "no values of their own"
    image = MetadataImage()
    apply(image, TOPIC, *made)
    _, columns = snapshot_of(image)
    assert isinstance(columns, Columns), "so many are written as columns"
    expected = [_plain(getattr(record, name)) for record in made]
    for found in (image, rebuilt(image)):
        written = singles(snapshot_of(found), PartitionRecord)
        assert [_plain(getattr(record, name)) for record in written] == expected


@pytest.mark.parametrize("name", SPARSE_FIELDS)
def test_a_partition_with_a_sparse_entry_is_written_alone_among_columns(name: str) -> None:
    made = many_partitions() + [replace_id(record, MANY) for record in many_partitions()]
    setattr(made[MANY], name, [MANY + 1])
    image = MetadataImage()
    apply(image, TOPIC, *made)
    _, before, alone, after = snapshot_of(image)
    assert isinstance(before, Columns)
    assert isinstance(alone, PartitionRecord)
    assert isinstance(after, Columns)
    assert (len(before), list(getattr(alone, name)), len(after)) == (MANY, [MANY + 1], MANY - 1)
    assert singles(snapshot_of(rebuilt(image)), PartitionRecord) == singles([before, alone, after], PartitionRecord)


def replace_id(record: PartitionRecord, more: int) -> PartitionRecord:
    record.partition_id += more
    return record


Form = Callable[[list[Message]], list[list[Any]]]


def from_bytes(records: list[Message]) -> list[list[Any]]:
    return [list(batch.contents) for batch in decode_batches(encode_batch(0, 1, 0, records))]


FORMS: dict[str, Form] = {
    "one by one": lambda records: [[record] for record in records],
    "a batch": lambda records: [records],
    "columns": from_bytes,
}
"""The forms in which records reach replay: live, at a start from a log of Klamm, and from a log of another program."""


@pytest.mark.parametrize("name", SPARSE_FIELDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_sparse_entry_of_one_of_many_equal_partitions_is_kept_until_it_is_removed(name: str, form: str) -> None:
    like = [
        PartitionRecord(
            partition_id=index,
            topic_id=TOPIC.topic_id,
            replicas=[1, 2],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[uuid_of(11), uuid_of(12)],
        )
        for index in range(MANY)
    ]
    setattr(like[7], name, [2])
    image = MetadataImage()
    for batch in FORMS[form]([TOPIC, *like]):
        apply(image, *batch)
    partitions = [image.partitions.read(0, index) for index in range(MANY)]
    assert [getattr(partition, name) for partition in partitions] == [()] * 7 + [(2,)] + [()] * (MANY - 8)
    nothing: dict[str, Any] = {name: ()}
    others = [replace(partition, **nothing) for partition in partitions]
    assert others == [others[0]] * MANY
    [table] = image.partitions.tables.values()
    assert np.flatnonzero(table.sparse[:MANY]).tolist() == [7]
    run = [PartitionChangeRecord(partition_id=index, topic_id=TOPIC.topic_id, **nothing) for index in range(MANY)]
    for batch in FORMS[form](list(run)):
        apply(image, *batch)
    assert not table.sparse[:MANY].any()
    assert [getattr(image.partitions.read(0, index), name) for index in range(MANY)] == [()] * MANY


@pytest.mark.parametrize("name", [one.name for one in fields(Partition)])
def test_each_field_of_a_partition_has_its_part_in_records(name: str) -> None:
    """Anything about a partition that no record has would be lost with the process."""
    image = MetadataImage()
    apply(image, TOPIC, SAYING[PartitionRecord])
    partition = image.partitions.read(0, 0)
    assert getattr(partition, name) not in ((), 0, -1)
    assert _plain(getattr(SAYING[PartitionRecord], name)) == getattr(partition, name)


# Brokers


def registered() -> MetadataImage:
    image = MetadataImage()
    apply(image, SAYING[RegisterBrokerRecord])
    return image


BEFORE = BrokerState(
    broker_id=9,
    broker_epoch=77,
    incarnation_id=uuid_of(5),
    rack="a",
    end_points=(EndPoint("SSL", "::1", 4711, 1),),
    features=(("group.version", 1, 2),),
    log_dirs=(uuid_of(6), uuid_of(7)),
    fenced=False,
    in_controlled_shutdown=True,
    cordoned_log_dirs=(uuid_of(7),),
)


def test_a_registration_says_all_that_is_known_of_a_broker() -> None:
    assert registered().brokers == {9: BEFORE}


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"fenced": 1}, {"fenced": True}),
    ({"fenced": -1}, {"fenced": False}),
    ({"in_controlled_shutdown": 1}, {"in_controlled_shutdown": True}),
    ({"in_controlled_shutdown": -1}, {"in_controlled_shutdown": False}),
    ({"log_dirs": [uuid_of(7)]}, {"log_dirs": (uuid_of(7),)}),
    ({"cordoned_log_dirs": [uuid_of(6)]}, {"cordoned_log_dirs": (uuid_of(6),)}),
    ({"cordoned_log_dirs": []}, {"cordoned_log_dirs": ()}),
]


@pytest.mark.parametrize(("said", "changed"), CHANGES, ids=repr)
@pytest.mark.parametrize("fenced", [False, True])
def test_a_change_of_a_registration_leaves_what_it_does_not_name(
    said: dict[str, Any], changed: dict[str, Any], fenced: bool
) -> None:
    image, before = registered(), replace(BEFORE, fenced=fenced, in_controlled_shutdown=not fenced)
    image.brokers[before.broker_id] = before
    apply(image, BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=77, **said))
    assert image.brokers == {9: replace(before, **changed)}


@pytest.mark.parametrize("name", [wire.name for wire in wire_fields(BrokerRegistrationChangeRecord)])
def test_each_field_of_a_change_of_a_registration_is_among_the_cases(name: str) -> None:
    assert name in ("broker_id", "broker_epoch") or any(name in changed for _, changed in CHANGES)
