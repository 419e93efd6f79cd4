"""A request that is refused as a whole: each of its items is in the response, under its name, with the error. Java's
clients miss an item that has no name."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups import (
    consumer_group_describe as consumer,
)
from klamm.protocol.messages.groups import (
    delete_groups,
    describe_groups,
    find_coordinator,
)
from klamm.protocol.messages.offsets import offset_fetch
from klamm.protocol.messages.security import alter_user_scram_credentials as scram
from klamm.protocol.messages.shares import describe_share_group_offsets as share_offsets
from klamm.protocol.messages.transactions import describe_transactions, write_txn_markers
from klamm.server.bug_answers import refused_whole

CODE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def refused(api: Any, request: Any, version: int | None = None) -> Any:
    return refused_whole(api, api.latest_stable if version is None else version, request, CODE)


def by_name(items: Any, name: str) -> list[tuple[object, int]]:
    return [(getattr(one, name), one.error_code) for one in items]


@pytest.mark.parametrize(
    ("api", "request_class", "array", "answers"),
    [
        (describe_groups.API, describe_groups.DescribeGroupsRequest, "groups", "groups"),
        (delete_groups.API, delete_groups.DeleteGroupsRequest, "groups_names", "results"),
        (consumer.API, consumer.ConsumerGroupDescribeRequest, "group_ids", "groups"),
    ],
    ids=["DescribeGroups", "DeleteGroups", "ConsumerGroupDescribe"],
)
def test_groups(api: Any, request_class: Any, array: str, answers: str) -> None:
    answer = refused(api, request_class(**{array: ["a", "b"]}))
    assert by_name(getattr(answer, answers), "group_id") == [("a", CODE), ("b", CODE)]


def test_groups_of_offsets() -> None:
    group = offset_fetch.OffsetFetchRequestGroup
    request = offset_fetch.OffsetFetchRequest(groups=[group(group_id="a"), group(group_id="b", topics=None)])
    assert by_name(refused(offset_fetch.API, request, 8).groups, "group_id") == [("a", CODE), ("b", CODE)]
    topic = share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
    asked = share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[topic])
    answer = refused(share_offsets.API, share_offsets.DescribeShareGroupOffsetsRequest(groups=[asked]))
    assert by_name(answer.groups, "group_id") == [("g", CODE)]


def test_keys_transactions_and_producers() -> None:
    request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
    answer = refused(find_coordinator.API, request)
    assert by_name(answer.coordinators, "key") == [("a", CODE), ("b", CODE)]
    transactions = describe_transactions.DescribeTransactionsRequest(transactional_ids=["x"])
    answer = refused(describe_transactions.API, transactions)
    assert by_name(answer.transaction_states, "transactional_id") == [("x", CODE)]
    topic = write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=[3])
    marker = write_txn_markers.WritableTxnMarker(producer_id=7, transaction_result=True, topics=[topic])
    (found,) = refused(write_txn_markers.API, write_txn_markers.WriteTxnMarkersRequest(markers=[marker])).markers
    assert found.producer_id == 7
    assert by_name(found.topics[0].partitions, "partition_index") == [(3, CODE)]


def test_each_user_once_in_kafka_s_order() -> None:
    """Kafka sorts the names as Java's strings: a character above U+FFFF comes before U+FFFD."""
    request = scram.AlterUserScramCredentialsRequest(
        deletions=[scram.ScramCredentialDeletion(name=name) for name in ("z", "\ufffd", "b")],
        upsertions=[scram.ScramCredentialUpsertion(name=name) for name in ("b", "\U0001f600", "a", "")],
    )
    answer = refused(scram.API, request)
    assert by_name(answer.results, "user") == [(name, CODE) for name in ("", "a", "b", "z", "\U0001f600", "\ufffd")]
    assert refused(scram.API, scram.AlterUserScramCredentialsRequest()).results == []
