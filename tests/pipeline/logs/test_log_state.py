"""The state that records leave, by record type and key."""

from collections.abc import Sequence
from typing import Any

import pytest

from klamm.pipeline.logs.log_state import LogState
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from klamm.protocol.records.cluster import FeatureLevelRecord, NoOpRecord
from klamm.protocol.records.configs import ClientQuotaRecord, ConfigRecord, EntityData
from klamm.protocol.records.facts import KEYS, facts_of, key_of, names_of
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.security import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from klamm.protocol.uuid import ZERO_UUID, Uuid

ONE, OTHER = Uuid(bytes(range(16))), Uuid(bytes(15) + b"x")
TOPIC = TopicRecord(name="t", topic_id=ONE)


def _partition(**fields: Any) -> PartitionRecord:
    sound = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "leader_epoch": 4, "partition_epoch": 9}
    return PartitionRecord(partition_id=0, topic_id=ONE, **{**sound, "directories": [ONE] * 3, **fields})


def _change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=ONE, **fields)


def _broker(**fields: Any) -> RegisterBrokerRecord:
    given = {"broker_epoch": 5, "incarnation_id": ONE, "rack": "a", "fenced": True, "log_dirs": [ONE], **fields}
    return RegisterBrokerRecord(broker_id=1, **given)


def _registration_change(**fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, **fields)


def _quota(value: float, *names: str, remove: bool = False) -> ClientQuotaRecord:
    entity = [EntityData(entity_type=name, entity_name=None) for name in names]
    return ClientQuotaRecord(entity=entity, key="rate", value=value, remove=remove)


def _retention(value: str | None, topic: str = "t") -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name="retention.ms", value=value)


def _acl(acl_id: Uuid) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(id=acl_id, resource_name="t")


def _level(name: str, level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=level)


def _scram(name: str) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(name=name, mechanism=1, salt=b"salt")


