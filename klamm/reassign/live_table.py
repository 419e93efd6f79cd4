"""The table that `--watch` updates on a terminal: a progress bar for each replica, and a line for all of them.

Only this module of the folder imports rich. If the terminal has too few lines, replicas that are not in sync come
first, and the last line of the table has the number of those left out.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from klamm.protocol.printable import printable
from klamm.reassign.progress import Row
from klamm.reassign.watch import Seen

BAR_CELLS = 24
BAR_MIN_CELLS = 6
_OTHER_LINES = 5
"""Lines that are not rows: the headings, the rule under them, the number left out, the summary, and the cursor's."""
_FEWEST_ROWS = 3


class LiveTable:
    """The table on a terminal; each `show` replaces it. It stays on the terminal after the block."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, traceback)

    def show(self, seen: Seen) -> None:
        self._live.update(drawn(seen, max(self._console.height - _OTHER_LINES, _FEWEST_ROWS)), refresh=True)


def drawn(seen: Seen, most_rows: int) -> Group:
    """The table with at most `most_rows` rows, and the summary under it."""
    shown = _shown(seen.rows, most_rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    # On a narrow terminal rich shortens the columns that may wrap: the wider one of topic and bar.
    table.add_column("Topic", overflow="ellipsis")
    for name, cells in (
        ("Partition", [str(row.replica.partition_index) for row in shown]),
        ("Broker", [str(row.replica.broker_id) for row in shown]),
        ("Status", [row.status for row in shown]),
    ):
        justify: JustifyMethod = "left" if name == "Status" else "right"
        table.add_column(name, justify=justify, no_wrap=True, min_width=max(map(len, [name, *cells])))
    table.add_column("", min_width=BAR_MIN_CELLS, max_width=BAR_CELLS)
    for row in shown:
        topic_name, index, broker_id = row.replica
        table.add_row(
            printable(topic_name), str(index), str(broker_id), Text(row.status, style=_style(row)), _bar(seen, row)
        )
    left_out = len(seen.rows) - len(shown)
    lines = [Text(f"… and {left_out} more replicas", style="dim")] if left_out else []
    return Group(table, *lines, Text(printable(seen.sentence()), style="bold"))


def _shown(rows: Sequence[Row], most_rows: int) -> list[Row]:
    if len(rows) <= most_rows:
        return list(rows)
    return sorted(rows, key=lambda row: row.in_sync)[:most_rows]


def _style(row: Row) -> str:
    if row.problem is not None:
        return "yellow" if row.problem.may_pass else "red"
    return "green" if row.in_sync else ""


def _bar(seen: Seen, row: Row) -> ProgressBar:
    style = _style(row) or "blue"
    return ProgressBar(total=1.0, completed=seen.share_done(row), complete_style=style, finished_style=style)
