"""Clusters whose metadata log is at a metadata.version of 3.3 to 3.9: what the log has, and what is refused."""

from dataclasses import replace

import pytest

from klamm.controller.client import Client
from klamm.controller.handlers.tokens.token_rules import tokens_are_supported
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import NO_LEADER
from klamm.controller.metadata.replay import replay
from klamm.controller.metadata.snapshot import copy_image, snapshot_batches
from klamm.controller.requester import Requester
from klamm.protocol.api import Listener
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.partitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.raft.controller_registration import ControllerRegistrationRequest
from klamm.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.record_batch import decode_batches, encode_batch
from tests.controller.handlers.cluster import DrivenCluster, directory
from tests.controller.image_facts import image_facts
from tests.controller.record_versions import versions_in

LEVELS = [7, 8, 10, 11, 12, 14, 16, 17, 21, 22]


def with_a_history(level: int) -> DrivenCluster:
    cluster = DrivenCluster(3, metadata_version=level)
    assert cluster.create("many", 60, 2).error_code == 0
    assert cluster.create_at("t", [1, 2], [2, 3], [3, 1]).error_code == 0
    cluster.lose(3)
    cluster.come_back(3)
    reassignment = ReassignablePartition(partition_index=0, replicas=[3, 2])
    cluster.ask(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[reassignment])]),
        broker_id=None,
    )
    cluster.tick()
    cluster.shut_down(2)
    return cluster


@pytest.mark.parametrize("level", LEVELS)
def test_a_restart_and_a_snapshot_have_the_same_metadata(level: int) -> None:
    cluster = with_a_history(level)
    assert cluster.replayed_facts() == image_facts(cluster.image)
    other, offset = MetadataImage(), 0
    for records in snapshot_batches(copy_image(cluster.image)):
        (batch,) = decode_batches(encode_batch(offset, 1, 0, records, level))
        replay(other, batch.contents, offset)
        offset += len(batch.records)
    facts, known = image_facts(other), image_facts(cluster.image)
    assert {name: facts[name] for name in ("partitions", "brokers", "features")} == {
        name: known[name] for name in ("partitions", "brokers", "features")
    }


@pytest.mark.parametrize("level", LEVELS)
def test_replicas_have_directories_from_3_7_on(level: int) -> None:
    cluster = with_a_history(level)
    has = level >= 17
    assert cluster.image.brokers[1].log_dirs == ((directory(1),) if has else ())
    partition = cluster.partitions("t")[2]
    assert partition.directories == ((directory(3), directory(1)) if has else (MIGRATING_DIRECTORY,) * 2)
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=cluster.image.brokers[1].broker_epoch)
    refused = ErrorCode.NONE if has else ErrorCode.UNSUPPORTED_VERSION
    assert cluster.ask(request, broker_id=None).error_code == refused


def test_directories_count_for_nothing_below_3_7() -> None:
    """Two brokers may name one directory, and a heartbeat that names it as offline changes nothing."""
    cluster = DrivenCluster(2, metadata_version=16)
    assert cluster.register(3, log_dirs=[directory(1)]).error_code == 0
    assert cluster.register(4, log_dirs=[]).error_code == 0
    with cluster.writing() as records:
        assert not cluster.heartbeat(1, offline_log_dirs=[directory(1)]).is_fenced
    assert records == []


def test_the_last_replica_of_a_partition_stays_in_sync() -> None:
    cluster = DrivenCluster(2, metadata_version=21)
    cluster.create_at("t", [1, 2])
    cluster.lose(2)
    cluster.lose(1)
    [partition] = cluster.partitions("t")
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (1,), ())
    cluster.come_back(2)
    cluster.restart()
    assert [(one.leader, one.isr) for one in cluster.partitions("t")] == [(NO_LEADER, (1,))]
    cluster.come_back(1, clean=False)
    cluster.tick()
    assert [(one.leader, set(one.isr)) for one in cluster.partitions("t")] == [(1, {1, 2})]


