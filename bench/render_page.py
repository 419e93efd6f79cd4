"""Puts the tables of a run into docs/benchmarks*.md, between markers; the text around them is written by hand.

bench/render FILE      FILE is what bench/run --json wrote

Warm starts, scale, limits, long work, reassignments, records, groups, share and streams groups, clients, security, real
brokers, the pipeline, the codec and placements have places of their own on the pages. What was not measured in the run
stays as it is.
"""

import json
import sys
from pathlib import Path

from bench.placement_table import placement_markdown
from bench.rows import Report
from bench.tables import markdown_table, with_surroundings

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
PAGES = (PAGE, DOCS / "benchmarks-libraries.md")
PAGE_BREAK = "\f"
"""Joins the pages, so that each marker may be on any of them, once."""
PLACES = {
    "warm start": "warm start",
    "scale": "scale",
    "limits": "limits",
    "long work": "long work",
    "reassign": "reassignments",
    "records": "records",
    "volume": "groups",
    "groups": "groups",
    "shares": "share groups",
    "streams": "share groups",
    "connections": "clients",
    "hostile clients": "clients",
    "security": "security",
    "real brokers": "real brokers",
    "pipeline": "pipeline",
    "codec": "codec",
}
"""Groups of rows with their own place on the page, and the names of their markers."""
FIGURES = "figures"
BEGIN, END = "<!-- {}: begin, written by bench/render -->", "<!-- {}: end -->"


def render(page: str, report: Report) -> str:
    """The page with the figures of `report` between their markers. Raises ValueError unless each marker occurs once."""
    for place in (FIGURES, *PLACES.values()):
        rows = [row for row in report.rows if PLACES.get(row.group, FIGURES) == place]
        if rows:
            page = _put(page, place, with_surroundings(report, markdown_table(rows)))
    if report.placements:
        page = _put(page, "placements", with_surroundings(report, placement_markdown(report.placements)))
    return page


def _put(page: str, name: str, text: str) -> str:
    begin, end = BEGIN.format(name), END.format(name)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page must have both markers of the {name}, once each")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(f"{__doc__}")
        return 2
    try:
        report = Report.from_json(json.loads(Path(sys.argv[1]).read_text()))
        rendered = render(PAGE_BREAK.join(page.read_text() for page in PAGES), report)
        for page, text in zip(PAGES, rendered.split(PAGE_BREAK), strict=True):
            page.write_text(text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"bench/render: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
