"""BrokerRegistration and UnregisterBroker: epochs, incarnations, and what happens to a broker's partitions."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.controller.metadata.broker import EndPoint
from klamm.controller.settings import Profile
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Feature, Listener
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.metadata import MetadataRequest
from klamm.protocol.records.brokers import RegisterBrokerRecord, UnregisterBrokerRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import ZERO_UUID, Uuid
from tests.controller.handlers.cluster import SESSION_MS, DrivenCluster, directory, incarnation

Start = Callable[..., DrivenCluster]


def reserved(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def features(**changed: tuple[int, int] | None) -> list[Feature]:
    ranges: dict[str, tuple[int, int] | None] = dict(SUPPORTED_FEATURES)
    ranges |= {name.replace("_", "."): span for name, span in changed.items()}
    return [
        Feature(name=name, min_supported_version=span[0], max_supported_version=span[1])
        for name, span in ranges.items()
        if span
    ]


def test_the_epoch_is_the_offset_of_the_registration(cluster: DrivenCluster) -> None:
    end_offset = cluster.log.end_offset
    with cluster.writing() as written:
        response = cluster.register(7, rack="d", log_dirs=[directory(7, 1), directory(7, 0)])
    [record] = written
    assert isinstance(record, RegisterBrokerRecord)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, end_offset)
    assert (record.broker_id, record.broker_epoch, record.rack) == (7, end_offset, "d")
    assert (record.incarnation_id, record.fenced, record.in_controlled_shutdown) == (incarnation(7), True, False)
    assert list(record.log_dirs) == [directory(7, 0), directory(7, 1)]
    assert len(record.features) == len(cluster.registration(7).features)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "BBBBBBBBBBBBBBBBBBBBBQ"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"cluster_id": ""}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(7), directory(7)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(7), directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [ZERO_UUID]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(7), reserved(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [reserved(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [reserved(99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [reserved(100)]}, ErrorCode.NONE),
        ({"log_dirs": [directory(7), directory(7, 1)]}, ErrorCode.NONE),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": features(metadata_version=None)}, ErrorCode.INVALID_REGISTRATION),
        ({"features": features(metadata_version=(7, 29))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(metadata_version=(31, 40))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(group_version=(0, 0))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(group_version=None)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(metadata_version=None, group_version=(0, 0))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(no_such=(1, 9))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(no_such=(0, 9))}, ErrorCode.NONE),
        ({"features": features(metadata_version=(30, 30))}, ErrorCode.NONE),
        ({"rack": None}, ErrorCode.NONE),
        ({"rack": ""}, ErrorCode.NONE),
        ({"listeners": []}, ErrorCode.NONE),
        ({"previous_broker_epoch": 12345}, ErrorCode.NONE),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_a_broker_may_register_with(cluster: DrivenCluster, fields: dict[str, Any], code: ErrorCode) -> None:
    with cluster.writing() as written:
        response = cluster.register(7, **fields)
    assert response.error_code == code
    assert (7 in cluster.image.brokers) == (code == ErrorCode.NONE)
    assert (response.broker_epoch == -1) == bool(code)
    assert bool(written) == (code == ErrorCode.NONE)


def test_negative_ids_are_no_brokers(cluster: DrivenCluster) -> None:
    """Negative ids are placeholders, or mean no broker."""
    for broker_id in (-1, -(2**31)):
        assert cluster.register(broker_id, listeners=[]).error_code == ErrorCode.INVALID_REQUEST
        assert broker_id not in cluster.image.brokers


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_REGISTRATION),
        (1, ErrorCode.INVALID_REGISTRATION),
        (2, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (4, ErrorCode.NONE),
    ],
)
def test_versions_that_cannot_name_log_directories_are_of_no_use(
    cluster: DrivenCluster, version: int, code: ErrorCode
) -> None:
    assert cluster.register(7, version=version).error_code == code


def test_a_registered_broker_is_hidden_until_it_is_unfenced(cluster: DrivenCluster) -> None:
    cluster.register(7)

    def shown() -> tuple[list[int], list[tuple[int, bool]]]:
        metadata = cluster.ask(MetadataRequest(topics=[]))
        described = cluster.ask(DescribeClusterRequest(include_fenced_brokers=True))
        return [broker.node_id for broker in metadata.brokers], [
            (broker.broker_id, broker.is_fenced) for broker in described.brokers
        ]

    assert shown() == ([1, 2, 3], [(1, False), (2, False), (3, False), (7, True)])
    cluster.heartbeat(7)
    assert shown() == ([1, 2, 3, 7], [(1, False), (2, False), (3, False), (7, False)])


# Again, and by another incarnation


def test_the_same_incarnation_keeps_its_epoch_and_its_place(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 1])
    before = cluster.image.brokers[2]
    moved = [Listener(name="PLAINTEXT", host="127.0.0.1", port=4711)]
    with cluster.writing() as written:
        response = cluster.register(2, listeners=moved)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, before.broker_epoch)
    assert [type(record) for record in written] == [RegisterBrokerRecord]
    after = cluster.image.brokers[2]
    assert after.end_points == (EndPoint("PLAINTEXT", "127.0.0.1", 4711, 0),)
    assert (after.broker_epoch, after.live) == (before.broker_epoch, True)
    assert cluster.partitions("t")[0].leader == 2


def other(cluster: DrivenCluster, broker_id: int) -> Any:
    return cluster.register(broker_id, incarnation_id=incarnation(broker_id, 99))


@pytest.mark.parametrize(("silent_ms", "accepted"), [(0, False), (SESSION_MS - 1, False), (SESSION_MS, True)])
def test_another_incarnation_waits_for_the_session_of_a_live_one(
    cluster: DrivenCluster, silent_ms: int, accepted: bool
) -> None:
    cluster.clock.advance(silent_ms)
    with cluster.writing() as written:
        response = other(cluster, 2)
    assert response.error_code == (ErrorCode.NONE if accepted else ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    assert bool(written) == accepted
    assert cluster.image.brokers[2].incarnation_id == incarnation(2, 99 if accepted else 1)


def test_a_heartbeat_prolongs_the_session(cluster: DrivenCluster) -> None:
    cluster.clock.advance(SESSION_MS - 1)
    cluster.heartbeat(2)
    cluster.clock.advance(SESSION_MS - 1)
    assert other(cluster, 2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_refused_heartbeat_does_not(cluster: DrivenCluster) -> None:
    cluster.clock.advance(SESSION_MS - 1)
    assert cluster.heartbeat(2, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH
    cluster.clock.advance(1)
    assert other(cluster, 2).error_code == ErrorCode.NONE


@pytest.mark.parametrize("wish", ["want_fence", "want_shut_down"])
@pytest.mark.parametrize("leads", [True, False])
def test_fenced_and_leaving_brokers_keep_their_place_for_as_long(
    cluster: DrivenCluster, wish: str, leads: bool
) -> None:
    """A real controller answered like this, whether the broker could stop yet or not."""
    if leads:
        cluster.create_at("t", [2, 1])
    cluster.heartbeat(2, **{wish: True})
    cluster.clock.advance(SESSION_MS - 1)
    assert other(cluster, 2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.clock.advance(1)
    assert other(cluster, 2).error_code == ErrorCode.NONE
    assert not cluster.image.brokers[2].in_controlled_shutdown


def test_who_only_registered_has_no_session_and_registering_again_brings_none(cluster: DrivenCluster) -> None:
    for broker_id in (7, 2):
        cluster.clock.advance(SESSION_MS)
        assert cluster.register(broker_id, incarnation_id=incarnation(broker_id, 98)).error_code == ErrorCode.NONE
        assert cluster.register(broker_id, incarnation_id=incarnation(broker_id, 98)).error_code == ErrorCode.NONE
        assert other(cluster, broker_id).error_code == ErrorCode.NONE


def test_after_a_restart_of_the_controller_nobody_has_a_session_yet(cluster: DrivenCluster) -> None:
    cluster.restart()
    assert other(cluster, 2).error_code == ErrorCode.NONE
    assert cluster.heartbeat(3).error_code == ErrorCode.NONE
    assert other(cluster, 3).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_new_incarnation_loses_leaderships_and_isr_in_the_same_batch(cluster: DrivenCluster) -> None:
    """Its epoch is the offset of its own record, which follows the records of the partitions."""
    cluster.create_at("t", [2, 1], [1, 2], [1, 3])
    cluster.clock.advance(SESSION_MS)
    first_offset = cluster.log.end_offset
    with cluster.writing() as written:
        response = other(cluster, 2)
    assert [type(record) for record in written] == [PartitionChangeRecord, PartitionChangeRecord, RegisterBrokerRecord]
    assert response.broker_epoch == first_offset + 2 == cluster.image.brokers[2].broker_epoch
    led, followed, foreign = cluster.partitions("t")
    assert (led.leader, led.isr, led.leader_epoch, led.partition_epoch) == (1, (1,), 1, 1)
    assert (followed.leader, followed.isr, followed.leader_epoch, followed.partition_epoch) == (1, (1,), 0, 1)
    assert (foreign.leader_epoch, foreign.partition_epoch) == (0, 0)


def test_epochs_of_a_broker_grow_from_life_to_life(cluster: DrivenCluster) -> None:
    epochs = [cluster.image.brokers[2].broker_epoch]
    for _ in range(3):
        cluster.lose(2)
        cluster.come_back(2)
        epochs.append(cluster.image.brokers[2].broker_epoch)
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("clean", [True, False])
def test_only_a_clean_end_keeps_what_a_replica_was_trusted_with(start: Start, profile: Profile, clean: bool) -> None:
    """KIP-966: below the minimum ISR a replica that left may still lead, unless its broker returned without a clean
    stop."""
    cluster = start(profile=profile, configs={"min.insync.replicas": "2"})
    cluster.create_at("t", [1, 2])
    cluster.lose(2)
    assert cluster.partitions("t")[0].eligible_leader_replicas == (2,)
    cluster.lives[2] += 1
    epoch = cluster.image.brokers[2].broker_epoch
    cluster.register(2, previous_broker_epoch=epoch if clean else -1)
    assert cluster.partitions("t")[0].eligible_leader_replicas == ((2,) if clean else ())
    cluster.heartbeat(2)
    cluster.tick()
    [back] = cluster.partitions("t")
    assert (set(back.isr), back.eligible_leader_replicas) == ({1, 2}, ())


@pytest.mark.parametrize("clean", [True, False])
def test_the_only_replica_leads_again_when_it_is_back(cluster: DrivenCluster, clean: bool) -> None:
    """Also after a crash: the last leader may lead if no other replica can, although it may lack records."""
    cluster.create_at("t", [2])
    cluster.lose(2)
    lost = cluster.partitions("t")[0]
    assert (lost.leader, lost.isr, lost.eligible_leader_replicas, lost.last_known_elr) == (-1, (), (2,), (2,))
    cluster.come_back(2, clean=clean)
    [found] = cluster.partitions("t")
    assert (found.leader, found.isr) == (2, (2,))
    assert (found.eligible_leader_replicas, found.last_known_elr) == ((), ())
    # A crash: it is no longer eligible, and is elected uncleanly. That it has recovered, a real leader says with its
    # first AlterPartition, and there is none without followers.
    assert found.leader_recovery_state == (0 if clean else 1)
    assert found.partition_epoch - lost.partition_epoch == (1 if clean else 2)
    assert found.leader_epoch > lost.leader_epoch


def test_who_led_last_leads_again_and_nobody_else(cluster: DrivenCluster) -> None:
    cluster.create_at("t", [2, 3])
    cluster.lose(3)
    cluster.lose(2)
    for broker_id in (3, 2):
        cluster.lives[broker_id] += 1
        cluster.register(broker_id, previous_broker_epoch=-1)
    cluster.heartbeat(3)
    cluster.tick()
    assert cluster.partitions("t")[0].leader == -1
    cluster.heartbeat(2)
    cluster.tick()
    [row] = cluster.partitions("t")
    assert (row.leader, set(row.isr)) == (2, {2, 3})


# UnregisterBroker


def test_an_unknown_broker_cannot_be_unregistered(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        response = cluster.ask(UnregisterBrokerRequest(broker_id=9))
    assert (response.error_code, response.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 9 is not currently registered",
    )
    assert written == []


@pytest.mark.parametrize("gone_before", [True, False])
def test_an_unregistered_broker_is_forgotten_and_its_replicas_stay(cluster: DrivenCluster, gone_before: bool) -> None:
    cluster.create_at("t", [2, 1], [1, 2])
    if gone_before:
        cluster.lose(2)
    epoch = cluster.image.brokers[2].broker_epoch
    with cluster.writing() as written:
        response = cluster.ask(UnregisterBrokerRequest(broker_id=2))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    last = written[-1]
    assert isinstance(last, UnregisterBrokerRecord)
    assert (last.broker_id, last.broker_epoch) == (2, epoch)
    assert 2 not in cluster.image.brokers
    for row in cluster.partitions("t"):
        assert (row.leader, row.isr, set(row.replicas)) == (1, (1,), {1, 2})
    [topic] = cluster.ask(MetadataRequest(topics=None)).topics
    assert [list(partition.offline_replicas) for partition in topic.partitions] == [[2], [2]]
    assert cluster.heartbeat(2).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.create_at("u", [2, 1]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_directories_of_a_forgotten_broker_are_free(cluster: DrivenCluster) -> None:
    cluster.ask(UnregisterBrokerRequest(broker_id=2))
    assert cluster.register(8, log_dirs=[directory(2)]).error_code == ErrorCode.NONE


@pytest.mark.parametrize("status", ["live", "fenced", "shutting down", "shut down"])
def test_a_directory_belongs_to_its_broker_in_each_status(cluster: DrivenCluster, status: str) -> None:
    """Until the broker is unregistered, because its replicas still exist."""
    cluster.create_at("t", [2, 1])
    if status == "fenced":
        cluster.lose(2)
    elif status == "shutting down":
        assert not cluster.heartbeat(2, want_shut_down=True, current_metadata_offset=0).should_shut_down
    elif status == "shut down":
        cluster.shut_down(2)
    taken = [directory(8), directory(2)]
    assert cluster.register(8, log_dirs=taken).error_code == ErrorCode.INVALID_REGISTRATION
    assert cluster.register(8, log_dirs=taken[:1]).error_code == ErrorCode.NONE
    assert cluster.ask(UnregisterBrokerRequest(broker_id=2)).error_code == ErrorCode.NONE
    cluster.lives[8] += 1
    cluster.controller.end_session(8)
    assert cluster.register(8, log_dirs=taken).error_code == ErrorCode.NONE


@pytest.mark.parametrize("same_directory", [True, False])
def test_a_forgotten_broker_that_returns_hosts_what_its_directory_holds(
    cluster: DrivenCluster, same_directory: bool
) -> None:
    """KIP-858: a replica counts as long as its broker has the directory of the replica."""
    cluster.create_at("t", [2, 1], [1, 2])
    before = cluster.image.brokers[2].broker_epoch
    cluster.ask(UnregisterBrokerRequest(broker_id=2))
    cluster.lives[2] += 1
    cluster.join(2, log_dirs=[directory(2, 0 if same_directory else 5)])
    assert cluster.image.brokers[2].broker_epoch > before
    assert [set(row.isr) for row in cluster.partitions("t")] == [{1, 2} if same_directory else {1}] * 2


@pytest.mark.parametrize(("off_by", "eligible"), [(0, (2,)), (-1, ()), (1, ())])
def test_who_names_the_epoch_that_it_left_with_stopped_cleanly_and_nobody_else(
    cluster: DrivenCluster, off_by: int, eligible: tuple[int, ...]
) -> None:
    """KIP-966: after an unclean stop a broker may lack records that it had acknowledged."""
    configs = [CreatableTopicConfig(name="min.insync.replicas", value="2")]
    assert cluster.create_at("t", [1, 2], configs=configs).error_code == 0
    cluster.lose(2)
    assert cluster.partitions("t")[0].eligible_leader_replicas == (2,)
    cluster.lives[2] += 1
    left_with = cluster.image.brokers[2].broker_epoch
    assert cluster.register(2, previous_broker_epoch=left_with + off_by).error_code == 0
    assert cluster.partitions("t")[0].eligible_leader_replicas == eligible


def test_each_listener_and_each_feature_is_kept_as_it_was_named(cluster: DrivenCluster) -> None:
    named = [("PLAINTEXT", "a.internal", 9092, 0), ("SSL", "b.internal", 9093, 1), ("SASL", "c.internal", 9094, 2)]
    listeners = [Listener(name=name, host=host, port=port, security_protocol=kind) for name, host, port, kind in named]
    assert cluster.register(7, listeners=listeners).error_code == ErrorCode.NONE
    kept = cluster.image.brokers[7]
    assert [(at.name, at.host, at.port, at.security_protocol) for at in kept.end_points] == named
    assert list(kept.features) == [(name, *levels) for name, levels in SUPPORTED_FEATURES.items()]
