"""How a value of unknown origin is shown to people, in one line and with a bounded length."""

SHOWN_CHARACTERS = 40


def shown(value: object) -> str:
    """A value of unknown origin as part of one line."""
    text = repr(value[:SHOWN_CHARACTERS] if isinstance(value, str) else value)
    return text[: 2 * SHOWN_CHARACTERS]
