"""Puts the table of a run into docs/benchmarks.md, between two markers; the text around it is written by hand.

bench/render FILE      FILE is what bench/run --json wrote
"""

import json
import sys
from pathlib import Path

from bench.rows import Report
from bench.tables import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: begin, written by bench/render -->", "<!-- figures: end -->"


def render(page: str, report: Report) -> str:
    """The page with the figures of `report` between the markers. Raises ValueError if they are not there, once each."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError("the page must have both markers, once each")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown_table(report)}\n\n{END}{after}"


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(f"{__doc__}")
        return 2
    try:
        report = Report.from_json(json.loads(Path(sys.argv[1]).read_text()))
        PAGE.write_text(render(PAGE.read_text(), report))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"bench/render: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
