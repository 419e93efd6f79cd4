"""Text of unknown origin or length in output for people."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.printable import first_of, printable

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters()))
def test_nothing_unseen_is_left_and_all_else_is_as_it_was(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert not {unicodedata.category(character) for character in shown} & UNSEEN
    if text.isprintable():
        assert shown == text


def test_escapes_are_pythons() -> None:
    assert printable("a\x1b[31m\x85\u202e\n\ud800") == r"a\x1b[31m\x85\u202e\n\ud800"


@pytest.mark.parametrize(
    ("most", "text"), [(3, "a, b, c"), (2, "a, b and 1 more"), (1, "a and 2 more"), (4, "a, b, c")]
)
def test_the_first_names_are_shown_with_the_number_of_the_others(most: int, text: str) -> None:
    assert first_of(["a", "b", "c"], most) == text
    assert first_of([], most) == ""
