"""The transactional ids of one shard: when transactions begin, what is verified, listed, timed out and removed."""

from collections.abc import Iterator
from itertools import count

import pytest

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.broker.transactions import transactions
from klamm.broker.transactions.beginning import Initialization
from klamm.broker.transactions.settings import TransactionSettings
from klamm.broker.transactions.transaction import LAST_CLIENT_EPOCH, Transaction
from klamm.broker.transactions.transactions import Current, Filters, Producer, Transactions
from klamm.protocol.errors import ErrorCode

SETTINGS = TransactionSettings(
    max_timeout_ms=900_000, expiration_ms=1_000_000, abort_check_interval_ms=100, expiration_check_interval_ms=5_000
)
TIMEOUT_MS = 10_000
PLACE, OTHER = ("t", 0), ("t", 1)


class Waiting:
    """A request, which keeps its response."""

    def resolve(self, response: object) -> None:
        raise AssertionError("the test reads the outbox")

    def refuse(self, code: ErrorCode) -> None:
        raise AssertionError("the test reads the outbox")


class Driven:
    """A shard whose records are replayed as soon as they are written."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.offset = 0
        ids: Iterator[int] = count(7)
        self.state = Transactions(SETTINGS, lambda: next(ids), lambda: 2)
        self.apply(self.state.loaded(self.now_ms))

    def apply(self, out: Outbox) -> object:
        for record in out.records:
            written = Written(self.offset, self.now_ms, live=True)
            self.state.replay(record.key, record.value, written)
            self.offset += 1
        if not out.replies:
            return None
        (reply,) = out.replies
        return reply.code if reply.response is None else reply.response

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        while (out := self.state.tick(self.now_ms)) is not None:
            self.apply(out)

    def begin(self, name: str = "x", timeout_ms: int = TIMEOUT_MS) -> object:
        return self.apply(self.state.initialize(Initialization(name, timeout_ms), Waiting(), self.now_ms))

    def producer(self, name: str = "x") -> Producer:
        known = self.state.by_id[name]
        return Producer(name, known.producer_id, known.producer_epoch)

    def add(self, *places: tuple[str, int], name: str = "x") -> object:
        out = self.state.add_partitions(self.producer(name), places, Waiting(), self.now_ms, version=2)
        return self.apply(out)

    def verify(self, *places: tuple[str, int]) -> object:
        return self.apply(self.state.verify(self.producer(), places, Waiting()))

    def end(self, *, commit: bool = True) -> object:
        return self.apply(
            self.state.end(self.producer(), Waiting(), self.now_ms, is_commit=commit, has_epoch_bump=True)
        )

    def complete(self) -> None:
        self.apply(self.state.complete("x", self.now_ms))

    def listed(self, longer_than_ms: int) -> list[str]:
        filters = Filters((), (), longer_than_ms, lambda _name: True)
        found = self.apply(self.state.list(filters, Waiting(), self.now_ms))
        assert isinstance(found, list)
        return [known.transactional_id for known in found]

    @property
    def known(self) -> Transaction:
        return self.state.by_id["x"]


@pytest.fixture
def shard() -> Driven:
    driven = Driven()
    assert driven.begin() == Current(7, 0)
    return driven


def test_the_time_of_a_transaction_begins_with_its_first_partition(shard: Driven) -> None:
    shard.pass_time(50)
    started_ms = shard.now_ms
    shard.add(PLACE)
    shard.pass_time(TIMEOUT_MS // 2)
    shard.add(OTHER)
    assert shard.known.started_ms == started_ms
    shard.end()
    shard.complete()
    shard.pass_time(7)
    shard.add(PLACE)
    assert shard.known.started_ms == shard.now_ms


def test_only_partitions_of_an_open_transaction_are_verified(shard: Driven) -> None:
    shard.add(PLACE)
    assert shard.verify(PLACE, OTHER) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    shard.end()
    assert shard.verify(PLACE) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.add(PLACE) is ErrorCode.CONCURRENT_TRANSACTIONS
    shard.complete()
    assert shard.verify(PLACE) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize(
    ("timeout_ms", "is_served"), [(-1, False), (0, False), (1, True), (900_000, True), (900_001, False)]
)
def test_a_timeout_is_positive_and_not_above_the_most(shard: Driven, timeout_ms: int, is_served: bool) -> None:
    assert (shard.begin("y", timeout_ms) is not ErrorCode.INVALID_TRANSACTION_TIMEOUT) == is_served


def test_a_transaction_that_has_ended_does_not_time_out(shard: Driven) -> None:
    shard.add(PLACE)
    shard.end()
    shard.complete()
    done = shard.known
    shard.pass_time(TIMEOUT_MS * 2)
    assert shard.known == done


def test_a_producer_whose_epochs_are_used_up_goes_on_with_epoch_0_of_a_new_id(shard: Driven) -> None:
    shard.state.by_id["x"] = shard.known.to(shard.known.state, 0, producer_epoch=LAST_CLIENT_EPOCH)
    shard.add(PLACE)
    assert shard.end() == Current(8, 0)
    shard.complete()
    assert shard.producer() == Producer("x", 8, 0)


@pytest.mark.parametrize(("longer_than_ms", "is_listed"), [(-1, True), (99, True), (100, False), (101, False)])
def test_transactions_are_listed_that_are_open_for_longer(shard: Driven, longer_than_ms: int, is_listed: bool) -> None:
    shard.add(PLACE)
    shard.now_ms += 100
    assert shard.listed(longer_than_ms) == ["x"] * is_listed


def test_removed_transactional_ids_make_room_for_others(shard: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MAX_ID_CHARACTERS", 3)
    assert shard.begin("abc") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(shard.begin("ab"), Current)
    for _ in range(3):  # to use an id again takes no room
        assert isinstance(shard.begin("ab"), Current)
    shard.pass_time(SETTINGS.expiration_ms + SETTINGS.expiration_check_interval_ms)
    assert shard.state.by_id == {}
    assert isinstance(shard.begin("abc"), Current)
    assert shard.begin("d") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_timeouts_of_removed_transactional_ids_are_checked_no_more(shard: Driven) -> None:
    shard.add(PLACE)
    shard.end()
    shard.complete()
    for _ in range(3):
        shard.pass_time(SETTINGS.expiration_ms)
    assert shard.state.by_id == {}