ELR = {"eligible_leader_replicas": [3], "last_known_elr": [2]}
CASES: dict[str, tuple[Sequence[Message], Sequence[Message]]] = {
    "nothing": ([NoOpRecord()], []),
    "what a change does not name stays": (
        [TOPIC, _partition(), _change(isr=[1, 2])],
        [TOPIC, _partition(isr=[1, 2], partition_epoch=10)],
    ),
    "a leader, and none": (
        [TOPIC, _partition(), _change(leader=2), _change(leader=-1, leader_recovery_state=1)],
        [TOPIC, _partition(leader=-1, leader_epoch=6, partition_epoch=11, leader_recovery_state=1)],
    ),
    "a move with its directories": (
        [
            *(TOPIC, _partition()),
            _change(replicas=[1, 4], adding_replicas=[4], removing_replicas=[3], directories=[ONE, OTHER], **ELR),
        ],
        [
            TOPIC,
            _partition(
                replicas=[1, 4],
                adding_replicas=[4],
                removing_replicas=[3],
                directories=[ONE, OTHER],
                **{**ELR, "partition_epoch": 10},
            ),
        ],
    ),
    "a change of no partition": ([TOPIC, _change(isr=[1])], [TOPIC]),
    "directories of before there were any": (
        [TOPIC, _partition(directories=[])],
        [TOPIC, _partition(directories=[ZERO_UUID] * 3)],
    ),
    "eligible leader replicas cleared for a topic": (
        [TOPIC, _partition(**ELR), ClearElrRecord(topic_name="u"), ClearElrRecord(topic_name="t")],
        [TOPIC, _partition(partition_epoch=10)],
    ),
    "cleared for all, twice": (
        [TOPIC, _partition(**ELR), ClearElrRecord(), ClearElrRecord()],
        [TOPIC, _partition(partition_epoch=10)],
    ),
    "a topic goes with its partitions and configs": (
        [TOPIC, _partition(), _retention("1"), _retention("2", "u"), RemoveTopicRecord(topic_id=ONE)],
        [_retention("2", "u")],
    ),
    "its name comes back": (
        [TOPIC, _partition(), RemoveTopicRecord(topic_id=ONE), TopicRecord(name="t", topic_id=OTHER)],
        [TopicRecord(name="t", topic_id=OTHER)],
    ),
    "configs": ([_retention("1"), _retention("2"), _retention("3", "u"), _retention(None, "u")], [_retention("2")]),
    "a registration takes the place of another": ([_broker(), _broker(rack=None)], [_broker(rack=None)]),
    "a registration changed": (
        [_broker(), _registration_change(fenced=-1, in_controlled_shutdown=1, log_dirs=[OTHER, ONE])],
        [_broker(fenced=False, in_controlled_shutdown=True, log_dirs=[ONE, OTHER])],
    ),
    "nothing of a registration changed": ([_broker(), _registration_change()], [_broker()]),
    "directories cordoned, and none": (
        [_broker(), _registration_change(cordoned_log_dirs=[ONE]), _registration_change(fenced=1)],
        [_broker(cordoned_log_dirs=[ONE])],
    ),
    "fenced and unfenced as before Kafka 3.3": (
        [_broker(fenced=False), FenceBrokerRecord(id=1, epoch=5), UnfenceBrokerRecord(id=1, epoch=5)],
        [_broker(fenced=False)],
    ),
    "fenced as before Kafka 3.3": (
        [_broker(fenced=False), FenceBrokerRecord(id=1, epoch=5), FenceBrokerRecord(id=7, epoch=5)],
        [_broker(fenced=True)],
    ),
    "unregistered": ([_broker(), UnregisterBrokerRecord(broker_id=1, broker_epoch=5)], []),
    "features, and level 0": (
        [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in (("a", 1), ("a", 2), ("b", 1), ("b", 0))
        ],
        [FeatureLevelRecord(name="a", feature_level=2)],
    ),
    "quotas, in whatever order their entity is told": (
        [_quota(1, "user", "client-id"), _quota(2, "client-id", "user"), _quota(3, "ip"), _quota(0, "ip", remove=True)],
        [_quota(2, "user", "client-id")],
    ),
    "producer ids": (
        [ProducerIdsRecord(broker_id=1, next_producer_id=10), ProducerIdsRecord(broker_id=2, next_producer_id=20)],
        [ProducerIdsRecord(broker_id=-1, next_producer_id=20)],
    ),
    "entries of access control": ([_acl(ONE), _acl(OTHER), RemoveAccessControlEntryRecord(id=ONE)], [_acl(OTHER)]),
    "credentials": (
        [_scram("a"), _scram("b"), RemoveUserScramCredentialRecord(name="a", mechanism=1)],
        [_scram("b")],
    ),
    "a transaction that ended, one that was aborted, one that is open": (
        [
            *(BeginTransactionRecord(), _retention("1"), EndTransactionRecord()),
            *(BeginTransactionRecord(), _retention("2"), AbortTransactionRecord()),
            *(BeginTransactionRecord(), _retention("3")),
        ],
        [_retention("1")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_records_amount_to(name: str) -> None:
    records, expected = CASES[name]
    state = LogState()
    for offset, record in enumerate(records):
        state.apply(offset, record)
    found = {(kind, key): entry.facts for kind, key, entry in state.entries()}
    assert found == {(type(record), key_of(record)): facts_of(record) for record in expected}


def test_each_entry_knows_the_last_record_about_it() -> None:
    state = LogState()
    for offset, record in enumerate([TOPIC, _partition(), _broker(), _change(isr=[1]), NoOpRecord()]):
        state.apply(offset, record)
    offsets = {kind: entry.record_offset for kind, _, entry in state.entries()}
    assert offsets == {TopicRecord: 0, PartitionRecord: 3, RegisterBrokerRecord: 2}
    assert (state.name_of(ONE), state.name_of(OTHER)) == ("t", str(OTHER))


def test_what_has_no_order_is_equal_in_any() -> None:
    points = [BrokerEndpoint(name=name, host="h", port=1) for name in ("a", "b")]
    assert facts_of(_broker(end_points=points)) == facts_of(_broker(end_points=points[::-1]))
    assert facts_of(_partition(isr=[1, 2])) != facts_of(_partition(isr=[2, 1]))


@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.__name__)
def test_every_field_counts(kind: type[Message]) -> None:
    assert set(KEYS[kind]) <= set(names_of(kind))
    assert len(facts_of(kind())) == len(names_of(kind))
