"""The output of a soak: a table, a line of bars for each resource that might grow, and a verdict."""

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from klamm.server.limits import MIB
from tools.soak_run.run import Soak
from tools.soak_run.sampling import Sample, growth, sparkline

COLUMNS: tuple[tuple[str, Callable[[Sample], float], str], ...] = (
    ("resident MiB", lambda sample: sample.resident_bytes / MIB, "{:.1f}"),
    ("descriptors", lambda sample: sample.descriptors, "{:.0f}"),
    ("threads", lambda sample: sample.threads, "{:.0f}"),
    ("metadata log MiB", lambda sample: sample.log_bytes / MIB, "{:.2f}"),
    ("snapshots", lambda sample: sample.snapshots, "{:.0f}"),
)


def print_report(soak: Soak) -> int:
    """Print the whole report. Returns the exit code."""
    console = Console(width=140, highlight=False)
    last = soak.last
    rate = last.requests / last.seconds if last.seconds else 0.0
    console.print(
        f"{len(soak.samples)} cycles, {last.requests:,} counted requests in {last.seconds:.0f} s ({rate:.0f} per s)"
    )
    table = Table("", "at first", "at the end", "most at rest", "most", "grown in the 2nd half", "at the end of cycles")
    for name, what, form in COLUMNS:
        at_rest = [what(sample) for sample in soak.samples]
        table.add_row(
            name,
            *(form.format(value) for value in (what(soak.first), what(last), max(at_rest, default=0.0))),
            form.format(max([*at_rest, *(what(sample) for sample in soak.busy)], default=0.0)),
            f"{growth(soak.samples, what):+.2f}",
            sparkline(at_rest, 40),
        )
    console.print(table)
    found = soak.leaks
    for leak in found:
        console.print(f"leak: {leak}")
    console.print("soak: something is left behind" if found else "soak: nothing is left behind")
    return 1 if found else 0
