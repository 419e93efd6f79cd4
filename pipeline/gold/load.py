"""Replicas and leaders per broker over time, the evenness of placements, and the headroom below the limits.

Logs are not replayed. A version of a partition adds to its brokers where it begins and subtracts where it ends. The
load of a broker after a batch is the running sum.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from klamm.pipeline import schemas
from klamm.pipeline.silver import BROKER_RESOURCE

UNLIMITED_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
"""The topics that KIP-578 exempts: the limits do not count their replicas and do not apply to them."""
SAMPLES: Final = 100
"""The number of offsets of each log at which placement quality is computed, including the last one."""
BROKER_LIMIT: Final = "max.broker.partitions"
CLUSTER_LIMIT: Final = "max.partitions"


def broker_load(versions: DataFrame, brokers: DataFrame) -> DataFrame:
    """gold.broker_load"""
    is_real = F.col("broker_id") >= 0
    replicas = _exploded(versions, F.posexplode("replicas").alias("position", "broker_id")).where(is_real)
    leads = F.col("leader") == F.col("broker_id")
    counted = replicas.select(
        *("cluster_id", "broker_id", "batch_offset", "timestamp"),
        F.col("sign").alias("replica_count"),
        F.when(~F.col("topic").isin(*UNLIMITED_TOPICS), F.col("sign")).otherwise(0).alias("limited_count"),
        F.when(leads, F.col("sign")).otherwise(0).alias("leader_count"),
        F.when(leads & (F.col("position") == 0), F.col("sign")).otherwise(0).alias("preferred_leader_count"),
    )
    counts = ("replica_count", "limited_count", "leader_count", "preferred_leader_count")
    of_broker = Window.partitionBy("cluster_id", "broker_id").orderBy("record_offset")
    changed = " or ".join(f"{name} != 0" for name in counts)
    return (
        counted.groupBy("cluster_id", "broker_id", F.col("batch_offset").alias("record_offset"))
        .agg(F.max("timestamp").alias("timestamp"), *(F.sum(name).alias(name) for name in counts))
        .where(changed)
        .withColumns({name: F.sum(name).over(of_broker) for name in counts})
        .join(F.broadcast(last_racks(brokers)), ["cluster_id", "broker_id"], "left")
        .select(*schemas.BROKER_LOAD.names)
    )


def last_racks(brokers: DataFrame) -> DataFrame:
    """The last known rack of each broker. Racks hardly ever change, and an unregistered broker keeps its rack."""
    return brokers.groupBy("cluster_id", "broker_id").agg(F.max_by("rack", "valid_from_offset").alias("rack"))


def _exploded(versions: DataFrame, *columns: Column) -> DataFrame:
    """Each version as two rows: +1 in the batch where it begins, -1 in the batch where it ends."""
    begins = F.struct(
        F.col("valid_from_batch").alias("batch_offset"), F.col("valid_from").alias("timestamp"), F.lit(1).alias("sign")
    )
    ends = F.struct(
        F.col("valid_to_batch").alias("batch_offset"), F.col("valid_to").alias("timestamp"), F.lit(-1).alias("sign")
    )
    both = F.when(F.col("valid_to_batch").isNull(), F.array(begins)).otherwise(F.array(begins, ends))
    # A version that begins and ends in the same batch was never visible.
    seen = F.col("valid_to_batch").isNull() | (F.col("valid_to_batch") > F.col("valid_from_batch"))
    return versions.where(seen).select("*", F.explode(both).alias("border")).select("*", "border.*", *columns)


def partition_totals(versions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Running totals by cluster and batch: partitions, partitions that KIP-578 counts, replicas (without placeholders),
    placeholders, rack violations, and partitions led by their first replica."""
    racks = F.broadcast(
        last_racks(brokers)
        .where(F.col("rack").isNotNull())
        .groupBy("cluster_id")
        .agg(F.map_from_entries(F.collect_list(F.struct("broker_id", "rack"))).alias("rack_of"))
    )
    known = F.coalesce("rack_of", F.create_map().cast("map<int,string>"))
    judged = versions.join(racks, "cluster_id", "left").withColumn("rack_of", known)
    in_racks = F.filter(
        F.transform("replicas", lambda replica: F.try_element_at("rack_of", replica)), lambda rack: rack.isNotNull()
    )
    distinct, rack_count = F.size(F.array_distinct(in_racks)), F.size(F.array_distinct(F.map_values("rack_of")))
    violates = (F.size(in_racks) > distinct) & (distinct < rack_count)
    parts = {
        "partitions": F.lit(1),
        "limited_partitions": (~F.col("topic").isin(*UNLIMITED_TOPICS)).cast("int"),
        "replicas": F.size("replicas") - F.col("placeholders"),
        "placeholders": F.col("placeholders"),
        "rack_violations": violates.cast("int"),
        "preferred": (F.col("leader") == F.try_element_at("replicas", F.lit(1))).cast("int"),
    }
    over_time = Window.partitionBy("cluster_id").orderBy("record_offset")
    return (
        _exploded(judged.withColumns({f"{name}_part": value for name, value in parts.items()}))
        .groupBy("cluster_id", F.col("batch_offset").alias("record_offset"))
        .agg(
            F.max("timestamp").alias("timestamp"),
            *(F.sum(F.col("sign") * F.col(f"{name}_part")).alias(name) for name in parts),
        )
        .withColumns({name: F.sum(name).over(over_time) for name in parts})
    )


