"""The benchmarks of limits and of long work do what they say, at tiny sizes: they fill, fence, and see who waits.

Nothing here depends on how long anything takes, and no peer is started.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.measure_limits import SHAPES, Maker, Shape, limit_options, make_in_turn, rows_of
from bench.measure_long_requests import (
    LongRequest,
    Seen,
    cancelled_moves,
    created_topics,
    do_request,
    snapshot_of,
)
from bench.measure_long_requests import rows_of as rows_of_long_requests
from bench.measure_long_work import LongWork, do_work, filled_placeholders, lost_broker
from bench.measure_long_work import rows_of as rows_of_long_work
from bench.raw_client import Refused
from bench.render_page import render
from bench.rows import Report, Row
from bench.waiting_client import Question, Work, join_times, last_records, work_seen
from bench.workbench import Workbench

MS = 1_000_000
PAGE = "\n".join(
    f"<!-- {name}: begin, written by bench/render -->\nold {name}\n<!-- {name}: end -->"
    for name in ("figures", "limits", "long work", "placements")
)
QUESTIONS = [
    Question(0, 2 * MS, 10),
    Question(2 * MS, 3 * MS, 10),
    Question(5 * MS, 10 * MS, 11),
    Question(15 * MS, 20 * MS, 60),
    Question(35 * MS, 5 * MS, 110),
    Question(40 * MS, 7 * MS, 200),
    Question(47 * MS, 90 * MS, 200),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    folder = tmp_path_factory.mktemp("bench")
    return Workbench(
        bytecode_dir=folder / "bytecode",
        kfake_program=folder / "none",
        kafka_class_path=None,
        data_parent=folder,
        quick=True,
    )


@pytest.mark.parametrize("work", [lost_broker(3, 2, 30), filled_placeholders(2, 20)], ids=["lost", "filled"])
def test_long_work_is_done_and_seen(bench: Workbench, work: LongWork) -> None:
    done = do_work(bench, work)
    assert done.grown >= work.records
    assert 0 < done.seconds <= done.whole_seconds
    assert 0 < done.longest_wait <= done.whole_seconds


@pytest.mark.parametrize(
    "request_", [created_topics(300), cancelled_moves(250), snapshot_of(2, 10)], ids=["create", "cancel", "snapshot"]
)
def test_a_long_request_is_done_while_others_ask(bench: Workbench, request_: LongRequest) -> None:
    seen = do_request(bench, request_, durable=True)
    assert 0 < min(seen.waits) <= max(seen.waits) <= seen.seconds
    assert seen.waits_before


def test_a_wait_is_the_median_of_what_rounds_saw_at_p99() -> None:
    waits = [[0.001] * 99 + [slow] for slow in (0.04, 0.06, 0.05)]
    (row,) = rows_of_long_requests(created_topics(1), [Seen(1.0, each, [0.001]) for each in waits], durable=False)
    assert (row.klamm, row.reached, row.samples, row.details["longest"]) == (1.0, True, 300, 60.0)


def test_work_counts_from_its_first_trace_to_the_answer_that_saw_its_end() -> None:
    assert work_seen(QUESTIONS, 100) == Work(
        seconds=0.035,
        whole_seconds=0.042,
        longest_wait=0.02,
        p99_wait=0.02,
        longest_wait_before=0.003,
        questions=4,
        grown=190,
    )


def test_work_that_is_not_done_is_refused_and_not_timed() -> None:
    with pytest.raises(Refused, match="190 records came of 191"):
        work_seen(QUESTIONS, 191)


def test_questions_find_their_lines_across_rotated_files(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    lines = [
        json.dumps({"api": api, "log_end_offset": records}) + "\n"
        for api, records in (("Metadata", 1), ("CreateTopics", 1), ("ApiVersions", 7), ("Metadata", 8))
    ]
    log.with_name("requests.jsonl.1").write_text("".join(lines[:3]))
    log.write_text(lines[3] + '{"api": "Meta')
    assert last_records(log) == 8
    log.write_text(lines[3])
    assert [question.records for question in join_times([(0, 1), (1, 1)], log)] == [7, 8]
    with pytest.raises(Refused, match="fewer lines"):
        join_times([(0, 1)] * 4, log)


def test_what_is_made_within_limits_fills_them_and_not_a_topic_more_is_made(bench: Workbench) -> None:
    for shape in (
        Shape(requests=4, topics=3, partitions=1, warm_ups=1),
        Shape(requests=3, topics=1, partitions=5, warm_ups=1),
    ):
        with ExitStack() as stack:
            (klamm,) = make_in_turn(stack, {"Klamm": stack.enter_context(bench.klamm(*limit_options(shape)))}, shape)
        assert len(klamm.milliseconds) == shape.requests
    with bench.klamm() as unlimited, ExitStack() as stack, pytest.raises(Refused, match="error 0 where 44 is right"):
        make_in_turn(stack, {"Klamm": unlimited}, shape)


def test_the_shapes_are_those_that_were_promised() -> None:
    assert [shape.what for shape in SHAPES] == [
        "10,000 topics × 1 partition, one by one",
        "10,000 topics × 1 partition, 100 in a request",
        "100 topics × 100 partitions, one by one",
    ]


def test_figures_of_their_own_place_leave_the_others_on_the_page() -> None:
    work = lost_broker(3, 2, 30)
    slow = Work(
        seconds=2.0,
        whole_seconds=3.0,
        longest_wait=0.04,
        p99_wait=0.01,
        longest_wait_before=0.001,
        questions=5,
        grown=61,
    )
    rows = rows_of_long_work(work, [slow])
    assert [row.reached for row in rows] == [False, True]
    page = _rendered(rows)
    assert "old figures" in page
    assert "old limits" in page
    assert "old long work" not in page
    assert "longest wait of another request" in page
    made = Maker("kfake", None, None, SHAPES[0])  # type: ignore[arg-type] # only its times are looked at
    made.milliseconds = [2.0, 4.0]
    page = _rendered(rows_of("a shape", [made, made]))
    assert "old limits" not in page
    assert "old figures" in page
    assert "old long work" in page


def _rendered(rows: list[Row]) -> str:
    return render(PAGE, Report(date="2026-11-21", machine={"cpu": "one"}, versions={"Klamm": "0"}, rows=rows))
