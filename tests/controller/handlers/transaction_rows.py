"""The rights that each request about transactions needs: rows like those of `authorization_rows`."""

from typing import Any

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.protocol.messages.offsets import txn_offset_commit
from klamm.protocol.messages.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    write_txn_markers,
)
from tests.controller.handlers.authorization_row import CLUSTER_DENIED, TRANSACTION_DENIED, Row, on_cluster, transaction
from tests.controller.handlers.guarded_cluster import entry

WRITE, DESCRIBE = AclOperation.WRITE, AclOperation.DESCRIBE
GROUP_READER = entry(AclOperation.READ, "g", AclResourceType.GROUP)


def committed(name: str) -> Any:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition()
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="nowhere", partitions=[partition])
    return txn_offset_commit.TxnOffsetCommitRequest(transactional_id=name, group_id="g", topics=[topic])


def added(name: str) -> Any:
    topic = add_partitions_to_txn.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name="nowhere", partitions=[0])
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name, v3_and_below_topics=[topic]
    )


def marked(_name: str) -> Any:
    topic = write_txn_markers.WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0])
    return write_txn_markers.WriteTxnMarkersRequest(markers=[write_txn_markers.WritableTxnMarker(topics=[topic])])


TRANSACTION_ROWS = [
    Row(
        "AddPartitionsToTxn",
        add_partitions_to_txn.API,
        added,
        [transaction(WRITE)],
        TRANSACTION_DENIED,
        version=3,
        besides=[entry(WRITE, "nowhere")],
    ),
    Row(
        "AddPartitionsToTxn of a broker",
        add_partitions_to_txn.API,
        lambda _name: add_partitions_to_txn.AddPartitionsToTxnRequest(),
        [on_cluster(AclOperation.CLUSTER_ACTION)],
        CLUSTER_DENIED,
    ),
    Row(
        "AddOffsetsToTxn",
        add_offsets_to_txn.API,
        lambda name: add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id=name, group_id="g"),
        [transaction(WRITE)],
        TRANSACTION_DENIED,
        besides=[GROUP_READER],
    ),
    Row(
        "EndTxn",
        end_txn.API,
        lambda name: end_txn.EndTxnRequest(transactional_id=name),
        [transaction(WRITE)],
        TRANSACTION_DENIED,
    ),
    Row(
        "TxnOffsetCommit",
        txn_offset_commit.API,
        committed,
        [transaction(WRITE)],
        TRANSACTION_DENIED,
        besides=[GROUP_READER, entry(AclOperation.READ, "nowhere")],
    ),
    Row(
        "WriteTxnMarkers",
        write_txn_markers.API,
        marked,
        [on_cluster(AclOperation.CLUSTER_ACTION), on_cluster(AclOperation.ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "DescribeTransactions",
        describe_transactions.API,
        lambda name: describe_transactions.DescribeTransactionsRequest(transactional_ids=[name]),
        [transaction(DESCRIBE), transaction(WRITE)],
        TRANSACTION_DENIED,
    ),
]
