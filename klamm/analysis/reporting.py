"""`klamm pipeline report`: the report once, or with `--watch` again whenever an ingest has read more.

Standard library alone until a report is made, as in `klamm.analysis.command`.
"""

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from klamm.analysis.signals import stopped_by_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.pipeline.store import Store

WATCH_SECONDS: Final = 5
MAX_WATCH_SECONDS: Final = 3_600
Progress = Callable[[str], None]


class ReportOptions(Protocol):
    """What is read of the options of `klamm pipeline`."""

    @property
    def out(self) -> Path | None: ...
    @property
    def html(self) -> Path | None: ...
    @property
    def as_json(self) -> bool: ...
    @property
    def watch(self) -> int | None: ...


def report(spark: "SparkSession", options: ReportOptions, progress: Progress) -> tuple[str, int]:
    """Make the report. Returns what is printed, and the exit code."""
    from klamm.pipeline.jobs import build_gold

    assert options.out is not None
    if options.watch is None:
        return _written(spark, build_gold(spark, options.out, progress), options, progress), 0
    watch_report(spark, options, progress, stopped_by_signals(), _print)
    return "", 0


def watch_report(
    spark: "SparkSession",
    options: ReportOptions,
    progress: Progress,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> None:
    """Make the report now, and again whenever there are new rows, until the event is set. `tell` gets what is printed
    of each report."""
    from klamm.pipeline.jobs import batches_read, refresh

    assert options.out is not None
    reported = -1
    while not stop.is_set():
        read = batches_read(options.out)
        if read != reported:
            tell(_written(spark, refresh(spark, options.out, progress), options, progress))
            reported = read
        stop.wait(options.watch)


def _written(spark: "SparkSession", store: "Store", options: ReportOptions, progress: Progress) -> str:
    """Write the page, if one is wanted. Returns what is printed: the report as JSON, or the path of the page."""
    from klamm.pipeline.report import render_html, summarize, write_page

    assert options.out is not None
    progress("the report")
    summary = summarize(spark, store)
    text = f"{json.dumps(summary)}\n" if options.as_json else ""
    if options.html is not None or not options.as_json:
        page = options.html or options.out / "report.html"
        write_page(page, render_html(summary, reload_seconds=options.watch))
        text = text or f"{page}\n"
    return text


def _print(text: str) -> None:
    with suppress(OSError):  # the reader may have closed the pipe
        sys.stdout.write(text)
        sys.stdout.flush()
