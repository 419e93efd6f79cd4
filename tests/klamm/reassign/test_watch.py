"""`--watch`: when and how it ends, and its output until then."""

from collections.abc import Callable, Sequence
from io import StringIO

import pytest
import trio
import trio.testing
from rich.console import Console

import klamm
from klamm.admin.partition_types import TopicPartition, TopicPartitionReplica
from klamm.protocol.fields import Message
from klamm.reassign.live_table import LiveTable, drawn
from klamm.reassign.progress import Problem, Row
from klamm.reassign.report import Report
from klamm.reassign.watch import POLL_SECONDS, Seen, watch
from tests.klamm.admin.peer import Asked
from tests.klamm.admin.scripted_cluster import Partition, ScriptedCluster
from tests.klamm.reassign.test_progress import targets

A0 = TopicPartition("a", 0)


@pytest.fixture
def clock() -> trio.testing.MockClock:
    # Sockets need a moment of real time.
    return trio.testing.MockClock(autojump_threshold=0.005)


async def watched(
    cluster: ScriptedCluster, *rows: tuple[str, int, tuple[int, ...]], then: Callable[[int], None] = lambda _: None
) -> tuple[Report, list[list[str]]]:
    """The last report, and all output before it. `then` is called after each report, with its number."""
    shown: list[list[str]] = []

    def show(seen: Seen) -> None:
        shown.append([row.status for row in seen.rows])
        then(len(shown))

    async with klamm.AdminClient(cluster.bootstrap_servers) as admin:
        return await watch(admin, targets(*rows), show), shown


