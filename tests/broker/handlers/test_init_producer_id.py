"""InitProducerId: ids that were never used before, from logged blocks; and the answers to transactional producers."""

from typing import Any

import pytest

from klamm.controller.authorizer import AclOperation, AclResourceType, PatternType
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.transactions import init_producer_id as messages
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.records.brokers import ProducerIdsRecord
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import DENY, GuardedCluster, cluster_entry, entry


def asked(cluster: DrivenCluster, *, version: int | None = None, broker_id: int | None = 1, **fields: Any) -> Any:
    values = {"transactional_id": None, **fields}
    return cluster.ask(InitProducerIdRequest(**values), version=version, broker_id=broker_id)


@pytest.mark.parametrize("version", messages.API.current_versions)
def test_each_producer_gets_another_id(version: int) -> None:
    cluster = DrivenCluster(2)
    found = [asked(cluster, version=version) for _ in range(3)]
    assert found == [InitProducerIdResponse(producer_id=number, producer_epoch=0) for number in range(3)]
    assert asked(cluster, version=version, broker_id=2).producer_id == 1_000


def test_a_block_is_logged_once_and_the_next_one_when_it_is_used_up() -> None:
    cluster = DrivenCluster(2)
    with cluster.writing() as written:
        ids = [asked(cluster).producer_id for _ in range(1_001)]
    epoch = cluster.image.brokers[1].broker_epoch
    assert ids == list(range(1_001))
    assert written == [
        ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=end) for end in (1_000, 2_000)
    ]
    assert cluster.replayed_facts()["next_producer_id"] == cluster.image.next_producer_id == 2_000


@pytest.mark.parametrize("turns", [[1, 2, 3] * 4, [1, 1, 2, 2, 1, 3, 2, 1, 3, 3]])
def test_each_broker_goes_on_in_its_own_block(turns: list[int]) -> None:
    """Independent of requests to other brokers in between."""
    cluster = DrivenCluster(3)
    found: dict[int, list[int]] = {}
    for broker_id in turns:
        found.setdefault(broker_id, []).append(asked(cluster, broker_id=broker_id).producer_id)
    for place, ids in enumerate(found.values()):
        assert ids == list(range(1_000 * place, 1_000 * place + len(ids)))


def test_another_process_does_not_give_what_a_former_one_gave() -> None:
    cluster = DrivenCluster(1)
    assert asked(cluster).producer_id == 0
    cluster.restart()
    assert asked(cluster).producer_id == 1_000


def test_who_used_up_an_epoch_gets_another_id() -> None:
    cluster = DrivenCluster(1)
    asked(cluster)
    found = asked(cluster, producer_id=0, producer_epoch=32_767)
    assert (found.error_code, found.producer_id, found.producer_epoch) == (0, 1, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x", "transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "x", "transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "x", "transaction_timeout_ms": 900_000}, ErrorCode.NOT_COORDINATOR),
        ({"transactional_id": "x", "enable2_pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"transactional_id": "x", "keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_is_refused_has_its_code_and_writes_nothing(fields: dict[str, Any], code: int) -> None:
    cluster = DrivenCluster(1)
    with cluster.writing() as written:
        found = asked(cluster, version=6, **fields)
    assert (found.error_code, found.producer_id, found.producer_epoch) == (code, -1, -1)
    assert written == []
    assert asked(cluster).producer_id == 0


@pytest.mark.parametrize(
    ("acls", "code"),
    [
        ([], ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ([entry(AclOperation.READ)], ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ([entry(AclOperation.WRITE)], ErrorCode.NONE),
        ([entry(AclOperation.WRITE, "t", pattern=PatternType.PREFIXED)], ErrorCode.NONE),
        ([entry(AclOperation.WRITE), entry(AclOperation.WRITE, permission=DENY)], 31),
        ([cluster_entry(AclOperation.IDEMPOTENT_WRITE)], ErrorCode.NONE),
    ],
)
def test_who_may_write_to_any_topic_may_do_so_idempotently(acls: list[Any], code: int) -> None:
    guarded = GuardedCluster(1)
    guarded.grant(*acls)
    with guarded.asking():
        assert asked(guarded).error_code == code


def test_a_transactional_id_needs_a_right_of_its_own() -> None:
    guarded = GuardedCluster(1)
    guarded.grant(cluster_entry(AclOperation.IDEMPOTENT_WRITE))
    with guarded.asking():
        refused = asked(guarded, transactional_id="x", transaction_timeout_ms=1)
    guarded.grant(entry(AclOperation.WRITE, "x", AclResourceType.TRANSACTIONAL_ID))
    with guarded.asking():
        allowed = asked(guarded, transactional_id="x", transaction_timeout_ms=1)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert allowed.error_code == ErrorCode.NOT_COORDINATOR
