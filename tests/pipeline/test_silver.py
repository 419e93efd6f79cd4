"""silver from records written for the test, in cases that random clusters do not reach."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.pipeline import schemas, silver

Plain = dict[str, Any]


def _row(cluster: str, offset: int, kind: str, *, partition: Plain | None = None, **more: Any) -> tuple[Any, ...]:
    row = {"cluster_id": cluster, "record_offset": offset, "batch_offset": offset, "type": kind, **more}
    if partition is not None:
        given = {"topic_id": "T", "partition_index": 0, **partition}
        row["partition"] = tuple(given.get(name) for name in schemas.PARTITION_FIELDS.names)
    return tuple(row.get(name) for name in schemas.METADATA_RECORD.names)


def _beginning(cluster: str, **position: Any) -> list[tuple[Any, ...]]:
    made = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 4, "partition_epoch": 9}
    offsets = (position.pop("at"),) * 2 if position else (0, 1)
    return [
        _row(cluster, offsets[0], "TopicRecord", body='{"topicId":"T","name":"t"}', **position),
        _row(cluster, offsets[1], "PartitionRecord", partition=made, **position),
    ]


def _change(cluster: str, offset: int, **fields: Any) -> tuple[Any, ...]:
    return _row(cluster, offset, "PartitionChangeRecord", partition=fields)


BEGIN, END, ABORT = ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")
LOGS: dict[str, tuple[list[tuple[Any, ...]], tuple[Any, ...]]] = {
    "null is unchanged, a leader raises its epoch": (
        [*_beginning("c"), _change("c", 2, isr=[2]), _change("c", 3, leader=2)],
        ([2], 2, 5, 11),
    ),
    "an aborted transaction": (
        [*_beginning("c"), _row("c", 2, BEGIN), _change("c", 3, leader=-1), _row("c", 4, ABORT),
         _change("c", 5, isr=[1])],
        ([1], 1, 4, 10),
    ),
    "one that ended, one that was aborted": (
        [
            *(*_beginning("c"), _row("c", 2, BEGIN), _change("c", 3, isr=[2]), _row("c", 4, END)),
            *(_row("c", 5, BEGIN), _change("c", 6, isr=[1]), _row("c", 7, ABORT)),
        ],
        ([2], 1, 4, 10),
    ),
    "one that has not ended": (
        [*_beginning("c"), _row("c", 2, BEGIN), _change("c", 3, isr=[2])],
        ([1, 2], 1, 4, 9),
    ),
    "records that the snapshot stands for": (
        [*_beginning("c", at=7, snapshot_position=1), _change("c", 6, isr=[2]), _change("c", 7, isr=[2]),
         _change("c", 8, isr=[1])],
        ([1], 1, 4, 10),
    ),
    "eligible leader replicas that are cleared, and that are cleared again": (
        [
            *(*_beginning("c"), _change("c", 2, eligible_leader_replicas=[2])),
            *(_row("c", 3, "ClearElrRecord", body='{"topicName":"t"}'), _row("c", 4, "ClearElrRecord", body="{}")),
        ],
        ([1, 2], 1, 4, 11),
    ),
    "a record with a problem": (
        [*_beginning("c"), _row("c", 2, "corrupt", problem="bytes"), _change("c", 3, isr=[1])],
        ([1], 1, 4, 10),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def bronze(spark: SparkSession) -> DataFrame:
    """The records of all these logs, each of a cluster of its own."""
    rows = [(name, *row[1:]) for name, (log, _) in LOGS.items() for row in log]
    return spark.createDataFrame(rows, schemas.METADATA_RECORD).localCheckpoint()


@pytest.fixture(scope="module")
def records(bronze: DataFrame) -> DataFrame:
    return silver.sound_records(bronze).localCheckpoint()


def test_what_a_partition_is_in_the_end(records: DataFrame) -> None:
    versions = silver.partition_versions(records, silver.topics(records)).where("valid_to_offset is null")
    found = {
        row["cluster_id"]: tuple(row[n] for n in ("isr", "leader", "leader_epoch", "partition_epoch"))
        for row in versions.collect()
    }
    assert found == {name: expected for name, (_, expected) in LOGS.items()}


@pytest.mark.parametrize("names", [list(LOGS), ["null is unchanged, a leader raises its epoch"]], ids=["all", "plain"])
def test_records_in_two_parts_give_the_same_tables(bronze: DataFrame, names: list[str]) -> None:
    """Without a range to leave out, the plan has no anti join."""
    chosen = bronze.where(bronze["cluster_id"].isin(names))
    whole = silver.sound_records(chosen).localCheckpoint()
    parts, problems = silver.split_records(chosen)
    assert "partition" not in parts.others.columns
    topics = silver.topics(parts.others).localCheckpoint()
    pairs = [
        (topics, silver.topics(whole)),
        (
            silver.partition_versions(parts.of_partitions, topics, parts.others),
            silver.partition_versions(whole, topics),
        ),
        (parts.others, whole.where("partition is null").drop("partition")),
        (problems.select("problem"), chosen.where("problem is not null").select("problem")),
    ]
    for found, wanted in pairs:
        assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))


def test_every_table_has_its_columns(records: DataFrame) -> None:
    topics = silver.topics(records)
    tables = {
        "topic": topics,
        "partition_version": silver.partition_versions(records, topics),
        "broker_version": silver.broker_versions(records),
        "config_version": silver.config_versions(records, topics),
    }
    for name, table in tables.items():
        found = [(column.name, column.dataType) for column in table.schema]
        assert found == [(column.name, column.dataType) for column in schemas.SILVER[name]], name


def test_brokers_are_fenced_by_the_records_of_before_kafka_3_3(spark: SparkSession) -> None:
    reported = '{"id":1,"epoch":5}'
    registered = '{"brokerId":1,"brokerEpoch":5,"incarnationId":"I","rack":"a","fenced":true}'
    records = [
        _row("c", 0, "RegisterBrokerRecord", body=registered),
        _row("c", 1, "UnfenceBrokerRecord", body=reported),
        _row("c", 2, "FenceBrokerRecord", body=reported),
        _row("c", 3, "UnfenceBrokerRecord", body='{"id":2,"epoch":5}'),
    ]
    versions = silver.broker_versions(spark.createDataFrame(records, schemas.METADATA_RECORD))
    of_one = versions.where("broker_id = 1").orderBy("valid_from_offset").collect()
    assert [(row.fenced, row.broker_epoch, row.rack, row.registered) for row in of_one] == [
        (fenced, 5, "a", True) for fenced in (True, False, True)
    ]
    assert [row.valid_to_offset for row in of_one] == [1, 2, None]
