"""Runs the pipeline on a standalone Spark cluster: its tables must be equal to those of a local run, also when an
executor is killed during a job, and when the driver is killed between micro-batches and started again.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from klamm.controller.log.data_dir import LOG_FOLDER
from klamm.controller.log.segment_files import list_segments
from tools.toolchain_checks.program import ended_group
from tools.toolchain_checks.report import CheckFailed, Report, expect
from tools.toolchain_checks.spark_cluster import SHORT_LIVED, SparkCluster, await_true, spark_cluster

ROOT = Path(__file__).resolve().parents[2]
SHAPES = 400
POLICIES = "round-robin,striped,limit-aware,placeholders,rebalance"
RUN_SECONDS = 600.0
TABLES = ("topic", "partition_version", "broker_version", "config_version")


def check_pipeline_cluster(report: Report, folder: Path, data_dir: Path) -> None:
    """`data_dir` has a log of several segments; all output goes to `folder`, which is new."""
    if find_spec("pyspark") is None:
        report.skip("the pipeline on a Spark cluster", "PySpark is not installed")
        return
    folder.mkdir(parents=True)
    with (
        report.check("a standalone Spark master and two workers serve the pipeline until they are stopped"),
        spark_cluster(folder / "spark") as cluster,
    ):
        check_what_if(report, folder, cluster)
        check_ingest(report, folder, data_dir, cluster)


def check_what_if(report: Report, folder: Path, cluster: SparkCluster) -> None:
    """The same digest on one machine, and on the cluster with an executor killed during the job."""
    shapes = folder / "shapes.jsonl"
    shapes.write_text("".join(json.dumps(shape) + "\n" for shape in _shapes()))

    def command(name: str, master: str) -> list[str]:
        given = ["--shapes", str(shapes), "--policies", POLICIES, "--seed", "7", "--out", str(folder / name)]
        return ["whatif", *given, "--master", master]

    local = None
    with report.check(f"a what-if of {SHAPES} shapes on one machine"):
        run_pipeline(folder, "local", command("local", "local[2]"))
        local = _digest_of_what_if(folder / "local")
    with report.check("the what-if has the same digest on the cluster, where an executor is killed in the midst of it"):
        before = cluster.executors_started()
        with pipeline_process(folder, "killed", command("killed", cluster.master)) as driver:
            written = folder / "killed" / "whatif" / "result"
            # A task has ended, and many have not.
            await_true(lambda: any(written.rglob("_temporary/**/part-*.parquet")), driver, "the first tasks")
            os.kill(cluster.executors()[0], signal.SIGKILL)
            _await_success(driver, folder, "killed")
        expect(cluster.executors_started() > before + 2, "no other executor took the place of the one that was killed")
        expect(_digest_of_what_if(folder / "killed") == local, "it is another one")


def check_ingest(report: Report, folder: Path, data_dir: Path, cluster: SparkCluster) -> None:
    """The same tables on one machine, and on the cluster by two drivers, the first of which is killed."""
    *_, last = list_segments(data_dir / LOG_FOLDER)
    whole, growing = folder / "whole", folder / "growing"
    shutil.copytree(data_dir, whole)
    shutil.copytree(data_dir, growing)
    held_back = growing / LOG_FOLDER / last.path.name
    held_back.rename(folder / held_back.name)

    def command(log: Path, name: str, master: str) -> list[str]:
        return ["ingest", "--log", str(log), "--out", str(folder / name), "--master", master]

    local: tuple[str, str] | None = None
    with report.check("an ingest of a log on one machine"):
        reported = run_pipeline(folder, "ingested", command(whole, "ingested", "local[2]"))
        local = reported, _digest_of_silver(folder / "ingested")
    with report.check("a driver killed between micro-batches and started again on the cluster ingests the same tables"):
        with pipeline_process(folder, "begun", command(growing, "resumed", cluster.master)) as driver:
            commit = folder / "resumed" / "checkpoints" / "metadata_record" / "commits" / "0"
            await_true(commit.exists, driver, "the first micro-batch")
            driver.kill()
            expect(driver.wait() == -signal.SIGKILL, "it had ended before it was killed")
        (folder / held_back.name).rename(held_back)
        reported = run_pipeline(folder, "resumed", command(growing, "resumed", cluster.master))
        expect((reported, _digest_of_silver(folder / "resumed")) == local, f"{reported} instead of {local}")


def _shapes() -> Iterator[dict[str, int]]:
    chance = random.Random(7)
    for number in range(SHAPES):
        brokers, partitions = chance.randint(6, 40), chance.randint(100, 1_000)
        held = chance.choice((0, partitions, 3 * partitions))
        even = -(-(3 * partitions + held) // brokers)
        yield {
            "shape_id": number,
            "brokers": brokers,
            "racks": chance.randint(0, 5),
            "partitions": partitions,
            "replication_factor": 3,
            "limit": int(even * chance.uniform(0.95, 1.8)) + 1,
            "fenced": chance.randint(0, 2),
            "held": held,
        }


def run_pipeline(folder: Path, name: str, arguments: list[str]) -> str:
    """Run `klamm pipeline` to its end. Returns its output. Raises CheckFailed if it fails."""
    with pipeline_process(folder, name, arguments) as driver:
        _await_success(driver, folder, name)
    return (folder / f"{name}.out").read_text()


@contextmanager
def pipeline_process(folder: Path, name: str, arguments: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A running `klamm pipeline`; its output is in `name`.out and `name`.err. It is ended with the block."""
    with (folder / f"{name}.out").open("wb") as output, (folder / f"{name}.err").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "klamm", "pipeline", *arguments],
            stdout=output,
            stderr=errors,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_CONF_DIR": str(_settings(folder)),
            },
            start_new_session=True,
        )
        with ended_group(process):
            yield process


def _settings(folder: Path) -> Path:
    """A configuration for executors that live for seconds: no second compiler, one thread that collects garbage."""
    settings = folder / "conf"
    settings.mkdir(exist_ok=True)
    (settings / "spark-defaults.conf").write_text(f"spark.executor.extraJavaOptions {SHORT_LIVED}\n")
    return settings


def _await_success(driver: "subprocess.Popen[bytes]", folder: Path, name: str) -> None:
    try:
        driver.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"klamm pipeline did not end within {RUN_SECONDS:g} s") from None
    if driver.returncode:
        output = (folder / f"{name}.err").read_text(errors="replace")[-2_000:]
        raise CheckFailed(f"klamm pipeline ended with exit code {driver.returncode}: {output}")


def _digest_of_what_if(out: Path) -> str:
    digest: str = json.loads((out / "whatif" / "whatif.json").read_text())["digest"]
    return digest


def _digest_of_silver(out: Path) -> str:
    """A digest of all rows of silver, in any division into files."""
    import pyarrow.parquet as pq

    digest = hashlib.sha256()
    for table in TABLES:
        rows = pq.read_table(out / "silver" / table).to_pylist()
        digest.update("\n".join([table, *sorted(map(repr, rows))]).encode())
    return digest.hexdigest()
