"""Where the figures of share groups and streams groups go. No peer is started."""

import pytest

from bench.render_page import BEGIN, END, FIGURES, PAGE, PAGES, PLACES, render
from bench.rows import Report, Row


@pytest.mark.parametrize("group", ["shares", "streams"])
def test_groups_of_kip_932_and_kip_1071_have_one_place_on_the_page(group: str) -> None:
    row = Row(group=group, what="members, until each has its tasks", unit="ms", klamm=12.5)
    page = render(PAGE.read_text(), Report(date="2026-11-26", machine={}, versions={}, rows=[row]))
    before, _, rest = page.partition("<!-- share groups: begin")
    table, _, after = rest.partition("<!-- share groups: end -->")
    assert f"{group}: members, until each has its tasks" in table
    assert (before + after).count("until each has its tasks | 12.5") == 0


def test_a_run_of_other_groups_leaves_the_place_as_it_is() -> None:
    page = PAGE.read_text()
    row = Row(group="create", what="a topic", unit="ms", klamm=1.0)
    rendered = render(page, Report(date="2026-11-26", machine={}, versions={}, rows=[row]))
    place = "<!-- share groups: begin"
    assert rendered[rendered.index(place) :] == page[page.index(place) :]


@pytest.mark.parametrize("place", sorted({FIGURES, "placements", *PLACES.values()}))
def test_each_place_is_on_one_of_the_pages(place: str) -> None:
    for marker in (BEGIN.format(place), END.format(place)):
        assert sum(page.read_text().count(marker) for page in PAGES) == 1
