"""Text of unknown origin in output for people."""


def printable(text: str) -> str:
    """The text with an escape in place of each character that cannot be seen, moves the cursor or changes the direction
    of writing: control characters (C0, C1), separators of lines, bidirectional and other format characters."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
