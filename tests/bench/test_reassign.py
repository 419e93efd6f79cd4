"""The benchmarks of reassignments and of records do what they say, at tiny sizes, and refuse to time what went wrong.

Nothing here depends on how long anything takes, and no peer is started.
"""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from bench.measure_moves_in_flight import Seen, watch_moves
from bench.measure_moves_in_flight import rows_of as rows_of_moves
from bench.measure_reassign import AWAY, COMPLETED_TOPIC, SHAPE, Mover, Shape, klamm_mover, move, rows_of
from bench.measure_records import Carrier, carry_in_turn
from bench.measure_records import rows_of as rows_of_records
from bench.raw_client import METADATA_VERSION, RawClient, Refused, create_topics_frame, topic_metadata_frame
from bench.reassign_frames import assigned_topic_frame, count_listed, list_frame, reassign_frame, refuse_unaltered
from bench.render_page import PAGE, render
from bench.rows import Report, Row
from bench.workbench import Workbench
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.messages.topics import metadata

TINY = Shape(topics=2, partitions=25)
MARKERS = "\n".join(
    f"<!-- {name}: begin, written by bench/render -->\nold {name}\n<!-- {name}: end -->"
    for name in ("figures", "reassignments", "records")
)


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


def test_partitions_are_moved_and_moved_back_as_often_as_that() -> None:
    with ExitStack() as stack:
        mover = move(klamm_mover(stack, shape=TINY), 2, 3)
        assert count_listed(mover.client.exchange(list_frame(None)).payload) == 0
        answer = mover.client.exchange(topic_metadata_frame(COMPLETED_TOPIC)).payload
    _, reported = decode_response(metadata.API, METADATA_VERSION, answer)
    # There, back, and there again.
    assert [tuple(partition.replica_nodes) for partition in reported.topics[0].partitions] == [AWAY] * TINY.partitions
    assert [len(times) for times in (mover.accepted, mover.listed, mover.cancelled, mover.completed)] == [2, 2, 2, 3]


def test_another_number_of_moves_than_were_begun_is_refused() -> None:
    with ExitStack() as stack:
        mover = klamm_mover(stack, shape=TINY)
        mover.fill()
        mover.client.exchange(assigned_topic_frame("other", [(1, 2)]))
        mover.cluster.stop_broker(3)
        mover.client.exchange(reassign_frame(["other"], [(1, 3)]))
        with pytest.raises(Refused, match="lists 51 moves where 50 are under way"):
            mover.begin_and_cancel()


def test_answers_are_read_and_errors_refused() -> None:
    with ExitStack() as stack:
        client = klamm_mover(stack, shape=TINY).client
        client.exchange(assigned_topic_frame("moved", [(1,), (1,)]))

        def altered(*targets: tuple[int, ...] | None) -> bytes:
            return client.exchange(reassign_frame(["moved"], targets)).payload

        with pytest.raises(Refused, match="moved-1: error 39, "):
            refuse_unaltered(altered((1,), (9,)), 2)
        with pytest.raises(Refused, match="moved-0: error 85, "):
            refuse_unaltered(altered(None, None), 2)
        refuse_unaltered(altered((1,), (1,)), 2)
        with pytest.raises(Refused, match="answers 2 partitions of 3"):
            refuse_unaltered(altered((1,), (1,)), 3)


def test_moves_under_way_are_still_under_way_when_they_have_been_watched(bench: Workbench) -> None:
    for moving_first in (False, True):
        moving, still = Seen(), Seen()
        watch_moves(bench, moving, still, moves=6, seconds=0.05, moving_first=moving_first)
        for seen in (moving, still):
            assert len(seen.cpu_percent) == 1
            assert seen.cpu_percent[0] >= 0
            assert all(wait > 0 for wait in seen.waits_ms)
            assert seen.waits_ms


def test_all_records_come_through_or_nothing_is_timed(bench: Workbench) -> None:
    with bench.klamm() as server:
        carriers = carry_in_turn([Carrier("one", server), Carrier("two", server, topics=500)], records=400, rounds=1)
        for carrier in carriers:
            assert [len(rates) for rates in carrier.produced.values()] == [1, 1]
            assert len(carrier.consumed) == 2
            assert min(*carrier.consumed, *carrier.produced["all"], *carrier.produced["1"]) > 0
        with RawClient(server.addresses[0]) as client:
            client.exchange(create_topics_frame("narrow", 1, 1))
        with pytest.raises(Refused, match=r"two, produce: 200 records were refused: .*UNKNOWN_PARTITION"):
            carriers[1].time_client("produce", "narrow", "0", "3", "100", "all")


def test_the_sizes_are_those_that_were_promised() -> None:
    mover = Mover("Klamm", None, None, SHAPE, [201.0], [99.0], [1.0], [1.0])  # type: ignore[arg-type]
    rows = rows_of("in memory", mover)
    assert [(row.mark, row.reached) for row in rows] == [
        ("<= 200 ms", False),
        ("<= 100 ms", True),
        (None, None),
        (None, None),
    ]
    assert rows[0].what == "10,000 partitions in one request, in memory: accepted"
    peer = replace(mover, name="Kafka", accepted=[402.0, 1000.0, 402.0])
    assert rows_of("data directory", mover, peer)[0].ratio == 0.5


@pytest.mark.parametrize(("cpu", "wait", "reached"), [(5.0, 1.25, [True, True]), (5.1, 1.26, [False, False])])
def test_moves_are_held_against_the_marks(cpu: float, wait: float, reached: list[bool]) -> None:
    rows = rows_of_moves(Seen([cpu], [wait] * 99 + [9.0]), Seen([4.0], [1.0]), 1_000)
    assert [row.reached for row in rows] == [*reached, None]
    assert [row.theirs for row in rows] == [4.0, 1.0, 1.0]
    assert rows[2].klamm == wait
    assert rows[2].details["klamm_max"] == 9.0


@pytest.mark.parametrize(
    ("peer", "rate", "reached"), [("kfake", 300.0, True), ("kfake", 301.0, False), ("Kafka", 301.0, None)]
)
def test_records_are_held_against_kfake_alone(peer: str, rate: float, reached: bool | None) -> None:
    ours = Carrier("Klamm", None, produced={"all": [100.0], "1": [100.0]}, consumed=[100.0])  # type: ignore[arg-type]
    theirs = Carrier(peer, None, produced={"all": [rate], "1": [rate]}, consumed=[rate])  # type: ignore[arg-type]
    rows = rows_of_records([ours, theirs], 10)
    assert [row.reached for row in rows] == [reached] * 3
    assert not any(row.ahead for row in rows)


def test_both_have_places_of_their_own_on_the_page() -> None:
    page = PAGE.read_text()
    for make, place in ((_a_move, "reassignments"), (_a_record, "records")):
        rendered = _rendered(MARKERS, make())
        assert f"old {place}" not in rendered
        assert rendered.count("old ") == 2
        assert _rendered(page, make()) != page


def _a_move() -> list[Row]:
    return rows_of_moves(Seen([1.0], [1.0]), Seen([1.0], [1.0]), 1)


def _a_record() -> list[Row]:
    carrier = Carrier("Klamm", None, produced={"all": [1.0], "1": [1.0]}, consumed=[1.0])  # type: ignore[arg-type]
    return rows_of_records([carrier, carrier], 10)


def _rendered(page: str, rows: list[Row]) -> str:
    return render(page, Report(date="2026-11-21", machine={"cpu": "one"}, versions={"Klamm": "0"}, rows=rows))
