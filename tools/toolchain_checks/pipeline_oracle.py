"""Compares the pipeline's rows of a real Apache Kafka's metadata log with the output of DumpLogSegments.

The log is that of the real cluster of an earlier check, with topics, configs, completed moves and a cancelled one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from klamm.pipeline.logs.metadata_logs import MetadataLog, find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import cut_log
from klamm.pipeline.logs.metadata_rows import read_pieces
from tools.toolchain_checks.dump_log_segments import DumpedRecord, dump_segments, kafkas_name
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.real_cluster import BROKERS, CLUSTER_ID, data_dir_of
from tools.toolchain_checks.report import Report, expect, expect_none

PIECE_BYTES = 3_000
"""So small that there are several pieces."""
_WANTED = frozenset({"TopicRecord", "PartitionRecord", "PartitionChangeRecord", "RegisterBrokerRecord", "ConfigRecord"})
_LISTS = {
    "replicas": "replicas",
    "isr": "isr",
    "addingReplicas": "adding_replicas",
    "removingReplicas": "removing_replicas",
    "eligibleLeaderReplicas": "eligible_leader_replicas",
    "lastKnownElr": "last_known_elr",
}
_NUMBERS = {
    "leader": "leader",
    "leaderEpoch": "leader_epoch",
    "partitionEpoch": "partition_epoch",
    "leaderRecoveryState": "leader_recovery_state",
}


def check_pipeline_oracle(report: Report, java: Java) -> None:
    """The pipeline reads every record as Kafka does."""
    log: MetadataLog | None = None
    with report.check("the pipeline finds the metadata log of a real cluster, by data directory and by folder"):
        [log] = find_metadata_logs([str(data_dir_of(java, BROKERS[0]))])
        expect(log.cluster_id == CLUSTER_ID, f"it takes it for cluster {log.cluster_id}'s")
        expect(find_metadata_logs([log.folder]) == [log], "by its folder it is another one")
    if log is not None:
        with report.check("the pipeline has the records of a real cluster's log that DumpLogSegments has"):
            _compare(java, log)


def _compare(java: Java, log: MetadataLog) -> None:
    rows = [
        row for piece in cut_log(log, None, PIECE_BYTES) for batch in read_pieces([piece]) for row in batch.to_pylist()
    ]
    expect_none([str(row) for row in rows if row["problem"]], "rows with a problem")
    expect({row["type"] for row in rows} >= _WANTED, "the log lacks kinds of records: it proves nothing")
    dumped = list(dump_segments(java, tuple(Path(file.path) for file in log.files)).records())
    found = [
        f"we have {ours}\nKafka has {theirs}"
        for ours, theirs in zip(_told(rows), map(_as_row, dumped), strict=False)
        if ours != theirs
    ]
    expect_none(found, "records that differ")
    expect(len(rows) == len(dumped), f"we have {len(rows)} records, Kafka has {len(dumped)}")


def _told(rows: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        content = row["partition"] or json.loads(row["body"])
        yield row["record_offset"], kafkas_name(row["type"]), row["version"], content


def _as_row(record: DumpedRecord) -> tuple[Any, ...]:
    """The row that the pipeline must have for Kafka's content."""
    if record.type_name not in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
        return record.offset, record.type_name, record.version, record.content
    content = record.content
    partition = {"topic_id": content["topicId"], "partition_index": content["partitionId"]}
    partition |= {own: content.get(name) for name, own in (_LISTS | _NUMBERS).items()}
    if record.type_name == "PARTITION_RECORD":
        partition["leader_recovery_state"] = content.get("leaderRecoveryState", 0)
    return record.offset, record.type_name, record.version, partition
