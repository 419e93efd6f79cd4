"""The order of checks of the APIs about partitions and brokers."""

from typing import Any

import pytest

from klamm.controller.handlers.partitions import alter_partition
from klamm.controller.settings import Profile
from klamm.controller.transitions import placement
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Feature
from klamm.protocol.messages.partitions.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from klamm.protocol.messages.partitions.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, START_MS, directory, incarnation
from tests.controller.handlers.guarded_cluster import ALICE, GuardedCluster
from tests.controller.handlers.order_of_checks import Broken, Order, Rule, Told, check_order, never
from tests.controller.handlers.reassignment_requests import elect, moved_some
from tests.controller.handlers.test_limits import set_config
from tests.controller.log.logs import append_records

DENIED = Rule("denied", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
NO_TIME = Rule("no time", ErrorCode.REQUEST_TIMED_OUT)


# AlterPartitionReassignments


def ask_for_move(cluster: GuardedCluster, broken: Broken) -> Told:
    for name in ("t", "other"):
        cluster.create_at(name, [1, 2], [1, 2])
    if "limits" in broken:
        set_config(cluster, "max.broker.partitions", 1)
        cluster.create_at("full", [3])
    target = [1, 3] if "another factor" not in broken else [3]
    if "a broker twice" in broken:
        target = [1, 1, 3] if "another factor" in broken else [3, 3]
    if "unknown broker" in broken:
        target = [9, *target[1:]]
    before = [moved_some("other", {0: [2, 1], 1: [2, 1]})] if "too many" in broken else []
    wanted = moved_some(
        "none" if "unknown topic" in broken else "t", {7 if "unknown partition" in broken else 0: target}
    )
    request = AlterPartitionReassignmentsRequest(
        topics=[*before, wanted],
        timeout_ms=0 if "no time" in broken else ENOUGH_TIME_MS,
        allow_replication_factor_change=False,
    )
    with cluster.asking(ALICE if "denied" in broken else None):
        [*_, topic] = cluster.ask(request).responses
    return topic.partitions[0].error_code, topic.partitions[0].error_message or ""


def test_alter_partition_reassignments(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_PARTITIONS_PER_REQUEST_KIP", "MAX_PARTITIONS_PER_REQUEST_KAFKA"):
        monkeypatch.setattr(placement, limit, 2)
    rules = [
        DENIED,
        NO_TIME,
        Rule("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a topic named none"),
        Rule("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition t:7"),
        Rule("a broker twice", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        Rule("unknown broker", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        Rule("another factor", ErrorCode.INVALID_REPLICATION_FACTOR, "is changed from 2"),
        Rule("limits", ErrorCode.POLICY_VIOLATION, "would exceed the limits"),
        Rule("too many", ErrorCode.POLICY_VIOLATION, "One request may change no more"),
    ]
    check_order(Order(rules, ask_for_move, never("a broker twice", "unknown broker")), profile)


# ElectLeaders


def ask_for_election(cluster: GuardedCluster, broken: Broken) -> Told:
    cluster.create_at("t", [1, 2])
    if "not available" in broken or "not needed" not in broken:
        cluster.heartbeat(1, want_fence=True)
    if "not available" not in broken and "not needed" not in broken:
        cluster.heartbeat(1)
        cluster.tick()
    name, index = "none" if "unknown topic" in broken else "t", 7 if "unknown partition" in broken else 0
    election_type = 2 if "unknown type" in broken else 0
    with cluster.asking(ALICE if "denied" in broken else None):
        _, results = elect(cluster, {name: [index]}, election_type, 0 if "no time" in broken else ENOUGH_TIME_MS)
    [[(_, code, text)]] = results.values()
    return code, text or ""


def test_elect_leaders(profile: Profile) -> None:
    rules = [
        DENIED,
        NO_TIME,
        Rule("unknown type", ErrorCode.INVALID_REQUEST, "Unknown election type 2"),
        Rule("unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic"),
        Rule("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition"),
        Rule("not needed", ErrorCode.ELECTION_NOT_NEEDED, "not needed"),
        Rule("not available", ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "was not available"),
    ]
    check_order(Order(rules, ask_for_election, never("not needed", "not available")), profile)


# AlterPartition


def ask_for_isr(cluster: GuardedCluster, broken: Broken) -> Told:
    """Of a partition in leader epoch 1 and partition epoch 1, led by broker 2."""
    topic_id = cluster.create_at("t", [1, 2, 3]).topic_id
    append_records(cluster.log, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2)], START_MS)
    cluster.restart()
    leader = 3 if "not the leader" in broken else 2
    isr = [2, 3, 3] if "not an ISR" in broken else [2, 3]
    if "recovering" in broken:
        isr = [*isr[:1], *isr[2:]] if "not an ISR" in broken else [2]
    epoch = -1 if "not its epoch" not in broken else 0
    wanted = PartitionData(
        partition_index=7 if "unknown partition" in broken else 0,
        leader_epoch=0 if "old leader epoch" in broken else 1,
        partition_epoch=9 if "newer epoch" in broken else 0 if "old partition epoch" in broken else 1,
        leader_recovery_state=1 if "recovering" in broken else 0,
        new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=epoch) for one in isr],
    )
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=cluster.image.brokers[leader].broker_epoch - ("stale broker" in broken),
        topics=[TopicData(topic_id=Uuid(16 * b"x") if "unknown topic" in broken else topic_id, partitions=[wanted])],
    )
    with cluster.asking(ALICE if "denied" in broken else None):
        response = cluster.ask(request)
    return (response.error_code or response.topics[0].partitions[0].error_code), ""


