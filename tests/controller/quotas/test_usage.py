"""The tables of what clients use: their bounds."""

from klamm.controller.quotas.limits import Limit, Sharing
from klamm.controller.quotas.rates import Windows
from klamm.controller.quotas.usage import IDLE_MS, MAX_CLIENTS, ClientRates, Usage


def test_an_entry_is_made_once() -> None:
    usage: Usage[str, list[int]] = Usage(list)
    usage.use("a", 0).append(1)
    assert usage.use("a", 1) == [1]
    assert usage.use("b", 1) == []
    assert usage.find("a") == [1]
    assert usage.find("c") is None


def test_the_client_that_was_idle_for_the_longest_time_is_forgotten() -> None:
    usage: Usage[str, list[int]] = Usage(list, most=2)
    for at, key in enumerate("abac"):
        usage.use(key, at)
    assert usage.find("b") is None
    assert len(usage) == 2


def test_idle_clients_are_forgotten_after_an_hour() -> None:
    usage: Usage[str, list[int]] = Usage(list)
    usage.use("a", 0)
    usage.use("b", IDLE_MS - 1)
    assert usage.find("a") is not None
    usage.use("b", IDLE_MS)
    assert usage.find("a") is None
    assert usage.find("b") is not None


def test_client_ids_cannot_fill_the_memory() -> None:
    rates = ClientRates(Windows())
    for number in range(MAX_CLIENTS + 10):
        rates.charge("producer_byte_rate", Limit(Sharing("", str(number)), 1), 1, 0)
    assert len(rates._rates) == MAX_CLIENTS


def test_clients_of_one_quota_share_it_and_quotas_are_apart() -> None:
    rates, limit = ClientRates(Windows()), Limit(Sharing("u", ""), 1)
    assert rates.charge("producer_byte_rate", limit, 10, 0) == 0
    assert rates.charge("consumer_byte_rate", limit, 10, 0) == 0
    assert rates.charge("producer_byte_rate", limit, 10, 0) == 10_000
    rates.take_back("producer_byte_rate", limit, 10, 0)
    assert rates.charge("producer_byte_rate", limit, 0, 0) == 0
