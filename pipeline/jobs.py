"""The jobs of `klamm pipeline` as functions, also for notebooks and `spark-submit`.

Each takes a session with Klamm's data sources (`klamm.pipeline.session.spark_session`).
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from klamm.pipeline import silver
from klamm.pipeline.errors import PipelineError
from klamm.pipeline.gold import load, requests, windows
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.sources.bronze_files import add_files
from klamm.pipeline.store import Store

Progress = Callable[[str], None]
MAX_STARTS: Final = 5
"""The most consecutive attempts to start reading, if Spark's timeouts end each before anything is read."""
_SLOW_START: Final = "failed to connect back"


def ingest(
    spark: SparkSession,
    out: Path,
    *,
    logs: Sequence[str] = (),
    request_logs: Sequence[str] = (),
    overwrite: bool = False,
    follow: threading.Event | None = None,
    progress: Progress = lambda _: None,
) -> dict[str, int]:
    """Read the parts of the logs that no earlier ingest has read, and rebuild silver from all parts.

    With `follow` reading continues until the event is set, and windows are written to live.closed_window as they close.
    Returns the number of rows of each table, by "layer.table". Raises PipelineError for logs that cannot be read, or an
    output directory of something else.
    """
    if not logs and not request_logs:
        raise PipelineError("nothing to ingest: name metadata logs or request logs")
    _refuse_unreadable(logs, request_logs)
    store = Store.create(out, {"logs": list(logs), "request_logs": list(request_logs)}, overwrite=overwrite)
    progress("reading the logs")
    starts_left = MAX_STARTS
    while starts_left:
        done = _batches_done(store)
        try:
            _read(spark, store, logs, request_logs, follow)
            break
        except PySparkException as error:
            starts_left = (MAX_STARTS if _batches_done(store) > done else starts_left) - 1
            if not starts_left or not is_slow_start(error):
                raise PipelineError(_reason(error)) from error
    progress("silver: topics, partitions, brokers, configs")
    _build_silver(spark, store)
    return _counts(spark, store)


def is_slow_start(error: PySparkException) -> bool:
    """Whether Spark's timeout of ten seconds for the start of a Python process caused the error. Rows that were read
    until then are stored, and reading can start again."""
    return _SLOW_START in str(error)


def _batches_done(store: Store) -> int:
    """A number that increases with every micro-batch."""
    newest: dict[Path, int] = {}
    for path in store.folder.glob("checkpoints/*/commits/*"):
        if path.name.isdigit():
            newest[path.parent] = max(newest.get(path.parent, -1), int(path.name))
    return sum(number + 1 for number in newest.values())


def _read(
    spark: SparkSession,
    store: Store,
    logs: Sequence[str],
    request_logs: Sequence[str],
    follow: threading.Event | None,
) -> None:
    queries: list[StreamingQuery] = []
    try:
        # With Spark Connect, calls of Python functions for each micro-batch need more packages.
        if logs and isinstance(spark, SparkSession):
            queries.append(_start_files(spark, store, logs, follow))
        elif logs:
            queries.append(_start(spark, store, "metadata_record", "kraft-log", logs, follow))
        if request_logs:
            queries.append(_start(spark, store, "request", "request-log", request_logs, follow))
        if logs and follow is not None:
            queries.append(_start_windows(spark, store, logs))
        _await(queries, follow)
    finally:
        for query in queries:
            query.stop()


def _refuse_unreadable(logs: Sequence[str], request_logs: Sequence[str]) -> None:
    """Raise PipelineError for unreadable logs before anything is created."""
    from klamm.pipeline.logs.request_logs import find_request_files

    if logs:
        find_metadata_logs(logs)
    if request_logs:
        find_request_files(request_logs)


def _start_files(
    spark: SparkSession, store: Store, paths: Sequence[str], follow: threading.Event | None
) -> StreamingQuery:
    table = Path(store.path("bronze", "metadata_record")).resolve()
    files = _stream(spark, "kraft-log-files", paths, table=str(table))
    writer = files.writeStream.option("checkpointLocation", store.checkpoint("metadata_record"))
    return _triggered(writer, follow).foreachBatch(partial(add_files, table)).start()


def _start(
    spark: SparkSession, store: Store, table: str, source: str, paths: Sequence[str], follow: threading.Event | None
) -> StreamingQuery:
    writer = _stream(spark, source, paths).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", store.checkpoint(table))
    return _triggered(writer, follow).start(store.path("bronze", table))


def _triggered(writer: DataStreamWriter, follow: threading.Event | None) -> DataStreamWriter:
    return writer.trigger(availableNow=True) if follow is None else writer.trigger(processingTime="1 second")


def _start_windows(spark: SparkSession, store: Store, paths: Sequence[str]) -> StreamingQuery:
    store.forget_windows_of_release_0_1()
    windows = _stream(spark, "closed-windows", paths, states=str(Path(store.checkpoint("window_state")).resolve()))
    writer = windows.writeStream.format("parquet").option("checkpointLocation", store.checkpoint("closed_window"))
    return writer.trigger(processingTime="1 second").start(store.path("live", "closed_window"))


