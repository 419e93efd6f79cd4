"""Rules are found by a name as if each were compared with it, among many, in their order, and quickly."""

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import measure_fault_rules
from klamm.controller.generators import new_generator
from klamm.server.faults.by_name import MAX_KNOWN, RulesByName
from klamm.server.faults.counting import RuleState
from klamm.server.faults.reading import read_rule
from klamm.server.faults.rule import Pattern
from tests.server.faults.test_rules import Book, wrote

SHORT = st.text("ab-", max_size=7)
PATTERNS = st.lists(st.text("ab-*?", min_size=1, max_size=6), max_size=12)
ROWS = [
    ("orders", "orders", True), ("orders", "order", False), ("order*", "orders", True), ("*ders", "orders", True),
    ("*rder*", "orders", True), ("*rder*", "rde", False), ("?rders", "orders", True), ("order?", "orders", True),
    ("o*s", "orders", True), ("o*s", "os", True), ("o*s", "s", False), ("*", "", True), ("??", "ab", True),
    ("??", "abc", False), ("*a*b*", "xaxbx", True), ("*abc*abd*", "abd-abc", False), ("a*abc", "abc", False),
]  # fmt: skip


def found(patterns: list[str], name: str) -> list[int]:
    rules = RulesByName()
    states = []
    for number, text in enumerate(patterns):
        rule = read_rule({"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": text})
        states.append(RuleState(rule, str(number), number, 0, new_generator(1, 0)))
        rules.add(Pattern.of(text), states[-1])
    assert sorted(state.number for state in rules.all()) == list(range(len(patterns)))
    once, again = rules.of(name), rules.of(name)
    assert list(once) == list(again)
    assert len(set(once)) == len(once)
    return sorted(state.number for state in once)


@pytest.mark.parametrize(("pattern", "name", "is_found"), ROWS)
def test_a_pattern_is_found_by_the_names_that_it_matches(pattern: str, name: str, is_found: bool) -> None:
    assert found([pattern], name) == ([0] if is_found else [])


@given(patterns=PATTERNS, name=SHORT)
def test_what_is_found_is_what_matches(patterns: list[str], name: str) -> None:
    matching = [number for number, text in enumerate(patterns) if Pattern.of(text).matches(name)]
    assert found(patterns, name) == matching


def test_the_names_that_are_remembered_are_bounded_and_forgotten_with_a_new_rule() -> None:
    rules = RulesByName()
    rule = read_rule({"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "a*"})
    first, second = (RuleState(rule, str(number), number, 0, new_generator(1, 0)) for number in range(2))
    rules.add(Pattern.of("a*"), first)
    for number in range(3 * MAX_KNOWN):
        assert rules.of(f"a{number}") == [first]
        assert len(rules._known) <= MAX_KNOWN
    rules.add(Pattern.of("*7"), second)
    assert rules.of("a7") == [first, second]


def test_rules_of_several_names_apply_in_their_order_and_once_per_request() -> None:
    error = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}
    book = Book(
        {**error, "topic": "*-late", "id": "late"},
        {**error, "topic": "orders*", "id": "orders", "after": True},
        {**error, "client_id": "app-*", "id": "client"},
        {**error, "transactional_id": "tx-*", "id": "tx"},
        {"api": "Produce", "topic": "*er*", "id": "watch"},
    )
    request = wrote("orders-late", 0, 1, transactional_id="tx-1")
    struck = book.strike(request)
    assert struck is not None
    assert struck.rule_ids == ["late", "watch"], "what is refused is not refused again"
    assert [state.matches for state in book.states] == [1, 0, 0, 0, 1]
    struck = book.strike(wrote("orders", 0, transactional_id="tx-1"))
    assert struck is not None
    assert struck.rule_ids[0] == "orders"


def calls(kind: str, number_of_rules: int) -> list[int]:
    """How many functions are called for each of three requests; the last two have the same name."""
    rules = measure_fault_rules.rules_of(kind, number_of_rules)
    counted = []
    for number, name in enumerate(["first", "orders", "orders"]):
        asked, seen = measure_fault_rules.asked_of(kind, name), 0

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            if rules.concern(asked.api.key):
                rules.strike(asked, number)
        finally:
            sys.setprofile(None)
        counted.append(seen)
    return counted


@pytest.mark.parametrize("kind", measure_fault_rules.KINDS)
def test_many_rules_are_not_compared_one_by_one(kind: str) -> None:
    """A request calls hardly more functions with 300 rules than with ten: a few for each length of the rules' names."""
    few, many = calls(kind, 10), calls(kind, 300)
    assert all(of_many <= of_few + 20 for of_few, of_many in zip(few, many, strict=True))
