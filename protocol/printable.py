"""Text of unknown origin or length in output for people."""

from collections.abc import Sequence


def printable(text: str) -> str:
    """The text with an escape in place of each character that cannot be seen, moves the cursor or changes the direction
    of writing: control characters (C0, C1), separators of lines, bidirectional and other format characters."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def first_of(names: Sequence[str], most: int) -> str:
    """The first `most` names, separated by commas, and how many there are beside them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
