"""The silver tables: states of topics, partitions, brokers and configs, each from one offset to another.

Each function takes bronze.metadata_record (or a table made from it) and returns one silver table. Logs are not
replayed: the state of a partition has the last value of each field, over the records about it, in offset order. If the
beginning of a log was deleted, it begins with a snapshot, whose records come before all others of their cluster.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from klamm.pipeline import schemas

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
ORDER: Final = ("record_offset", "snapshot_position")
"""The columns that order the records of one cluster."""
_PLACE: Final = ("cluster_id", "record_offset", "snapshot_position", "batch_offset", "timestamp")
_REGISTRATION: Final = (
    "brokerId int, brokerEpoch long, incarnationId string, rack string, fenced string, inControlledShutdown string, "
    "id int, epoch long"
)
_BEGIN: Final = "BeginTransactionRecord"
_END: Final = "EndTransactionRecord"
_ABORT: Final = "AbortTransactionRecord"
_NEVER: Final = 1 << 62
BROKER_RECORDS: Final = (
    *("RegisterBrokerRecord", "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord"),
    *("FenceBrokerRecord", "UnfenceBrokerRecord"),
)
"""Records about brokers. The last two types are from Kafka before 3.3; they change the fencing of a registration."""


def without_effect(bronze: DataFrame) -> DataFrame:
    """The ranges of offsets (`begin`, `end`) of each cluster (`of`) whose records have no effect: records that are also
    in the snapshot, and records of transactions that were aborted or have not ended yet."""
    decoded = bronze.where(F.col("problem").isNull())
    return _transactions_without_effect(decoded).unionByName(_held_by_snapshot(decoded))


def sound_records(bronze: DataFrame, passed_over: DataFrame | None = None) -> DataFrame:
    """The decoded records that have an effect. Pass `without_effect` if it is already computed; otherwise it is
    computed again for each table that is made from these records."""
    decoded = bronze.where(F.col("problem").isNull())
    passed_over = F.broadcast(without_effect(bronze) if passed_over is None else passed_over)
    inside = (
        (F.col("cluster_id") == F.col("of"))
        & F.col("snapshot_position").isNull()
        & (F.col("record_offset") > F.col("begin"))
        & (F.col("record_offset") < F.col("end"))
    )
    return decoded.join(passed_over, inside, "left_anti")


def _transactions_without_effect(records: DataFrame) -> DataFrame:
    """The ranges of offsets of transactions without effect."""
    in_order = Window.partitionBy("cluster_id").orderBy("record_offset")
    return (
        records.where(F.col("type").isin(_BEGIN, _END, _ABORT))
        .withColumn("next_type", F.lead("type").over(in_order))
        .withColumn("end", F.coalesce(F.lead("record_offset").over(in_order), F.lit(_NEVER)))
        .where((F.col("type") == _BEGIN) & ~F.col("next_type").eqNullSafe(_END))
        .select(F.col("cluster_id").alias("of"), F.col("record_offset").alias("begin"), "end")
    )


def _held_by_snapshot(records: DataFrame) -> DataFrame:
    """The ranges of offsets of records that are in the log and also in the snapshot at its beginning."""
    return (
        records.where(F.col("snapshot_position").isNotNull())
        .groupBy(F.col("cluster_id").alias("of"))
        .agg(F.lit(-1).cast("long").alias("begin"), (F.max("record_offset") + 1).alias("end"))
    )


def topics(records: DataFrame) -> DataFrame:
    """silver.topic"""
    created = records.where(F.col("type") == "TopicRecord").select(
        "cluster_id",
        F.get_json_object("body", "$.topicId").alias("topic_id"),
        F.get_json_object("body", "$.name").alias("name"),
        F.col("record_offset").alias("created_offset"),
        F.col("timestamp").alias("created"),
    )
    deleted = records.where(F.col("type") == "RemoveTopicRecord").select(
        "cluster_id",
        F.get_json_object("body", "$.topicId").alias("topic_id"),
        F.col("record_offset").alias("deleted_offset"),
        F.col("batch_offset").alias("deleted_batch"),
        F.col("timestamp").alias("deleted"),
    )
    return created.join(deleted, ["cluster_id", "topic_id"], "left").select(*schemas.TOPIC.names)


def partition_versions(records: DataFrame, topic: DataFrame) -> DataFrame:
    """silver.partition_version"""
    changes = records.where(F.col("partition").isNotNull()).select(
        *_PLACE, "partition.*", F.lit(False).alias("clears_elr")
    )
    events = changes.unionByName(_cleared_elrs(records, changes, topic), allowMissingColumns=True)
    merged = _merge(events)
    of_partition = Window.partitionBy("cluster_id", "topic_id", "partition_index").orderBy(*ORDER)
    names = topic.select(
        "cluster_id", "topic_id", F.col("name").alias("topic"), "deleted_offset", "deleted_batch", "deleted"
    )
    return (
        merged.withColumn("next_offset", F.lead("record_offset").over(of_partition))
        .withColumn("next_batch", F.lead("batch_offset").over(of_partition))
        .withColumn("next_time", F.lead("timestamp").over(of_partition))
        .join(names, ["cluster_id", "topic_id"], "left")
        .withColumn("valid_from_offset", F.col("record_offset"))
        .withColumn("valid_from", F.col("timestamp"))
        .withColumn("valid_to_offset", F.coalesce("next_offset", "deleted_offset"))
        .withColumn("valid_to", F.coalesce("next_time", "deleted"))
        .withColumn("valid_from_batch", F.col("batch_offset"))
        .withColumn("valid_to_batch", F.coalesce("next_batch", "deleted_batch"))
        .withColumn("placeholders", F.size(F.filter("replicas", lambda replica: replica < 0)))
        .select(*schemas.PARTITION_VERSION.names)
    )


def _cleared_elrs(records: DataFrame, changes: DataFrame, topic: DataFrame) -> DataFrame:
    """A ClearElrRecord as changes of all partitions that had eligible leader replicas at any time."""
    cleared = records.where(F.col("type") == "ClearElrRecord").select(
        *_PLACE,
        F.coalesce(F.get_json_object("body", "$.topicName"), F.lit("")).alias("cleared_topic"),
    )
    holds_any = (F.size("eligible_leader_replicas") > 0) | (F.size("last_known_elr") > 0)
    concerned = (
        changes.where(holds_any)
        .groupBy("cluster_id", "topic_id", "partition_index")
        .agg(F.min("record_offset").alias("first_offset"))
        .join(topic.select("cluster_id", "topic_id", "name", "deleted_offset"), ["cluster_id", "topic_id"])
    )
    names_it = (F.col("cleared_topic") == "") | (F.col("cleared_topic") == F.col("name"))
    is_there = (F.col("first_offset") < F.col("record_offset")) & (
        F.col("deleted_offset").isNull() | (F.col("record_offset") < F.col("deleted_offset"))
    )
    nothing = F.array().cast("array<int>")
    return (
        cleared.join(concerned, "cluster_id")
        .where(names_it & is_there)
        .select(
            *(*_PLACE, "topic_id", "partition_index"),
            nothing.alias("eligible_leader_replicas"),
            nothing.alias("last_known_elr"),
            F.lit(True).alias("clears_elr"),
        )
    )


def _merge(events: DataFrame) -> DataFrame:
    """Each event with the complete state of its partition after it. A ClearElrRecord without effect on a partition is
    no event."""
    of_partition = Window.partitionBy("cluster_id", "topic_id", "partition_index").orderBy(*ORDER)
    before = of_partition.rowsBetween(Window.unboundedPreceding, -1)
    up_to_now = of_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    held = F.size(F.coalesce(F.last("eligible_leader_replicas", ignorenulls=True).over(before), _none())) + F.size(
        F.coalesce(F.last("last_known_elr", ignorenulls=True).over(before), _none())
    )
    effective = events.withColumn("held", held).where(~F.col("clears_elr") | (F.col("held") > 0)).drop("held")
    is_change = F.col("partition_epoch").isNull()
    elects = is_change & F.col("leader").isNotNull()

    def latest(name: str) -> Column:
        return F.last(name, ignorenulls=True).over(up_to_now)

    def counted(condition: Column) -> Column:
        return F.sum(condition.cast("int")).over(up_to_now)

    lists = ("adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr")
    return effective.select(
        *(*_PLACE, "topic_id", "partition_index"),
        *(latest(name).alias(name) for name in ("replicas", "isr", "leader")),
        *(F.coalesce(latest(name), _none()).alias(name) for name in lists),
        (latest("leader_epoch") + counted(elects)).cast("int").alias("leader_epoch"),
        (latest("partition_epoch") + counted(is_change)).cast("int").alias("partition_epoch"),
    )


def _none() -> Column:
    return F.array().cast("array<int>")


def broker_versions(records: DataFrame) -> DataFrame:
    """silver.broker_version"""
    told = records.where(F.col("type").isin(*BROKER_RECORDS)).withColumn("told", told_of_broker())
    registers, unregisters = F.col("type") == "RegisterBrokerRecord", F.col("type") == "UnregisterBrokerRecord"
    # A registration has true or false. A change has 1 or -1; null or 0 means unchanged.
    events = told.select(
        *_PLACE,
        broker_id_of(F.col("told")).alias("broker_id"),
        broker_epoch_of(F.col("told")).alias("broker_epoch"),
        F.when(registers, F.col("told.incarnationId")).alias("incarnation_id"),
        # The rack is wrapped in a struct, so that a registration without a rack replaces one with a rack.
        F.when(registers, F.struct(F.col("told.rack").alias("name"))).alias("rack"),
        _fenced().alias("fenced"),
        _switch("inControlledShutdown").alias("in_controlled_shutdown"),
        (~unregisters).alias("registered"),
    )
    of_broker = Window.partitionBy("cluster_id", "broker_id").orderBy(*ORDER)
    up_to_now = of_broker.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    latest = {
        name: F.last(name, ignorenulls=True).over(up_to_now)
        for name in ("broker_epoch", "incarnation_id", "rack", "fenced", "in_controlled_shutdown")
    }
    return (
        events.withColumns(latest)
        .withColumn("rack", F.col("rack.name"))
        .withColumn("valid_from_offset", F.col("record_offset"))
        .withColumn("valid_from", F.col("timestamp"))
        .withColumn("valid_to_offset", F.lead("record_offset").over(of_broker))
        .withColumn("valid_to", F.lead("timestamp").over(of_broker))
        .withColumn("valid_from_batch", F.col("batch_offset"))
        .withColumn("valid_to_batch", F.lead("batch_offset").over(of_broker))
        .select(*schemas.BROKER_VERSION.names)
    )


def told_of_broker() -> Column:
    """The parsed body of a record of `BROKER_RECORDS`, for `broker_id_of` and `broker_epoch_of`."""
    return F.from_json("body", _REGISTRATION)


def broker_id_of(told: Column) -> Column:
    return F.coalesce(told["brokerId"], told["id"])


def broker_epoch_of(told: Column) -> Column:
    return F.coalesce(told["brokerEpoch"], told["epoch"])


def _fenced() -> Column:
    fences, unfences = (F.col("type") == name for name in ("FenceBrokerRecord", "UnfenceBrokerRecord"))
    return F.when(fences, F.lit(True)).when(unfences, F.lit(False)).otherwise(_switch("fenced"))


def _switch(name: str) -> Column:
    value = F.col(f"told.{name}")
    return F.when(value.isin("true", "1"), F.lit(True)).when(value.isin("false", "-1"), F.lit(False))


def config_versions(records: DataFrame, topic: DataFrame) -> DataFrame:
    """silver.config_version"""
    key = ("cluster_id", "resource_type", "resource_name", "name")
    set_or_deleted = records.where(F.col("type") == "ConfigRecord").select(
        *_PLACE,
        F.get_json_object("body", "$.resourceType").cast("short").alias("resource_type"),
        F.get_json_object("body", "$.resourceName").alias("resource_name"),
        F.get_json_object("body", "$.name").alias("name"),
        F.get_json_object("body", "$.value").alias("value"),
    )
    gone = topic.where(F.col("deleted_offset").isNotNull()).select(
        "cluster_id",
        F.col("name").alias("resource_name"),
        F.col("deleted_offset").alias("record_offset"),
        F.col("deleted_batch").alias("batch_offset"),
        F.col("deleted").alias("timestamp"),
        F.lit(None).cast("long").alias("snapshot_position"),
    )
    of_topics = set_or_deleted.where(F.col("resource_type") == TOPIC_RESOURCE).select(*key).distinct()
    ended = of_topics.join(gone, ["cluster_id", "resource_name"]).select(
        *_PLACE,
        *("resource_type", "resource_name", "name", F.lit(None).cast("string").alias("value")),
    )
    of_config = Window.partitionBy(*key).orderBy(*ORDER)
    return (
        set_or_deleted.unionByName(ended)
        .withColumn("valid_from_offset", F.col("record_offset"))
        .withColumn("valid_from", F.col("timestamp"))
        .withColumn("valid_to_offset", F.lead("record_offset").over(of_config))
        .withColumn("valid_to", F.lead("timestamp").over(of_config))
        .where(F.col("value").isNotNull())
        .select(*schemas.CONFIG_VERSION.names)
    )
