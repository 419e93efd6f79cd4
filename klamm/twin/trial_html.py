"""The report of a trial as one HTML page without scripts. Every name is escaped."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from klamm.twin.report import Report
from klamm.twin.trial import Trial
from klamm.twin.trial_text import (
    broker_rows,
    changed_lines,
    head_lines,
    rack_rows,
    step_lines,
    time_lines,
    verdict_lines,
)

_STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #8886; padding: .25rem .75rem; text-align: left; }
li.refused { color: #c22; }
"""


def as_html(report: Report) -> str:
    """The page."""
    trial = report.trial
    title = f"What would happen to cluster {escape(trial.cluster_id)}"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>',
            f"<h1>{title}</h1>",
            *(f"<p>{escape(line)}</p>" for line in head_lines(trial)),
            *(f"<p><strong>{escape(line)}</strong></p>" for line in verdict_lines(report)),
            *_steps(trial),
            "<h2>Brokers</h2>",
            *_table(broker_rows(trial, report.copied)),
            "<h2>Racks</h2>",
            *_table(rack_rows(trial)),
            *(f"<p>{escape(line)}</p>" for line in time_lines(report)),
            "</html>\n",
        ]
    )


def _steps(trial: Trial) -> Iterator[str]:
    for number, step in enumerate(trial.steps, 1):
        yield f"<h2>Step {number}: {escape(step.step)}</h2><ul>"
        for line in (*step_lines(step), *changed_lines(trial, number)):
            kind = ' class="refused"' if line.startswith("refused") else ""
            yield f"<li{kind}>{escape(line)}</li>"
        yield "</ul>"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in rows[0]) + "</tr>"
    for row in rows[1:]:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table>"
