"""Checks metadata logs: named conditions that every log must meet, and the offsets at which a log does not.

Records are checked in the order of their offsets; partitions and brokers are checked version by version, as in silver.
One pass per table counts the failures. For the checks that fail, some offsets are looked up. Snapshots are compared
with a replay of the log, in one task per log.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from klamm.pipeline import silver
from klamm.pipeline.logs import snapshots
from klamm.pipeline.logs.metadata_logs import MetadataLog, find_metadata_logs
from klamm.pipeline.logs.tails import torn_tail

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLES: Final = 10
"""The most samples of each cluster per check."""
_NEVER: Final = 1 << 62
Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on every row of a table. `holds` is an SQL expression; null counts as true."""

    name: str
    holds: str
    about: str
    severity: Severity = "error"


RECORD_CHECKS: Final = (
    Check("record_decoded", "problem IS NULL", "bytes that are no batch or no record"),
    Check(
        "record_type_known",
        "type NOT LIKE 'unknown:%'",
        "record types or versions that a newer Kafka has",
        severity="warning",
    ),
    Check("offsets_without_gap", "record_offset <= expected_offset", "records are missing before these offsets"),
    Check("offsets_once", "record_offset <> previous_offset", "offsets that several records have"),
    Check("offset_in_its_file", "record_offset >= file_begins_at", "records in a segment that begins behind them"),
    Check(
        "epochs_never_back", "leader_epoch >= previous_epoch", "batches of an older leader behind those of a newer one"
    ),
)
CHANGE_CHECKS: Final = (
    Check("change_has_partition", "creations > 0", "changes of partitions that no record created"),
    Check("partition_created_once", "NOT (is_creation AND creations > 1)", "partitions that were created again"),
    Check("partition_has_topic", "has_topic", "partitions of topics that do not exist then"),
)
TOPIC_CHECKS: Final = (
    Check("topic_id_once", "same_id = 1", "topics whose id another one has or had"),
    Check(
        "topic_name_once",
        "next_offset IS NULL OR deleted_offset <= next_offset",
        "topics whose name was given again before they were deleted",
    ),
)
VERSION_CHECKS: Final = (
    Check("replicas_not_empty", "size(replicas) > 0", "partitions without replicas"),
    Check("replicas_distinct", "size(array_distinct(replicas)) = size(replicas)", "replicas named twice"),
    Check(
        "placeholders_last",
        "replicas = concat(filter(replicas, r -> r >= 0), filter(replicas, r -> r < 0))",
        "placeholders (KIP-409) before real replicas",
    ),
    Check("isr_within_replicas", "size(array_except(isr, replicas)) = 0", "in-sync replicas that are no replicas"),
    Check("isr_is_real", "NOT exists(isr, r -> r < 0)", "placeholders in sync"),
    Check("leader_in_isr", "leader = -1 OR array_contains(isr, leader)", "leaders that are not in sync"),
    Check(
        "moving_within_replicas",
        "size(array_except(concat(adding_replicas, removing_replicas), replicas)) = 0",
        "replicas that are added or removed, and are no replicas",
    ),
    Check(
        "elr_not_in_isr",
        "size(array_intersect(eligible_leader_replicas, isr)) = 0",
        "eligible leader replicas that are in sync (KIP-966)",
    ),
    Check("epochs_not_negative", "leader_epoch >= 0 AND partition_epoch >= 0", "epochs below 0"),
)
BROKER_CHECKS: Final = (
    Check("broker_registered", "registers OR was_registered", "changes of brokers that are not registered"),
    Check(
        "broker_epoch_grows", "NOT registers OR broker_epoch > previous_epoch", "registrations in an epoch of before"
    ),
    Check(
        "broker_epoch_known", "registers OR broker_epoch = previous_epoch", "changes of another registration's epoch"
    ),
)
TORN: Final = "log_ends_whole"
EMPTY: Final = "log_has_records"
LOG_CHECKS: Final = (
    Check(TORN, f"finding <> '{TORN}'", "logs that end with half a batch: cut off, or being written", "warning"),
    Check(EMPTY, f"finding <> '{EMPTY}'", "logs without a record", "warning"),
)
SNAPSHOT_CHECKS: Final = (
    Check(snapshots.DAMAGED, f"finding <> '{snapshots.DAMAGED}'", "snapshots that are damaged or cut off"),
    Check(
        snapshots.DIFFERENT,
        f"finding <> '{snapshots.DIFFERENT}'",
        "differences between a snapshot and what the log amounts to at its end",
    ),
    Check(
        snapshots.AHEAD, f"finding <> '{snapshots.AHEAD}'", "snapshots that the log does not reach", severity="warning"
    ),
)
_FINDINGS: Final = "cluster_id string, finding string, record_offset long, problem string"
_FINDINGS_AT_ONCE: Final = 1000
_MAX_TASKS: Final = 200


