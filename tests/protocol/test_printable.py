"""Text of unknown origin in output for people."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.printable import printable

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