@pytest.mark.parametrize(("level", "code"), [(10, 35), (11, 0)])
def test_scram_credentials_need_3_5(level: int, code: int) -> None:
    cluster = DrivenCluster(1, metadata_version=level)
    change = ScramCredentialUpsertion(name="a", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
    removal = ScramCredentialDeletion(name="b", mechanism=1)
    request = AlterUserScramCredentialsRequest(upsertions=[change], deletions=[removal])
    results = {one.user: (one.error_code, one.error_message) for one in cluster.ask(request).results}
    text = "The current metadata.version does not support SCRAM"
    assert results["a"] == (code, text if code else None)
    assert results["b"][0] == (code or ErrorCode.RESOURCE_NOT_FOUND)


@pytest.mark.parametrize(("level", "code"), [(14, 35), (15, 0)])
def test_controllers_register_from_3_7_on(level: int, code: int) -> None:
    cluster = DrivenCluster(1, metadata_version=level)
    answer = cluster.ask(ControllerRegistrationRequest(controller_id=3001), broker_id=None)
    text = "The current MetadataVersion is too old to support controller registrations."
    assert (answer.error_code, answer.error_message) == (code, text if code else "")


@pytest.mark.parametrize(("level", "registration", "partition"), [(7, 1, 0), (8, 2, 0), (17, 3, 1), (23, 3, 2)])
def test_records_have_the_versions_of_the_level(level: int, registration: int, partition: int) -> None:
    versions = {
        "RegisterBrokerRecord": registration, "PartitionRecord": partition, "PartitionChangeRecord": partition,
        "BrokerRegistrationChangeRecord": 0,
    }  # fmt: skip
    cluster = DrivenCluster(2, metadata_version=level)
    cluster.create_at("t", [1, 2])
    cluster.lose(2)
    found = {
        name: version
        for part in cluster.log.parts()
        for batch in part.batches
        for name, version in versions_in(batch)
        if name in versions
    }
    assert found == versions


@pytest.mark.parametrize(("level", "code"), [(14, 35), (15, 0)])
def test_the_controller_describes_itself_from_3_7_on(level: int, code: int) -> None:
    """Recorded from a real 4.3 controller on a log of 3.3-IV3."""
    cluster = DrivenCluster(1, metadata_version=level)
    answer = cluster.ask(DescribeClusterRequest(endpoint_type=2), broker_id=None)
    text = "Direct-to-controller communication is not supported with the current MetadataVersion."
    assert (answer.error_code, answer.error_message) == (code, text if code else None)
    assert cluster.ask(DescribeClusterRequest(), broker_id=1).error_code == 0


@pytest.mark.parametrize(("level", "code"), [(29, 40), (30, 0)])
@pytest.mark.parametrize("value", ["*", None])
def test_log_directories_are_cordoned_from_4_3_on(level: int, code: int, value: str | None) -> None:
    cluster = DrivenCluster(1, metadata_version=level)
    change = AlterableConfig(name="cordoned.log.dirs", config_operation=0 if value else 1, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    [answer] = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    text = "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
    assert (answer.error_code, answer.error_message) == (code, text if code else None)


def cordon(cluster: DrivenCluster, value: str | None, broker_id: int | None, name: str = "1") -> tuple[int, str | None]:
    change = AlterableConfig(name="cordoned.log.dirs", config_operation=0 if value is not None else 1, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[change])
    [answer] = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]), broker_id=broker_id).responses
    return answer.error_code, answer.error_message


def test_the_controller_itself_cordons_no_directory_that_is_not_cordoned_already() -> None:
    """Only the broker knows its directories: ConfigurationControlManager.isCordonedLogDirsInvalid."""
    cluster = DrivenCluster(1, configs={"log.dirs": "/a,/b,/c"})
    text = "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the current"
    refused = (40, f"{text} configuration value.")
    assert cordon(cluster, "/a", None) == refused
    assert cordon(cluster, " ", None) == (0, None)
    assert cordon(cluster, "/a,/b", 1) == (0, None)
    assert cordon(cluster, "/a,/c", None) == refused
    assert cordon(cluster, "*", None) == refused
    assert cordon(cluster, " /b , /a ", None) == (0, None)
    assert cordon(cluster, "/b", None) == (0, None)
    assert cordon(cluster, "/a", None, name="") == refused, "the default of all brokers is a config of its own"
    assert cordon(cluster, "/a", None) == refused, "what was removed counts no longer"
    assert cordon(cluster, "/a", 1) == (0, None), "a broker knows its directories"
    assert cordon(cluster, None, None) == (0, None)
    assert cordon(cluster, "/a", None) == refused


def test_a_request_that_a_broker_forwards_has_not_asked_the_controller_itself() -> None:
    cases: list[tuple[Listener, bool, bool]] = [
        ("controller", False, True), ("controller", True, False), ("broker", False, False)
    ]  # fmt: skip
    for listener, is_forwarded, expected in cases:
        client = Client(listener, is_forwarded=is_forwarded)
        assert Requester(listener, client=client).asked_controller_itself is expected
    assert Requester("controller").asked_controller_itself


@pytest.mark.parametrize(("level", "grows"), [(11, True), (12, False)])
def test_the_leader_epoch_grows_with_a_follower_that_leaves_the_isr_until_3_6(level: int, grows: bool) -> None:
    cluster = DrivenCluster(2, metadata_version=level)
    cluster.create_at("t", [1, 2])
    before = cluster.partitions("t")[0]
    cluster.lose(2)
    after = cluster.partitions("t")[0]
    assert (before.isr, after.isr, after.leader) == ((1, 2), (1,), 1)
    assert after.leader_epoch - before.leader_epoch == int(grows)


@pytest.mark.parametrize(("level", "supported"), [(13, False), (14, True)])
def test_delegation_tokens_need_3_6_iv2(level: int, supported: bool) -> None:
    cluster = DrivenCluster(1, metadata_version=level)
    assert tokens_are_supported(cluster.image) is supported


def test_a_broker_is_cordoned_if_all_of_its_directories_are() -> None:
    cluster = DrivenCluster(1)
    broker = cluster.image.brokers[1]
    both = (directory(1), directory(1, 1))
    for log_dirs, cordons, expected in (
        (both, both, True), (both, both[:1], False), (both[:1], both, True), (both, (), False), (both, None, False),
        ((), both, False),
    ):  # fmt: skip
        assert replace(broker, log_dirs=log_dirs, cordoned_log_dirs=cordons).cordoned is expected
