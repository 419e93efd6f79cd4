"""What people see of a run: a table in the terminal, and the same in Markdown. Ratios stand first."""

from itertools import groupby

from rich.console import Console
from rich.table import Table

from bench.rows import Report, Row

COLUMNS = ("Klamm ÷ peer", "peer", "what", "Klamm", "the peer", "unit", "n", "mark")
TEXT_COLUMNS = frozenset({"peer", "what", "unit", "mark"})
CONSOLE_WIDTH = 170


def print_table(report: Report) -> None:
    """The table on stdout, green where Klamm is ahead or a mark is reached."""
    table = Table(title=f"Klamm beside its peers, {report.date}", caption=_surroundings(report))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in TEXT_COLUMNS else "right", no_wrap=column != "what")
    for _, rows in groupby(report.rows, key=lambda row: row.group):
        for row in rows:
            ratio, *middle, mark = cells(row)
            table.add_row(_coloured(ratio, row.ahead), *middle, _coloured(mark, row.reached))
        table.add_section()
    console = Console()
    (console if console.is_terminal else Console(width=CONSOLE_WIDTH)).print(table)


def markdown_table(report: Report) -> str:
    """The table for a page, with what it was measured on."""
    lines = [
        f"Measured on {report.date}.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "|".join("---" if column in TEXT_COLUMNS else "---:" for column in COLUMNS) + "|",
    ]
    for row in report.rows:
        ratio, *rest = cells(row)
        lines.append("| " + " | ".join([f"**{ratio}**" if row.ahead else ratio, *rest]) + " |")
    machine = "; ".join(f"{name}: {value}" for name, value in report.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    return "\n".join([*lines, "", f"Machine: {machine}.", "", f"Versions: {versions}."])


def cells(row: Row) -> list[str]:
    """The columns of one row as text."""
    mark = ""
    if row.mark is not None:
        mark = f"{row.mark}: {'reached' if row.reached else 'not reached'}"
    return [
        "" if row.ratio is None else f"{_number(row.ratio)} ×",
        row.peer or "",
        f"{row.group}: {row.what}",
        _number(row.klamm),
        "" if row.theirs is None else _number(row.theirs),
        row.unit,
        f"{row.samples:,}" if row.peer_samples in (None, row.samples) else f"{row.samples:,}/{row.peer_samples:,}",
        mark,
    ]


def _surroundings(report: Report) -> str:
    return f"{report.machine['cpu']}, {report.machine['cores']} cores; " + ", ".join(
        f"{name} {value}" for name, value in report.versions.items()
    )


def _coloured(text: str, good: bool | None) -> str:
    return text if good is None or not text else f"[{'green' if good else 'yellow'}]{text}[/]"


def _number(value: float) -> str:
    """Three digits that count."""
    magnitude = abs(value)
    decimals = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3
    return f"{value:,.{decimals}f}"
