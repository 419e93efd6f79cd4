"""The summary as one HTML page without scripts and external files, for light and dark screens and for print."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.report import charts
from klamm.protocol.printable import printable

_NOTHING: Final = "–"


def render_html(summary: Mapping[str, Any], reload_seconds: int | None = None) -> str:
    """The page of a summary (`klamm.pipeline.report.summarize`). All names from clients are escaped. With
    `reload_seconds` a browser loads the page again and again."""
    environment = Environment(
        loader=PackageLoader("klamm.pipeline.report", "."),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": _count, "decimal": _decimal, "share": _share, "duration": duration, "time": _time, "ids": _ids,
        "milliseconds": _milliseconds, "missing": _missing, "counted": _counted,
    }  # fmt: skip
    chapters = [{**chapter, "pictures": _pictures(chapter)} for chapter in summary["chapters"]]
    return environment.get_template("page.html").render(
        summary=summary, chapters=chapters, reload_seconds=reload_seconds
    )


def _finalized(value: object) -> object:
    """Values as the page has them: bidirectional and other characters that cannot be seen are written as escapes."""
    return printable(value) if type(value) is str else value


def write_page(path: Path, page: str) -> None:
    """Write the page atomically. Raises PipelineError if it cannot be written."""
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(page, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise PipelineError(f"cannot write {path}: {error.strerror}") from error


def _pictures(chapter: Mapping[str, Any]) -> dict[str, Markup]:
    last = chapter["extent"]["last_offset"] or 0
    drawn = {
        "placement": charts.placement_chart(chapter["placement"]["series"]),
        "headroom": charts.headroom_chart(chapter["limits"]["series"]),
        "under_replication": charts.under_replication_chart(chapter["under_replication"]["windows"]["rows"], last),
        "reassignments": charts.reassignment_chart(chapter["reassignments"]["moves"]["rows"], last),
        "latency": charts.latency_chart(chapter["latency"]["rows"]),
    }
    # matplotlib escapes its texts. A test checks that with names that contain markup.
    return {name: Markup(svg) for name, svg in drawn.items()}


def _count(value: int | None) -> str:
    return _NOTHING if value is None else f"{value:,}"


def _counted(value: int, what: str) -> str:
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def _decimal(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.0%}"


def _milliseconds(microseconds: float | None) -> str:
    return _NOTHING if microseconds is None else f"{microseconds / 1000:,.2f}"


def duration(milliseconds: int | None) -> str:
    """At most two units: 850 ms, 42.3 s, 5 min 3 s, 2 h 10 min, 3 d 4 h. Negative if a clock was set back."""
    if milliseconds is None:
        return _NOTHING
    if milliseconds < 0:
        return f"-{duration(-milliseconds)}"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def _time(value: str | None) -> str:
    return _NOTHING if value is None else f"{value[:10]} {value[11:19]}"


def _ids(values: list[int] | None) -> str:
    return _NOTHING if not values else ", ".join(map(str, values))


def _missing(brokers: list[int] | None) -> str:
    """Brokers that are not in sync. A negative id is shown as "placeholder"."""
    return _NOTHING if not brokers else ", ".join("placeholder" if one < 0 else str(one) for one in brokers)
