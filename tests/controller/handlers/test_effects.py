"""What a request does to soft state is a part of its outcome: a handler that fails changes none of it."""

import copy
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import klamm.broker
import klamm.controller
from klamm.broker.handlers.alter_replica_log_dirs import ReplicasMoved
from klamm.broker.handlers.batches_written import BatchesWritten
from klamm.broker.handlers.delete_records import DeletedBefore
from klamm.broker.handlers.fetch import _Advance as SessionAdvanced
from klamm.broker.handlers.fetch import _Close as SessionClosed
from klamm.broker.handlers.groups.first_offsets import FirstOffsetsKept
from klamm.broker.handlers.groups.list_submission import ListSubmission
from klamm.broker.handlers.groups.streams_groups import _KeepErrors as ErrorsKept
from klamm.broker.handlers.groups.submission import Submission
from klamm.broker.handlers.init_producer_id import ProducerIdsLeft
from klamm.broker.handlers.share.share_version import Begin
from klamm.broker.handlers.telemetry import _Collect as MetricsCollected
from klamm.broker.handlers.telemetry import _Keep as InstanceKept
from klamm.broker.handlers.transactions.submission import TransactionSubmission
from klamm.broker.handlers.transactions.txn_offset_commit import OffsetsSubmission
from klamm.broker.handlers.transactions.write_txn_markers import MarkersWritten
from klamm.broker.simulated_broker import SimulatedBroker
from klamm.controller.context import RequestContext
from klamm.controller.effects import BrokerContact, Departing, QuorumUpgrade, RootLogLevels, WentOffline
from klamm.controller.log import LogError
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Effect, Outcome
from klamm.controller.quotas.mutations import _TokensTaken as TokensTaken
from klamm.controller.steps import run_whole
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from klamm.protocol.messages.brokers.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.messages.cluster.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.data.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.data.produce import ProduceRequest
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offsets.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.messages.offsets.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.uuid import Uuid
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import produce, produce_request
from tests.controller.handlers.cluster import APIS, DrivenCluster, directory
from tests.controller.handlers.config_requests import LOGGER
from tests.controller.handlers.tiny_steps import make_steps_tiny
from tests.controller.image_facts import image_facts

Make = Callable[[DrivenCluster], Message]


SET_CONFIG = 0


class HandlerBug(Exception):
    """Raised by a handler after its decision."""


def producing(acks: int) -> Make:
    def make(cluster: DrivenCluster) -> ProduceRequest:
        return produce_request(cluster, batch(2), batch(1), acks=acks)

    return make


def repeating(cluster: DrivenCluster) -> Message:
    """A batch whose producer has written one before."""
    return produce_request(cluster, batch(1, producer_id=7, producer_epoch=0, base_sequence=0), partition=1, acks=1)


def deleting(cluster: DrivenCluster) -> Message:
    produce(cluster, batch(5), acks=1)
    cluster.clock.advance(1_000)
    partition = DeleteRecordsPartition(partition_index=0, offset=2)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1_000)


def beating(cluster: DrivenCluster) -> Message:
    cluster.clock.advance(1)
    epoch = cluster.image.brokers[2].broker_epoch
    return BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=cluster.log.end_offset)


def losing_a_directory(cluster: DrivenCluster) -> Message:
    request = beating(cluster)
    assert isinstance(request, BrokerHeartbeatRequest)
    request.offline_log_dirs = [directory(2)]
    return request


def preferring_a_directory(_cluster: DrivenCluster) -> Message:
    """For a replica that does not exist yet."""
    named = AlterReplicaLogDirTopic(name="later", partitions=[0])
    path = "/tmp/kafka-logs"
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[named])])


def registering_again(cluster: DrivenCluster) -> Message:
    cluster.lose(2)
    cluster.lives[2] += 1
    return cluster.registration(2)


def setting_a_level(_cluster: DrivenCluster) -> Message:
    level = AlterableConfig(name="root", config_operation=SET_CONFIG, value="DEBUG")
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[level])]
    )


def committing_an_offset(cluster: DrivenCluster) -> Message:
    """A commit of a client that is in no group."""
    cluster.submit(FindCoordinatorRequest(coordinator_keys=["g"]))
    cluster.submit(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]))
    cluster.clock.advance(1_000)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = OffsetCommitRequestTopic(topic_id=cluster.image.topics.by_name["t"].topic_id, partitions=[partition])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])


