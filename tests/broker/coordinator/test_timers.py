"""Timers compared with a plain dictionary that is searched."""

from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.coordinator.timers import Timers

KEYS = "abcde"
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(0, 20)),
    ),
    max_size=120,
)


@given(steps)
def test_each_timer_fires_once_when_its_last_time_has_come(steps: list[tuple[str, str, int]]) -> None:
    timers: Timers[str] = Timers()
    expected: dict[str, int] = {}
    now_ms = 0
    for what, key, number in steps:
        if what == "set":
            timers.set(key, now_ms + number)
            expected[key] = now_ms + number
        elif what == "cancel":
            timers.cancel(key)
            expected.pop(key, None)
        else:
            now_ms += number
            fired = []
            while (due := timers.pop_due(now_ms)) is not None:
                fired.append(due)
            assert sorted(fired) == sorted(key for key, due_ms in expected.items() if due_ms <= now_ms)
            expected = {key: due_ms for key, due_ms in expected.items() if due_ms > now_ms}
        assert len(timers) == len(expected)
        next_ms = timers.next_due_ms
        assert (next_ms is None) == (not expected)
        assert next_ms is None or next_ms <= min(expected.values()), "an owner that waits longer would be late"


def test_timers_that_are_set_and_cancelled_for_ever_take_no_memory() -> None:
    timers: Timers[int] = Timers()
    for number in range(10_000):
        timers.set(number, 10**9)
        timers.cancel(number)
        timers.set(-1, number)
    assert len(timers._heap) < 1_000
