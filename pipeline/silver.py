"""The silver tables: states of topics, partitions, brokers and configs, each from one offset to another.

Each function takes bronze.metadata_record (or a table made from it) and returns one silver table. Logs are not
replayed: the state of a partition has the last value of each field, over the records about it, in offset order. If the
beginning of a log was deleted, it begins with a snapshot, whose records come before all others of their cluster.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.types import StructType
from pyspark.sql.window import WindowSpec

from klamm.pipeline import schemas

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
ORDER: Final = ("record_offset", "snapshot_position")
"""The columns that order the records of one cluster."""
PARTITION_RECORDS: Final = ("PartitionRecord", "PartitionChangeRecord")
"""Records about partitions. Bronze has their contents in the column `partition`, and those of all others in `body`."""
_PLACE: Final = ("cluster_id", "record_offset", "snapshot_position", "batch_offset", "timestamp")
_REGISTRATION: Final = (
    "brokerId int, brokerEpoch long, incarnationId string, rack string, fenced string, inControlledShutdown string, "
    "id int, epoch long"
)
_BEGIN: Final = "BeginTransactionRecord"
_END: Final = "EndTransactionRecord"
_ABORT: Final = "AbortTransactionRecord"
_CLEAR_ELR: Final = "ClearElrRecord"
_NEVER: Final = 1 << 62
BROKER_RECORDS: Final = (
    *("RegisterBrokerRecord", "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord"),
    *("FenceBrokerRecord", "UnfenceBrokerRecord"),
)
"""Records about brokers. The last two types are from Kafka before 3.3; they change the fencing of a registration."""


class Records(NamedTuple):
    """The decoded records that have an effect, in two parts. The second part is small, and is computed only once."""

    of_partitions: DataFrame
    """The records about partitions."""
    others: DataFrame
    """All other records, without the column `partition`."""


def split_records(bronze: DataFrame) -> tuple[Records, DataFrame]:
    """The records of bronze.metadata_record that have an effect, and the rows with a problem.

    Bronze is read once for everything that is not about partitions. A plan contains the anti join with the ranges of
    `without_effect` only if there is a range: for logs without snapshots and aborted transactions, it is shorter.
    """
    # The condition is on `type`, because one on `partition` would read all columns inside it.
    about_partitions = F.col("type").isin(*PARTITION_RECORDS)
    others = bronze.where(~about_partitions).drop("partition").localCheckpoint()
    decoded = others.where(F.col("problem").isNull())
    ranges = _transactions_without_effect(decoded)
    # A snapshot has at least one row that is not about partitions: its header.
    if not others.where(F.col("snapshot_position").isNotNull()).isEmpty():
        ranges = ranges.unionByName(_held_by_snapshot(bronze.where(F.col("problem").isNull())))
    ranges = ranges.localCheckpoint()
    of_partitions = bronze.where(about_partitions & F.col("problem").isNull())
    if not ranges.isEmpty():
        of_partitions, decoded = (_outside(rows, ranges) for rows in (of_partitions, decoded))
    return Records(of_partitions, decoded), others.where(F.col("problem").isNotNull())


def without_effect(bronze: DataFrame) -> DataFrame:
    """The ranges of offsets (`begin`, `end`) of each cluster (`of`) whose records have no effect: records that are also
    in the snapshot, and records of transactions that were aborted or have not ended yet."""
    decoded = bronze.where(F.col("problem").isNull())
    return _transactions_without_effect(decoded).unionByName(_held_by_snapshot(decoded))


def sound_records(bronze: DataFrame) -> DataFrame:
    """The decoded records that have an effect."""
    return _outside(bronze.where(F.col("problem").isNull()), without_effect(bronze))


def _outside(records: DataFrame, ranges: DataFrame) -> DataFrame:
    """The records that are in none of the ranges of `without_effect`."""
    inside = (
        (F.col("cluster_id") == F.col("of"))
        & F.col("snapshot_position").isNull()
        & (F.col("record_offset") > F.col("begin"))
        & (F.col("record_offset") < F.col("end"))
    )
    return records.join(F.broadcast(ranges), inside, "left_anti")


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


def partition_versions(records: DataFrame, topic: DataFrame, others: DataFrame | None = None) -> DataFrame:
    """silver.partition_version. `others` has the records that are not about partitions; None: `records` has them."""
    changes = records.where(F.col("partition").isNotNull()).select(*_PLACE, "partition.*")
    others = records if others is None else others
    cleared = others.where(F.col("type") == _CLEAR_ELR)
    # Few logs have such a record. Without one, a single pass over the sorted changes is enough.
    events = changes if cleared.isEmpty() else _effective_events(changes, _cleared_elrs(cleared, changes, topic))
    names = topic.select(
        "cluster_id", "topic_id", F.col("name").alias("topic"), "deleted_offset", "deleted_batch", "deleted"
    )
    made = {
        "valid_to_offset": F.coalesce("valid_to_offset", "deleted_offset"),
        "valid_to": F.coalesce("valid_to", "deleted"),
        "valid_to_batch": F.coalesce("valid_to_batch", "deleted_batch"),
        "placeholders": _placeholders(),
    }
    return _selected(_merge(events).join(names, ["cluster_id", "topic_id"], "left"), schemas.PARTITION_VERSION, made)


def _selected(rows: DataFrame, schema: StructType, made: Mapping[str, Column]) -> DataFrame:
    """The columns of a table: those in `made`, and the others as they are in `rows`. This is a single step, because
    Spark analyses the whole plan again after each step."""
    return rows.select(*(made[name].alias(name) if name in made else name for name in schema.names))


def _placeholders() -> Column:
    """The number of negative replicas. Spark interprets `filter`, so it is applied only to rows that may need it."""
    negative = F.size(F.filter("replicas", lambda replica: replica < 0))
    return F.when(F.array_min("replicas") >= 0, F.lit(0)).otherwise(negative)


def _cleared_elrs(cleared: DataFrame, changes: DataFrame, topic: DataFrame) -> DataFrame:
    """A ClearElrRecord as changes of all partitions that had eligible leader replicas at any time."""
    cleared = cleared.select(
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


def _effective_events(changes: DataFrame, cleared: DataFrame) -> DataFrame:
    """The changes with those ClearElrRecords that have an effect on their partition. Others are no events."""
    events = changes.withColumn("clears_elr", F.lit(False)).unionByName(cleared, allowMissingColumns=True)
    before = _of_partition().rowsBetween(Window.unboundedPreceding, -1)
    held = F.size(F.coalesce(F.last("eligible_leader_replicas", ignorenulls=True).over(before), _none())) + F.size(
        F.coalesce(F.last("last_known_elr", ignorenulls=True).over(before), _none())
    )
    return events.withColumn("held", held).where(~F.col("clears_elr") | (F.col("held") > 0)).drop("held", "clears_elr")


def _of_partition() -> WindowSpec:
    return Window.partitionBy("cluster_id", "topic_id", "partition_index").orderBy(*ORDER)


def _merge(events: DataFrame) -> DataFrame:
    """Each event with the complete state of its partition after it, and with the place of the next event.

    All window functions are in one `select`, because Spark then evaluates them in one pass.
    """
    in_order = _of_partition()
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_change = F.col("partition_epoch").isNull()
    elects = is_change & F.col("leader").isNotNull()

    def latest(name: str) -> Column:
        return F.last(name, ignorenulls=True).over(up_to_now)

    def counted(condition: Column) -> Column:
        return F.sum(condition.cast("int")).over(up_to_now)

    lists = ("adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr")
    return events.select(
        *("cluster_id", "topic_id", "partition_index"),
        *(column.alias(name) for name, column in _validity(in_order).items()),
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
    return _selected(events, schemas.BROKER_VERSION, {**latest, "rack": latest["rack"]["name"], **_validity(of_broker)})


def _validity(in_order: WindowSpec) -> dict[str, Column]:
    """From an event to the next one in the window."""
    ends = {"valid_to_offset": "record_offset", "valid_to": "timestamp", "valid_to_batch": "batch_offset"}
    begins = {"valid_from_offset": "record_offset", "valid_from": "timestamp", "valid_from_batch": "batch_offset"}
    return {
        **{name: F.col(column) for name, column in begins.items()},
        **{name: F.lead(column).over(in_order) for name, column in ends.items()},
    }


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
    versions = _selected(set_or_deleted.unionByName(ended), schemas.CONFIG_VERSION, _validity(of_config))
    return versions.where(F.col("value").isNotNull())
