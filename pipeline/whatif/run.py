"""Runs the what-if analysis on Spark executors. Each row is one shape with its policies, independent of all others."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.pandas.types import to_arrow_schema

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.store import Store
from klamm.pipeline.whatif.kernel import check_policies, try_policies
from klamm.pipeline.whatif.shapes import Shape, load_shapes
from klamm.pipeline.whatif.tables import RESULT, SUMMARY

MAX_SEED: Final = 2**63 - 1
HEADROOM_BUCKETS: Final = (0.0, 0.05, 0.1, 0.2, 0.5)
"""The lower bound of each range of headroom, which is the upper bound of the range before it."""
_SHAPES: Final = (
    "shape_id long, brokers int, racks int, partitions int, replication_factor int, `limit` int, fenced int, held int"
)
_ROWS_PER_TASK: Final = 3_000
"""Many shapes in a task are placed faster, because data about brokers is cached. Few tasks may be of unequal length."""
_LEAST_TASKS: Final = 8
"""The least number of tasks. Few shapes may be large, and then several cores share them."""


def run_what_if(
    spark: SparkSession,
    shapes: Path,
    policies: Sequence[str],
    seed: int,
    out: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Place every shape of a file with every policy. `klamm.pipeline.whatif.shapes` describes the file.

    Writes out/whatif/result and out/whatif/summary (Parquet), out/whatif/whatif.json and out/whatif/whatif.svg. Returns
    the content of the JSON file: the `rows` of the summary, and a `digest`, which is equal for two runs with the same
    results. Other files in `out` are not changed. Raises PipelineError before anything is started or written: for an
    invalid file, policy or seed, for a directory with other files, and for one with a what-if analysis, unless
    `overwrite` is set.
    """
    check_policies(policies)
    check_seed(seed)
    given = load_shapes(shapes)
    folder = _take_folder(out, seed, overwrite=overwrite)
    progress(f"placing {len(given)} shapes under {len(policies)} policies")
    result, summary = str(folder / "result"), str(folder / "summary")
    what_if(spark, given, policies, seed).write.parquet(result)
    progress("counting who keeps which promise")
    results = spark.read.schema(RESULT).parquet(result)
    kept_promises(results).write.parquet(summary)
    rows = [row.asDict() for row in spark.read.schema(SUMMARY).parquet(summary).collect()]
    rows.sort(key=lambda row: (*_bucket_order(row), policies.index(row["policy"])))
    told = {
        "v": 1,
        "shapes": len(given),
        "policies": list(policies),
        "seed": seed,
        "digest": result_digest(results),
        "rows": rows,
    }
    (folder / "whatif.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    from klamm.pipeline.whatif.picture import draw_summary

    draw_summary(rows, folder / "whatif.svg")
    return told


def check_seed(seed: int) -> None:
    """Raise PipelineError unless the seed is from 0 to `MAX_SEED`."""
    if not 0 <= seed <= MAX_SEED:
        raise PipelineError(f"a seed is a number from 0 to {MAX_SEED}, not {seed}")


def _take_folder(out: Path, seed: int, *, overwrite: bool) -> Path:
    folder = out / "whatif"
    Store.create(out, {"whatif_seed": seed})  # only whatif/ is replaced
    try:
        if folder.exists():
            if not overwrite:
                raise PipelineError(f"{folder} holds a what-if already: name another directory, or --overwrite")
            shutil.rmtree(folder)
        folder.mkdir()
    except OSError as error:
        raise PipelineError(f"cannot write to {folder}: {error.strerror}") from error
    return folder


def what_if(spark: SparkSession, shapes: Sequence[Shape], policies: Sequence[str], seed: int) -> DataFrame:
    """whatif.result: each shape with each policy. Raises PipelineError for an invalid policy or seed."""
    check_policies(policies)
    check_seed(seed)
    asked = tuple(policies)
    columns = to_arrow_schema(RESULT)

    def place_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            shapes = [Shape(**shape) for shape in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(list(try_policies(shapes, asked, seed)), schema=columns)

    # Tasks get shapes in turn, because neighbouring shapes in the file often have the same size.
    tasks = min(len(shapes), max(_LEAST_TASKS, -(-len(shapes) * len(policies) // _ROWS_PER_TASK)))
    given = spark.createDataFrame([tuple(shape) for shape in shapes], _SHAPES).repartition(tasks)
    return given.mapInArrow(place_all, RESULT).select(*RESULT.names)


def kept_promises(results: DataFrame) -> DataFrame:
    """whatif.summary: the share of shapes for which each policy keeps each promise, by headroom."""
    placed = F.col("placed")

    def share(kept: Column) -> Column:
        return F.avg(F.when(placed, kept.cast("double")))

    summary = results.groupBy(
        _bucket_edge((None, *HEADROOM_BUCKETS)).alias("headroom_from"),
        _bucket_edge((*HEADROOM_BUCKETS, None)).alias("headroom_to"),
        "policy",
    ).agg(
        F.count("*").alias("shapes"),
        F.avg(placed.cast("double")).alias("placed"),
        share(F.col("over_limit") == 0).alias("within_limit"),
        share(F.col("rack_violations") == 0).alias("racks_kept"),
        share(F.col("placeholders") == 0).alias("complete"),
        *(F.avg(name).alias(name) for name in ("replica_spread", "leader_spread", "moves")),
    )
    return summary.select(*SUMMARY.names)


def _bucket_edge(edges: Sequence[float | None]) -> Column:
    """One bound of a range of headroom, from `edges`. The range below 0 is the first one."""
    edge = F.when(F.col("headroom") < HEADROOM_BUCKETS[0], F.lit(edges[0]))
    for begin, end, value in zip(HEADROOM_BUCKETS, (*HEADROOM_BUCKETS[1:], float("inf")), edges[1:], strict=True):
        edge = edge.when((F.col("headroom") >= begin) & (F.col("headroom") < end), F.lit(value))
    return edge.cast("double")


def _bucket_order(row: dict[str, Any]) -> tuple[bool, float]:
    begin, end = row["headroom_from"], row["headroom_to"]
    return begin is None and end is None, -1.0 if begin is None else begin


def result_digest(results: DataFrame) -> str:
    """A number for all rows that does not depend on their order."""
    row = results.select(F.xxhash64(*RESULT.names).cast("decimal(38,0)").alias("row_hash"))
    (total,) = row.agg(F.sum("row_hash").alias("total")).collect()
    return format(int(total["total"]) % 2**64, "016x")