async def test_it_ends_when_every_replica_is_in_sync(clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    partition = Partition(1, (1, 2), {1: 30, 2: 0})
    cluster = await ScriptedCluster(partitions={A0: partition}).start(nursery)

    def copy(look: int) -> None:
        partition.ends[2] = 10 * look

    started = trio.current_time()
    report, shown = await watched(cluster, ("a", 0, (1, 2)), then=copy)
    assert shown == [["In sync", f"Behind: {lag} messages behind"] for lag in (30, 20, 10)] + [["In sync", "In sync"]]
    assert report.failure is None
    assert trio.current_time() - started == pytest.approx(3 * POLL_SECONDS, abs=0.1)


async def test_a_replica_that_has_yet_to_join_the_isr_is_waited_for(
    clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    cluster = ScriptedCluster(partitions={A0: Partition(1, (1, 2), {1: 5, 2: 5})}, moves={A0: ((2, 1), (2,), (1,))})
    await cluster.start(nursery)
    report, shown = await watched(
        cluster, ("a", 0, (2,)), then=lambda look: cluster.moves.clear() if look == 2 else None
    )
    assert (shown, report.failure) == ([["In sync"]] * 3, None)


async def test_an_error_that_stays_ends_it_when_all_else_is_done(
    clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    partition = Partition(1, (1, 2), {1: 5, 2: 1})
    cluster = await ScriptedCluster(partitions={A0: partition}).start(nursery)
    report, shown = await watched(
        cluster, ("a", 0, (2, 3)), ("b", 0, (1,)), then=lambda _: partition.ends.update({2: 5})
    )
    host, topic = "Broker does not host this partition", "Unknown topic"
    assert shown == [["Behind: 4 messages behind", host, topic], ["In sync", host, topic]]
    assert report.failure == f"2 of 3 replicas cannot get in sync; a-0 on broker 3: {host}"


async def test_what_may_pass_is_waited_for(clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    partition = Partition(-1, (1, 4), {1: 5})
    cluster = await ScriptedCluster(fenced={4}, partitions={A0: partition}).start(nursery)

    def go_on(look: int) -> None:
        partition.leader = 1
        if look == 2:
            cluster.live, partition.ends[4] = {1, 2, 3, 4}, 5

    report, shown = await watched(cluster, ("a", 0, (4,)), then=go_on)
    assert shown == [["No leader"], ["Broker cannot be reached"], ["In sync"]]
    assert report.failure is None


async def test_a_broker_that_hangs_up_is_asked_once_more(clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    cluster = await ScriptedCluster(partitions={A0: Partition(1, (1, 2), {1: 5, 2: 5})}).start(nursery)
    peer, hang_ups = cluster.peer(1), 1
    honest = peer.answer

    async def answer(asked: Asked) -> Message | bytes | None:
        nonlocal hang_ups
        hang_ups -= 1
        return None if hang_ups >= 0 else await honest(asked)

    peer.answer = answer
    report, shown = await watched(cluster, ("a", 0, (1, 2)))
    assert (report.failure, shown) == (None, [["In sync", "In sync"]])
    hang_ups = 2
    with pytest.raises(klamm.ClusterUnreachable, match="closed the connection"):
        await watched(cluster, ("a", 0, (1, 2)))


def rows(*lags: int | None) -> list[Row]:
    return [
        Row(TopicPartitionReplica("orders", index, 1), lag, None if lag is not None else Problem.UNKNOWN_BROKER)
        for index, lag in enumerate(lags)
    ]


def seen_after(*looks: Sequence[int | None], seconds: float = 1.0) -> Seen:
    seen = Seen()
    for number, lags in enumerate(looks):
        seen.add(rows(*lags), number * seconds)
    return seen


def test_speed_and_rest_are_told_as_soon_as_they_are_known() -> None:
    assert seen_after((90, 0, None)).sentence() == "1 of 3 replicas in sync, 90 messages behind"
    moving = seen_after((90, 0, None), (60, 0, None))
    assert moving.sentence() == "1 of 3 replicas in sync, 60 messages behind, 30 messages/s, 2 s to go"
    assert seen_after((90,), (0,)).sentence() == "1 of 1 replicas in sync, 0 messages behind"
    assert seen_after((90,), (95,)).messages_per_second == 0


def test_the_rest_is_that_of_the_replica_that_comes_last() -> None:
    assert seen_after((90, 50, 0), (60, 10, 0)).sentence().endswith("70 messages behind, 70 messages/s, 2 s to go")
    assert seen_after((90, 50, 0), (80, 10, 3)).seconds_to_go == 8
    assert seen_after((90, 50, None), (90, 10, 70)).seconds_to_go == 0.25
    assert seen_after((90,), (90,)).seconds_to_go == 0


def test_the_speed_is_that_of_the_last_ten_seconds() -> None:
    assert seen_after((10_000,), *[(100,)] * 11).messages_per_second == 0


def test_a_bar_is_the_share_of_the_largest_lag_that_is_made_up_for() -> None:
    seen = seen_after((50, 0, None), (80, 0, None), (20, 0, None))
    assert [seen.share_done(row) for row in seen.rows] == [0.75, 1.0, 0.0]


def printed(seen: Seen, most_rows: int, width: int = 90) -> list[str]:
    console = Console(file=StringIO(), width=width, legacy_windows=False)
    console.print(drawn(seen, most_rows))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_the_live_table_has_a_row_with_a_bar_for_each_replica() -> None:
    heading, _, first, second, third, total = printed(seen_after((40, 0, None), (10, 0, None)), 10)
    assert heading.split() == ["Topic", "Partition", "Broker", "Status"]
    assert first.split()[:5] == ["orders", "0", "1", "Behind:", "10"]
    assert second.split()[:5] == ["orders", "1", "1", "In", "sync"]
    assert "Unknown broker" in third
    assert total.startswith("1 of 3 replicas in sync, 10 messages behind")
    done = [sum(character in "━╸" for character in line) for line in (first, second)]
    assert done == [18, 24] or done[1] == 24


def test_on_a_terminal_of_80_cells_the_bar_gives_way_before_the_name() -> None:
    in_sync = printed(seen_after((40, 0)), 10, width=80)[3]
    assert in_sync.split()[0] == "orders"
    assert 6 <= sum(character in "━╸" for character in in_sync) < 24


def test_of_many_replicas_those_that_lag_are_shown() -> None:
    lines = printed(seen_after((0, 0, 0, 7, 0, 9)), 3)
    assert [line.split()[1] for line in lines[2:5]] == ["3", "5", "0"]
    assert lines[5] == "… and 3 more replicas"


def test_a_long_name_is_cut_and_nothing_else() -> None:
    seen = Seen()
    seen.add([Row(TopicPartitionReplica("a" * 249, 7, 11), 123_456)], 0.0)
    (row,) = (line for line in printed(seen, 3) if "aaa" in line)
    assert "Behind: 123456 messages behind" in row
    assert len(row) <= 90


def test_the_table_stays_on_the_terminal() -> None:
    text = StringIO()
    with LiveTable(Console(file=text, force_terminal=True, width=80, height=20)) as table:
        table.show(seen_after((4,)))
        table.show(seen_after((4,), (0,)))
    assert "Behind: 4 messages behind" in text.getvalue()
    assert text.getvalue().rstrip().endswith("\x1b[?25h"), "the cursor is shown again"
    assert "1 of 1 replicas in sync" in text.getvalue()
