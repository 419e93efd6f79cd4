"""The benchmark of scale does what it says, at a tiny size, and refuses to time what went wrong.

Nothing here depends on how long anything takes, and no peer is started: Klamm is beside itself.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bench.measure_scale import MARK_MEMORY_MB, MARK_RESTART_SECONDS, Figures, Shape, grow, restart, rows_of
from bench.processes import Klamm
from bench.raw_client import (
    RawClient,
    Refused,
    count_partitions,
    create_topics_frame,
    find_controller,
    metadata_frame,
)
from bench.render_page import PAGE, render
from bench.rows import Report
from bench.workbench import Workbench

TINY = Shape(topics=23, partitions=4, topics_per_request=5, brokers=4)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(
        bytecode_dir=tmp_path / "bytecode",
        kfake_program=tmp_path / "none",
        kafka_class_path=None,
        data_parent=tmp_path,
        quick=True,
    )


@pytest.fixture
def make(bench: Workbench, tmp_path: Path) -> Callable[[], Klamm]:
    """Klamm on a data directory, always the same."""
    return partial(bench.klamm, "--data-dir", str(tmp_path / "data"), brokers=TINY.brokers)


def test_a_cluster_is_made_told_and_started_again(bench: Workbench, make: Callable[[], Klamm]) -> None:
    ours, theirs = Figures(), Figures()
    reported = grow(TINY, [(make, ours), (partial(bench.klamm, brokers=TINY.brokers), theirs)])
    for figures, size in zip((ours, theirs), reported, strict=True):
        assert figures.metadata_mb == [size / 1e6]
        assert all(len(one) == 1 and one[0] > 0 for one in (figures.creation_seconds, figures.resident_mb))
        assert len(figures.metadata_seconds) == 1
        assert figures.restart_seconds == []
    restart(make(), ours, reported[0])
    assert len(ours.restart_seconds) == len(ours.restarted_mb) == 1
    with make() as server, RawClient(find_controller(server.addresses[0])) as client:
        assert len(server.addresses) == TINY.brokers
        assert count_partitions(client.exchange(metadata_frame(all_topics=True)).payload) == 23 * 4


def test_a_topic_that_is_there_already_is_not_timed(make: Callable[[], Klamm]) -> None:
    with make() as server, RawClient(find_controller(server.addresses[0])) as client:
        client.exchange(create_topics_frame("orders-000022", 1, 1))
    with pytest.raises(Refused, match="CreateTopics orders-000022: error 36"):
        grow(TINY, [(make, Figures())])


def test_an_answer_that_tells_of_other_partitions_is_not_timed(make: Callable[[], Klamm]) -> None:
    with make() as server, RawClient(find_controller(server.addresses[0])) as client:
        client.exchange(create_topics_frame("another", 1, 1))
    with pytest.raises(Refused, match="Metadata tells of 93 partitions, not of 92"):
        grow(TINY, [(make, Figures())])


def test_a_restart_that_has_lost_something_is_refused(make: Callable[[], Klamm]) -> None:
    with pytest.raises(Refused, match="bytes after the restart, 1 before"):
        restart(make(), Figures(), 1)


def _figures(creation: float = 1.0, resident: float = 1.0, told: float = 1.0, restarted: float = 1.0) -> Figures:
    return Figures([creation], [resident], [told], [1.0], [restarted], [resident], [1.0])


@pytest.mark.parametrize(
    ("ours", "reached"),
    [
        (_figures(), [True] * 4),
        (_figures(creation=4.0, resident=MARK_MEMORY_MB, restarted=MARK_RESTART_SECONDS), [True] * 4),
        (_figures(creation=4.1), [False, True, True, True]),
        (_figures(resident=MARK_MEMORY_MB + 1), [True, False, True, True]),
        (_figures(told=1.1), [True, True, False, True]),
        (_figures(restarted=MARK_RESTART_SECONDS + 1), [True, True, True, False]),
    ],
)
def test_each_figure_has_its_mark(ours: Figures, reached: list[bool]) -> None:
    rows = rows_of(TINY, ours, _figures())
    assert [row.reached for row in rows] == reached
    assert [row.peer for row in rows] == ["kfake"] * 3 + [None]


def test_rounds_come_to_their_medians() -> None:
    ours = Figures(*[[3.0, 1.0, 2.0] for _ in range(7)])
    assert [row.klamm for row in rows_of(TINY, ours, _figures())] == [2.0] * 4
    assert {row.samples for row in rows_of(TINY, ours, _figures())} == {3}


def test_scale_has_a_place_of_its_own_on_the_page() -> None:
    page = PAGE.read_text()
    report = Report(
        date="2026-11-22", machine={"cpu": "one"}, versions={"Klamm": "0"}, rows=rows_of(TINY, _figures(), _figures())
    )
    rendered = render(page, report)
    assert TINY.title in rendered
    assert rendered.partition("<!-- figures: end -->")[0] == page.partition("<!-- figures: end -->")[0]
