"""Periods of under-replication with their causes, and reassignments with their outcomes."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from klamm.pipeline import schemas

_PARTITION = ("cluster_id", "topic_id", "partition_index")


def under_replication(versions: DataFrame, brokers: DataFrame) -> DataFrame:
    """gold.under_replication: consecutive versions of a partition with the same cause. The cause is the one at the
    beginning of a version: a broker that was fenced and returned counts as fenced until it has caught up."""
    wanted = F.filter("replicas", lambda replica: ~F.array_contains("adding_replicas", replica))
    # Versions in sync are filtered out first, so that few rows have to be grouped and sorted.
    lacking = (
        versions.withColumn("wanted_replicas", wanted)
        .where(F.size("isr") < F.size("wanted_replicas"))
        .withColumn("missing", F.array_except("wanted_replicas", "isr"))
    )
    caused = lacking.join(F.broadcast(_times_down(brokers)), "cluster_id", "left").withColumn(
        "cause",
        F.when(F.exists("missing", lambda replica: replica < 0), "placeholder")
        .when(F.exists("missing", _is_down), "fenced")
        .otherwise("isr"),
    )
    in_order = Window.partitionBy(*_PARTITION).orderBy("valid_from_offset")
    goes_on = (F.lag("valid_to_offset").over(in_order) == F.col("valid_from_offset")) & (
        F.lag("cause").over(in_order) == F.col("cause")
    )
    return (
        _numbered(caused.withColumn("is_new", ~F.coalesce(goes_on, F.lit(False))))
        .groupBy(*_PARTITION, "period")
        .agg(
            *_borders("opened", "closed"),
            F.first("topic").alias("topic"),
            F.first("cause").alias("cause"),
            F.max(F.size("wanted_replicas")).alias("wanted"),
            F.min(F.size("isr")).alias("min_isr"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("missing")))).alias("brokers"),
        )
        .withColumn("duration_ms", _milliseconds("opened", "closed"))
        .select(*schemas.UNDER_REPLICATION.names)
    )


def _times_down(brokers: DataFrame) -> DataFrame:
    """By cluster, `times_down`: the batches from which to which each broker was fenced, in controlled shutdown, or not
    registered."""
    is_down = F.col("fenced") | F.col("in_controlled_shutdown") | ~F.col("registered")
    time = F.struct(F.col("valid_from_batch").alias("since"), F.col("valid_to_batch").alias("until"))
    return (
        brokers.where(is_down)
        .groupBy("cluster_id", "broker_id")
        .agg(F.collect_list(time).alias("times"))
        .groupBy("cluster_id")
        .agg(F.map_from_entries(F.collect_list(F.struct("broker_id", "times"))).alias("times_down"))
    )


def _is_down(replica: Column) -> Column:
    """Whether this replica's broker was down after the batch in which the version began. The batch is included, because
    Kafka writes the consequences of a fencing before the fencing itself."""
    batch = F.col("valid_from_batch")
    return F.exists(
        F.try_element_at("times_down", replica),
        lambda time: (time["since"] <= batch) & (time["until"].isNull() | (batch < time["until"])),
    )


def reassignments(versions: DataFrame) -> DataFrame:
    """gold.reassignment: consecutive versions of a partition with the same target.

    During a reassignment `replicas` includes adding and removing replicas. The target is `replicas` without the
    removing ones, the origin is `replicas` without the adding ones. The replicas afterwards determine the outcome. A
    reassignment with nothing to copy ends with the record that requests it.
    """
    moves = (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    target = F.when(moves, F.array_except("replicas", "removing_replicas"))
    # Only topics with reassignments have to be sorted, which are few.
    placement = F.xxhash64("replicas")
    moved = (
        versions.groupBy(*_PARTITION)
        .agg((F.bool_or(moves) | (F.min(placement) != F.max(placement))).alias("moves"))
        .where("moves")
        .select("cluster_id", "topic_id")
        .distinct()
    )
    concerned = versions.join(F.broadcast(moved), ["cluster_id", "topic_id"], "left_semi").withColumn("target", target)
    in_order = Window.partitionBy(*_PARTITION).orderBy("valid_from_offset")
    placed = F.struct("replicas", "isr", "adding_replicas", "removing_replicas")
    # Two consecutive reassignments with the same target count as one, for example if placeholders were added.
    is_new = ~F.col("target").eqNullSafe(F.lag("target").over(in_order))
    after = _numbered(concerned.withColumn("is_new", is_new)).select(
        "*",
        (~placed.eqNullSafe(F.lag(placed).over(in_order))).alias("is_step"),
        F.lag("replicas").over(in_order).alias("replicas_before"),
        F.lag("target").over(in_order).alias("target_before"),
        F.lead("replicas").over(in_order).alias("replicas_after"),
        F.lead("target").over(in_order).alias("target_after"),
        F.lead("valid_from_offset").over(in_order).alias("offset_after"),
    )
    latest = "valid_from_offset"
    ended = (
        after.where(F.col("target").isNotNull())
        .groupBy(*_PARTITION, "period")
        .agg(
            *_borders("started", "ended"),
            F.first("topic").alias("topic"),
            F.min_by(F.array_except("replicas", "adding_replicas"), latest).alias("from_replicas"),
            F.first("target").alias("to_replicas"),
            F.count_if("is_step").cast("int").alias("steps"),
            F.max_by(F.struct("replicas_after", "target_after", "offset_after"), latest).alias("then"),
        )
    )
    same = F.array_sort("then.replicas_after") == F.array_sort("to_replicas")
    outcome = (
        F.when(F.col("ended_offset").isNull(), "open")
        .when(F.col("then.offset_after").isNull(), "deleted")
        .when(F.col("then.target_after").isNotNull(), "superseded")
        .when(same, "done")
        .otherwise("cancelled")
    )
    told = ended.withColumn("outcome", outcome).withColumn("duration_ms", _milliseconds("started", "ended"))
    return told.select(*schemas.REASSIGNMENT.names).unionByName(_at_once(after))


def _at_once(versions: DataFrame) -> DataFrame:
    """Reassignments in one step: other replicas between two versions that are not in reassignment, because replicas are
    only removed or reordered. A placeholder that is filled (KIP-409) is no reassignment."""
    # A placeholder that was dropped from the end has no element at its position in the shorter list: it was not filled.
    filled = (F.size("replicas_before") == F.size("replicas")) & F.forall(
        F.zip_with("replicas_before", "replicas", lambda before, now: (before == now) | (before < 0)),
        lambda same: F.coalesce(same, F.lit(False)),
    )
    is_other = F.col("replicas_before").isNotNull() & (F.col("replicas_before") != F.col("replicas")) & ~filled
    at_rest = F.col("target").isNull() & F.col("target_before").isNull()
    return versions.where(at_rest & is_other).select(
        *(*_PARTITION, "topic"),
        *(F.col("valid_from_offset").alias(f"{edge}_offset") for edge in ("started", "ended")),
        *(F.col("valid_from").alias(edge) for edge in ("started", "ended")),
        F.lit("done").alias("outcome"),
        F.col("replicas_before").alias("from_replicas"),
        F.col("replicas").alias("to_replicas"),
        F.lit(1).alias("steps"),
        F.lit(0).cast("long").alias("duration_ms"),
    )


def _numbered(versions: DataFrame) -> DataFrame:
    """The versions with `period`, a number that grows in each partition where `is_new` is true."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("valid_from_offset")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return versions.withColumn("period", F.sum(F.col("is_new").cast("int")).over(up_to_now))


def _borders(begin: str, end: str) -> list[Column]:
    """Offsets and times of the beginning of the first version and of the end of the last one."""
    latest = "valid_from_offset"
    return [
        F.min(latest).alias(f"{begin}_offset"),
        F.min_by("valid_from", latest).alias(begin),
        F.max_by("valid_to_offset", latest).alias(f"{end}_offset"),
        F.max_by("valid_to", latest).alias(end),
    ]


def _milliseconds(begin: str, end: str) -> Column:
    return F.unix_millis(end) - F.unix_millis(begin)
