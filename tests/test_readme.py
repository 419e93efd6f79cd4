"""The pages list every API that is served, their links lead to files, and the README is short."""

import re
from pathlib import Path

import pytest

from klamm.broker.dispatch import APIS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "README.md"]


@pytest.mark.parametrize("api", sorted(api.name for api in APIS))
def test_the_page_lists_every_api_that_is_served(api: str) -> None:
    page = ROOT / "docs" / "features.md"
    row = next(line for line in page.read_text().splitlines() if line.startswith("| APIs |"))
    assert api in re.findall(r"\w+", row)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_is_read_in_a_sitting() -> None:
    assert len(PAGES[0].read_text().splitlines()) <= 120
