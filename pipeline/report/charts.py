"""The charts of a chapter. matplotlib draws them as inline SVG, which uses the text colour of the page.

The horizontal axis is the offset in the metadata log; times are written below it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

_INK: Final = "#010203"  # replaced by the text colour of the page
_COLORS: Final = ("#2f7ed8", "#e8710a", "#2e9e5b", "#b455c9")
_CAUSES: Final = {"placeholder": "#e8a30a", "fenced": "#d23f3f", "isr": "#2f7ed8"}
_OUTCOMES: Final = {
    "done": "#2e9e5b", "cancelled": "#e8710a", "superseded": "#b455c9", "deleted": "#7a7a7a", "open": "#2f7ed8",
}  # fmt: skip
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.color": _INK,
    "legend.frameon": False,
}
_WIDTH_INCHES: Final = 9.0
_MAX_LABEL: Final = 40

Rows = Sequence[Mapping[str, Any]]


def placement_chart(series: Rows) -> str:
    """Skew, and below it rack violations and placeholders. An empty string if there are no data."""
    if len(series) < 2:
        return ""

    def draw(figure: Figure) -> None:
        skew, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        names = (("replica_cv", "replicas"), ("leader_cv", "leaders"), ("rack_cv", "racks"))
        # Lines are often equal. Decreasing widths keep the lower ones visible.
        for color, width, (name, label) in zip(_COLORS, (4.0, 2.4, 1.0), names, strict=False):
            _steps(skew, series, name, color, label, width)
        skew.set_ylabel("deviation / mean")
        skew.set_ylim(bottom=0)
        for color, name in (("#d23f3f", "rack_violations"), ("#e8a30a", "placeholders")):
            _steps(counts, series, name, color, name.replace("_", " "))
        counts.set_ylim(bottom=0, top=max(counts.get_ylim()[1], 1))
        counts.set_ylabel("count")
        counts.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        for axes in (skew, counts):
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        _label_offsets(counts, series)

    return _svg("placement", 3.6, draw)


def headroom_chart(series: Rows) -> str:
    """The replicas on the broker with the least headroom, and its limit."""
    of_brokers = [row for row in series if row["scope"] == "broker"]
    if len(of_brokers) < 2:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _steps(axes, of_brokers, "limit", "#d23f3f", "limit")
        _steps(axes, of_brokers, "used", _COLORS[0], "fullest broker")
        axes.set_ylim(bottom=0)
        axes.set_ylabel("replicas")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        _label_offsets(axes, of_brokers)

    return _svg("headroom", 2.2, draw)


def under_replication_chart(windows: Rows, last_offset: int) -> str:
    """A bar for each window, from the offset where it opened to the offset where it closed."""
    return _bars("under-replication", windows, ("opened", "closed"), ("cause", _CAUSES), last_offset)


def reassignment_chart(moves: Rows, last_offset: int) -> str:
    """A bar for each reassignment, from the offset where it began to the offset where it ended."""
    return _bars("reassignment", moves, ("started", "ended"), ("outcome", _OUTCOMES), last_offset)


def _client(row: Mapping[str, Any]) -> str:
    """What names the client best: its software, else its id, else its principal."""
    return row["client_software_name"] or row["client_id"] or row["principal"] or "-"


def latency_chart(rows: Rows) -> str:
    """Latencies by API, from the median to the 99.9th percentile."""
    shown = rows[:15]
    if not shown:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        heights = range(len(shown))
        medians = [max(row["p50_us"], 1) / 1000 for row in shown]
        tails = [max(row["p999_us"], 1) / 1000 for row in shown]
        axes.hlines(heights, medians, tails, color=_COLORS[0], alpha=0.5, linewidth=4)
        for name, color, label in (
            ("p50_us", _COLORS[0], "p50"),
            ("p99_us", "#e8710a", "p99"),
            ("p999_us", "#d23f3f", "p99.9"),
        ):
            axes.plot([max(row[name], 1) / 1000 for row in shown], heights, "o", color=color, label=label, markersize=4)
        labels = [f"{row['api']} v{row['api_version']} · {_client(row)}" for row in shown]
        axes.set_yticks(list(heights), [_short(label) for label in labels])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("milliseconds")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))

    return _svg("latency", 1.0 + 0.22 * len(shown), draw)


def _bars(name: str, rows: Rows, ends: tuple[str, str], kind: tuple[str, Mapping[str, str]], last_offset: int) -> str:
    if not rows:
        return ""
    begin, end = (f"{edge}_offset" for edge in ends)
    in_order = sorted(rows, key=lambda row: (row[begin], row["topic"] or "", row["partition_index"]))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        member, colors = kind
        for height, row in enumerate(in_order):
            until = last_offset if row[end] is None else row[end]
            axes.barh(height, max(until - row[begin], 1), left=row[begin], height=0.7, color=colors[row[member]])
        axes.set_yticks(
            range(len(in_order)), [_short(f"{r['topic'] or r['topic_id']}-{r['partition_index']}") for r in in_order]
        )
        axes.set_ylim(len(in_order) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        used = {row[member] for row in in_order}
        handles = [Patch(color=color, label=value) for value, color in colors.items() if value in used]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1))
        times = [{"record_offset": row[f"{edge}_offset"], "timestamp": row[edge]} for row in in_order for edge in ends]
        _label_offsets(axes, [at for at in times if at["record_offset"] is not None])

    return _svg(name, 0.9 + 0.2 * len(in_order), draw)


def _steps(axes: Axes, rows: Rows, name: str, color: str, label: str, width: float = 1.6) -> None:
    there = [row for row in rows if row[name] is not None]
    offsets, values = [row["record_offset"] for row in there], [row[name] for row in there]
    axes.plot(offsets, values, drawstyle="steps-post", color=color, label=label, linewidth=width)


def _label_offsets(axes: Axes, rows: Rows) -> None:
    """The axis of offsets. Below each is the time of the nearest known offset at or before it."""
    known = sorted((row["record_offset"], row["timestamp"] or "") for row in rows)
    days = {time[:10] for _, time in known}

    def label(offset: float, _position: object = None) -> str:
        before = [time for at, time in known if at <= offset]
        time = before[-1] if before else known[0][1]
        return f"{offset:,.0f}\n{time[11:19]}" if len(days) == 1 else f"{offset:,.0f}\n{time[:10]}\n{time[11:16]}"

    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.xaxis.set_major_formatter(label)
    axes.set_xlabel("log offset / time (UTC)")


def _short(text: str) -> str:
    # matplotlib would take a dollar sign as the beginning of a formula.
    text = text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"
    return text.replace("$", r"\$")


def _svg(name: str, height_inches: float, draw: Callable[[Figure], None]) -> str:
    """The SVG element without the parts that only files need. Equal rows give the same bytes."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
        figure.patch.set_alpha(0)
        draw(figure)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    text = drawn.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Group ids are the same in every chart and are not referred to, so they are removed.
    text = re.sub(r'<g id="[a-z]+[_.a-z0-9]*">', "<g>", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"font: [^;\"']*?(\d[\d.]*px)[^;\"]*", r"font-size: \1", text)
    return text.replace(_INK, "currentColor")
