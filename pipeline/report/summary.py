"""Summarizes the gold tables for the report: one dict, whose size is bounded for any number of clusters and rows.

Each number has its source beside it: `*_offset` in the metadata log, or `*_seq` in the request log.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from klamm.pipeline.report.chapters import chapter
from klamm.pipeline.store import Store

SUMMARY_VERSION: Final = 1
MAX_CHAPTERS: Final = 10
MAX_CLUSTERS: Final = 200
"""The most rows in the table of clusters. Of the other clusters only the number is given."""
MAX_ROWS: Final = 25
"""The most rows of each list in a chapter."""
MAX_ROWS_BY_CAUSE: Final = 10
MAX_SERIES: Final = 5_000
"""The most points of a chart: 100 offsets, and as many brokers as this allows."""
_WHOLE: Final = 10_000

Rows = list[dict[str, Any]]


def summarize(spark: SparkSession, store: Store) -> dict[str, Any]:
    """The report, ready for JSON: `clusters`, one row each, those with the most findings first, and the `chapters` of
    the first clusters. Times are ISO 8601 in UTC. docs/pipeline.md describes the members."""
    overview = _overview(spark, store).cache()
    total = overview.count()
    rows = _collected(overview.orderBy(F.desc("weight"), "cluster_id").limit(MAX_CLUSTERS))
    overview.unpersist()
    for row in rows:
        del row["weight"]
    chosen = [row["cluster_id"] for row in rows[:MAX_CHAPTERS]]
    found = _found(spark, store, chosen)
    return {
        "v": SUMMARY_VERSION,
        "clusters": {"total": total, "rows": rows},
        "quarantine": _quarantine(spark, store),
        "chapters": [
            chapter(row, {name: _of(table, row["cluster_id"]) for name, table in found.items()})
            for row in rows[:MAX_CHAPTERS]
        ],
    }


def _quarantine(spark: SparkSession, store: Store) -> dict[str, Any]:
    """The number of unreadable rows of each log, and the first of them, with their position in the file or log."""
    places = {"metadata_record": ("cluster_id", "record_offset", "file"), "request": ("file", "line")}
    told = {}
    for name, place in places.items():
        rows = store.read(spark, "quarantine", name).select(*place, "problem")
        told[name] = {"total": rows.count(), "rows": _collected(rows.orderBy(*place).limit(MAX_ROWS))}
    return told


def _of(rows: Rows, cluster_id: str) -> Rows:
    return [row for row in rows if row["cluster_id"] == cluster_id]


def _overview(spark: SparkSession, store: Store) -> DataFrame:
    """A row for each cluster. `weight` is its number of findings, by which clusters are sorted."""

    def gold(name: str) -> DataFrame:
        return store.read(spark, "gold", name)

    records = store.read(spark, "bronze", "metadata_record").where(F.col("cluster_id").isNotNull())
    requests = store.read(spark, "bronze", "request").where(F.col("cluster_id").isNotNull())
    is_open = F.col("closed_offset").isNull()
    parts = (
        records.groupBy("cluster_id").agg(
            F.count_if(F.col("problem").isNull()).alias("records"),
            F.min("record_offset").alias("first_offset"),
            F.max("record_offset").alias("last_offset"),
            F.min_by("timestamp", "record_offset").alias("first"),
            F.max_by("timestamp", "record_offset").alias("last"),
            F.count_if(F.col("raw").isNotNull() & F.col("problem").isNull()).alias("unknown_records"),
            F.count_if(F.col("problem").isNotNull()).alias("quarantined_records"),
            # A snapshot is read only if the log below its end is deleted.
            (F.max(F.when(F.col("snapshot_position").isNotNull(), F.col("record_offset"))) + 1).alias("snapshot_end"),
        ),
        requests.groupBy("cluster_id").agg(
            F.count(F.lit(1)).alias("requests"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            (F.max("seq") - F.min("seq") + 1 - F.countDistinct("seq")).alias("missing_requests"),
        ),
        _registered(spark, store).groupBy("cluster_id").agg(F.count(F.lit(1)).alias("brokers")),
        _latest(gold("placement_quality"), "partitions", "placeholders", "replica_cv", "rack_violations"),
        _counted(gold("refused_request"), "refused_requests"),
        gold("under_replication")
        .groupBy("cluster_id")
        .agg(F.count(F.lit(1)).alias("under_replications"), F.count_if(is_open).alias("open_under_replications")),
        _counted(gold("reassignment"), "reassignments"),
        gold("error_taxonomy").groupBy("cluster_id").agg(F.sum("count").alias("errors")),
    )
    # Clusters that only have a request log are included.
    overview = records.select("cluster_id").union(requests.select("cluster_id")).distinct()
    for part in parts:
        overview = overview.join(part, "cluster_id", "left")
    counts = ("records", "requests", "missing_requests", "unknown_records", "quarantined_records", "refused_requests",
        "under_replications", "open_under_replications", "reassignments", "errors")  # fmt: skip
    whole = overview.fillna(0, list(counts))
    weight = F.col("refused_requests") + F.col("under_replications") + F.col("reassignments") + F.col("errors")
    return whole.withColumn("weight", weight)


def _registered(spark: SparkSession, store: Store) -> DataFrame:
    """The brokers that are registered at the end of each log. Gold has load at the changes of partitions only, and a
    broker may be removed after the last of them."""
    is_current = F.col("registered") & F.col("valid_to_offset").isNull()
    return store.read(spark, "silver", "broker_version").where(is_current).select("cluster_id", "broker_id")


def _counted(rows: DataFrame, name: str) -> DataFrame:
    return rows.groupBy("cluster_id").agg(F.count(F.lit(1)).alias(name))


def _latest(rows: DataFrame, *names: str) -> DataFrame:
    return rows.groupBy("cluster_id").agg(*(F.max_by(name, "record_offset").alias(name) for name in names))


def _found(spark: SparkSession, store: Store, chosen: Sequence[str]) -> dict[str, Rows]:
    """The rows for the chapters of these clusters. Long tables are cut; `of` is their full number of rows."""

    def gold(name: str) -> DataFrame:
        return store.read(spark, "gold", name).where(F.col("cluster_id").isin(*chosen))

    under, moved, errors = gold("under_replication"), gold("reassignment"), gold("error_taxonomy")
    # Brokers that are gone hold nothing; the row of the cluster has no broker.
    registered = _registered(spark, store).withColumn("is_registered", F.lit(True))
    held = (
        gold("limit_headroom")
        .join(F.broadcast(registered), ["cluster_id", "broker_id"], "left")
        .where(F.col("is_registered") | F.col("broker_id").isNull())
        .drop("is_registered")
    )
    # Open windows come first, because their durations are not known yet.
    longest = [F.col("closed_offset").isNotNull(), F.desc("duration_ms"), F.col("opened_offset")]
    slowest = [F.col("ended_offset").isNotNull(), F.desc("duration_ms"), F.col("started_offset")]
    causes = under.groupBy("cluster_id", "cause").agg(*_spent("opened_offset", "closed_offset"))
    outcomes = moved.groupBy("cluster_id", "outcome").agg(*_spent("started_offset", "ended_offset"))
    tables = {
        "placement": _first(gold("placement_quality"), [F.col("record_offset")], _WHOLE),
        "headroom": _first(_tightest(gold("limit_headroom")), [F.desc("record_offset")], MAX_SERIES),
        "broker_limits": _first(_last_headroom(held), _fullest(), MAX_ROWS),
        "refused": _first(gold("refused_request"), [F.col("seq")], MAX_ROWS),
        "causes": causes.orderBy("cause"),
        # The list has some windows of each cause. Otherwise the many partitions of one broker would fill it.
        "windows": _first(under, longest, MAX_ROWS_BY_CAUSE, "cause"),
        "outcomes": outcomes.orderBy("outcome"),
        "moves": _first(moved, slowest, MAX_ROWS),
        "errors": _first(errors, [F.desc("count"), F.col("sample_seq")], MAX_ROWS),
        "latency": _first(gold("latency"), [F.desc("requests"), F.col("slowest_seq")], MAX_ROWS),
        "clients": _first(gold("client"), [F.desc("errors"), F.desc("requests"), F.col("first_seq")], MAX_ROWS),
        "coverage": gold("coverage").orderBy("api_key", "api_version").limit(_WHOLE),
    }
    return {name: _collected(rows) for name, rows in tables.items()}


def _first(rows: DataFrame, order: Sequence[Column], most: int, *within: str) -> DataFrame:
    """The first `most` rows of each cluster (and of each value of `within`) in this order, with `of`, the number of all
    rows of the cluster."""
    of_cluster, of_part = Window.partitionBy("cluster_id"), Window.partitionBy("cluster_id", *within)
    numbered = rows.withColumn("row", F.row_number().over(of_part.orderBy(*order)))
    counted = numbered.withColumn("of", F.count(F.lit(1)).over(of_cluster))
    return counted.where(F.col("row") <= most).orderBy("cluster_id", *within, "row").drop("row")


def _spent(begin: str, end: str) -> list[Column]:
    return [
        F.count(F.lit(1)).alias("count"),
        F.count_if(F.col(end).isNull()).alias("open"),
        F.countDistinct("topic_id", "partition_index").alias("partitions"),
        F.sum("duration_ms").alias("total_ms"),
        F.max("duration_ms").alias("longest_ms"),
        F.min(begin).alias("first_offset"),
        F.max(F.coalesce(end, begin)).alias("last_offset"),
    ]


def _tightest(headroom: DataFrame) -> DataFrame:
    """At each offset and in each scope, the row with the least headroom."""
    limited = headroom.where(F.col("limit").isNotNull())
    room = F.struct(-F.col("headroom"), "used", -F.col("broker_id"))
    return limited.groupBy("cluster_id", "record_offset", "scope").agg(
        *(F.max_by(name, room).alias(name) for name in ("timestamp", "broker_id", "used", "limit", "headroom"))
    )


def _last_headroom(headroom: DataFrame) -> DataFrame:
    """For each broker and for the cluster: the last headroom, and the smallest headroom with its first offset."""
    room = F.when(F.col("headroom").isNotNull(), F.struct("headroom", "record_offset"))
    return headroom.groupBy("cluster_id", "scope", "broker_id").agg(
        *(F.max_by(name, "record_offset").alias(name) for name in ("timestamp", "used", "limit", "headroom")),
        F.max("record_offset").alias("record_offset"),
        F.min("headroom").alias("least_headroom"),
        F.min_by("record_offset", room).alias("least_offset"),
    )


def _fullest() -> list[Column]:
    return [F.col("scope").desc(), F.col("headroom").isNull(), F.col("headroom"), F.desc("used"), F.col("broker_id")]


def _collected(rows: DataFrame) -> Rows:
    return [{name: _plain(value) for name, value in row.asDict().items()} for row in rows.collect()]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        # Spark returns times in the time zone of the session, which may be that of this machine.
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return value
