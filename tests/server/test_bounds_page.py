"""The page on the bounds of answers names each API that is served, once."""

from collections import Counter
from pathlib import Path

from klamm.broker.dispatch import APIS

PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"


def test_each_api_has_a_row() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = Counter(name.strip() for row in rows[1:] for name in row.split(","))
    assert named == Counter(api.name for api in APIS)
