"""Regular expressions over topic names: equal to RE2J's answers, linear in time, limited in size."""

import gzip
from pathlib import Path

import pytest

from klamm.broker.groups.regex import LARGEST_PROGRAM, InvalidRegex, compile_regex
from tests.golden.regexes.cases import our_answer

RECORDED = gzip.decompress((Path(__file__).parents[2] / "golden/regexes/expressions.tsv.gz").read_bytes()).decode()


@pytest.mark.parametrize("tenth", range(10))
def test_re2j_gives_the_same(tenth: int) -> None:
    for line in RECORDED.splitlines()[tenth::10]:
        regex, *names, expected = line.split("\t")
        assert our_answer(regex, names) == expected, regex


@pytest.mark.parametrize(
    ("regex", "matched", "unmatched"),
    [
        ("orders|payments", ("orders", "payments"), ("order", "orders-2", "")),
        (r"orders-\d{2,}", ("orders-01", "orders-123"), ("orders-1", "x-orders-01")),
        ("(?i)ORDERS.*", ("orders", "Orders.eu"), ("payments",)),
        (r"\Qa.b\E", ("a.b",), ("axb",)),
        ("", ("",), ("a",)),
    ],
)
def test_the_whole_name_has_to_match(regex: str, matched: tuple[str, ...], unmatched: tuple[str, ...]) -> None:
    program = compile_regex(regex)
    assert all(map(program.fullmatch, matched))
    assert not any(map(program.fullmatch, unmatched))


@pytest.mark.parametrize("regex", ["(a+)+", "(a|a)*", "(a*)*b", "(a?){200}a{200}", "(.*a){12}.*", "(a|b)*a(a|b){14}"])
def test_no_expression_explodes(regex: str) -> None:
    """By following one path after the other, each of these takes more than 2 to the power of 20 steps."""
    program = compile_regex(regex)
    steps = 0
    closure = program._closure

    def counted(*arguments: frozenset[int]) -> list[int]:
        nonlocal steps
        steps += 1
        return closure(*arguments)  # type: ignore[arg-type]

    program._closure = counted  # type: ignore[method-assign,assignment]
    program.fullmatch("a" * 248 + "c")
    assert steps <= 250


@pytest.mark.parametrize("regex", ["(a{1000}){1000}", "a" * (LARGEST_PROGRAM + 1)])
def test_an_expression_that_needs_too_many_steps_is_refused(regex: str) -> None:
    with pytest.raises(InvalidRegex, match="too large"):
        compile_regex(regex)


def test_nesting_is_limited() -> None:
    compile_regex("(" * 100 + ")" * 100)
    with pytest.raises(InvalidRegex, match="too deeply"):
        compile_regex("(" * 101 + ")" * 101)
