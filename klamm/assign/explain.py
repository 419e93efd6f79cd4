"""`klamm assign --explain`: a table of the brokers before and after a placement, and sentences on what decided it.

The output is for users; programs read the JSON of `klamm.assign.lines`. Only this module of the folder imports rich.
Texts from the input, such as racks, are never interpreted as markup or control characters.
"""

from collections.abc import Iterator
from copy import copy
from io import StringIO
from typing import Final, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from klamm.assign.lines import (
    decode_or_refuse,
    place_or_refuse,
    replicas_after,
    replicas_per_broker,
    view_with,
)
from klamm.assign.verdict import verdict
from klamm.assignment import NO_LIMIT, ClusterView, JavaRandom, PlacementSpec
from klamm.assignment.cluster_view import Int32Array, Int64Array
from klamm.assignment.wording import counted
from klamm.protocol.printable import printable

WIDTH_WITHOUT_TERMINAL: Final = 100
MOST_SHOWN: Final = 40
"""The most brokers that a table shows; of more brokers, it shows the most and the least loaded ones."""
_LEAST_LOADED_SHOWN: Final = 10
_FEWEST_BAR_CELLS, _MOST_BAR_CELLS, _OTHER_COLUMNS = 4, 24, 64
_RACK_CHARACTERS: Final = 24


class _Marks(NamedTuple):
    """The characters and the box that a table is drawn with."""

    held: str
    added: str
    bullet: str
    box: box.Box


_BLOCKS: Final = _Marks("░", "█", "•", box.SIMPLE_HEAD)
_ASCII: Final = _Marks("-", "#", "-", box.ASCII2)


