"""`klamm pipeline` on the command line: wrong arguments, the one line of an error that ends a job, no output of Spark,
and Ctrl-C."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio

import klamm
from klamm.analysis.command import _interrupts_held_back, _is_short, decode_pipeline_options
from klamm.console.options import UsageError
from klamm.protocol.record_batch import decode_batches, encode_batch, encode_control_batch
from klamm.protocol.records.partitions import PartitionRecord
from tests.klamm.serve.processes import ROOT, command, environment
from tests.pipeline.interpreted import interpreted

SECONDS = 300.0
SPARK_FOLDER = TemporaryDirectory()  # removed when the tests end
SPARK = interpreted(Path(SPARK_FOLDER.name))
SHAPE = '{"shape_id": 1, "brokers": 3, "racks": 3, "partitions": 6, "replication_factor": 3}\n'


def run(*arguments: str, flags: tuple[str, ...] = (), path: Path | None = None) -> tuple[int, str, str]:
    more = {"PYTHONPATH": f"{ROOT}:{path}"} if path else {}
    done = subprocess.run(
        command("pipeline", *arguments, flags=flags),
        capture_output=True,
        text=True,
        env=environment({**SPARK, **more}),
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A `klamm pipeline` that has reported the start of Spark."""
    process = subprocess.Popen(
        command("pipeline", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(SPARK),
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "klamm pipeline: starting Spark\n"
        yield process
    finally:
        process.kill()


def foreign_lines(stderr: str) -> list[str]:
    """The lines that are not from Klamm."""
    return [line for line in stderr.splitlines() if not line.startswith("klamm pipeline: ")]


@pytest.fixture
def logs(tmp_path: Path) -> tuple[str, str]:
    """The data directory and the request log of a cluster in which one topic was created."""
    data, requests = tmp_path / "data", tmp_path / "requests.jsonl"

    async def make() -> None:
        cluster = klamm.Cluster(brokers=3, seed=1, data_dir=data, request_log=requests)
        async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
            for result in await admin.create_topics([klamm.NewTopic("orders", 2, 3)]):
                result.raise_for_error()

    trio.run(make)
    return str(data), str(requests)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "the following arguments are required: COMMAND, one of ingest, report, verify, whatif"),
        ("digest", "argument COMMAND: invalid choice: 'digest'"),
        ("ingest --log a", "the following arguments are required: --out"),
        ("ingest --out a", "ingest needs --log or --requests"),
        ("ingest --log --out a", "argument --log: expected at least one argument"),
        ("ingest --log a --out b --out c", "argument --out: is given twice"),
        ("ingest --log a --out b --seed 1", "unrecognized arguments: --seed 1"),
        ("report --out a --memory lots", "argument --memory: 'lots': a size such as 512m or 4g is expected"),
        ("report --out a --watch 0", "argument --watch: '0': a whole number from 1 to 3600"),
        ("verify", "the following arguments are required: --log"),
        ("whatif --shapes a --out b", "the following arguments are required: --policies"),
        ("whatif --shapes a --out b --policies x,,y", "argument --policies: 'x,,y': names with commas between them"),
        ("whatif --shapes a --out b --policies x --seed -1", "argument --seed: '-1': a whole number from 0"),
        ("whatif --shapes a --out b --policies x --seed 1_0", "argument --seed: '1_0': a whole number from 0"),
    ],
)
def test_wrong_calls_are_refused(arguments: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_pipeline_options(arguments.split())
    assert told in str(caught.value)


def test_logs_may_be_named_together_or_one_by_one() -> None:
    given = "ingest --log a b --log c --requests d e --out f --follow --master local[2] --memory 4g"
    options = decode_pipeline_options(given.split())
    assert (options.logs, options.requests) == (("a", "b", "c"), ("d", "e"))
    assert (options.out, options.follow, options.master, options.memory) == (Path("f"), True, "local[2]", "4g")


@pytest.mark.parametrize(("size", "is_short"), [(1_000, True), (64 << 20, False)])
def test_java_is_told_whether_there_is_little_to_read(tmp_path: Path, size: int, *, is_short: bool) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    for file in (log / f"{0:020}.log", out / "bronze" / "metadata_record" / "part.parquet"):
        file.parent.mkdir(parents=True)
        file.touch()
        os.truncate(file, size)
    named = ["--log", str(log)]
    for arguments in (["ingest", *named, "--out", str(out)], ["verify", *named], ["report", "--out", str(out)]):
        assert _is_short(decode_pipeline_options(arguments)) is is_short, arguments
    assert not _is_short(decode_pipeline_options(["ingest", *named, "--out", str(out), "--follow"]))


def test_without_spark_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyspark'] = None\n")
    code, stdout, stderr = run("verify", "--log", "x", path=tmp_path)
    assert (code, stdout) == (2, "")
    assert stderr == (
        "klamm pipeline: Spark or a library for pictures is not installed: pip install '/path/to/klamm[pipeline]'\n"
    )


def test_a_wrong_call_imports_no_spark() -> None:
    code, _, stderr = run("ingest", "--out", "x", flags=("-X", "importtime"))
    lines = [line for line in stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines}
    assert code == 2
    assert imported & {"pyspark", "pyarrow", "pandas", "matplotlib", "jinja2", "pipeline", "rich"} == set()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("verify", "--log", "missing"), "missing"),
        (("ingest", "--requests", "missing.jsonl", "--out", "out"), "missing.jsonl"),
        (("report", "--out", "empty"), "empty holds no tables: klamm pipeline ingest makes them"),
        (("whatif", "--shapes", "missing", "--policies", "striped", "--out", "out"), "missing"),
        (("whatif", "--shapes", "shapes", "--policies", "best", "--out", "out"), "there is no policy 'best'"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes").write_text(SHAPE)
    code, stdout, stderr = run(*arguments)
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith("klamm pipeline: ")
    assert told in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shapes"]


def test_what_keeps_spark_from_starting_is_one_line(logs: tuple[str, str]) -> None:
    data, _ = logs
    begun = "klamm pipeline: starting Spark\n"
    for options, reported in (
        (("--master", "spark://127.0.0.1:1"), "no Spark master answers at spark://127.0.0.1:1: 127.0.0.1:1: "),
        (("--memory", "100m"), "no Spark session on local[*]: too little memory: "),
    ):
        code, stdout, stderr = run("verify", "--log", data, *options)
        assert (code, stdout) == (2, "")
        assert stderr.startswith(begun)
        assert stderr.removeprefix(begun).startswith(f"klamm pipeline: {reported}")
        assert stderr.count("\n") == 2


def lie(snapshot: Path) -> None:
    """Change the leader of every partition in the file, in batches with correct checksums."""
    data = b""
    for batch in decode_batches(snapshot.read_bytes()):
        for record in batch.records:
            if isinstance(record, PartitionRecord):
                record.leader = record.replicas[-1]
        encode = encode_control_batch if batch.is_control else encode_batch
        data += encode(batch.base_offset, batch.leader_epoch, batch.timestamp_ms, batch.records)
    snapshot.write_bytes(data)


def test_verify_names_each_difference_and_says_so_by_its_exit_code(logs: tuple[str, str]) -> None:
    data, _ = logs
    (snapshot,) = Path(data).glob("__cluster_metadata-0/*.checkpoint")
    lie(snapshot)
    code, stdout, stderr = run("verify", "--log", data)
    assert (code, foreign_lines(stderr)) == (1, [])
    head, *differences, last = stdout.splitlines()
    assert head.startswith("error: snapshot_says_what_the_log_says: 2 differences between a snapshot and what the log")
    reported = [line.partition(f"{snapshot.name}: ")[2] for line in differences]
    assert [re.sub(r"\d+(, by the log) \d+$", r"N\1 N", line) for line in reported] == [
        f"PartitionRecord orders-{index} has other values: leader is N, by the log N" for index in (0, 1)
    ]
    assert re.search(r": \d+ checks, 1 failed; 1 of 1 snapshots compared with the log$", last)


def test_ctrl_c_while_spark_starts_is_heard_once_it_has_started(logs: tuple[str, str]) -> None:
    with started("verify", "--log", logs[0]) as starting:
        starting.send_signal(signal.SIGINT)
        _, stderr = starting.communicate(timeout=SECONDS)
    assert (starting.returncode, stderr.splitlines()[-1]) == (130, "klamm pipeline: interrupted")


def test_an_interrupt_that_is_held_back_comes_when_the_block_is_over() -> None:
    came: list[str] = []

    def interrupt() -> None:
        with _interrupts_held_back():
            signal.raise_signal(signal.SIGINT)  # sent to this thread, because pytest has others
            came.append("behind the signal")
        came.append("behind the block")

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert came == ["behind the signal"]


def test_following_ends_with_ctrl_c_and_the_report_with_a_page(logs: tuple[str, str], tmp_path: Path) -> None:
    """No output of Spark is shown, and what was read before Ctrl-C stays."""
    data, requests = logs
    out = str(tmp_path / "out")
    with started("ingest", "--log", data, "--requests", requests, "--out", out, "--follow") as following:
        assert following.stderr is not None
        assert following.stderr.readline() == "klamm pipeline: reading the logs\n"
        following.send_signal(signal.SIGINT)
        stdout, stderr = following.communicate(timeout=SECONDS)
    assert (following.returncode, foreign_lines(stderr)) == (0, [])
    counts = dict(line.split() for line in stdout.splitlines())
    assert int(counts["bronze.metadata_record"]) > 0
    assert int(counts["bronze.request"]) == len(Path(requests).read_text().splitlines())
    with started("report", "--out", out, "--json", "--html", str(tmp_path / "page.html"), "--watch", "1") as watching:
        assert watching.stdout is not None
        (chapter,) = json.loads(watching.stdout.readline())["chapters"]
        watching.send_signal(signal.SIGTERM)
        stdout, stderr = watching.communicate(timeout=SECONDS)
    assert (watching.returncode, stdout, foreign_lines(stderr)) == (0, "", [])
    assert chapter["extent"]["partitions"] == 2
    assert {row["client_id"] for row in chapter["clients"]["rows"]} == {"klamm-admin"}
    assert chapter["left_out"] == []
    assert chapter["cluster_id"] in (tmp_path / "page.html").read_text()