def transactional_id(cluster: DrivenCluster) -> str:
    """A transactional id whose coordinator is broker 1, which has loaded its transactions."""
    cluster.submit(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    coordinators, image = cluster.brokers.coordinators, cluster.image
    name = next(f"x{at}" for at in range(1_000) if coordinators.leader_of(image, TRANSACTION_STATE, f"x{at}") == 1)
    cluster.submit(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000))
    cluster.clock.advance(1_000)
    return name


def beginning_a_transaction(cluster: DrivenCluster) -> Message:
    return InitProducerIdRequest(transactional_id=transactional_id(cluster), transaction_timeout_ms=1_000)


def committing_an_offset_in_a_transaction(cluster: DrivenCluster) -> Message:
    name = transactional_id(cluster)
    committing_an_offset(cluster)
    coordinators, image = cluster.brokers.coordinators, cluster.image
    group = next(f"g{at}" for at in range(1_000) if coordinators.leader_of(image, CONSUMER_OFFSETS, f"g{at}") == 1)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
    return TxnOffsetCommitRequest(transactional_id=name, group_id=group, topics=[topic])


def writing_a_marker(_cluster: DrivenCluster) -> Message:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=7, topics=[topic])])


def fetch_in_session(cluster: DrivenCluster, session_epoch: int) -> Message:
    """A request in a session that a fetch before has begun."""
    topic = FetchTopic(topic_id=cluster.image.topics.by_name["t"].topic_id, partitions=[FetchPartition(partition=0)])
    begun = cluster.ask(FetchRequest(session_epoch=0, topics=[topic]))
    assert begun.session_id
    cluster.clock.advance(1_000)
    return FetchRequest(session_id=begun.session_id, session_epoch=session_epoch, topics=[topic])


def asking_what_to_push(_cluster: DrivenCluster) -> Message:
    return GetTelemetrySubscriptionsRequest(client_instance_id=Uuid(b"\5" * 16))


CASES: dict[str, tuple[Make, type[Effect]]] = {
    "Produce with acks=0": (producing(0), BatchesWritten),
    "Produce with acks=1": (producing(1), BatchesWritten),
    "Produce with acks=all": (producing(-1), BatchesWritten),
    "Produce of an idempotent producer": (repeating, BatchesWritten),
    "DeleteRecords": (deleting, DeletedBefore),
    "InitProducerId": (lambda _: InitProducerIdRequest(transactional_id=None), ProducerIdsLeft),
    "BrokerHeartbeat": (beating, BrokerContact),
    "BrokerHeartbeat with an offline directory": (losing_a_directory, WentOffline),
    "BrokerRegistration": (registering_again, Departing),
    "UnregisterBroker": (lambda _: UnregisterBrokerRequest(broker_id=2), Departing),
    "IncrementalAlterConfigs of a logger": (setting_a_level, RootLogLevels),
    "OffsetCommit": (committing_an_offset, Submission),
    "InitProducerId with a transactional id": (beginning_a_transaction, TransactionSubmission),
    "TxnOffsetCommit": (committing_an_offset_in_a_transaction, OffsetsSubmission),
    "WriteTxnMarkers": (writing_a_marker, MarkersWritten),
    "Fetch in a session": (lambda cluster: fetch_in_session(cluster, 1), SessionAdvanced),
    "Fetch that ends a session": (lambda cluster: fetch_in_session(cluster, -1), SessionClosed),
    "AlterReplicaLogDirs": (preferring_a_directory, ReplicasMoved),
    "GetTelemetrySubscriptions": (asking_what_to_push, InstanceKept),
}


READING: set[type[Effect]] = {ListSubmission}
"""Effects that only read soft state, so that a test of changes has nothing to check."""
ELSEWHERE: set[type[Effect]] = {
    Begin, ErrorsKept, FirstOffsetsKept, MetricsCollected, QuorumUpgrade, TokensTaken
}  # fmt: skip
"""Effects that need a share group, a streams group, a receiver of metrics, a quota, or an old version, or change the
log alone: the tests of those handlers compare the state after each answer."""


