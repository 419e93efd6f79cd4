"""What is kept of the ends of logs, moment by moment: ahead of them while they grow, exact once they rest."""

from collections.abc import Sequence

import trio
from trio.testing import MockClock

from klamm.controller.metadata.partition import LogKey
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.server.log_end_keeper import LAST_OFFSET, OFFSETS_AHEAD, REST_SECONDS, REST_SECONDS_AT_MOST, LogEndKeeper
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import id_of, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster

TWO = batch(2, timestamp_ms=START_MS)
THREAD_SECONDS = 0.1
"""What is kept is written in a thread, and the test's clock must not jump over that."""


def new_cluster() -> DrivenCluster:
    cluster = DrivenCluster(3)
    for name in ("t", "u"):
        assert cluster.create_at(name, [1, 2, 3]).error_code == 0
    return cluster


async def test_ahead_of_the_end_while_a_log_grows_and_exact_once_it_rests(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    kept: list[dict[LogKey, int]] = []

    def keep(entries: Sequence[tuple[LogKey, int]]) -> None:
        kept.append(dict(entries))

    keeper = LogEndKeeper(cluster.data, keep, trio.lowlevel.checkpoint)
    t, u = ((id_of(cluster, name), 0) for name in ("t", "u"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep_forever)
        await trio.sleep(3.5 * REST_SECONDS)
        assert kept == [], "there is nothing to keep"
        produce(cluster, TWO)
        await trio.sleep(3 * REST_SECONDS)
        assert kept == [{t: 2 + OFFSETS_AHEAD}, {t: 2}], "it is not kept again and again"
        produce(cluster, TWO)
        produce(cluster, TWO, topic_name="u")
        await trio.sleep(REST_SECONDS)
        assert kept[2:] == [{t: 4 + OFFSETS_AHEAD, u: 2 + OFFSETS_AHEAD}]
        produce(cluster, TWO)
        await trio.sleep(REST_SECONDS)
        assert kept[3:] == [{t: 6 + OFFSETS_AHEAD, u: 2}]
        keeper.keep_now()
        assert kept[4:] == [{t: 6, u: 2}], "who stops in order keeps the ends themselves"
        nursery.cancel_scope.cancel()


async def test_logs_that_were_there_at_the_start_rest(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    produce(cluster, TWO)
    kept: list[dict[LogKey, int]] = []
    keeper = LogEndKeeper(cluster.data, lambda entries: kept.append(dict(entries)), trio.lowlevel.checkpoint)
    produce(cluster, TWO, topic_name="u")
    with trio.move_on_after(REST_SECONDS / 2):
        await keeper.keep_forever()
    assert kept == [{(id_of(cluster, "t"), 0): 2, (id_of(cluster, "u"), 0): 2 + OFFSETS_AHEAD}]


async def test_no_offset_is_kept_beyond_the_last_one(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = THREAD_SECONDS
    for below in (OFFSETS_AHEAD + 3, OFFSETS_AHEAD, 100):
        cluster = new_cluster()
        key = id_of(cluster, "t"), 0
        cluster.data.restore(cluster.image, {key: LAST_OFFSET - below}, START_MS)
        kept: list[dict[LogKey, int]] = []
        keeper = LogEndKeeper(cluster.data, lambda entries: kept.append(dict(entries)), trio.lowlevel.checkpoint)  # noqa: B023
        produce(cluster, TWO)
        with trio.move_on_after(REST_SECONDS / 2):
            await keeper.keep_forever()
        assert kept == [{key: min(LAST_OFFSET, LAST_OFFSET - below + 2 + OFFSETS_AHEAD)}]


async def test_a_process_that_was_asleep_while_it_kept_keeps_on_soon(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    kept: list[dict[LogKey, int]] = []

    def keep(entries: Sequence[tuple[LogKey, int]]) -> None:
        kept.append(dict(entries))
        if len(kept) == 1:
            mock_clock.jump(3_600)

    produce(cluster, TWO)
    keeper = LogEndKeeper(cluster.data, keep, trio.lowlevel.checkpoint)
    produce(cluster, TWO)
    with trio.move_on_after(3_600 + 1.05 * REST_SECONDS_AT_MOST):
        await keeper.keep_forever()
    assert kept[1:] == [{(id_of(cluster, "t"), 0): 4}]


async def test_nothing_is_kept_before_the_metadata_that_it_goes_by_is_durable(mock_clock: MockClock) -> None:
    """Else a crash brings a topic back whose deletion was kept here already, and its offsets begin at 0 again."""
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    kept: list[dict[LogKey, int]] = []
    durable = trio.Event()
    keeper = LogEndKeeper(cluster.data, lambda entries: kept.append(dict(entries)), durable.wait)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep_forever)
        produce(cluster, TWO)
        await trio.sleep(10 * REST_SECONDS)
        assert kept == []
        durable.set()
        await trio.sleep(THREAD_SECONDS)
        assert kept == [{(id_of(cluster, "t"), 0): 2 + OFFSETS_AHEAD}]
        nursery.cancel_scope.cancel()


async def test_what_is_kept_is_what_was_there_before_the_wait(mock_clock: MockClock) -> None:
    """A topic that goes meanwhile may come back by a crash, for its deletion is not waited for."""
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    kept: list[dict[LogKey, int]] = []

    async def delete_meanwhile() -> None:
        cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))

    keeper = LogEndKeeper(cluster.data, lambda entries: kept.append(dict(entries)), delete_meanwhile)
    t = id_of(cluster, "t"), 0
    produce(cluster, TWO)
    with trio.move_on_after(REST_SECONDS / 2):
        await keeper.keep_forever()
    assert kept == [{t: 2 + OFFSETS_AHEAD}]


async def test_what_comes_while_ends_are_kept_is_kept_by_the_next_look(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    kept: list[dict[LogKey, int]] = []

    def keep(entries: Sequence[tuple[LogKey, int]]) -> None:
        kept.append(dict(entries))
        if len(kept) == 2:  # it keeps the end of a log that rested so far
            produce(cluster, TWO)

    keeper = LogEndKeeper(cluster.data, keep, trio.lowlevel.checkpoint)
    t = id_of(cluster, "t"), 0
    produce(cluster, TWO)
    with trio.move_on_after(10 * REST_SECONDS):
        await keeper.keep_forever()
    assert kept == [{t: 2 + OFFSETS_AHEAD}, {t: 2}, {t: 4 + OFFSETS_AHEAD}, {t: 4}]


async def test_who_is_cancelled_before_keeping_has_kept_nothing(mock_clock: MockClock) -> None:
    """So the end of the server keeps it: here the end of a log that rests, of which an offset ahead was kept before."""
    mock_clock.autojump_threshold = THREAD_SECONDS
    cluster = new_cluster()
    kept: list[dict[LogKey, int]] = []
    t = id_of(cluster, "t"), 0
    with trio.CancelScope() as scope:

        async def cancel_the_second() -> None:
            if kept:
                scope.cancel()

        keeper = LogEndKeeper(cluster.data, lambda entries: kept.append(dict(entries)), cancel_the_second)
        produce(cluster, TWO)
        await keeper.keep_forever()
    assert kept == [{t: 2 + OFFSETS_AHEAD}]
    keeper.keep_now()
    assert kept[1:] == [{t: 2}]
