"""Reservations of offsets, moment by moment: made before an answer leaves, returned when a log has had no records for a
while."""

from collections.abc import Collection

import trio
from trio.testing import MockClock

from klamm.broker.data.reservations import OFFSETS_AHEAD
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.server.flusher import Flusher
from klamm.server.log_end_keeper import LOOK_SECONDS, LogEndKeeper
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import id_of, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster
from tests.server.held_servers import held_server
from tests.server.slow_disks import SlowDisk, make_slow_log
from tests.server.test_durability import LOOK, produced, topic_t

TWO = batch(2, timestamp_ms=START_MS)


class Store:
    """A store in memory, with the arguments of each call."""

    def __init__(self) -> None:
        self.stored: list[dict[LogKey, int]] = []
        self.is_long = False

    def append(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
        self.stored.append(dict(log_end_offsets))

    def replace(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
        self.stored.append(dict(log_end_offsets))


class Kept:
    """A cluster with two topics, and a keeper that stores without delay."""

    def __init__(self) -> None:
        self.cluster = DrivenCluster(3)
        for name in ("t", "u"):
            assert self.cluster.create_at(name, [1, 2, 3]).error_code == 0
        self.store = Store()
        self.keeper = LogEndKeeper(self.cluster.data, self.store, self.write)
        self.t, self.u = ((id_of(self.cluster, name), 0) for name in ("t", "u"))

    def write(self) -> None:
        self.keeper.store(self.keeper.take())

    def produce(self, topic_name: str = "t") -> None:
        produce(self.cluster, TWO, topic_name=topic_name)
        if self.keeper.has_work:
            self.write()


async def test_reserved_once_for_many_records_and_given_back_once_a_log_rests(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    kept = Kept()
    stored = kept.store.stored
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keeper.keep_forever)
        await trio.sleep(3.5 * LOOK_SECONDS)
        assert stored == [], "there is nothing to store"
        kept.produce()
        assert stored == [{kept.t: 2 + OFFSETS_AHEAD}]
        for _ in range(3):
            kept.produce()
            await trio.sleep(LOOK_SECONDS)
        kept.produce("u")
        assert stored[1:] == [{kept.u: 2 + OFFSETS_AHEAD}]
        await trio.sleep(LOOK_SECONDS)
        assert stored[2:] == [{kept.t: 8}]
        await trio.sleep(LOOK_SECONDS)
        assert stored[3:] == [{kept.u: 2}]
        await trio.sleep(3 * LOOK_SECONDS)
        assert stored[4:] == [], "it is not stored again and again"
        kept.produce()
        assert stored[4:] == [{kept.t: 10 + OFFSETS_AHEAD}], "nothing was left to assign"
        kept.keeper.keep_now()
        assert stored[5:] == [{kept.t: 10, kept.u: 2}]
        nursery.cancel_scope.cancel()


async def test_the_next_reservation_comes_when_one_is_used_up() -> None:
    kept = Kept()
    kept.produce()
    found = kept.cluster.data.find(*kept.t)
    assert found is not None
    found.reserved_end = 5
    kept.produce()
    assert len(kept.store.stored) == 1
    kept.produce()
    assert kept.store.stored[1:] == [{kept.t: 6 + OFFSETS_AHEAD}]


async def test_a_log_that_was_there_at_the_start_has_reserved_nothing() -> None:
    kept = Kept()
    data = kept.cluster.data
    data.restore(kept.cluster.image, {kept.t: 70}, START_MS)
    kept.produce()
    assert kept.store.stored == [{kept.t: 72 + OFFSETS_AHEAD}]


async def test_a_topic_that_is_deleted_is_looked_at_no_more(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    kept = Kept()
    kept.produce()
    kept.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
    with trio.move_on_after(5 * LOOK_SECONDS):
        await kept.keeper.keep_forever()
    assert len(kept.store.stored) == 1
    assert kept.cluster.create_at("t", [1, 2, 3]).error_code == 0
    kept.produce()
    assert kept.store.stored[1:] == [{(id_of(kept.cluster, "t"), 0): 2 + OFFSETS_AHEAD}]


async def test_a_long_store_is_replaced_by_the_reservations_of_all_logs_that_are_there() -> None:
    kept = Kept()
    kept.produce()
    kept.produce("u")
    kept.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
    kept.store.is_long = True
    kept.write()
    assert kept.store.stored[2:] == [{kept.u: 2 + OFFSETS_AHEAD}]


async def test_an_answer_waits_for_its_reservation_and_for_none_that_is_made_later() -> None:
    """Otherwise new logs could delay an answer for ever."""
    kept = Kept()
    flusher = Flusher(kept.cluster.log)
    flusher.log_ends = kept.keeper
    produce(kept.cluster, TWO)
    first, offset = flusher.reservations, kept.cluster.log.end_offset
    assert not flusher.is_durable(offset, first)
    produce(kept.cluster, TWO, topic_name="u")
    taken = kept.keeper.take()
    assert not flusher.is_durable(offset, first)
    kept.keeper.durable = first
    assert flusher.is_durable(offset, first)
    assert not flusher.is_durable(offset, flusher.reservations)
    assert taken.made == flusher.reservations


class StoreOnDisk(Store):
    """A store that waits for the disk of the metadata log."""

    def __init__(self, disk: SlowDisk) -> None:
        super().__init__()
        self._disk = disk

    def append(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
        self._disk.begin(-1)
        super().append(log_end_offsets)
        self._disk.end()


async def test_no_answer_leaves_before_the_reservation_that_it_depends_on_is_stored(mock_clock: MockClock) -> None:
    """Also reads, because they may show records whose offsets other records would get after a crash."""
    log = make_slow_log()
    store = StoreOnDisk(log.disk)
    async with held_server(mock_clock, log=log, log_end_offsets=store) as held:
        await topic_t(held)
        held.disk.hold()
        await held.ask(produced(1))
        await held.ask(LOOK)
        await held.pass_time(1)
        assert (held.left, store.stored) == ([], [])
        await held.let_one_sync_through()
        assert (len(held.left), len(store.stored)) == (2, 1)
        await held.ask(produced(1))
        assert (len(held.left), len(store.stored)) == (3, 1), "offsets are reserved for many records"