def soft_facts(cluster: DrivenCluster) -> dict[str, Any]:
    """Everything that is in the memory of the process and not in its log."""
    controller, now_ms = cluster.controller, cluster.clock.now_ms
    logs = {}
    for (topic_id, index), end in cluster.data.log_end_offsets():
        found = cluster.data.find(topic_id, index)
        assert found is not None
        begin, size = found.log.log_start_offset, found.log.size_bytes
        logs[topic_id, index] = (begin, end, size, list(found.producers), found.high_watermark(now_ms))
    return {
        "logs": logs,
        "producer ids": {broker_id: broker.producer_ids for broker_id, broker in cluster.brokers.by_id.items()},
        "root log levels": {broker_id: broker.root_log_level for broker_id, broker in cluster.brokers.by_id.items()},
        "sessions": copy.deepcopy(controller._sessions._sessions),
        "fetch sessions": {broker_id: sessions_of(broker) for broker_id, broker in cluster.brokers.by_id.items()},
        "instances": {broker_id: len(one.client_instances) for broker_id, one in cluster.brokers.by_id.items()},
        "log directories": dict(cluster.brokers.log_dir_work.placed._preferred),
        "work": [type(work) for work in controller._background._long],
    }


def sessions_of(broker: SimulatedBroker) -> list[tuple[int, int, int]]:
    """Each fetch session with its epoch and the time of its last use."""
    sessions = broker.fetch_sessions
    return [] if sessions is None else [(one.session_id, one.epoch, one.used_ms) for one in sessions._by_id.values()]


def all_facts(cluster: DrivenCluster) -> dict[str, Any]:
    return {**image_facts(cluster.image), **soft_facts(cluster), "log": cluster.log.log_bytes()}


@pytest.mark.parametrize("case", CASES)
def test_a_handler_that_fails_after_it_has_decided_changes_nothing(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, effect = CASES[case]
    cluster = DrivenCluster(3)
    # Broker 2 has more replicas in its first directory than a tiny step changes, and another directory that works.
    assert cluster.create_at("t", *[[1, 2, 3]] * 6).error_code == 0
    assert cluster.register(2, log_dirs=[directory(2), directory(2, 1)]).error_code == 0
    assert not cluster.heartbeat(2).is_fenced
    make_steps_tiny(monkeypatch)
    request = make(cluster)
    before = all_facts(cluster)
    api, handlers = APIS[type(request)], cluster.controller.handlers

    def fail(image: MetadataImage, request: Any, context: RequestContext) -> Outcome:
        outcome = run_whole(handlers[api](image, request, context))
        assert effect in {type(one) for one in outcome.effects}, "it has decided"
        raise HandlerBug

    with monkeypatch.context() as patch:
        patch.setattr(cluster.controller, "handlers", {**handlers, api: fail})
        with pytest.raises(HandlerBug):
            cluster.submit(request)
    assert all_facts(cluster) == before
    cluster.submit(request)
    assert soft_facts(cluster) != {name: before[name] for name in soft_facts(cluster)}, "without the bug it does"


WITH_RECORDS = ("InitProducerId", "BrokerHeartbeat with an offline directory", "UnregisterBroker")


@pytest.mark.parametrize("case", WITH_RECORDS)
def test_a_request_whose_records_cannot_be_logged_has_no_effect(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects are applied after the records: what is not in the log must not be in the soft state."""
    make, _ = CASES[case]
    cluster = DrivenCluster(3)
    assert cluster.create_at("t", *[[1, 2, 3]] * 6).error_code == 0
    assert cluster.register(2, log_dirs=[directory(2), directory(2, 1)]).error_code == 0
    make_steps_tiny(monkeypatch)
    request = make(cluster)
    before = all_facts(cluster)
    monkeypatch.setattr(cluster.log, "_max_log_bytes", 0)
    with pytest.raises(LogError):
        cluster.submit(request)
    assert all_facts(cluster) == before


def test_every_effect_that_there_is_has_a_case() -> None:
    import_rooms()
    found = {one for module in loaded_modules() for one in vars(module).values() if is_effect(one)}
    assert found == {effect for _, effect in CASES.values()} | READING | ELSEWHERE


def import_rooms() -> None:
    """Import all modules of both rooms, also those that a request imports."""
    for room in (klamm.broker, klamm.controller):
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            import_module(found.name)


def loaded_modules() -> list[Any]:
    import sys

    return [module for name, module in sys.modules.items() if name.startswith(("klamm.broker.", "klamm.controller."))]


def is_effect(value: object) -> bool:
    return isinstance(value, type) and hasattr(value, "apply") and value is not Effect
