"""Plans of listeners against their definition: the number of listeners, the ports that they need, and whether two
overlap."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.server.addresses import MAX_PORT, Address
from klamm.server.listener import PortTaken
from klamm.server.listeners import Listener, ListenerPlan, default_plan, refuse_impossible_ports
from tests.situations import rare_situations

HOSTS = ("127.0.0.1", "10.0.0.1", "0.0.0.0", "::1", "::")
PORTS = (0, 9092, 9093, 9094, MAX_PORT - 1, MAX_PORT)
ADDRESSES = st.builds(Address, st.sampled_from(HOSTS), st.sampled_from(PORTS))
BROKERS = 3


def listeners(*names: str) -> st.SearchStrategy[list[Listener]]:
    each = [st.builds(Listener, st.just(name), ADDRESSES, st.none() | ADDRESSES) for name in names]
    return st.one_of([st.tuples(*each[: count + 1]).map(list) for count in range(len(each))])


PLANS = st.builds(
    ListenerPlan,
    listeners("ONE", "TWO"),
    st.none() | st.builds(Listener, st.just("CONTROLLER"), ADDRESSES, st.none(), st.just("controller")),
    st.dictionaries(st.integers(1, BROKERS + 1), listeners("ONE", "OWN"), max_size=2),
)


def bound(plan: ListenerPlan, broker_count: int) -> list[Address]:
    """The ports that are listened on, listener by listener, including ports that do not exist."""
    found = []
    for broker_id in range(1, broker_count + 1):
        own = plan.of_single.get(broker_id)
        for one in plan.brokers if own is None else own:
            shift = broker_id - 1 if own is None and one.bind.port else 0
            found.append(Address(one.bind.host, one.bind.port + shift))
    return found + ([plan.controller.bind] if plan.controller else [])


def overlap(one: Address, other: Address) -> bool:
    same_family = (":" in one.host) is (":" in other.host)
    on_all = {one.host, other.host} & {"0.0.0.0", "::"}
    return bool(one.port == other.port != 0 and same_family and (one.host == other.host or on_all))


def is_beyond(plan: ListenerPlan, broker_count: int) -> bool:
    """Whether a port of a broker, bound or advertised, is above the highest port number."""
    following = [number for number in range(broker_count) if number + 1 not in plan.of_single]
    return any(
        address.port and address.port + max(broker_count - 1, number) > MAX_PORT
        for number in following
        for one in plan.brokers
        for address in (one.bind, one.advertised)
        if address
    )


def is_impossible(plan: ListenerPlan, broker_count: int) -> bool:
    pairs = combinations(bound(plan, broker_count), 2)
    return is_beyond(plan, broker_count) or any(overlap(one, other) for one, other in pairs)


@settings(max_examples=300)
@given(PLANS, st.integers(1, BROKERS))
def test_ports_are_refused_that_do_not_exist_or_that_two_listeners_need(plan: ListenerPlan, broker_count: int) -> None:
    if is_impossible(plan, broker_count):
        with pytest.raises(PortTaken):
            refuse_impossible_ports(plan, range(1, broker_count + 1))
        return
    refuse_impossible_ports(plan, range(1, broker_count + 1))
    ports = [one.bind for number in range(1, broker_count + 1) for one in plan.of_broker(number, ())]
    assert ports + ([plan.controller.bind] if plan.controller else []) == bound(plan, broker_count)


def test_the_plans_are_possible_and_impossible_in_each_way() -> None:
    situations = {
        "possible": lambda plan: not is_impossible(plan, BROKERS),
        "beyond the last port": lambda plan: is_beyond(plan, BROKERS),
        "overlapping": lambda plan: not is_beyond(plan, BROKERS) and is_impossible(plan, BROKERS),
        "the last port": lambda plan: not is_impossible(plan, 1) and any(at.port == MAX_PORT for at in bound(plan, 1)),
    }
    assert rare_situations(PLANS, situations, count=300) == {}


@given(PLANS, st.integers(0, BROKERS))
def test_listeners_are_counted_broker_by_broker(plan: ListenerPlan, broker_count: int) -> None:
    assert plan.count(range(1, broker_count + 1)) == len(bound(plan, broker_count))


@given(PLANS.filter(lambda plan: any(one.advertised for one in plan.brokers)))
def test_the_main_listener_is_the_first_advertised_one_for_clients_and_the_others_follow(plan: ListenerPlan) -> None:
    assert plan.main == next(one.name for one in plan.brokers if one.advertised)
    names: Sequence[str] = [one.name for some in (plan.brokers, *plan.of_single.values()) for one in some]
    assert plan.main not in plan.others
    assert {plan.main, *plan.others} == set(names)
    assert len(set(plan.others)) == len(plan.others)


def test_a_listener_between_brokers_is_not_the_main_one() -> None:
    free = Address("127.0.0.1", 0)
    inside, outside = Listener("INSIDE", free, free, "inter-broker"), Listener("OUTSIDE", free, free)
    assert ListenerPlan([inside, outside]).main == "OUTSIDE"
    assert ListenerPlan([inside]).main == "INSIDE"


@pytest.mark.parametrize(("host", "told"), [("kafka.internal", "kafka.internal"), ("127.0.0.1", None)])
def test_the_advertised_host_is_told_unless_it_is_the_bound_one(host: str, told: str | None) -> None:
    plan = ListenerPlan([Listener("ONE", Address("127.0.0.1", 0), Address(host, 0))])
    assert plan.advertised_host == told


def test_the_default_plan_has_a_controller_s_listener_if_it_has_an_address() -> None:
    listen = Address("0.0.0.0", 9092)
    without, with_one = default_plan(listen), default_plan(listen, Address("0.0.0.0", 9999))
    assert (without.controller, without.count((1, 2))) == (None, 2)
    assert with_one.count((1, 2)) == 3
    assert with_one.controller == Listener(
        "CONTROLLER",
        Address("0.0.0.0", 9999),
        Address("127.0.0.1", 0),
        "controller",
    )
    assert with_one.brokers == [Listener("PLAINTEXT", listen, Address("127.0.0.1", 0))]
