"""Names of topics at their limits of length, and the part of them that a message contains."""

import pytest

from klamm.controller.transitions.topic_names import MAX_QUOTED_CHARACTERS, quoted, validate_topic_name


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_message_quotes_so_much_of_a_name(more: int) -> None:
    name = "n" * (MAX_QUOTED_CHARACTERS + more)
    assert quoted(name) == (f"'{name}'" if more < 1 else f"'{name[:-1]}…'")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a", None),
        ("A9._-", None),
        ("n" * 249, None),
        ("n" * 250, "is longer than the max allowed length 249"),
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("...", None),
        ("a b", "contains one or more characters"),
        ("é", "contains one or more characters"),
        ("a\n", "contains one or more characters"),
    ],
)
def test_which_names_a_topic_may_have(name: str, said: str | None) -> None:
    refused = validate_topic_name(name)
    assert (refused is None) == (said is None)
    assert refused is None or (said or "") in (refused.message or "")