def check_logs(
    spark: SparkSession, logs: Sequence[str], progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Check metadata logs. Raises PipelineError for paths that are no metadata logs.

    Returns `passed` (no check of severity "error" failed), `clusters`, `records`, `snapshots` (the numbers `found` and
    `compared` with the log), and `checks`: for each its `name`, `severity`, `about`, how often it `failed`, and up to
    `SAMPLES` samples per cluster, with `cluster_id`, `record_offset` and `problem` (set for unreadable bytes and for
    snapshots, otherwise null).
    """
    found = find_metadata_logs(logs)
    progress("checking the logs")
    paths = "\n".join(log.folder for log in found)
    bronze = spark.read.format("kraft-log").option("logs", paths).load().localCheckpoint()
    records = silver.sound_records(bronze).localCheckpoint()
    topics = silver.topics(records).localCheckpoint()
    progress("holding snapshots against the logs")
    empty = _empty_logs(spark, found, bronze)
    findings = _findings(spark, found).unionByName(empty).localCheckpoint()
    progress("checking records, topics, partitions and brokers")
    tables: tuple[tuple[DataFrame, Sequence[Check]], ...] = (
        (findings, LOG_CHECKS + SNAPSHOT_CHECKS),
        (_records(bronze), RECORD_CHECKS),
        (_topics(topics), TOPIC_CHECKS),
        (_changes(records, topics), CHANGE_CHECKS),
        (_versions(records, topics), VERSION_CHECKS),
        (_brokers(records), BROKER_CHECKS),
    )
    checks = [told for rows, named in tables for told in check_table(rows, named)]
    return {
        "passed": not any(told["failed"] for told in checks if told["severity"] == "error"),
        "clusters": sorted(log.cluster_id for log in found),
        "records": bronze.count(),
        "snapshots": {
            kind: findings.where(F.col("finding") == kind).count() for kind in (snapshots.FOUND, snapshots.COMPARED)
        },
        "checks": checks,
    }


def check_table(rows: DataFrame, checks: Sequence[Check]) -> list[dict[str, Any]]:
    """The entries of these checks in the result of `check_logs`. `rows` has cluster_id, record_offset, problem, and the
    columns in the conditions."""
    fails = {check.name: ~F.coalesce(F.expr(check.holds), F.lit(True)) for check in checks}
    counts = rows.agg(*(F.count_if(failed).alias(name) for name, failed in fails.items())).first()
    assert counts is not None, "an aggregate has one row"
    failed = {name: fails[name] for name in fails if counts[name]}
    places = _places(rows, failed) if failed else {}
    return [
        {
            "name": check.name,
            "severity": check.severity,
            "about": check.about,
            "failed": counts[check.name],
            "places": places.get(check.name, []),
        }
        for check in checks
    ]


def _places(rows: DataFrame, failed: Mapping[str, Column]) -> dict[str, list[dict[str, Any]]]:
    """The first samples of each cluster, by check, in one pass for all checks that failed."""
    names = F.array_compact(F.array(*(F.when(condition, F.lit(name)) for name, condition in failed.items())))
    of_cluster = Window.partitionBy("name", "cluster_id").orderBy("record_offset")
    samples = (
        rows.select("cluster_id", "record_offset", "problem", F.explode(names).alias("name"))
        .withColumn("number", F.row_number().over(of_cluster))
        .where(F.col("number") <= SAMPLES)
        .drop("number")
        .orderBy("cluster_id", "record_offset")
    )
    places = defaultdict[str, list[dict[str, Any]]](list)
    for row in samples.collect():
        sample = row.asDict()
        places[sample.pop("name")].append(sample)
    return places


def _findings(spark: SparkSession, logs: Sequence[MetadataLog]) -> DataFrame:
    """The findings about each log as a whole, computed on the executors: the end of the log, and its snapshots."""
    folders = spark.createDataFrame([(log.folder,) for log in logs], "folder string")
    return folders.repartition(min(len(logs), _MAX_TASKS), "folder").mapInArrow(_judge, _FINDINGS)


def _empty_logs(spark: SparkSession, logs: Sequence[MetadataLog], bronze: DataFrame) -> DataFrame:
    clusters = spark.createDataFrame([(log.cluster_id,) for log in logs], "cluster_id string")
    return clusters.join(bronze.select("cluster_id").distinct(), "cluster_id", "left_anti").select(
        "cluster_id",
        F.lit(EMPTY).alias("finding"),
        F.lit(0).cast("long").alias("record_offset"),
        _no_problem(),
    )


def _judge(folders: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    rows: list[tuple[Any, ...]] = []
    for batch in folders:
        for log in find_metadata_logs(batch.column(0).to_pylist()):
            torn = torn_tail(log)
            tail = [snapshots.Finding(TORN, *torn)] if torn else []
            for finding in chain(tail, snapshots.judge_snapshots(log)):
                rows.append((log.cluster_id, *finding))
                if len(rows) == _FINDINGS_AT_ONCE:
                    yield _arrow(rows)
                    rows = []
    if rows:
        yield _arrow(rows)


def _arrow(rows: Sequence[tuple[Any, ...]]) -> "pa.RecordBatch":
    import pyarrow as pa

    text = pa.string()
    columns = (("cluster_id", text), ("finding", text), ("record_offset", pa.int64()), ("problem", text))
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(zip(*rows, strict=True), columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in columns])


def _records(bronze: DataFrame) -> DataFrame:
    """The records with the values of the record before each, in the order of offsets. A log begins at offset 0 or at
    the end of its snapshot. Records of a snapshot and unreadable bytes are not part of this order."""
    ends = (
        bronze.where(F.col("snapshot_position").isNotNull())
        .groupBy("cluster_id")
        .agg((F.max("record_offset") + 1).alias("begins_at"))
    )
    placed = F.col("problem").isNull() & F.col("snapshot_position").isNull()
    in_order = Window.partitionBy("cluster_id", "placed").orderBy("record_offset")
    begins_at = F.coalesce("begins_at", F.lit(0))
    return (
        bronze.join(F.broadcast(ends), "cluster_id", "left")
        .withColumn("placed", placed)
        .withColumn("previous_offset", F.when(placed, F.lag("record_offset").over(in_order)))
        .withColumn("previous_epoch", F.when(placed, F.lag("leader_epoch").over(in_order)))
        .withColumn("expected_offset", F.when(placed, F.coalesce(F.col("previous_offset") + 1, begins_at)))
        .withColumn("file_begins_at", F.when(placed, F.substring("file", 1, 20).cast("long")))
    )


def _topics(topics: DataFrame) -> DataFrame:
    of_id = Window.partitionBy("cluster_id", "topic_id")
    of_name = Window.partitionBy("cluster_id", "name").orderBy("created_offset")
    return topics.select(
        *("cluster_id", F.col("created_offset").alias("record_offset"), _no_problem()),
        F.count(F.lit(1)).over(of_id).alias("same_id"),
        F.coalesce("deleted_offset", F.lit(_NEVER)).alias("deleted_offset"),
        F.lead("created_offset").over(of_name).alias("next_offset"),
    )


def _changes(records: DataFrame, topics: DataFrame) -> DataFrame:
    """Records about partitions, each with the number of creations of its partition so far, and whether its topic
    exists."""
    of_partition = Window.partitionBy("cluster_id", "topic_id", "partition_index").orderBy(*silver.ORDER)
    up_to_now = of_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_creation = F.col("type") == "PartitionRecord"
    is_there = (F.col("created_offset") <= F.col("record_offset")) & (
        F.col("record_offset") < F.coalesce("deleted_offset", F.lit(_NEVER))
    )
    names = topics.select("cluster_id", "topic_id", "created_offset", "deleted_offset").dropDuplicates(
        ["cluster_id", "topic_id"]
    )
    return (
        records.where(F.col("partition").isNotNull())
        .select("cluster_id", *silver.ORDER, "problem", "partition.*", is_creation.alias("is_creation"))
        .withColumn("creations", F.sum(F.col("is_creation").cast("int")).over(up_to_now))
        .join(names, ["cluster_id", "topic_id"], "left")
        .withColumn("has_topic", F.coalesce(is_there, F.lit(False)))
    )


def _versions(records: DataFrame, topics: DataFrame) -> DataFrame:
    versions = silver.partition_versions(records, topics)
    return versions.withColumn("record_offset", F.col("valid_from_offset")).withColumn("problem", _no_problem())


def _brokers(records: DataFrame) -> DataFrame:
    """Records about brokers, each with the values of the previous record about the same broker."""
    in_order = Window.partitionBy("cluster_id", "broker_id").orderBy(*silver.ORDER)
    return (
        records.where(F.col("type").isin(*silver.BROKER_RECORDS))
        .withColumn("told", silver.told_of_broker())
        .select(
            *("cluster_id", *silver.ORDER, "problem", "type"),
            silver.broker_id_of(F.col("told")).alias("broker_id"),
            silver.broker_epoch_of(F.col("told")).alias("broker_epoch"),
            (F.col("type") == "RegisterBrokerRecord").alias("registers"),
        )
        .withColumn("previous_epoch", F.lag("broker_epoch").over(in_order))
        .withColumn(
            "was_registered", F.coalesce(F.lag("type").over(in_order) != "UnregisterBrokerRecord", F.lit(False))
        )
    )


def _no_problem() -> Column:
    return F.lit(None).cast("string").alias("problem")