def test_alter_partition(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [
        DENIED,
        Rule("stale broker", ErrorCode.STALE_BROKER_EPOCH),
        Rule("unknown topic", ErrorCode.UNKNOWN_TOPIC_ID),
        Rule("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        Rule("newer epoch", ErrorCode.NOT_CONTROLLER),
        Rule("old leader epoch", ErrorCode.FENCED_LEADER_EPOCH),
        Rule("not the leader", ErrorCode.INVALID_REQUEST),
        Rule("old partition epoch", ErrorCode.INVALID_UPDATE_VERSION),
        Rule("not an ISR", ErrorCode.INVALID_REQUEST),
        Rule("recovering", ErrorCode.INVALID_REQUEST),
        Rule("not its epoch", ErrorCode.INELIGIBLE_REPLICA),
    ]
    impossible = never("newer epoch", "old partition epoch")
    check_order(Order(rules, ask_for_isr, impossible), profile)
    monkeypatch.setattr(alter_partition, "MAX_ENTRIES", 0)
    for rule in rules:
        expected = rule.code if rule in rules[:3] else ErrorCode.OPERATION_NOT_ATTEMPTED
        assert ask_for_isr(GuardedCluster(profile=profile), frozenset({rule.name}))[0] == expected


# BrokerRegistration


def ask_to_register(cluster: GuardedCluster, broken: Broken) -> Told:
    broker_id = -1 if "negative id" in broken else 2 if "another incarnation" in broken else 7
    fields: dict[str, Any] = {"incarnation_id": incarnation(9), "log_dirs": [directory(9)]}
    if "another cluster" in broken:
        fields["cluster_id"] = "BBBBBBBBBBBBBBBBBBBBBQ"
    if "of the old kind" in broken:
        fields["is_migrating_zk_broker"] = True
    if "directories" in broken:
        fields["log_dirs"] = [directory(1)]
    named = {name: [lowest, highest] for name, (lowest, highest) in SUPPORTED_FEATURES.items()}
    if "a level" in broken:
        named["group.version"] = [5, 6]
    if "a feature" in broken:
        del named["transaction.version"]
    if "metadata version" in broken:
        del named["metadata.version"]
    fields["features"] = [
        Feature(name=name, min_supported_version=low, max_supported_version=high) for name, (low, high) in named.items()
    ]
    with cluster.asking(ALICE if "denied" in broken else None):
        return cluster.register(broker_id, **fields).error_code, ""


def test_broker_registration(profile: Profile) -> None:
    rules = [
        DENIED,
        Rule("another cluster", ErrorCode.INCONSISTENT_CLUSTER_ID),
        Rule("negative id", ErrorCode.INVALID_REQUEST),
        Rule("another incarnation", ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        Rule("of the old kind", ErrorCode.BROKER_ID_NOT_REGISTERED),
        Rule("directories", ErrorCode.INVALID_REGISTRATION),
        Rule("a level", ErrorCode.UNSUPPORTED_VERSION),
        Rule("metadata version", ErrorCode.INVALID_REGISTRATION),
        Rule("a feature", ErrorCode.UNSUPPORTED_VERSION),
    ]
    check_order(Order(rules, ask_to_register), profile)
