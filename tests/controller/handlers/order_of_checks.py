"""Requests that break several rules at once: the rule that is checked first decides the answer. The table of an API
names its rules in that order. Each rule must be noticed alone, and of each two the first one. The order is that of
Apache Kafka 4.3, or of our documents where Kafka has none."""

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import NamedTuple

from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from tests.controller.handlers.guarded_cluster import GuardedCluster

Told = tuple[int, str]
"""Error code and text; an empty text where the response has none."""
Broken = frozenset[str]
Ask = Callable[[GuardedCluster, Broken], Told]
"""Sends a request that breaks these rules and no others."""


class Rule(NamedTuple):
    """A rule, and the answer to a request that breaks it."""

    name: str
    code: ErrorCode
    text: str = ""
    """A part of the error text."""


class Order(NamedTuple):
    """The rules of an API in the order in which they are checked."""

    rules: Sequence[Rule]
    ask: Ask
    never_both: Collection[frozenset[str]] = ()
    """Rules that no request can break together."""
    brokers: int = 3


def never(*names: str) -> list[frozenset[str]]:
    """No request can break two of these together."""
    return [frozenset(pair) for pair in combinations(names, 2)]


def check_order(order: Order, profile: Profile) -> None:
    """A request that breaks nothing is accepted, and of each that breaks one or two rules the first rule decides."""
    assert len({rule.name for rule in order.rules}) == len(order.rules)
    cases = [(), *((rule,) for rule in order.rules), *combinations(order.rules, 2)]
    for broken in cases:
        names = frozenset(rule.name for rule in broken)
        if names in order.never_both:
            continue
        code, text = order.ask(GuardedCluster(order.brokers, profile=profile, racks=()), names)
        first = broken[0] if broken else Rule("nothing", ErrorCode.NONE)
        assert (code, first.text in text) == (first.code, True), (sorted(names), text)