def _stream(spark: SparkSession, source: str, paths: Sequence[str], **options: str) -> DataFrame:
    named = "\n".join(str(Path(path).resolve()) for path in paths)
    return spark.readStream.format(source).options(logs=named, **options).load()


def _await(queries: Sequence[StreamingQuery], follow: threading.Event | None) -> None:
    """Wait until all streams have read everything; with `follow`, until it is set. Raises a failed stream's error."""
    while any(query.isActive for query in queries):
        if follow is not None and follow.is_set():
            for query in queries:
                query.processAllAvailable()
                query.stop()
        for query in queries:
            query.awaitTermination(1)
    for query in queries:
        failure = query.exception()
        if failure is not None:
            raise failure


def _reason(error: Exception) -> str:
    """The error line of Klamm's data source, without the lines that Spark adds."""
    for line in str(error).splitlines():
        _, found, reason = line.partition("klamm.pipeline.errors.PipelineError: ")
        if found:
            return reason
    if _SLOW_START in str(error):
        return (
            "this machine is too busy: Spark's Python processes did not begin in time. What was read stays; try again"
        )
    return f"reading failed: {(str(error).splitlines() or [type(error).__name__])[0][:300]}"


def _build_silver(spark: SparkSession, store: Store) -> None:
    """Replace the tables of silver and quarantine."""
    records, problems = silver.split_records(store.read(spark, "bronze", "metadata_record"))
    store.write("silver", "topic", silver.topics(records.others))
    topic = store.read(spark, "silver", "topic")

    def write_small_tables() -> None:
        store.write("silver", "broker_version", silver.broker_versions(records.others))
        store.write("silver", "config_version", silver.config_versions(records.others, topic))
        store.write("quarantine", "metadata_record", problems)
        lines = store.read(spark, "bronze", "request")
        store.write("quarantine", "request", lines.where(F.col("problem").isNotNull()))

    # Spark plans the small tables on one core, while the others make the large one.
    with ThreadPoolExecutor(max_workers=1) as beside:
        small_tables = beside.submit(write_small_tables)
        versions = silver.partition_versions(records.of_partitions, topic, records.others)
        store.write("silver", "partition_version", versions)
        small_tables.result()


def _counts(spark: SparkSession, store: Store) -> dict[str, int]:
    both = ("metadata_record", "request")
    tables = {
        "bronze": both,
        "quarantine": both,
        "silver": ("topic", "partition_version", "broker_version", "config_version"),
    }
    return {f"{layer}.{table}": store.count(spark, layer, table) for layer, names in tables.items() for table in names}


def batches_read(out: Path) -> int:
    """A number that increases whenever an ingest has written more rows of bronze."""
    return _batches_done(Store.open(out))


def refresh(spark: SparkSession, out: Path, progress: Progress = lambda _: None) -> Store:
    """Rebuild silver and gold from what bronze has now, also while an ingest with `follow` goes on. Raises
    PipelineError if nothing was ingested."""
    store = Store.open(out)
    progress("silver: topics, partitions, brokers, configs")
    _build_silver(spark, store)
    return build_gold(spark, out, progress)


def build_gold(spark: SparkSession, out: Path, progress: Progress = lambda _: None) -> Store:
    """Rebuild all gold tables from silver and bronze. Raises PipelineError if nothing was ingested."""
    store = Store.open(out)
    versions, brokers = (store.read(spark, "silver", name) for name in ("partition_version", "broker_version"))
    configs = store.read(spark, "silver", "config_version")
    progress("placement and limits")
    store.write("gold", "broker_load", load.broker_load(versions, brokers))
    totals = load.partition_totals(versions, brokers).localCheckpoint()
    by_broker = store.read(spark, "gold", "broker_load")
    sampled = load.load_at_samples(by_broker, load.sample_offsets(totals), brokers).localCheckpoint()
    store.write("gold", "placement_quality", load.placement_quality(sampled, totals))
    store.write("gold", "limit_headroom", load.limit_headroom(sampled, totals, configs))
    progress("under-replication and reassignments")
    store.write("gold", "under_replication", windows.under_replication(versions, brokers))
    store.write("gold", "reassignment", windows.reassignments(versions))
    progress("requests")
    _build_requests(spark, store)
    return store


def _build_requests(spark: SparkSession, store: Store) -> None:
    asked = requests.sound_requests(store.read(spark, "bronze", "request"))
    tables: dict[str, DataFrame] = {
        "refused_request": requests.refused_requests(asked),
        "error_taxonomy": requests.error_taxonomy(asked),
        "latency": requests.latency(asked),
        "client": requests.clients(asked),
        "coverage": requests.coverage(asked, requests.declared_versions(spark)),
    }
    for name, rows in tables.items():
        store.write("gold", name, rows)


def verify(spark: SparkSession, logs: Sequence[str], progress: Progress = lambda _: None) -> dict[str, Any]:
    """Check metadata logs; see `klamm.pipeline.checks`."""
    from klamm.pipeline.checks import check_logs

    return check_logs(spark, logs, progress)