class Explainer:
    """Explains lines, one after the other, for one terminal or file. `columns`: the width that is asked for."""

    def __init__(self, terminal: bool, encoding: str, columns: int | None = None) -> None:
        self._text = StringIO()
        self._console = Console(
            file=self._text,
            force_terminal=terminal or None,  # None: rich reads FORCE_COLOR
            width=columns or (None if terminal else WIDTH_WITHOUT_TERMINAL),
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._bar_cells = max(_FEWEST_BAR_CELLS, min(_MOST_BAR_CELLS, self._console.width - _OTHER_COLUMNS))
        self._marks = _BLOCKS if _can_write("░█•─", encoding) else _ASCII

    def explain(self, number: int, line: bytes) -> Iterator[str]:
        """The explanation of a line with this number, as one text for each placement."""
        request = decode_or_refuse(line)
        if isinstance(request, tuple):
            self._print(f"Line {number}: {': '.join(request)}", "red")
            yield self._printed()
            return
        view, rng = request.view, JavaRandom(request.seed)
        for call, spec in enumerate(request.specs, start=1):
            before = copy(rng)
            placed = place_or_refuse(view, spec, rng)
            which = f"Line {number}, call {call}" if request.has_calls else f"Line {number}"
            self._print(f"{which}: {_asked(view, spec)}", "bold")
            if isinstance(placed, tuple):
                self._print_loads(view)
            elif len(view):
                self._print_table(view, placed)
            self._text.write("\n")
            for sentence in verdict(view, spec, before, placed):
                self._print(f"{self._marks.bullet} {sentence}", "red" if isinstance(placed, tuple) else "")
            if not isinstance(placed, tuple):
                view = view_with(view, placed)
            yield self._printed()

    def _print_table(self, view: ClusterView, placed: Int32Array) -> None:
        added, leaders = replicas_per_broker(view, placed), replicas_per_broker(view, placed[:, :1])
        after = replicas_after(view, placed)
        scale, cells = _scale(view, after), self._bar_cells
        table = _empty_table(self._marks, scale)
        most, least = _shown_brokers(after)
        for index in most + least:
            full = after[index] >= view.replica_limit
            limit = "-" if view.replica_limit == NO_LIMIT else f"{'full ' if full else ''}{view.replica_limit}"
            table.add_row(
                str(view.broker_ids[index]),
                _rack(view.racks[index]),
                "no" if view.fenced[index] else "yes",
                *(str(counts[index]) for counts in (view.replica_counts, added, after)),
                limit,
                _bar(int(view.replica_counts[index]), int(added[index]), scale, cells, self._marks),
                str(leaders[index]),
                style="dim" if view.fenced[index] else "yellow" if full else "",
                end_section=bool(least) and index == most[-1],
            )
        self._console.print(table)
        if least:
            self._print(f"Left out: {counted(len(after) - MOST_SHOWN, 'broker')} in between.", "dim")

    def _print_loads(self, view: ClusterView) -> None:
        """What the brokers have, for a refusal; nothing if that is nothing and there is no limit."""
        if not view.replica_counts.any() and view.replica_limit == NO_LIMIT:
            return
        table = Table(box=self._marks.box, pad_edge=False, collapse_padding=True, show_edge=False)
        for name in ("broker", "rack", "live", "replicas", "limit"):
            table.add_column(name, justify="left" if name in {"rack", "live"} else "right", overflow="fold")
        most, least = _shown_brokers(view.replica_counts)
        for index in most + least:
            limit = "-" if view.replica_limit == NO_LIMIT else str(view.replica_limit)
            live = "no" if view.fenced[index] else "yes"
            counts = str(view.replica_counts[index])
            table.add_row(str(view.broker_ids[index]), _rack(view.racks[index]), live, counts, limit)
        self._console.print(table)
        if least:
            self._print(f"Left out: {counted(len(view) - MOST_SHOWN, 'broker')} in between.", "dim")

    def _print(self, sentence: str, style: str) -> None:
        self._console.print(Text(printable(sentence), style=style))

    def _printed(self) -> str:
        lines = self._text.getvalue().splitlines()
        self._text.seek(0)
        self._text.truncate()
        return "".join(f"{line.rstrip()}\n" for line in lines)


def _asked(view: ClusterView, spec: PlacementSpec) -> str:
    live, racks = int(view.live.sum()), len({rack for rack in view.racks if rack is not None})
    brokers = counted(len(view), "broker") + (f" ({live} live)" if live < len(view) else "")
    places = f"in {counted(racks, 'rack')}" if racks else "without racks"
    return (
        f"{counted(spec.partitions, 'partition')} with replication factor {spec.replication_factor}, "
        f"{spec.algorithm.value}, on {brokers} {places}"
    )


def _empty_table(marks: _Marks, scale: int) -> Table:
    table = Table(box=marks.box, pad_edge=False, collapse_padding=True, show_edge=False)
    for name in ("broker", "rack", "live", "before", "placed", "after", "limit"):
        table.add_column(name, justify="left" if name in {"rack", "live"} else "right", overflow="fold")
    table.add_column(f"{marks.held} before {marks.added} placed, of {scale}", overflow="fold")
    table.add_column("leads", justify="right", overflow="fold")
    return table


def _scale(view: ClusterView, after: Int64Array) -> int:
    """The number of replicas of a full bar: the limit, or the largest load if the limit is over 4 times as high."""
    largest = int(after.max())
    return view.replica_limit if view.replica_limit <= 4 * largest else max(largest, 1)


def _shown_brokers(after: Int64Array) -> tuple[list[int], list[int]]:
    """Indexes of the brokers in the table: all in the order of the request, or the most and the least loaded."""
    if len(after) <= MOST_SHOWN:
        return list(range(len(after))), []
    by_load = np.argsort(-after, kind="stable").tolist()
    return by_load[: MOST_SHOWN - _LEAST_LOADED_SHOWN], by_load[-_LEAST_LOADED_SHOWN:]


def _bar(before: int, added: int, scale: int, cells: int, marks: _Marks) -> Text:
    held, full = (min((count * cells * 2 + scale) // (2 * scale), cells) for count in (before, before + added))
    if added and held == full:  # placed replicas have at least one cell
        held, full = min(held, cells - 1), min(held, cells - 1) + 1
    return Text.assemble((marks.held * held, "blue"), (marks.added * (full - held), "green"))


def _rack(rack: str | None) -> Text:
    return Text("-" if rack is None else printable(rack)[:_RACK_CHARACTERS])


def _can_write(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
