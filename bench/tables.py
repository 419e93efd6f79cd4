"""What people see of a run: a table in the terminal, and the same in Markdown. Ratios stand first."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from bench.rows import Report, Row

COLUMNS = ("Klamm ÷ peer", "peer", "measurement", "Klamm", "the peer", "unit", "samples", "target")
TEXT_COLUMNS = frozenset({"peer", "measurement", "unit", "target"})
CONSOLE_WIDTH = 170


def print_table(report: Report) -> None:
    """The table on stdout, green where Klamm is ahead or a mark is reached."""
    table = Table(title=f"Klamm beside its peers, {report.date}", caption=_surroundings(report))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in TEXT_COLUMNS else "right", no_wrap=column != "measurement")
    for _, rows in groupby(report.rows, key=lambda row: row.group):
        for row in rows:
            ratio, *middle, mark = cells(row)
            table.add_row(coloured(ratio, row.ahead), *middle, coloured(mark, row.reached))
        table.add_section()
    wide_console().print(table)


def markdown_table(rows: Sequence[Row]) -> list[str]:
    """The lines of a table for a page."""
    lines = [
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "|".join("---" if column in TEXT_COLUMNS else "---:" for column in COLUMNS) + "|",
    ]
    for row in rows:
        ratio, *rest = cells(row)
        lines.append("| " + " | ".join([f"**{ratio}**" if row.ahead else ratio, *rest]) + " |")
    return lines


def with_surroundings(report: Report, lines: Sequence[str]) -> str:
    """Lines for a page with the date and the machine of the measurements."""
    machine = ["| " + " | ".join(row) + " |" for row in (report.machine, map(str, report.machine.values()))]
    machine.insert(1, "|" + "---|" * len(report.machine))
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    ending = ["", *machine, "", f"Versions: {versions}."]
    return "\n".join([f"Measured on {report.date}.", "", *lines, *ending])


def cells(row: Row) -> list[str]:
    """The columns of one row as text."""
    mark = ""
    if row.mark is not None:
        mark = f"{row.mark}: {'reached' if row.reached else 'not reached'}"
    return [
        "" if row.ratio is None else f"{three_digits(row.ratio)} ×",
        row.peer or "",
        f"{row.group}: {row.what}",
        three_digits(row.klamm),
        "" if row.theirs is None else three_digits(row.theirs),
        row.unit,
        f"{row.samples:,}" if row.peer_samples in (None, row.samples) else f"{row.samples:,}/{row.peer_samples:,}",
        mark,
    ]


def _surroundings(report: Report) -> str:
    return f"{report.machine['cpu']}, {report.machine['cores']} cores; " + ", ".join(
        f"{name} {value}" for name, value in report.versions.items()
    )


def wide_console() -> Console:
    """A console as wide as the terminal; for a file or a pipe as wide as the tables."""
    console = Console()
    return console if console.is_terminal else Console(width=CONSOLE_WIDTH)


def coloured(text: str, good: bool | None) -> str:
    """Green for good, yellow for not good, in rich's markup; plain if it is unknown."""
    return text if good is None or not text else f"[{'green' if good else 'yellow'}]{text}[/]"


def three_digits(value: float) -> str:
    """Three significant digits."""
    magnitude = abs(value)
    decimals = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3
    return f"{value:,.{decimals}f}"