def sample_offsets(totals: DataFrame) -> DataFrame:
    """Up to `SAMPLES` offsets of each cluster, evenly spread over its changes, including the last one."""
    in_order = Window.partitionBy("cluster_id").orderBy("record_offset")
    of_cluster = Window.partitionBy("cluster_id")
    numbered = totals.select("cluster_id", "record_offset", "timestamp").select(
        "*",
        F.row_number().over(in_order).alias("number"),
        F.count(F.lit(1)).over(of_cluster).alias("count"),
    )
    slot = F.ceil(F.col("number") * SAMPLES / F.greatest("count", F.lit(SAMPLES)))
    return (
        numbered.groupBy("cluster_id", slot.alias("slot"))
        .agg(F.max("record_offset").alias("record_offset"), F.max_by("timestamp", "record_offset").alias("timestamp"))
        .drop("slot")
    )


def load_at_samples(load: DataFrame, samples: DataFrame, brokers: DataFrame) -> DataFrame:
    """gold.broker_load at each sampled offset, for every broker that was registered then."""
    registered = brokers.where("registered").select("cluster_id", "broker_id", "valid_from_batch", "valid_to_batch")
    is_then = (F.col("valid_from_batch") <= F.col("record_offset")) & (
        F.col("valid_to_batch").isNull() | (F.col("record_offset") < F.col("valid_to_batch"))
    )
    asked = (
        samples.join(F.broadcast(registered), "cluster_id")
        .where(is_then)
        .select("cluster_id", "broker_id", "record_offset", "timestamp", F.lit(True).alias("asked"))
    )
    counts = ("replica_count", "limited_count", "leader_count", "preferred_leader_count")
    known = load.select("cluster_id", "broker_id", "record_offset", "timestamp", F.lit(False).alias("asked"), *counts)
    # At the same offset, known loads sort before the samples that ask for them.
    of_broker = Window.partitionBy("cluster_id", "broker_id").orderBy("record_offset", "asked")
    up_to_now = of_broker.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        known.unionByName(asked, allowMissingColumns=True)
        .withColumns({n: F.coalesce(F.last(n, ignorenulls=True).over(up_to_now), F.lit(0)) for n in counts})
        .where("asked")
        .drop("asked")
        .join(F.broadcast(last_racks(brokers)), ["cluster_id", "broker_id"], "left")
    )


def placement_quality(sampled: DataFrame, totals: DataFrame) -> DataFrame:
    """gold.placement_quality, from `load_at_samples` and `partition_totals`."""
    at = ("cluster_id", "record_offset")
    by_rack = (
        sampled.where(F.col("rack").isNotNull())
        .groupBy(*at, "rack")
        .agg(F.sum("replica_count").alias("in_rack"))
        .groupBy(*at)
        .agg(_cv("in_rack").alias("rack_cv"), F.count(F.lit(1)).cast("int").alias("racks"))
    )
    by_broker = sampled.groupBy(*at).agg(
        F.count(F.lit(1)).cast("int").alias("brokers"),
        _cv("replica_count").alias("replica_cv"),
        _cv("leader_count").alias("leader_cv"),
        F.try_divide(F.max("replica_count"), F.avg("replica_count")).alias("max_over_mean"),
        F.try_divide(F.min("replica_count"), F.avg("replica_count")).alias("min_over_mean"),
    )
    return (
        by_broker.join(totals, list(at))
        .join(by_rack, list(at), "left")
        .withColumn("racks", F.coalesce("racks", F.lit(0)))
        .withColumn("preferred_leader_share", F.try_divide("preferred", "partitions"))
        .select(*schemas.PLACEMENT_QUALITY.names)
    )


def _cv(name: str) -> Column:
    return F.try_divide(F.stddev_pop(name), F.avg(name))


def limit_headroom(sampled: DataFrame, totals: DataFrame, configs: DataFrame) -> DataFrame:
    """gold.limit_headroom. A broker's own limit overrides the default for all brokers (KIP-578). Limits that are set
    when a server starts are in no log, so they are unknown here."""
    limits = configs.where(F.col("resource_type") == BROKER_RESOURCE).select(
        F.col("cluster_id").alias("of"), "resource_name", "name", "value", "valid_from_offset", "valid_to_offset"
    )
    used = sampled.select(
        *("cluster_id", "record_offset", "timestamp", F.lit("broker").alias("scope"), "broker_id"),
        F.col("limited_count").alias("used"),
        F.lit(BROKER_LIMIT).alias("config"),
    ).unionByName(
        totals.join(sampled.select("cluster_id", "record_offset").distinct(), ["cluster_id", "record_offset"]).select(
            *("cluster_id", "record_offset", "timestamp", F.lit("cluster").alias("scope")),
            F.lit(None).cast("int").alias("broker_id"),
            F.col("limited_partitions").alias("used"),
            F.lit(CLUSTER_LIMIT).alias("config"),
        )
    )
    in_force = (
        (F.col("of") == F.col("cluster_id"))
        & (F.col("name") == F.col("config"))
        & ((F.col("resource_name") == "") | (F.col("resource_name") == F.col("broker_id").cast("string")))
        & (F.col("valid_from_offset") <= F.col("record_offset"))
        & (F.col("valid_to_offset").isNull() | (F.col("record_offset") < F.col("valid_to_offset")))
    )
    key = ("cluster_id", "record_offset", "timestamp", "scope", "broker_id", "used")
    return (
        used.join(F.broadcast(limits), in_force, "left")
        .groupBy(*key)
        .agg(F.max_by(F.col("value").cast("long"), F.length("resource_name")).alias("limit"))
        # A broker may be over its limit, because a lower limit does not remove replicas. Without a limit: null.
        .withColumn(
            "headroom", F.when(F.col("limit").isNotNull(), F.greatest(F.col("limit") - F.col("used"), F.lit(0)))
        )
        .select(*schemas.LIMIT_HEADROOM.names)
    )
