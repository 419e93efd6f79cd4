"""What people see of placements: time and evenness side by side, in the terminal and in Markdown."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Table

from bench.placement_rows import PlacementRow
from bench.tables import coloured, three_digits, wide_console

RATIO = "Klamm ÷ placer"
COLUMNS = (RATIO, "placer", "median", "fastest", "samples", "per broker", "per rack", "moves", "remarks", "target")
TEXT_COLUMNS = frozenset({"placer", "remarks", "target"})
WRAPPED_COLUMNS = frozenset({"remarks", "target"})
KEY = (
    'The column "per broker" contains two differences. The first is the largest number of replicas on a broker '
    "minus the smallest number of replicas on a broker. The second is the same difference for leaders. The column "
    '"per rack" contains these two differences for racks. The column "moves" contains the number of replicas that '
    "the algorithm moves to another broker / the smallest possible number of these moves."
)
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def print_placements(rows: Sequence[PlacementRow]) -> None:
    """A table for each task on stdout, green where Klamm is ahead or a mark is reached."""
    console = wide_console()
    for task, of_task in groupby(rows, key=lambda row: row.task):
        table = Table(title=task, title_justify="left")
        columns, lines = _filled(list(of_task))
        for column in columns:
            text = column in TEXT_COLUMNS
            table.add_column(column, justify="left" if text else "right", no_wrap=column not in WRAPPED_COLUMNS)
        for row, line in lines:
            good = row.reached is not False and not row.less_even_than
            colours = {RATIO: row.ahead, "target": good}
            table.add_row(*(coloured(text, colours.get(column)) for column, text in zip(columns, line, strict=True)))
        console.print(table)
    console.print(KEY)


def placement_markdown(rows: Sequence[PlacementRow]) -> list[str]:
    """Lines for a page: a heading and a table for each task."""
    lines = [KEY]
    for task, of_task in groupby(rows, key=lambda row: row.task):
        lines += ["", f"**{task[0].upper()}{task[1:]}**", ""]
        columns, texts = _filled(list(of_task))
        lines.append("| " + " | ".join(columns) + " |")
        lines.append("|" + "|".join("---" if column in TEXT_COLUMNS else "---:" for column in columns) + "|")
        for row, line in texts:
            bold = (
                f"**{text}**" if row.ahead and column == RATIO else text
                for column, text in zip(columns, line, strict=True)
            )
            lines.append("| " + " | ".join(bold) + " |")
    return lines


def _filled(rows: Sequence[PlacementRow]) -> tuple[list[str], list[tuple[PlacementRow, list[str]]]]:
    """The columns that have a value in any row, and those of each row."""
    texts = [cells(row) for row in rows]
    filled = [at for at in range(len(COLUMNS)) if any(line[at] for line in texts)]
    lines = [[line[at] for at in filled] for line in texts]
    return [COLUMNS[at] for at in filled], list(zip(rows, lines, strict=True))


def cells(row: PlacementRow) -> list[str]:
    """The columns of one row as text."""
    spread = row.spread
    return [
        "" if row.ratio is None else f"{three_digits(row.ratio)} ×",
        row.placer,
        time_text(row.seconds),
        time_text(row.fastest),
        f"{row.samples:,}",
        "" if spread is None else f"{spread.replicas_per_broker:,} / {spread.leaders_per_broker:,}",
        "" if spread is None or not spread.racked else f"{spread.replicas_per_rack:,} / {spread.leaders_per_rack:,}",
        _moves(row),
        "; ".join(_remarks(row)),
        "; ".join(_marks(row)),
    ]


def _moves(row: PlacementRow) -> str:
    if row.moves is None:
        return ""
    return f"{row.moves:,}" + ("" if row.fewest_moves is None else f" / {row.fewest_moves:,}")


def _remarks(row: PlacementRow) -> Iterator[str]:
    if row.same_as is not None:
        yield f"id for id as {row.same_as}"
    if row.beyond_limits:
        yield f"{row.beyond_limits:,} replicas beyond the limits"
    if row.spread and row.spread.racks_missed:
        yield f"{row.spread.racks_missed:,} replicas could be in another rack"


def _marks(row: PlacementRow) -> Iterator[str]:
    if row.mark_seconds is not None:
        yield f"<= {_mark_text(row.mark_seconds)}: {'reached' if row.reached else 'not reached'}"
    if row.less_even_than is not None:
        yield f"less even than {' and than '.join(row.less_even_than)}" if row.less_even_than else "as even as Kafka's"


def time_text(seconds: float) -> str:
    """Three significant digits, in s, ms or µs."""
    unit, name = _unit(seconds)
    return f"{three_digits(seconds / unit)} {name}"


def _mark_text(seconds: float) -> str:
    unit, name = _unit(seconds)
    return f"{seconds / unit:g} {name}"


def _unit(seconds: float) -> tuple[float, str]:
    return next((unit for unit in UNITS if seconds >= unit[0]), UNITS[-1])
