"""Requests of clients, their latencies and errors. The only source is the request log."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql import types as T  # noqa: N812

from klamm.pipeline import schemas
from klamm.protocol.codec.requests import load_api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.index import MODULES

POLICY_VIOLATION: Final = 44
UNSUPPORTED_VERSION: Final = 35
PLACING_APIS: Final = ("CreateTopics", "CreatePartitions", "AlterPartitionReassignments", "AlterTopics")
_CLIENT: Final = ("client_software_name", "client_software_version")
_WHO: Final = ("client_id", *_CLIENT, "principal")
_LIMITS: Final = r"max\.(broker\.)?partitions"


def sound_requests(bronze: DataFrame) -> DataFrame:
    """The lines that could be decoded."""
    return bronze.where(F.col("problem").isNull())


def refused_requests(requests: DataFrame) -> DataFrame:
    """gold.refused_request: one row per refused topic or partition. The limit in the message distinguishes a refusal by
    KIP-578 from one by a topic policy. Metadata responses have no messages, so their refusals are only in
    gold.error_taxonomy."""
    return (
        requests.where(F.col("api").isin(*PLACING_APIS))
        .select("*", F.explode("errors").alias("error"))
        .where(_is_limit(F.col("error")))
        .select(
            *("cluster_id", "seq", "timestamp", "log_end_offset", "api"),
            *("client_id", "client_software_name", "principal"),
            *("error.topic_name", "error.resource_name", "error.error_message"),
        )
    )


def _is_limit(error: Column) -> Column:
    """Whether an error of a placing API is a refusal by KIP-578's limits."""
    return (error["error_code"] == POLICY_VIOLATION) & error["error_message"].rlike(_LIMITS)


def clients(requests: DataFrame) -> DataFrame:
    """gold.client"""
    refused = F.when(F.col("api").isin(*PLACING_APIS), F.size(F.filter("errors", _is_limit))).otherwise(0)
    return (
        requests.groupBy("cluster_id", *_WHO)
        .agg(
            F.count(F.lit(1)).alias("requests"),
            F.countDistinct("api").alias("apis"),
            F.sum(F.size("errors")).alias("errors"),
            F.sum(refused).alias("refused"),
            F.count_if(F.col("throttle_time_ms") > 0).alias("throttled"),
            F.percentile("microseconds", 0.5).alias("p50_us"),
            F.percentile("microseconds", 0.99).alias("p99_us"),
            F.max("microseconds").alias("max_us"),
            F.min_by("timestamp", "seq").alias("first"),
            F.max_by("timestamp", "seq").alias("last"),
            F.min("seq").alias("first_seq"),
            _slowest().alias("slowest_seq"),
        )
        .select(*schemas.CLIENT.names)
    )


def _slowest() -> Column:
    return F.max_by("seq", F.struct("microseconds", -F.col("seq")))


def error_taxonomy(requests: DataFrame) -> DataFrame:
    """gold.error_taxonomy"""
    return (
        requests.select("*", F.explode("errors").alias("error"))
        .groupBy("cluster_id", "api", "api_version", *_WHO, F.col("error.error_code").alias("error_code"))
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.min_by("timestamp", "seq").alias("first"),
            F.max_by("timestamp", "seq").alias("last"),
            F.min("seq").alias("sample_seq"),
            F.min_by("error.error_message", F.struct("seq", "error.error_message")).alias("sample_message"),
        )
        .withColumn("error_name", _error_name(F.col("error_code")))
        .select(*schemas.ERROR_TAXONOMY.names)
    )


def _error_name(code: Column) -> Column:
    names = F.create_map(*(F.lit(part) for error in ErrorCode for part in (int(error), error.name)))
    return F.coalesce(F.try_element_at(names, code.cast("int")), F.format_string("UNKNOWN(%d)", code.cast("int")))


def latency(requests: DataFrame) -> DataFrame:
    """gold.latency: exact percentiles in microseconds, from the arrival of a request until its response may be sent."""
    shares = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
    return (
        requests.groupBy("cluster_id", "api", "api_version", "client_id", "client_software_name", "principal")
        .agg(
            F.count(F.lit(1)).alias("requests"),
            *(F.percentile("microseconds", share).alias(name) for name, share in shares.items()),
            F.max("microseconds").alias("max_us"),
            _slowest().alias("slowest_seq"),
        )
        .select(*schemas.LATENCY.names)
    )


_DECLARED: Final = T.StructType(
    [
        T.StructField("api", schemas.STRING),
        T.StructField("api_key", schemas.SHORT),
        T.StructField("api_version", schemas.SHORT),
    ]
)


def declared_versions(spark: SparkSession) -> DataFrame:
    """All APIs and versions of the protocol: api, api_key, api_version."""
    apis = [api for api in map(load_api, MODULES) if api is not None]
    rows = [(api.name, api.key, version) for api in apis for version in api.versions]
    return spark.createDataFrame(rows, _DECLARED)


def coverage(requests: DataFrame, declared: DataFrame) -> DataFrame:
    """gold.coverage: all rows of `declared_versions`, and requests in versions that the protocol does not have."""
    failed = F.size(F.filter("errors", lambda error: error["error_code"] != 0)) > 0
    unsupported = F.exists(
        "errors",
        lambda error: (
            (error["error_code"] == UNSUPPORTED_VERSION)
            & error["topic_name"].isNull()
            & error["topic_id"].isNull()
            & error["resource_name"].isNull()
        ),
    )
    key = ("cluster_id", "api_key", "api_version")
    seen = requests.groupBy(*key).agg(
        F.first("api").alias("asked_api"),
        F.count(F.lit(1)).alias("seen"),
        F.countDistinct(*(F.coalesce(name, F.lit("")) for name in _CLIENT)).cast("int").alias("clients"),
        F.count_if(~failed).alias("succeeded"),
        F.count_if(failed).alias("failed"),
        F.min("seq").alias("first_seq"),
        F.bool_or(~unsupported).alias("offered"),
    )
    counts = ("seen", "clients", "succeeded", "failed")
    return (
        requests.select("cluster_id")
        .distinct()
        .crossJoin(F.broadcast(declared))
        .join(seen, list(key), "full")
        .withColumn("api", F.coalesce("api", "asked_api"))
        .withColumns({name: F.coalesce(name, F.lit(0)) for name in counts})
        .select(*schemas.COVERAGE.names)
    )
