"""The benchmark of placement does every task, counts evenness right, and refuses to time what is wrong.

Tiny sizes, no peers: nothing here depends on how long anything takes.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench.contenders import OurPlacer
from bench.measure_placement import WrongPlacement, measure_tasks, refuse_wrong
from bench.placement_rows import PlacementRow, Spread
from bench.placement_table import cells, placement_markdown
from bench.placement_tasks import Sizes, Task, place_many_within_limits, racked_view
from bench.render_page import render
from bench.rows import Report
from bench.spread import beyond_limits, count_moves, less_even_in, spread_of
from klamm.assignment import ClusterView

TINY = Sizes(
    partitions=2_000,
    brokers=40,
    racks=4,
    uneven_brokers=21,
    changed_partitions=100,
    changed_brokers=20,
    changed_racks=5,
    warm_ups=0,
    rounds=1,
    small_warm_ups=0,
    small_rounds=1,
    small_calls=2,
)
PAGE = """before
<!-- figures: begin, written by bench/render -->
old figures
<!-- figures: end -->
between
<!-- placements: begin, written by bench/render -->
old placements
<!-- placements: end -->
after
"""
NOTHING_HELD = np.zeros(4, dtype=np.int64)


@pytest.fixture(scope="module")
def rows() -> list[PlacementRow]:
    return measure_tasks(TINY, [])


def test_every_task_has_a_line_with_a_time(rows: list[PlacementRow]) -> None:
    starts = [
        "place 2,000",
        "place 100 partitions, RF 3, on 21",
        "place 10",
        "rebalance 100",
        "grow 100",
        "shrink 100",
        "fill 100",
        "fill 50",
    ]
    assert all(any(row.task.startswith(start) for row in rows) for start in starts)
    assert all(row.seconds > 0 for row in rows)


def test_placements_within_limits_are_within_them(rows: list[PlacementRow]) -> None:
    limited = [row for row in rows if row.beyond_limits is not None]
    assert len(limited) >= 2
    assert {row.beyond_limits for row in limited} == {0}


def test_the_limits_are_in_the_way_of_half_of_the_brokers() -> None:
    """Otherwise the task would measure the placement without limits once more."""
    for spare in (True, False):
        view = place_many_within_limits(TINY, [], spare=spare).view
        even = TINY.partitions * 3 // TINY.brokers
        assert int((view.headroom < even).sum()) == TINY.brokers // 2
        assert (int(view.headroom.sum()) > TINY.partitions * 3) is spare
        assert int(view.headroom.sum()) >= TINY.partitions * 3


def test_no_plan_moves_less_than_the_fewest_that_can_do(rows: list[PlacementRow]) -> None:
    changes = [row for row in rows if row.fewest_moves is not None]
    assert changes
    assert all(row.moves is not None and row.moves >= (row.fewest_moves or 0) for row in changes)


def test_rows_come_back_from_json_as_they_were(rows: list[PlacementRow]) -> None:
    report = Report(date="2026-11-21", machine={"cpu": "one"}, versions={"Klamm": "0"}, rows=[], placements=rows)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_a_page_keeps_the_figures_that_a_run_did_not_measure(rows: list[PlacementRow]) -> None:
    report = Report(date="2026-11-21", machine={"cpu": "one"}, versions={"Klamm": "0"}, rows=[], placements=rows)
    page = render(PAGE, report)
    assert "old figures" in page
    assert "old placements" not in page
    assert "Measured on 2026-11-21." in page
    assert render(page, report) == page
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")


def test_a_table_has_the_columns_that_are_filled_and_no_others() -> None:
    row = PlacementRow(task="place one", placer="Klamm", seconds=1.0, fastest=0.5, samples=3)
    peer = replace(row, placer="kfake", ratio=0.5)
    moved = replace(row, task="move one", moves=4)
    assert placement_markdown([row, peer, moved])[1:] == [
        "",
        "**Place one**",
        "",
        "| Klamm ÷ placer | placer | median | fastest | samples |",
        "|---:|---|---:|---:|---:|",
        "|  | Klamm | 1.00 s | 500 ms | 3 |",
        "| **0.500 ×** | kfake | 1.00 s | 500 ms | 3 |",
        "",
        "**Move one**",
        "",
        "| placer | median | fastest | samples | moves |",
        "|---|---:|---:|---:|---:|",
        "| Klamm | 1.00 s | 500 ms | 3 | 4 |",
    ]


def test_the_spread_is_the_largest_number_minus_the_smallest() -> None:
    view = racked_view(4, 2)  # brokers 0 and 2 in one rack, 1 and 3 in the other
    placement = np.array([[0, 1], [0, 2], [0, 1]], dtype=np.int32)
    assert spread_of(view, placement, NOTHING_HELD) == Spread(
        replicas_per_broker=3, leaders_per_broker=3, replicas_per_rack=2, leaders_per_rack=3, racks_missed=1
    )
    assert spread_of(racked_view(4, 0), placement, NOTHING_HELD) == Spread(replicas_per_broker=3, leaders_per_broker=3)


def test_a_full_broker_is_not_compared_and_what_brokers_held_counts() -> None:
    view = replace(racked_view(4, 0), replica_limit=10)
    placement = np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32)
    held = np.array([9, 3, 3, 4])
    assert spread_of(view, placement, held).replicas_per_broker == 0
    assert spread_of(view, placement, np.array([8, 3, 3, 4])).replicas_per_broker == 4


def test_replicas_beyond_a_limit_are_those_without_room() -> None:
    view = replace(racked_view(4, 0), replica_limit=2)
    placement = np.array([[0, 1], [0, 1], [0, -1]], dtype=np.int32)
    assert beyond_limits(view, placement, np.array([1, 0, 0, 0])) == 2
    assert beyond_limits(view, placement, np.array([5, 0, 0, 0])) == 3


def test_a_move_is_a_broker_that_the_row_did_not_have() -> None:
    before = np.array([[0, 1, 2], [0, 1, -1]])
    assert count_moves(before, np.array([[2, 1, 0], [1, 0, 3]])) == 1
    assert count_moves(before, np.array([[0, 1], [0, 1]])) == 0


def test_each_larger_number_is_told_as_less_even() -> None:
    even = Spread(replicas_per_broker=1, leaders_per_broker=1, replicas_per_rack=0, leaders_per_rack=0, racks_missed=0)
    assert less_even_in(even, even) == []
    assert less_even_in(even, replace(even, replicas_per_broker=2)) == []
    uneven = replace(even, leaders_per_rack=1, racks_missed=3)
    assert less_even_in(uneven, replace(even, replicas_per_broker=2)) == ["leaders per rack", "racks missed"]


def test_a_wrong_placement_is_refused_and_not_timed() -> None:
    twice = np.array([[0, 0]], dtype=np.int32)
    sound = np.array([[0, 1]], dtype=np.int32)
    other = np.array([[1, 0]], dtype=np.int32)
    view = ClusterView(broker_ids=np.arange(2, dtype=np.int32), racks=(None, None))
    task = Task(what="a task", contenders=[OurPlacer("Klamm", lambda: twice)] * 2, view=view)
    refuse_wrong(task, [sound, other])
    with pytest.raises(WrongPlacement, match="a task: Klamm: row 0"):
        refuse_wrong(task, [sound, twice])
    with pytest.raises(WrongPlacement, match="left on brokers to be emptied"):
        refuse_wrong(replace(task, target_brokers=1), [sound, sound])
    with pytest.raises(WrongPlacement, match="do not place alike"):
        refuse_wrong(replace(task, identical=[(0, 1)]), [sound, other])


def test_marks_and_remarks_are_told_in_words() -> None:
    row = PlacementRow(
        task="a task",
        placer="Klamm",
        seconds=0.25,
        fastest=12.5e-6,
        samples=3,
        ratio=0.5,
        spread=Spread(
            replicas_per_broker=1, leaders_per_broker=2, replicas_per_rack=3, leaders_per_rack=4, racks_missed=5
        ),
        moves=1_200,
        fewest_moves=1_100,
        beyond_limits=6,
        mark_seconds=0.1,
        less_even_than=["one in leaders per rack", "two in racks missed"],
        same_as="AdminUtils 4.0.0",
    )
    assert cells(row) == [
        "0.500 ×",
        "Klamm",
        "250 ms",
        "12.5 µs",
        "3",
        "1 / 2",
        "3 / 4",
        "1,200 / 1,100",
        "id for id as AdminUtils 4.0.0; 6 replicas beyond the limits; 5 replicas could be in another rack",
        "<= 100 ms: not reached; less even than one in leaders per rack and than two in racks missed",
    ]
