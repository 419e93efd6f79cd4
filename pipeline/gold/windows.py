"""From when to when: under-replication with its cause, and reassignments with their outcome."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from pipeline import schemas

_PARTITION = ("cluster_id", "topic_id", "partition_index")


def under_replication(versions: DataFrame, brokers: DataFrame) -> DataFrame:
    """gold.under_replication: stretches of versions with one cause. The cause is the one at the beginning of a version:
    a broker that comes back and has not caught up yet still lacks what it missed while it was fenced."""
    wanted = F.filter("replicas", lambda replica: ~F.array_contains("adding_replicas", replica))
    lacking = versions.withColumn("wanted_replicas", wanted).withColumn(
        "missing", F.array_except("wanted_replicas", "isr")
    )
    caused = lacking.join(_down(lacking, brokers), [*_PARTITION, "valid_from_offset"], "left").withColumn(
        "cause",
        F.when(F.size("isr") >= F.size("wanted_replicas"), F.lit(None).cast("string"))
        .when(F.exists("missing", lambda replica: replica < 0), "placeholder")
        .when(F.coalesce("is_down", F.lit(False)), "fenced")
        .otherwise("isr"),
    )
    stretches = _stretches(caused, F.col("cause"))
    return (
        stretches.where(F.col("cause").isNotNull())
        .groupBy(*_PARTITION, "stretch")
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


def _down(lacking: DataFrame, brokers: DataFrame) -> DataFrame:
    """Whether a missing replica's broker was fenced, on its way to that by a controlled shutdown, or gone behind the
    batch in which the version began: Kafka writes what follows from a fencing before the fencing itself."""
    missing = lacking.select(
        *_PARTITION,
        "valid_from_offset",
        F.col("valid_from_batch").alias("batch"),
        F.explode("missing").alias("broker_id"),
    ).where(F.col("broker_id") >= 0)
    states = brokers.select(
        *("cluster_id", "broker_id"),
        (F.col("fenced") | F.col("in_controlled_shutdown") | ~F.col("registered")).alias("down"),
        F.col("valid_from_batch").alias("since"),
        F.col("valid_to_batch").alias("until"),
    )
    then = (F.col("since") <= F.col("batch")) & (F.col("until").isNull() | (F.col("batch") < F.col("until")))
    return (
        missing.join(F.broadcast(states), ["cluster_id", "broker_id"])
        .where(then)
        .groupBy(*_PARTITION, "valid_from_offset")
        .agg(F.bool_or("down").alias("is_down"))
    )


def reassignments(versions: DataFrame) -> DataFrame:
    """gold.reassignment: stretches of versions with one target.

    While it lasts `replicas` holds those being added and removed, too: its target is without the removing ones, its
    origin without the adding ones. What the replicas are afterwards tells how it ended.
    """
    moves = (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    target = F.when(moves, F.array_except("replicas", "removing_replicas"))
    # One that grows by placeholders or so may come to be twice in a row with one target: it is one.
    stretches = _stretches(versions.withColumn("target", target), F.col("target").cast("string"))
    in_order = Window.partitionBy(*_PARTITION).orderBy("valid_from_offset")
    placed = F.struct("replicas", "isr", "adding_replicas", "removing_replicas")
    after = stretches.select(
        "*",
        (~placed.eqNullSafe(F.lag(placed).over(in_order))).alias("is_step"),
        F.lead("replicas").over(in_order).alias("replicas_after"),
        F.lead("target").over(in_order).alias("target_after"),
        F.lead("valid_from_offset").over(in_order).alias("offset_after"),
    )
    latest = "valid_from_offset"
    ended = (
        after.where(F.col("target").isNotNull())
        .groupBy(*_PARTITION, "stretch")
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
    return (
        ended.withColumn("outcome", outcome)
        .withColumn("duration_ms", _milliseconds("started", "ended"))
        .select(*schemas.REASSIGNMENT.names)
    )


def _stretches(versions: DataFrame, value: Column) -> DataFrame:
    """With `stretch`, a number that grows wherever `value` is another one than in the version before."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("valid_from_offset")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    changed = ~value.eqNullSafe(F.lag(value).over(in_order))
    return versions.withColumn("is_new", changed.cast("int")).withColumn("stretch", F.sum("is_new").over(up_to_now))


def _borders(begin: str, end: str) -> list[Column]:
    """Offsets and times of the first version's beginning and of the last one's end."""
    latest = "valid_from_offset"
    return [
        F.min(latest).alias(f"{begin}_offset"),
        F.min_by("valid_from", latest).alias(begin),
        F.max_by("valid_to_offset", latest).alias(f"{end}_offset"),
        F.max_by("valid_to", latest).alias(end),
    ]


def _milliseconds(begin: str, end: str) -> Column:
    return F.unix_millis(end) - F.unix_millis(begin)
