"""Which of several quotas applies to a client, and with whom it shares the quota."""

from collections.abc import Sequence

import pytest

from klamm.controller.metadata.quota_entity import QuotaEntity, quota_entity
from klamm.controller.quotas.limits import Limit, Sharing, find_limit, user_of

KEY = "producer_byte_rate"
OWN, OF_USER, OF_CLIENT = Sharing("u", "c"), Sharing("u", ""), Sharing("", "c")
PRECEDENCE: Sequence[tuple[dict[str, str | None], Sharing]] = [
    ({"user": "u", "client-id": "c"}, OWN),
    ({"user": "u", "client-id": None}, OWN),
    ({"user": "u"}, OF_USER),
    ({"user": None, "client-id": "c"}, OWN),
    ({"user": None, "client-id": None}, OWN),
    ({"user": None}, OF_USER),
    ({"client-id": "c"}, OF_CLIENT),
    ({"client-id": None}, OF_CLIENT),
]


def quotas(*names: dict[str, str | None], key: str = KEY) -> dict[QuotaEntity, dict[str, float]]:
    """A quota for each of the entities: 1, 2, … in their order."""
    return {quota_entity(one.items()): {key: float(place)} for place, one in enumerate(names, 1)}


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_entity_decides(first: int) -> None:
    """Kafka's order, from a user with a client id to the default of client ids."""
    entities = [names for names, _ in PRECEDENCE[first:]]
    assert find_limit(quotas(*reversed(entities)), KEY, "u", "c") == Limit(PRECEDENCE[first][1], len(entities))


def test_an_entity_without_this_quota_decides_nothing() -> None:
    other = quotas({"user": "u", "client-id": "c"}, key="consumer_byte_rate")
    assert find_limit(other, KEY, "u", "c") is None
    assert find_limit(other | quotas({"client-id": "c"}), KEY, "u", "c") == Limit(OF_CLIENT, 1)


@pytest.mark.parametrize("names", [{"user": "v"}, {"client-id": "d"}, {"user": "u", "client-id": "d"}, {"ip": None}])
def test_quotas_of_others_do_not_apply(names: dict[str, str | None]) -> None:
    assert find_limit(quotas(names), KEY, "u", "c") is None


def test_without_a_client_id_only_quotas_of_users_apply() -> None:
    assert find_limit(quotas({"client-id": None}), KEY, "u", "") is None
    assert find_limit(quotas({"user": "u", "client-id": None}), KEY, "u", "") is None
    assert find_limit(quotas({"user": "u"}, {"user": None}), KEY, "u", "") == Limit(OF_USER, 1)
    assert find_limit(quotas({"user": None}), KEY, "u", "") == Limit(OF_USER, 1)


def test_users_are_the_names_of_principals() -> None:
    assert user_of("User:ANONYMOUS") == "ANONYMOUS"
    assert user_of("User:a:b") == "a:b"
    assert user_of(None) is None, "the cluster itself"
