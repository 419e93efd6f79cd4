"""The summary of a what-if analysis for users: a table for the terminal, and a chart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table

_SHARES: Final = {
    "placed": "placed",
    "within_limit": "within the limit",
    "racks_kept": "racks kept",
    "complete": "no placeholder left",
}
_MEANS: Final = {"replica_spread": "replica spread", "leader_spread": "leader spread", "moves": "moves"}
_MARKERS: Final = "os^Dv"
_LINES: Final = ("-", "--", "-.", ":")
"""Line styles. They differ, so that equal lines of two policies are both visible."""
_PANELS: Final = (*_SHARES, "replica_spread", "leader_spread")

Summary = Sequence[Mapping[str, Any]]


def bucket_name(row: Mapping[str, Any]) -> str:
    """The range of headroom of a row of whatif.summary, as text."""
    begin, end = row["headroom_from"], row["headroom_to"]
    if begin is None:
        return "no limit" if end is None else "too little"
    return f"{begin:.0%} or more" if end is None else f"{begin:.0%} to {end:.0%}"


def summary_table(summary: Summary) -> Table:
    """Rows of whatif.summary for the terminal: shares in percent, then means."""
    table = Table(title="Which policy keeps which promise at which headroom")
    table.add_column("headroom")
    table.add_column("policy")
    for name in ("shapes", *_SHARES.values(), *_MEANS.values()):
        table.add_column(name, justify="right")
    for number, row in enumerate(summary):
        is_last = number + 1 == len(summary) or bucket_name(summary[number + 1]) != bucket_name(row)
        shares = [_told(row[name], "{:.1%}") for name in _SHARES]
        means = [_told(row[name], "{:,.1f}") for name in _MEANS]
        table.add_row(bucket_name(row), row["policy"], f"{row['shapes']:,}", *shares, *means, end_section=is_last)
    return table


def _told(value: float | None, words: str) -> str:
    return "" if value is None else words.format(value)


def draw_summary(summary: Summary, path: Path) -> None:
    """An SVG with one panel per promise: the horizontal axis is the headroom, and each policy has a line. Equal rows
    give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "klamm", "font.size": 9}):
        figure = Figure(figsize=(11, 6.5), layout="constrained")
        buckets = list(dict.fromkeys(map(bucket_name, summary)))
        policies = list(dict.fromkeys(row["policy"] for row in summary))
        panels = figure.subplots(2, len(_PANELS) // 2, sharex=True).ravel()
        for axes, column in zip(panels, _PANELS, strict=True):
            for number, policy in enumerate(policies):
                points = {bucket_name(row): row[column] for row in summary if row["policy"] == policy}
                there = [bucket for bucket in buckets if points.get(bucket) is not None]
                places, values = [buckets.index(bucket) for bucket in there], [points[bucket] for bucket in there]
                style = {"marker": _MARKERS[number % len(_MARKERS)], "linestyle": _LINES[number % len(_LINES)]}
                axes.plot(places, values, **style, alpha=0.8, label=policy)
            axes.set_title({**_SHARES, **_MEANS}[column])
            axes.set_xticks(range(len(buckets)), buckets, rotation=25, ha="right")
            axes.grid(alpha=0.3)
            if column in _SHARES:
                axes.set_ylim(-0.05, 1.05)
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            else:
                axes.set_ylim(bottom=0)
        figure.suptitle("Which policy keeps which promise, by headroom below the limit")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=max(1, len(policies)))
        figure.savefig(path, format="svg", metadata={"Date": None})
