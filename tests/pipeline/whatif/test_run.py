"""The what-if on Spark: the rows of the kernel, for any distribution of the work; its files are complete or absent."""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.store import MARKER, Store
from klamm.pipeline.whatif import run
from klamm.pipeline.whatif.kernel import POLICIES, try_policies
from klamm.pipeline.whatif.run import HEADROOM_BUCKETS, kept_promises, result_digest, run_what_if, what_if
from klamm.pipeline.whatif.shapes import Shape
from klamm.pipeline.whatif.tables import RESULT

ALL: Final = tuple(POLICIES)
SHAPES: Final = [
    Shape(number, 3 + number % 5, number % 4, 20 + number, 1 + number % 4, limit, number % 4, 30 * (number % 3))
    for number, limit in enumerate([None, 5, 20, 30, 40, 60, 200] * 3)
]
Row = dict[str, Any]


def _by_key(rows: list[Row]) -> dict[tuple[int, str], Row]:
    return {(row["shape_id"], row["policy"]): row for row in rows}


def _write(path: Path, shapes: list[Shape]) -> Path:
    path.write_text("".join(json.dumps(shape._asdict()) + "\n" for shape in shapes))
    return path


def test_workers_keep_the_memory_of_arrays(spark: SparkSession) -> None:
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    seen = spark.sparkContext.parallelize([0], 1).map(lambda _: [os.environ.get(name) for name in names]).first()
    assert seen == ["33554432", "33554432"]


def test_rows_are_the_kernels_however_they_are_dealt_out(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _by_key([row for shape in SHAPES for row in try_policies([shape], ALL, 7)])
    digests = set()
    dealt = ((10, 1, 11, SHAPES, ALL), (250, 2, 2, SHAPES[::-1], ALL[::-1]), (1, 1, len(SHAPES), SHAPES, ALL))
    for rows_per_task, least, tasks, shapes, policies in dealt:
        monkeypatch.setattr(run, "_ROWS_PER_TASK", rows_per_task)
        monkeypatch.setattr(run, "_LEAST_TASKS", least)
        results = what_if(spark, shapes, policies, 7)
        assert results.schema == RESULT
        assert results.rdd.getNumPartitions() == tasks
        rows = [row.asDict() for row in results.collect()]
        assert len(rows) == len(expected)
        assert _by_key(rows) == expected
        digests.add(result_digest(results))
        summary = [row.asDict() for row in kept_promises(results).collect()]
        assert _rounded(summary) == _rounded(_counted(list(expected.values())))
    assert len(digests) == 1
    assert digests != {result_digest(what_if(spark, SHAPES, ALL, 8))}


def _counted(rows: list[Row]) -> list[Row]:
    groups: dict[tuple[float | None, float | None, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[(*_bucket(row["headroom"]), row["policy"])].append(row)
    counted = []
    for (begin, end, policy), members in groups.items():
        placed = [row for row in members if row["placed"]]
        figures = {
            "within_limit": [row["over_limit"] == 0 for row in placed],
            "racks_kept": [row["rack_violations"] == 0 for row in placed],
            "complete": [row["placeholders"] == 0 for row in placed],
            **{name: [row[name] for row in placed] for name in ("replica_spread", "leader_spread", "moves")},
        }
        counted.append(
            {
                "headroom_from": begin,
                "headroom_to": end,
                "policy": policy,
                "shapes": len(members),
                "placed": len(placed) / len(members),
                **{name: sum(values) / len(values) if values else None for name, values in figures.items()},
            }
        )
    return counted


def _rounded(summary: list[Row]) -> dict[tuple[Any, ...], Row]:
    """By key, rounded, because means may be summed up in another order."""
    return {
        (row["headroom_from"], row["headroom_to"], row["policy"]): {
            name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()
        }
        for row in summary
    }


def _bucket(headroom: float | None) -> tuple[float | None, float | None]:
    if headroom is None:
        return None, None
    return (
        max((edge for edge in HEADROOM_BUCKETS if edge <= headroom), default=None),
        min((edge for edge in HEADROOM_BUCKETS if edge > headroom), default=None),
    )


def test_a_what_if_leaves_tables_a_picture_and_json_beside_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    out, shapes = tmp_path / "out", _write(tmp_path / "shapes", SHAPES[:6])
    Store.create(out, {"logs": ["there before"]})
    marker = (out / MARKER).read_text()
    (out / "bronze").mkdir()
    policies = ["striped", "limit-aware"]
    steps: list[str] = []
    reported = run_what_if(spark, shapes, policies, 3, out, progress=steps.append)
    assert steps
    assert json.loads((out / "whatif" / "whatif.json").read_text()) == reported
    assert (reported["shapes"], reported["policies"], reported["seed"]) == (6, policies, 3)
    assert [row["policy"] for row in reported["rows"]][:2] == policies
    assert [row["headroom_from"] is None and row["headroom_to"] is None for row in reported["rows"]][-1]
    assert (out / "whatif" / "whatif.svg").read_text().startswith("<?xml")
    with pytest.raises(PipelineError, match="holds a what-if already"):
        run_what_if(spark, shapes, policies, 3, out)
    again = run_what_if(spark, shapes, ["limit-aware"], 3, out, overwrite=True)
    assert again["digest"] != reported["digest"]
    results = spark.read.parquet(str(out / "whatif" / "result"))
    assert results.count() == 6
    assert (out / MARKER).read_text() == marker
    assert (out / "bronze").is_dir()


def test_nothing_is_started_for_what_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    good, bad, out = _write(tmp_path / "good", SHAPES[:1]), tmp_path / "bad", tmp_path / "out"
    bad.write_text("{}\n")
    for shapes, policies, seed in ((bad, ["striped"], 1), (good, ["best"], 1), (good, ["striped"], -1)):
        with pytest.raises(PipelineError):
            run_what_if(spark, shapes, policies, seed, out)
    assert not out.exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letters.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(PipelineError, match="holds something else"):
            run_what_if(spark, good, ["striped"], 1, foreign, overwrite=overwrite)
    assert [path.name for path in foreign.iterdir()] == ["letters.txt"]
