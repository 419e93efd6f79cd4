"""How a rate is measured and a bucket is filled; the boundaries of windows. Figures: Apache Kafka's own rules."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.quotas.rates import MAX_THROTTLE_MS, TokenBucket, WindowedRate, Windows, capacity, debt_ms

WINDOWS = Windows()


def test_a_client_may_use_ten_windows_at_once_and_no_more() -> None:
    rate = WindowedRate()
    rate.add(10_000, 0, WINDOWS)
    assert rate.throttle_ms(1000, 0, WINDOWS) == 0
    rate.add(1, 0, WINDOWS)
    assert rate.throttle_ms(1000, 0, WINDOWS) == 1


def test_the_throttle_time_is_what_brings_the_rate_back_to_its_bound() -> None:
    rate = WindowedRate()
    rate.add(20_000, 0, WINDOWS)
    assert rate.throttle_ms(1000, 0, WINDOWS) == 10_000
    assert rate.throttle_ms(2000, 0, WINDOWS) == 0
    assert rate.throttle_ms(500, 0, WINDOWS) == 30_000


def test_time_that_passes_lowers_the_rate_by_whole_windows_only_after_the_tenth() -> None:
    """Until then the measured time stays ten windows, with a part of the present one."""
    rate = WindowedRate()
    rate.add(20_000, 0, WINDOWS)
    assert rate.throttle_ms(1000, 999, WINDOWS) == 20_000 - 10_999
    assert rate.throttle_ms(1000, 1000, WINDOWS) == 20_000 - 10_000
    assert rate.throttle_ms(1000, 9_999, WINDOWS) == 20_000 - 10_999
    assert rate.throttle_ms(1000, 10_500, WINDOWS) == 20_000 - 10_500


def test_a_window_counts_until_all_windows_have_passed_since_its_last_event() -> None:
    rate = WindowedRate()
    rate.add(30_000, 0, WINDOWS)
    rate.add(30_000, 999, WINDOWS)
    assert rate.throttle_ms(1000, 11_998, WINDOWS) > 0
    assert rate.throttle_ms(1000, 11_999, WINDOWS) == 0


def test_a_new_window_begins_after_the_length_of_one() -> None:
    rate = WindowedRate()
    rate.add(30_000, 0, WINDOWS)
    rate.add(1, 1000, WINDOWS)
    assert rate.throttle_ms(1000, 11_000, WINDOWS) == 0
    rate = WindowedRate()
    rate.add(30_000, 0, WINDOWS)
    rate.add(1, 999, WINDOWS)
    assert rate.throttle_ms(1000, 11_000, WINDOWS) > 0


def test_what_is_taken_back_counts_no_longer() -> None:
    rate = WindowedRate()
    rate.add(30_000, 0, WINDOWS)
    rate.add(-30_000, 0, WINDOWS)
    assert rate.throttle_ms(1, 0, WINDOWS) == 0


def test_the_windows_are_a_ring_of_one_more_than_their_number() -> None:
    windows = Windows(count=2, length_ms=100)
    rate = WindowedRate()
    for at in range(0, 10_000, 100):
        rate.add(10, at, windows)
        assert at < 300 or rate.throttle_ms(200, at, windows) == 0, "two windows of 10 in 100 ms"
        assert at < 300 or rate.throttle_ms(199, at, windows) > 0
    assert len(rate._each) == 3


def test_an_unused_rate_throttles_nobody() -> None:
    assert WindowedRate().throttle_ms(1, 5, WINDOWS) == 0


def test_one_window_is_enough() -> None:
    windows = Windows(count=1, length_ms=1000)
    rate = WindowedRate()
    rate.add(1, 0, windows)
    assert rate.throttle_ms(1, 0, windows) > 0, "no time has been measured"
    assert rate.throttle_ms(1, 1000, windows) == 0


def test_no_throttle_time_is_too_long_for_a_response() -> None:
    rate = WindowedRate()
    rate.add(1e18, 0, WINDOWS)
    assert rate.throttle_ms(1e-3, 0, WINDOWS) == MAX_THROTTLE_MS
    assert debt_ms(-1e18, 1e-3) == MAX_THROTTLE_MS


@given(st.lists(st.tuples(st.integers(1, 5_000), st.integers(1, 3_000)), min_size=1, max_size=60))
def test_no_client_is_throttled_for_longer_than_what_it_used(steps: list[tuple[int, int]]) -> None:
    """And after all windows have passed, it is throttled no more."""
    rate, now_ms, used = WindowedRate(), 0, 0
    for amount, pause_ms in steps:
        now_ms += pause_ms
        rate.add(amount, now_ms, WINDOWS)
        used += amount
        throttle_ms = rate.throttle_ms(1000, now_ms, WINDOWS)
        assert throttle_ms <= used
    assert rate.throttle_ms(0.001, now_ms + WINDOWS.span_ms, WINDOWS) == 0


def sent_in_ten_seconds(demand: float, request_bytes: int, quota: float) -> list[float]:
    """What a client that sends `demand` times its quota gets in any ten seconds of four minutes, beside the quota; from
    every tenth of a second on. It sends when its next request is due and its connection is not muted."""
    rate, at_ms, times = WindowedRate(), 0.0, []
    while at_ms < 240_000:
        rate.add(request_bytes, int(at_ms), WINDOWS)
        times.append(at_ms)
        throttle_ms = rate.throttle_ms(quota, int(at_ms), WINDOWS)
        at_ms += max(throttle_ms, request_bytes / (quota * demand) * 1000)
    starts = range(0, 230_000, 100)
    counts = [bisect_left(times, start + 10_000) - bisect_left(times, start) for start in starts]
    return [count * request_bytes / quota / 10 for count in counts]


@pytest.mark.parametrize("request_bytes", [100, 200, 1_000, 5_000])
@pytest.mark.parametrize("demand", [0.95, 1.0, 1.02, 1.04])
def test_a_client_close_to_its_quota_gets_it_within_5_percent_in_any_ten_seconds(
    demand: float, request_bytes: int
) -> None:
    found = sent_in_ten_seconds(demand, request_bytes, 20_000)
    assert max(found) <= 1.05
    assert min(found) >= min(demand, 1) - 0.05


@pytest.mark.parametrize("demand", [1.1, 1.5, 3, 1_000])
def test_in_ten_seconds_no_client_gets_more_than_eleven_windows(demand: float) -> None:
    """Kafka's rule: ten windows at once, and the eleventh as time passes."""
    found = sent_in_ten_seconds(demand, 200, 20_000)
    assert max(found) <= 1.1 * 1.01
    assert sum(found) / len(found) == pytest.approx(1, rel=0.05)


def test_a_bucket_has_the_tokens_of_all_windows() -> None:
    assert capacity(2, WINDOWS) == 22
    assert capacity(0.5, Windows(count=2, length_ms=3000)) == 3


def test_a_bucket_is_filled_at_the_rate_and_does_not_overflow() -> None:
    bucket = TokenBucket(-8, 1000)
    assert bucket.tokens_at(2, 1000, WINDOWS) == -8
    assert bucket.tokens_at(2, 1500, WINDOWS) == -7
    assert bucket.tokens_at(2, 5000, WINDOWS) == 0
    assert bucket.tokens_at(2, 60_000, WINDOWS) == 22
    assert bucket.tokens_at(2, 0, WINDOWS) == -8, "a clock that goes back takes no tokens"


@pytest.mark.parametrize(
    ("tokens", "rate", "throttle_ms"), [(-8, 2, 4000), (-1, 3, 333), (-2, 3, 667), (0, 2, 0), (5, 2, 0), (-0.001, 2, 1)]
)
def test_a_debt_is_paid_at_the_rate(tokens: float, rate: float, throttle_ms: int) -> None:
    assert debt_ms(tokens, rate) == throttle_ms
