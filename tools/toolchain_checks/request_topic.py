"""Reads the request topic of a Klamm server with Spark's Kafka source, as a table and as a stream.

The request log has all lines of the same server, so each record of the topic is compared with its line there.
"""

import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

import klamm
from tools.toolchain_checks.kafka_jars import fetch_class_path
from tools.toolchain_checks.report import CheckFailed, Report, expect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "__klamm_requests"
TOPICS = ("orders", "payments")
WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.1
_POM = Path(__file__).with_name("spark_kafka.xml")


def check_request_topic(report: Report, folder: Path) -> None:
    """`folder` is new."""
    if find_spec("pyspark") is None:
        report.skip("Spark's Kafka source reads the request topic", "PySpark is not installed")
        return
    with report.check("Spark's Kafka source reads the request topic, as a table and as a stream"):
        jars = [str(path) for path in Path(fetch_class_path(_POM, "spark-kafka")).parent.glob("*.jar")]
        folder.mkdir(parents=True)
        log = folder / "requests.jsonl"
        with klamm.ServerProcess("--brokers", "1", "--request-topic", TOPIC, "--request-log", str(log)) as server:
            trio.run(_create_topics, server.bootstrap_servers)
            await_line(log)
            from klamm.pipeline.session import spark_session

            with spark_session("local[2]", {"spark.jars": ",".join(jars)}, short=True) as spark:
                compare(spark, server.bootstrap_servers, folder / "rows", log)


async def _create_topics(servers: str) -> None:
    async with klamm.AdminClient(servers) as admin:
        await admin.create_topics(TOPICS)


def await_line(log: Path) -> None:
    """Wait until the request log has the line about CreateTopics. The topic has the record before Spark has started."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (log.exists() and any(line["api"] == "CreateTopics" for line in _lines(log))):
        if time.monotonic() > deadline:
            raise CheckFailed("the request log has no line about CreateTopics")
        time.sleep(_POLL_SECONDS)


def compare(spark: "SparkSession", bootstrap_servers: str, out: Path, log: Path) -> None:
    """Read the topic with Spark. Raises CheckFailed unless its records are lines of the log, in order."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    table = _values(spark.read.format("kafka").options(**options).load())
    stream = spark.readStream.format("kafka").options(**options).load().writeStream.format("parquet")
    stream = stream.option("checkpointLocation", f"{out}-checkpoint").trigger(availableNow=True)
    stream.start(str(out)).awaitTermination()
    streamed = _values(spark.read.parquet(str(out)))
    lines = {line["seq"]: line for line in _lines(log)}
    expect(table == streamed[: len(table)], "the stream has other records than the table")
    expect(any(value["api"] == "CreateTopics" for value in table), "no record about CreateTopics")
    numbers = [value["seq"] for value in table]
    expect(numbers == sorted(set(numbers)), f"the order of the records is {numbers}")
    for value in table:
        expect(lines.get(value["seq"]) == value, f"the log has another line than {value}")


def _values(rows: "DataFrame") -> list[dict[str, Any]]:
    return [
        json.loads(row["line"]) for row in rows.orderBy("offset").selectExpr("CAST(value AS STRING) line").collect()
    ]


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]
