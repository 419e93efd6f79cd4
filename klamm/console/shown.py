"""How messages show a value that a user gave: on one line and with a bounded length."""

SHOWN_CHARACTERS = 40


def shown(value: object) -> str:
    """The value's `repr`, cut, as part of a message of one line."""
    text = repr(value[:SHOWN_CHARACTERS] if isinstance(value, str) else value)
    return text[: 2 * SHOWN_CHARACTERS]
