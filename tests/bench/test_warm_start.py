"""The benchmark of warm starts does what it says, at a tiny size. No peer is started, and no time is judged."""

import json

import pytest

from bench.measure_warm_start import GROUP, fork_milliseconds, suite_seconds
from bench.render_page import PAGE, PLACES, render
from bench.rows import Report, Row


def test_each_cluster_after_the_first_is_timed() -> None:
    times = fork_milliseconds(2)
    assert len(times) == 2
    assert all(time > 0 for time in times)


def test_a_suite_is_timed_and_one_that_fails_is_refused() -> None:
    assert suite_seconds(1) > 0
    with pytest.raises(OSError, match="the suite of 1 tests failed"):
        suite_seconds(1, "def test_it(): assert False\n")


def test_the_rows_have_a_place_on_the_page() -> None:
    row = Row(group=GROUP, what="a cluster", unit="ms", klamm=12.5)
    report = Report(date="2026-11-24", machine={}, versions={}, rows=[row])
    assert GROUP in PLACES
    page = render(PAGE.read_text(), Report.from_json(json.loads(json.dumps(report.to_json()))))
    begin = page.index("<!-- warm start: begin")
    assert "warm start: a cluster" in page[begin : page.index("<!-- warm start: end")]
