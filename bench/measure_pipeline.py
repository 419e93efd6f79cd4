"""The pipeline on Spark: logs read into tables, the report's tables, and the what-if; on one core and on two, beside
one process that does the same without Spark.

A session has read a small log before anything is timed: starting one takes seconds, and is nobody's work here. What is
written goes to Parquet, in folders of the disk that is measured.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.follow_lag import RECORDS_PER_SECOND, Lags, measure_follow_lag
from bench.pipeline_logs import RECORDS_PER_TOPIC, write_log
from bench.raw_client import Refused
from bench.rows import Row
from bench.workbench import Workbench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from klamm.pipeline.whatif.shapes import Shape

RECORDS: Final = 2_000_000
SMALL_LOG_RECORDS: Final = 2_000
SHAPES: Final = 12_000
POLICIES: Final = ("round-robin", "striped", "limit-aware")
GENERIC_SHARE: Final = 10
"""The record-by-record loop reads one log of so many times less: it takes the longer for it."""
MARK_RECORDS_PER_SECOND: Final = 75_000
MARK_INGESTED: Final = 100_000
MARK_SMALL_LOGS: Final = 3.0
MARK_REPORT_SECONDS: Final = 60.0
MARK_WHAT_IF_SECONDS: Final = 10.0
MARK_LAG_SECONDS: Final = 10.0
FOLLOW_SECONDS: Final = 60
MEMORY: Final = "3g"
SEED: Final = 7
GROUP: Final = "pipeline"
ONE_CORE, TWO_CORES = "local[1]", "local[2]"
LOOP, GENERIC_LOOP = "one process, same codec", "one process, record by record"


def measure_pipeline(bench: Workbench) -> list[Row]:
    """One log of two million records, a thousand logs of two thousand, twelve thousand shapes; a tenth if quick, then
    without marks in seconds: a tenth of the work in the time of all of it would be no feat."""
    records, shapes = bench.samples(RECORDS), make_shapes(bench.samples(SHAPES))
    with bench.folder() as folder:
        large, small = folder / "large", [folder / f"small-{number}" for number in range(records // SMALL_LOG_RECORDS)]
        sizes = [write_log(large, records), write_log(folder / "generic", records // GENERIC_SHARE)]
        in_small = sum(write_log(log, SMALL_LOG_RECORDS, number + 1) for number, log in enumerate(small))
        alone = timed(lambda: loop_over([large], folder / "loop.parquet"), sizes[0])
        generic = timed(lambda: loop_record_by_record([folder / "generic"], folder / "generic.parquet"), sizes[1])
        placed = timed(lambda: place_in_a_loop(shapes, POLICIES), len(shapes) * len(POLICIES))
        with warm_session(ONE_CORE, folder) as spark:
            read_one = timed(lambda: into_parquet(spark, [large], folder / "read"), sizes[0])
            placed_one = timed(lambda: place_all(spark, shapes, POLICIES), len(shapes) * len(POLICIES))
        with warm_session(TWO_CORES, folder) as spark:
            read = timed(lambda: into_parquet(spark, [large], folder / "read"), sizes[0])
            placed_two = timed(lambda: place_all(spark, shapes, POLICIES), len(shapes) * len(POLICIES))
            read_small = timed(lambda: into_parquet(spark, small, folder / "small"), in_small)
            in_turn = timed(lambda: place_in_turn(spark, shapes), len(shapes))
            whole = timed(lambda: run_all(spark, shapes, folder), len(shapes))
            ingested, report = _ingest_and_report(spark, large, folder / "out", sizes[0])
            lag = _lag(measure_follow_lag(spark, folder, bench.samples(FOLLOW_SECONDS)))
    report_mark, what_if_mark = (None, None) if bench.quick else (MARK_REPORT_SECONDS, MARK_WHAT_IF_SECONDS)
    return [
        _rate("a log into typed rows, two cores", sizes[0], read, ONE_CORE, read_one,
              mark=f">= {MARK_RECORDS_PER_SECOND:,} records/s", reached=sizes[0] / read >= MARK_RECORDS_PER_SECOND),
        _rate("a log into typed rows, two cores", sizes[0], read, LOOP, alone),
        Row(
            group=GROUP,
            what="a log into typed rows, two cores",
            unit="records/s",
            klamm=sizes[0] / read,
            peer=GENERIC_LOOP,
            theirs=sizes[1] / generic,
            higher_is_better=True,
        ),
        Row(
            group=GROUP,
            what=f"{len(small):,} logs of {SMALL_LOG_RECORDS:,} records into typed rows, two cores",
            unit="s",
            klamm=read_small,
            peer="one log of the same size",
            theirs=read,
            mark=f"<= {MARK_SMALL_LOGS:g} ×",
            reached=read_small <= MARK_SMALL_LOGS * read,
        ),
        _rate("`ingest`: a log into bronze and all of silver, two cores", sizes[0], ingested,
              mark=f">= {MARK_INGESTED:,} records/s", reached=sizes[0] / ingested >= MARK_INGESTED),
        lag,
        _seconds("`report` over it: all of gold and the page, two cores", report, report_mark),
        _seconds(f"what-if, {len(shapes):,} shapes, each under one of three policies, two cores", in_turn,
                 what_if_mark),
        _seconds(f"what-if, {len(shapes):,} shapes, each under all three policies, two cores", placed_two,
                 what_if_mark, ONE_CORE, placed_one),
        _seconds(f"what-if, {len(shapes):,} shapes, each under all three policies, two cores", placed_two,
                 peer="one process", theirs=placed),
        _seconds(f"`whatif`: {len(shapes):,} shapes, all three policies, with tables and picture, two cores",
                 whole, what_if_mark),
    ]  # fmt: skip


def _rate(
    what: str, records: int, seconds: float, peer: str | None = None, theirs: float | None = None, *,
    mark: str | None = None, reached: bool | None = None,
) -> Row:  # fmt: skip
    return Row(
        group=GROUP,
        what=what,
        unit="records/s",
        klamm=records / seconds,
        peer=peer,
        theirs=None if theirs is None else records / theirs,
        higher_is_better=True,
        mark=mark,
        reached=reached,
        details={"records": records, "seconds": seconds},
    )


def _seconds(
    what: str, seconds: float, mark: float | None = None, peer: str | None = None, theirs: float | None = None
) -> Row:
    return Row(
        group=GROUP,
        what=what,
        unit="s",
        klamm=seconds,
        peer=peer,
        theirs=theirs,
        mark=None if mark is None else f"<= {mark:g} s",
        reached=None if mark is None else seconds <= mark,
    )


def _lag(lags: Lags) -> Row:
    return Row(
        group=GROUP,
        what=f"`ingest --follow` at {RECORDS_PER_SECOND:,} records/s: p99 from a record's sync to its row in bronze",
        unit="s",
        klamm=lags.p99,
        samples=lags.records,
        mark=f"<= {MARK_LAG_SECONDS:g} s",
        reached=lags.p99 <= MARK_LAG_SECONDS,
        details={"p50": lags.p50, "longest": lags.longest, "micro_batches": lags.micro_batches},
    )


def timed(work: Callable[[], int], wanted: int) -> float:
    """How many seconds it takes; Refused unless it made as many rows as are wanted."""
    start = time.perf_counter()
    rows = work()
    seconds = time.perf_counter() - start
    if rows != wanted:
        raise Refused(f"{rows} rows instead of {wanted}")
    return seconds


@contextmanager
def warm_session(master: str, folder: Path) -> "Iterator[SparkSession]":
    """A session that has read a log and placed replicas."""
    from klamm.pipeline.session import spark_session

    warm_up = folder / f"warm-up-{master}"
    with spark_session(master, memory=MEMORY) as spark:
        write_log(warm_up, RECORDS_PER_TOPIC)
        into_parquet(spark, [warm_up], folder / f"warmed-{master}")
        place_all(spark, make_shapes(8), POLICIES)
        yield spark


def into_parquet(spark: "SparkSession", logs: Sequence[Path], out: Path) -> int:
    """Read logs and write bronze.metadata_record; how many rows are there."""
    rows = spark.read.format("kraft-log").option("logs", "\n".join(map(str, logs))).load()
    rows.write.mode("overwrite").parquet(str(out))
    return _rows_in(out)


def _rows_in(out: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in out.rglob("*.parquet"))


def _ingest_and_report(spark: "SparkSession", log: Path, out: Path, records: int) -> tuple[float, float]:
    from klamm.pipeline import jobs
    from klamm.pipeline.report import render_html, summarize, write_page

    def report() -> int:
        summary = summarize(spark, jobs.build_gold(spark, out))
        write_page(out / "report.html", render_html(summary))
        return sum(row["records"] for row in summary["clusters"]["rows"])

    ingested = timed(lambda: jobs.ingest(spark, out, logs=[str(log)])["bronze.metadata_record"], records)
    return ingested, timed(report, records)


def loop_over(logs: Sequence[Path], out: Path) -> int:
    """The same rows without Spark: our codec, pyarrow, one process."""
    import pyarrow.parquet as pq

    from klamm.pipeline.logs.metadata_logs import find_metadata_logs
    from klamm.pipeline.logs.metadata_pieces import cut_log
    from klamm.pipeline.logs.metadata_rows import read_pieces
    from klamm.pipeline.sources.kraft_log import DEFAULT_PIECE_BYTES

    written, writer = 0, None
    try:
        for log in find_metadata_logs([str(path) for path in logs]):
            for rows in read_pieces(list(cut_log(log, None, DEFAULT_PIECE_BYTES))):
                writer = writer or pq.ParquetWriter(out, rows.schema)
                writer.write_batch(rows)
                written += rows.num_rows
    finally:
        if writer is not None:
            writer.close()
    return written


def loop_record_by_record(logs: Sequence[Path], out: Path) -> int:
    """What one writes at first: a message for each record, a list of dictionaries, pandas."""
    import pandas as pd  # type: ignore[import-untyped]

    from klamm.controller.log.data_dir import LOG_FOLDER
    from klamm.protocol.codec.json_form import message_to_json
    from klamm.protocol.record_batch import decode_batches
    from klamm.protocol.record_versions import record_type_of

    rows: list[dict[str, Any]] = []
    for log in logs:
        for segment in sorted((log / LOG_FOLDER).glob("*.log")):
            for batch in decode_batches(segment.read_bytes()):
                for number, record in enumerate(batch.records):
                    record_type = record_type_of(type(record))
                    body = message_to_json(record, record_type.versions[-1])
                    offset = batch.base_offset + number
                    rows.append({"record_offset": offset, "type": record_type.name, "body": str(body)})
    pd.DataFrame(rows).to_parquet(out)
    return len(rows)


def make_shapes(count: int) -> "list[Shape]":
    """6 to 60 brokers in 1 to 5 racks, 200 to 2,000 partitions of three replicas; limits from too small to roomy."""
    from klamm.pipeline.whatif.shapes import Shape

    chance = random.Random(SEED)
    shapes = []
    for number in range(count):
        brokers, racks, partitions = chance.randint(6, 60), chance.randint(1, 5), chance.randint(200, 2_000)
        held = chance.choice((0, partitions, 3 * partitions))
        even = -(-(3 * partitions + held) // brokers)
        limit = int(even * chance.uniform(0.95, 1.8)) + 1
        shapes.append(Shape(number, brokers, racks, partitions, 3, limit, 0, held))
    return shapes


def place_all(spark: "SparkSession", shapes: "Sequence[Shape]", policies: Sequence[str]) -> int:
    """Every shape under every policy, as Spark makes it; how many rows that were."""
    from klamm.pipeline.whatif.run import what_if

    return _placed(what_if(spark, shapes, policies, SEED))


def place_in_turn(spark: "SparkSession", shapes: "Sequence[Shape]") -> int:
    """Every shape under one policy: the first under the first one, the second under the second, and so on."""
    from klamm.pipeline.whatif.run import what_if

    parts = [what_if(spark, shapes[number :: len(POLICIES)], [policy], SEED) for number, policy in enumerate(POLICIES)]
    results = parts[0]
    for part in parts[1:]:
        results = results.unionByName(part)
    return _placed(results)


def run_all(spark: "SparkSession", shapes: "Sequence[Shape]", folder: Path) -> int:
    """What `klamm pipeline whatif` does from reading the file of shapes to the picture; how many shapes that were."""
    from klamm.pipeline.whatif.run import run_what_if

    given = folder / "shapes.jsonl"
    given.write_text("".join(json.dumps(shape._asdict()) + "\n" for shape in shapes))
    reported: int = run_what_if(spark, given, POLICIES, SEED, folder / "what-if")["shapes"]
    return reported


def _placed(results: "DataFrame") -> int:
    # A count of rows alone might need no columns, and so no placements.
    from pyspark.sql.functions import count
    from pyspark.sql.functions import max as greatest

    (row,) = results.agg(count("*").alias("rows"), greatest("digest")).collect()
    return int(row["rows"])


def place_in_a_loop(shapes: "Sequence[Shape]", policies: Sequence[str]) -> int:
    """The same without Spark."""
    from klamm.pipeline.whatif.kernel import try_policies

    return sum(1 for _ in try_policies(shapes, policies, SEED))
