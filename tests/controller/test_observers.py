"""The observers of the metadata log: Kafka's rules for times, the five minutes, and the limit."""

from klamm.controller.observers import MAX_OBSERVERS, OBSERVER_SESSION_MS, ObserverFetch, ObserverKey, Observers
from klamm.protocol.uuid import Uuid

ONE, TWO = ObserverKey(1, Uuid(bytes(16))), ObserverKey(2, Uuid(bytes(16)))
ELSEWHERE = ObserverKey(1, Uuid(bytes(15) + b"\1"))


def times(observers: Observers, now_ms: int) -> dict[ObserverKey, tuple[int, int, int]]:
    return {key: (one.end_offset, one.fetched_ms, one.caught_up_ms) for key, one in observers.seen(now_ms)}


def test_an_observer_is_caught_up_when_it_has_what_the_leader_had() -> None:
    observers = Observers()
    observers.note(ObserverFetch(ONE, 0, 10), 100)
    assert times(observers, 100) == {ONE: (0, 100, -1)}
    observers.note(ObserverFetch(ONE, 9, 20), 200)
    assert times(observers, 200) == {ONE: (9, 200, -1)}
    # It has now what the log had at its last fetch: it was caught up then.
    observers.note(ObserverFetch(ONE, 20, 30), 300)
    assert times(observers, 300) == {ONE: (20, 300, 200)}
    observers.note(ObserverFetch(ONE, 30, 30), 400)
    assert times(observers, 400) == {ONE: (30, 400, 400)}
    observers.note(ObserverFetch(ONE, 29, 31), 500)
    assert times(observers, 500) == {ONE: (29, 500, 400)}


def test_replicas_are_told_apart_by_id_and_directory_and_come_in_order() -> None:
    observers = Observers()
    for key in (TWO, ELSEWHERE, ONE, ObserverKey(-1, Uuid(bytes(16)))):
        observers.note(ObserverFetch(key, 5, 5), 7)
    assert list(times(observers, 7)) == [ONE, ELSEWHERE, TWO]


def test_an_observer_that_has_not_fetched_for_five_minutes_is_not_seen() -> None:
    observers = Observers()
    observers.note(ObserverFetch(ONE, 5, 5), 1_000)
    assert list(times(observers, 1_000 + OBSERVER_SESSION_MS - 1)) == [ONE]
    assert list(times(observers, 1_000 + OBSERVER_SESSION_MS)) == []
    observers.note(ObserverFetch(ONE, 5, 9), 2_000 + OBSERVER_SESSION_MS)
    assert times(observers, 2_000 + OBSERVER_SESSION_MS) == {ONE: (5, 2_000 + OBSERVER_SESSION_MS, 1_000)}


def test_the_one_that_fetched_longest_ago_is_forgotten_beyond_the_limit() -> None:
    observers = Observers()
    keys = [ObserverKey(number, Uuid(bytes(16))) for number in range(MAX_OBSERVERS + 1)]
    for key in keys[:-1]:
        observers.note(ObserverFetch(key, 5, 5), 7)
    observers.note(ObserverFetch(keys[0], 5, 5), 8)
    observers.note(ObserverFetch(keys[-1], 5, 5), 8)
    assert set(keys) - set(times(observers, 8)) == {keys[1]}
