"""Replay returns what a batch changed: brokers, topics, configs, partitions, each under its own name. A subscriber that
misses a change waits for the next one, maybe for ever. A superfluous name costs a check of all partitions."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.metadata.delta import Delta, PartitionRows
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Topic
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.controller.transitions.placeholders import PlaceholderFills
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batches, encode_batch
from klamm.protocol.records.brokers import (
    FenceBrokerRecord,
    ProducerIdsRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import (
    FeatureLevelRecord,
    NoOpRecord,
    RegisterControllerRecord,
    ZkMigrationStateRecord,
)
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord, EntityData
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.records.transactions import AbortTransactionRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence, uuid_of
from tests.controller.image_facts import image_facts
from tests.controller.test_replay import History, LongBatches, histories, long_batches

PARTITIONS = 20
ROWS = ("new_partitions", "changed_partitions")
T1 = Topic("t1", uuid_of(1), 0)
OF_USER = [EntityData(entity_type="user", entity_name="u"), EntityData(entity_type="client-id", entity_name=None)]


def told(delta: Delta) -> dict[str, Any]:
    """The content of a delta as plain values, without empty parts. Its offset is checked elsewhere."""
    values = {one.name: getattr(delta, one.name) for one in fields(Delta) if one.name != "end_offset"}
    values |= {name: partitions(values[name]) for name in ROWS}
    return {name: value for name, value in values.items() if value}


def partitions(rows: PartitionRows) -> list[tuple[int, int]]:
    return list(zip(*(column.tolist() for column in rows.columns()), strict=True))


def described(value: object) -> str:
    """A name for a test that is the same in every process."""
    return " ".join(sorted(value)) or "nothing" if isinstance(value, dict | set) else repr(value)


def clustered() -> MetadataImage:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]] * PARTITIONS)
    apply(image, PartitionChangeRecord(topic_id=uuid_of(1), partition_id=3, eligible_leader_replicas=[2]))
    apply(image, AccessControlEntryRecord(id=uuid_of(70), resource_name="t1"))
    apply(image, UserScramCredentialRecord(name="v", mechanism=2), DelegationTokenRecord(token_id="u"))
    return image


RECORDS: list[tuple[Message, dict[str, Any]]] = [
    (FeatureLevelRecord(name="share.version", feature_level=0), {"features": {"share.version"}}),
    (registration(4), {"brokers": {4}}),
    (registration(1), {"brokers": {1}}),
    (fence(1), {"brokers": {1}}),
    (unfence(1), {"brokers": {1}}),
    (UnregisterBrokerRecord(broker_id=1, broker_epoch=1), {"unregistered": {1}}),
    (TopicRecord(name="u", topic_id=uuid_of(9)), {"new_topics": [Topic("u", uuid_of(9), 1)]}),
    (RemoveTopicRecord(topic_id=uuid_of(1)), {"removed_topics": [T1]}),
    (
        PartitionRecord(partition_id=PARTITIONS, topic_id=uuid_of(1), replicas=[1], isr=[1], leader=1),
        {"new_partitions": [(0, PARTITIONS)]},
    ),
    (
        ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="max.broker.partitions", value="9"),
        {"configs": {(BROKER_RESOURCE, "", "max.broker.partitions")}},
    ),
    (
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t1", name="retention.ms", value=None),
        {"configs": {(TOPIC_RESOURCE, "t1", "retention.ms")}},
    ),
    (
        ClientQuotaRecord(entity=OF_USER, key="producer_byte_rate", value=7.0),
        {"client_quotas": {(("client-id", None), ("user", "u"))}},
    ),
    (
        ClientQuotaRecord(entity=OF_USER, key="producer_byte_rate", remove=True),
        {"client_quotas": {(("client-id", None), ("user", "u"))}},
    ),
    (ClearElrRecord(), {"changed_partitions": [(0, 3)]}),
    (ClearElrRecord(topic_name="t1"), {"changed_partitions": [(0, 3)]}),
    (ProducerIdsRecord(next_producer_id=1000), {"producer_ids": True}),
    (AccessControlEntryRecord(id=uuid_of(71), resource_name="t"), {"acls": {uuid_of(71)}}),
    (RemoveAccessControlEntryRecord(id=uuid_of(70)), {"acls": {uuid_of(70)}}),
    (UserScramCredentialRecord(name="u", mechanism=1), {"scram_credentials": {("u", 1)}}),
    (RemoveUserScramCredentialRecord(name="v", mechanism=2), {"scram_credentials": {("v", 2)}}),
    (DelegationTokenRecord(token_id="t", owner="User:a"), {"delegation_tokens": {"t"}}),
    (RemoveDelegationTokenRecord(token_id="u"), {"delegation_tokens": {"u"}}),
    (FenceBrokerRecord(id=1, epoch=1), {"brokers": {1}}),
    (UnfenceBrokerRecord(id=1, epoch=1), {"brokers": {1}}),
    (RegisterControllerRecord(controller_id=3001), {"controllers": {3001}}),
    (NoOpRecord(), {}),
    (ZkMigrationStateRecord(zk_migration_state=1), {}),
    (AbortTransactionRecord(), {}),
]


@pytest.mark.parametrize(("record", "expected"), RECORDS, ids=described)
def test_a_record_is_told_by_what_it_touches(record: Message, expected: dict[str, Any]) -> None:
    image = clustered()
    delta = apply(image, record)
    assert told(delta) == expected
    assert delta.end_offset == image.next_offset


COUNTED = {"isr_shrinks", "isr_expansions", "elections", "unclean_elections"}
"""The fields that count partitions."""
CHANGES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, set()),
    ({"isr": [1]}, {"isr_shrinks"}),
    ({"isr": [2, 1]}, set()),
    ({"leader_recovery_state": 1}, set()),
    ({"leader": 2, "leader_recovery_state": 1}, {"has_new_leaders", "elections", "unclean_elections"}),
    ({"eligible_leader_replicas": [2], "last_known_elr": [1]}, set()),
    ({"leader": 2}, {"has_new_leaders", "elections"}),
    ({"leader": -1, "isr": []}, {"has_new_leaders", "isr_shrinks"}),
    (
        {"replicas": [1, 2, 3], "directories": [uuid_of(number) for number in (1, 2, 3)]},
        {"has_new_replicas", "names_replicas"},
    ),
    (
        {"isr": [2, 1, 3], "replicas": [1, 2, 3], "directories": [uuid_of(number) for number in (1, 2, 3)]},
        {"has_new_replicas", "names_replicas", "isr_expansions"},
    ),
    ({"replicas": [1, 3]}, {"has_new_replicas", "names_replicas"}),
    ({"adding_replicas": [2]}, set()),
    ({"removing_replicas": []}, {"names_replicas"}),
]


@pytest.mark.parametrize(
    ("change", "expected"),
    CHANGES,
    ids=lambda value: repr(value) if isinstance(value, dict) else " ".join(sorted(value)),
)
@pytest.mark.parametrize("count", [1, PARTITIONS, 40], ids=["a record", "records", "a run"])
def test_changes_of_partitions_are_told_by_what_they_do(change: dict[str, Any], expected: set[str], count: int) -> None:
    """When a reassignment ends, placeholders may fill what it removed, even if no replicas change."""
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]] * 40)
    records = [PartitionChangeRecord(partition_id=index, topic_id=uuid_of(1), **change) for index in range(count)]
    [batch] = decode_batches(encode_batch(image.next_offset, 1, 0, records))
    assert any(isinstance(content, Columns) for content in batch.contents) == (count == 40)
    found = told(apply(image, *batch.contents))
    assert found.pop("changed_partitions") == [(0, index) for index in range(count)]
    assert found == {name: count if name in COUNTED else True for name in expected}


def test_a_record_that_names_what_is_there_already_changes_neither_leader_nor_replicas() -> None:
    image = clustered()
    change = PartitionChangeRecord(partition_id=0, topic_id=uuid_of(1), leader=1, replicas=[1, 2])
    assert told(apply(image, change)) == {"changed_partitions": [(0, 0)], "names_replicas": True}


def test_every_field_of_a_delta_is_told_by_some_record() -> None:
    named = {name for _, expected in RECORDS for name in expected} | {name for _, names in CHANGES for name in names}
    assert named == {one.name for one in fields(Delta)} - {"end_offset"}


def test_all_record_types_are_among_those_that_are_told() -> None:
    assert {type(record) for record, _ in RECORDS} >= set(MetadataImage().replays) - {PartitionChangeRecord}


def test_a_delta_is_that_of_one_batch_alone() -> None:
    image = live_cluster(3)
    add_topic(image, 1, [[1, 2]])
    assert told(apply(image, NoOpRecord())) == {}


def changed_facts(before: dict[str, Any], after: dict[str, Any], name: str) -> set[Any]:
    """The keys of facts that were added, removed or changed."""
    return {key for key in before[name].keys() | after[name].keys() if before[name].get(key) != after[name].get(key)}


def check_delta(image: MetadataImage, delta: Delta, before: dict[str, Any], names: dict[int, str]) -> None:
    """Everything that changed is named, and nothing is named that did not change."""
    after = image_facts(image)
    names |= {topic.row: topic.name for topic in delta.new_topics}
    assert changed_facts(before, after, "features") <= delta.features
    assert changed_facts(before, after, "brokers") <= delta.brokers | delta.unregistered
    assert changed_facts(before, after, "controllers") <= delta.controllers
    assert changed_facts(before, after, "acls") == delta.acls
    assert changed_facts(before, after, "client_quotas") <= delta.client_quotas
    assert changed_facts(before, after, "scram_credentials") <= delta.scram_credentials
    assert changed_facts(before, after, "delegation_tokens") <= delta.delegation_tokens
    topics = {topic.name for topic in (*delta.new_topics, *delta.removed_topics)}
    assert changed_facts(before, after, "topics") <= topics
    resources = {(resource_type, name) for resource_type, name, _ in delta.configs}
    assert changed_facts(before, after, "configs") <= resources | {
        (TOPIC_RESOURCE, topic.name) for topic in delta.removed_topics
    }
    new = {(names[row], index) for row, index in partitions(delta.new_partitions)}
    changed = {(names[row], index) for row, index in partitions(delta.changed_partitions)}
    removed = {topic.name for topic in delta.removed_topics}
    touched = {key for key in changed_facts(before, after, "partitions") if key[0] not in removed}
    assert touched == {key for key in new | changed if key[0] not in removed}
    assert (before["next_producer_id"] != after["next_producer_id"]) == delta.producer_ids
    assert delta.end_offset == after["next_offset"]


@given(histories())
def test_all_that_a_batch_changed_is_in_its_delta(history: History) -> None:
    image, names = MetadataImage(), dict[int, str]()
    for records in history.batches:
        before = image_facts(image)
        check_delta(image, replay(image, records, image.next_offset), before, names)


@given(long_batches())
def test_all_that_runs_and_many_records_changed_is_in_their_delta(long: LongBatches) -> None:
    image, names = MetadataImage(), dict[int, str]()
    for records in long.batches:
        before = image_facts(image)
        [batch] = decode_batches(encode_batch(image.next_offset, 1, 0, records))
        delta = replay(image, batch.contents, batch.base_offset)
        check_delta(image, delta, before, names)
        rows = (delta.new_partitions, delta.changed_partitions)
        assert [len(one) for one in rows] == [len(partitions(one)) for one in rows]


rows_of_partitions = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=6)


@given(rows_of_partitions, st.lists(rows_of_partitions.filter(bool), max_size=3))
def test_partitions_are_told_by_topic_as_they_are_one_by_one(
    alone: list[tuple[int, int]], runs: list[list[tuple[int, int]]]
) -> None:
    rows = PartitionRows()
    for topic_row, index in alone:
        rows.add(topic_row, index)
    for run in runs:
        topic_rows, indexes = np.array(run).T
        rows.add_run(topic_rows, indexes)
    expected = [*alone, *(key for run in runs for key in run)]
    assert [(row, index) for row, indexes in rows.by_topic() for index in indexes.tolist()] == expected
    assert (partitions(rows), len(rows)) == (expected, len(expected))


ROOM: list[tuple[Message, bool]] = [
    (registration(4), True),
    (UnregisterBrokerRecord(broker_id=1, broker_epoch=1), False),
    (TopicRecord(name="u", topic_id=uuid_of(9)), False),
    (RemoveTopicRecord(topic_id=uuid_of(2)), True),
    (ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name="max.partitions", value=None), True),
    (ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t1", name="retention.ms", value="9"), False),
    (PartitionChangeRecord(topic_id=uuid_of(1), partition_id=0, isr=[1]), False),
    (PartitionChangeRecord(topic_id=uuid_of(1), partition_id=0, replicas=[-1, 1]), True),
    (PartitionChangeRecord(topic_id=uuid_of(1), partition_id=0, removing_replicas=[]), True),
]


@pytest.mark.parametrize(("record", "expected"), ROOM, ids=repr)
def test_placeholders_are_looked_at_again_when_there_may_be_room(record: Message, expected: bool) -> None:
    image = live_cluster(1)
    add_topic(image, 1, [[1, -1]])
    add_topic(image, 2, [[1]])
    fills = PlaceholderFills(image, Settings())
    steps = 0
    while fills.is_due:
        fills.plan(100)
        steps += 1
    assert steps, "a start looks at everything"
    fills.follow(apply(image, record))
    assert fills.is_due == expected
