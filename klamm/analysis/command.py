"""`klamm pipeline`: makes tables and a report from a cluster's logs, with Spark. Options are decoded with the standard
library alone; Spark is imported and started when a command needs it.

Exit codes: 0 success, 1 `verify` found an error, 2 a wrong command line or a failed job, with the reason in one line on
stderr; 130 an interrupted job. What an interrupted `ingest` has read is kept, and the next one continues after it.
"""

import argparse
import importlib.util
import json
import logging
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.analysis.reporting import MAX_WATCH_SECONDS, WATCH_SECONDS, report
from klamm.analysis.signals import stopped_by_signals
from klamm.cluster.options import MAX_SEED
from klamm.console.options import CommandParser, Once, UsageError, given_columns, whole_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_DONE, EXIT_FOUND, EXIT_REFUSED, EXIT_INTERRUPTED = 0, 1, 2, 130
NEEDED: Final = ("pyspark", "pyarrow", "pandas", "matplotlib", "jinja2")
_MEMORY: Final = re.compile(r"\d{1,6}[mg]")
_MAX_LINE: Final = 400
_TABLE_COLUMNS: Final = 160
_LOG_BYTES_PER_TABLE_BYTE: Final = 10
"""The approximate number of log bytes for each byte of a bronze table, which is compressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """The options of `klamm pipeline`. Options that the command does not have are None, empty or False."""

    command: str
    master: str
    memory: str
    verbose: bool = False
    logs: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    out: Path | None = None
    follow: bool = False
    overwrite: bool = False
    html: Path | None = None
    as_json: bool = False
    watch: int | None = None
    """The report is made again when there are new rows; this is how often (seconds) it is looked for them."""
    shapes: Path | None = None
    policies: tuple[str, ...] = ()
    seed: int = 0


def decode_pipeline_options(arguments: Sequence[str]) -> PipelineOptions:
    """Decode the arguments after `klamm pipeline`. Raises `UsageError`; `--help` prints the help and exits."""
    given = {name: value for name, value in vars(pipeline_parser().parse_args(arguments)).items() if value is not None}
    for name in ("logs", "requests"):
        given[name] = tuple(path for paths in given.get(name, ()) for path in paths)
    if given["command"] == "ingest" and not given["logs"] and not given["requests"]:
        raise UsageError("ingest needs --log or --requests")
    return PipelineOptions(**{"master": "local[*]", "memory": "1g", **given})


def pipeline_command(options: PipelineOptions) -> int:
    """Run `klamm pipeline` with these options; returns the exit code."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        advice = "pip install '/path/to/klamm[pipeline]'"
        return _tell(f"Spark or a library for pictures is not installed: {advice}", EXIT_REFUSED)
    from klamm.pipeline.errors import PipelineError

    try:
        return _run(options)
    except PipelineError as error:
        return _tell(error, EXIT_REFUSED)
    except KeyboardInterrupt:
        kept = "; what was read is kept, and the next ingest continues after it" if options.command == "ingest" else ""
        return _tell(f"interrupted{kept}", EXIT_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the command line is the border: every failure is one line
        # Spark has many exception types, and the text of each has hundreds of lines.
        if options.verbose:
            traceback.print_exc()
        return _tell(_reason(error, verbose=options.verbose), EXIT_REFUSED)


def _run(options: PipelineOptions) -> int:
    if not options.verbose:
        logging.disable()  # PySpark also logs what the exception of a failed or interrupted call has
    with ExitStack() as opened:
        with _interrupts_held_back():
            from klamm.analysis.progress import shown_progress
            from klamm.pipeline.session import spark_session

            _check_first(options)
            progress = opened.enter_context(shown_progress(sys.stderr))
            progress("starting Spark")
            session = spark_session(
                options.master, memory=options.memory, verbose=options.verbose, short=_is_short(options)
            )
            spark = opened.enter_context(session)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        progress.watch(spark)
        content, exit_code = _COMMANDS[options.command](spark, options, progress)
        progress("done")
    with suppress(OSError):  # the reader may have closed the pipe
        sys.stdout.write(content)
        sys.stdout.flush()
    return exit_code


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Delay SIGINT until the end of the block. Threads that start inside the block never get it, so enter the block
    before any thread starts.

    While PySpark starts, it sets a SIGINT handler that asks Java to cancel all jobs. If it runs while the thread waits
    for an answer of Java, it uses the same connection and waits for ever.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_short(options: PipelineOptions) -> bool:
    """Whether the input is small, so that Java can be started with options for a short run. True for `whatif`, which
    hardly uses Java."""
    from klamm.pipeline.logs.metadata_logs import find_metadata_logs
    from klamm.pipeline.logs.request_logs import find_request_files
    from klamm.pipeline.session import SHORT_JOB_BYTES

    if options.follow or options.watch is not None:
        return False
    logs = find_metadata_logs(options.logs) if options.logs else []
    requests = find_request_files(options.requests) if options.requests else []
    size = sum(file.size for log in logs for file in log.files) + sum(file.size for file in requests)
    if options.command == "report" and options.out is not None:
        size += _LOG_BYTES_PER_TABLE_BYTE * sum(file.stat().st_size for file in options.out.glob("bronze/*/*.parquet"))
    return size < SHORT_JOB_BYTES


def _check_first(options: PipelineOptions) -> None:
    """Check everything that needs no Spark before Spark starts, which takes seconds. Raises PipelineError."""
    from klamm.pipeline.logs.metadata_logs import find_metadata_logs
    from klamm.pipeline.logs.request_logs import find_request_files

    if options.logs:
        find_metadata_logs(options.logs)
    if options.requests:
        find_request_files(options.requests)
    if options.command == "report" and options.out is not None:
        from klamm.pipeline.store import Store

        Store.open(options.out)
    if options.shapes is not None:
        from klamm.pipeline.whatif.kernel import check_policies
        from klamm.pipeline.whatif.shapes import load_shapes

        check_policies(options.policies)
        load_shapes(options.shapes)


def _ingest(spark: "SparkSession", options: PipelineOptions, progress: Callable[[str], None]) -> tuple[str, int]:
    from klamm.pipeline.jobs import ingest

    assert options.out is not None
    counts = ingest(
        spark,
        options.out,
        logs=options.logs,
        request_logs=options.requests,
        overwrite=options.overwrite,
        follow=stopped_by_signals() if options.follow else None,
        progress=progress,
    )
    return _lines(counts), EXIT_DONE


def _verify(spark: "SparkSession", options: PipelineOptions, progress: Callable[[str], None]) -> tuple[str, int]:
    from klamm.pipeline.jobs import verify

    found = verify(spark, options.logs, progress)
    text = f"{json.dumps(found)}\n" if options.as_json else _checks_text(found)
    return text, EXIT_DONE if found["passed"] else EXIT_FOUND


def _checks_text(found: Mapping[str, Any]) -> str:
    """A line for each failed check, below it one for each place with a problem text, and a summary as the last line."""
    failed = [check for check in found["checks"] if check["failed"]]
    lines: list[str] = []
    for check in failed:
        places = check["places"]
        offsets = ", ".join(f"{place['cluster_id']} @{place['record_offset']}" for place in places)
        more = ", …" if check["failed"] > len(places) else ""
        lines.append(f"{check['severity']}: {check['name']}: {check['failed']} {check['about']}: {offsets}{more}")
        lines += [
            f"  {place['cluster_id']} @{place['record_offset']}: {' '.join(place['problem'].split())}"
            for place in places
            if place["problem"]
        ]
    lines.append(
        f"{found['records']} records of {', '.join(found['clusters'])}: {len(found['checks'])} checks, "
        f"{len(failed)} failed; {_snapshots_text(found['snapshots'])}"
    )
    return "".join(f"{line}\n" for line in lines)


def _snapshots_text(counts: Mapping[str, int]) -> str:
    if not counts["found"]:
        return "no snapshots"
    return f"{counts['compared']} of {counts['found']} snapshots compared with the log"


def _whatif(spark: "SparkSession", options: PipelineOptions, progress: Callable[[str], None]) -> tuple[str, int]:
    from rich.console import Console

    from klamm.pipeline.whatif.picture import summary_table
    from klamm.pipeline.whatif.run import run_what_if

    assert options.out is not None
    assert options.shapes is not None
    summary = run_what_if(
        spark,
        options.shapes,
        options.policies,
        options.seed,
        options.out,
        overwrite=options.overwrite,
        progress=progress,
    )
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(width=given_columns() or (None if on_terminal else _TABLE_COLUMNS))
    with console.capture() as drawn:
        console.print(summary_table(summary["rows"]))
    return drawn.get(), EXIT_DONE


_COMMANDS: Final[Mapping[str, Callable[..., tuple[str, int]]]] = {
    "ingest": _ingest,
    "report": report,
    "verify": _verify,
    "whatif": _whatif,
}


def pipeline_parser() -> CommandParser:
    """The options and commands of `klamm pipeline`."""
    everywhere = CommandParser(add_help=False)
    everywhere.add_argument("--master", metavar="M", action=Once, help="Spark's master: local[*], local[N], "
        "spark://HOST:PORT, or sc://HOST:PORT of Spark Connect (default: local[*])")  # fmt: skip
    everywhere.add_argument("--memory", metavar="SIZE", type=_memory, action=Once, help="memory of Spark's driver, "
        "such as 4g (default: 1g)")  # fmt: skip
    everywhere.add_argument("--verbose", action="store_true", help="print Spark's log messages and tracebacks")
    parser = CommandParser(
        prog="klamm pipeline",
        description="Make tables and a report from a cluster's metadata log and request log. "
        "Exit codes: 0 success, 1 verify found an error, 2 a wrong command line or a failed job.",
        example="klamm pipeline ingest --log data --requests requests.jsonl --out tables",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, parents=[everywhere], help=text, description=text, example=f"klamm pipeline {example}"
        )

    ingest = add("ingest", "read logs into tables. Records of an earlier ingest are not read again", "ingest --log "
        "data --requests requests.jsonl --out tables")  # fmt: skip
    _add_logs(ingest, required=False)
    ingest.add_argument("--requests", metavar="PATH", nargs="+", action="append", type=_text, help="request logs, or "
        "directories of them (*.jsonl)")  # fmt: skip
    _add_out(ingest)
    ingest.add_argument("--follow", action="store_true", help="continue reading until Ctrl-C or SIGTERM")
    ingest.add_argument("--overwrite", action="store_true", help="delete the tables in DIR first")
    _add_report(add("report", "make a report from the tables, as an HTML page or as JSON", "report --out tables"))
    verify = add("verify", "check metadata logs for torn, misordered and unknown records and broken invariants",
        "verify --log data")  # fmt: skip
    _add_logs(verify)
    verify.add_argument("--json", dest="as_json", action="store_true", help="print all checks as JSON")
    whatif = add("whatif", "simulate placement policies on thousands of hypothetical clusters", "whatif "
        "--shapes s.jsonl --policies striped --out whatif")  # fmt: skip
    whatif.add_argument("--shapes", metavar="FILE", type=_path, action=Once, required=True, help="file with a line of "
        "JSON for each cluster")  # fmt: skip
    whatif.add_argument("--policies", metavar="A,B", type=_names, action=Once, required=True, help="round-robin, "
        "striped, limit-aware, placeholders, rebalance")  # fmt: skip
    whatif.add_argument(
        "--seed", metavar="N", type=_seed, action=Once, help="the same seed gives the same placements (default: 0)"
    )
    _add_out(whatif)
    whatif.add_argument("--overwrite", action="store_true", help="replace an earlier what-if in DIR")
    return parser


def _add_report(report: argparse.ArgumentParser) -> None:
    _add_out(report)
    add = report.add_argument
    add("--html", metavar="FILE", type=_path, action=Once, help="file of the page (default: DIR/report.html)")
    add("--json", dest="as_json", action="store_true", help="print the report as JSON. Write a page only with --html")
    add("--watch", metavar="SECONDS", type=_watch_seconds, nargs="?", const=WATCH_SECONDS, action=Once, help="make it "
        f"again when there are new rows, until Ctrl-C or SIGTERM (default: {WATCH_SECONDS})")  # fmt: skip


def _add_logs(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--log", metavar="DIR", nargs="+", action="append", dest="logs", type=_text, required=required,
        help="data directories, or __cluster_metadata-0 in them, of Klamm or of Apache Kafka")  # fmt: skip


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", type=_path, action=Once, required=True, help="directory of the tables")


def _text(text: str) -> str:
    return str(_path(text))


def _path(text: str) -> Path:
    if not text or "\0" in text or "\n" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no path")
    return Path(text)


def _memory(text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: a size such as 512m or 4g is expected")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: names with commas between them, each once, are expected")
    return names


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_SEED)) or int(text) > MAX_SEED:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: a whole number from 0 to {MAX_SEED} is expected")
    return int(text)


def _watch_seconds(text: str) -> int:
    return whole_number(text, 1, MAX_WATCH_SECONDS)


def _lines(counts: Mapping[str, Any]) -> str:
    width = max(map(len, counts), default=0)
    return "".join(f"{name.ljust(width)}  {value}\n" for name, value in counts.items())


def _reason(error: Exception, *, verbose: bool) -> str:
    text = str(error)
    if "OutOfMemoryError" in text:
        return "Spark ran out of memory: give it more with --memory, such as --memory 4g"
    from klamm.pipeline.session import first_cause

    line = f"Spark failed: {type(error).__name__}: {first_cause(error)}"[:_MAX_LINE]
    return line if verbose else f"{line} (--verbose prints the traceback)"


def _tell(reason: object, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm pipeline: {' '.join(str(reason).split())}\n")
    return exit_code
