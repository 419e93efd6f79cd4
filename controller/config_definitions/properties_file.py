"""Java properties, the format of server.properties, as java.util.Properties reads it; bytes in, pairs out.

Comments (# and !), `key=value`, `key: value` and `key value`, continued lines, escapes. Text is UTF-8, or else
ISO-8859-1, Java's encoding. This module does not know any config.
"""

import re
from collections.abc import Iterator
from typing import Final

_WHITE_SPACE: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_KEY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.?)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """A line that Java refuses to read."""


def decode_properties(data: bytes) -> dict[str, str]:
    """The pairs of a properties file; if a key occurs twice, the last pair applies. Raises PropertiesError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    pairs = {}
    for number, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match, "every line is a key, perhaps empty, and a rest"
        pairs[_unescaped(match[1], number)] = _unescaped(match[2], number)
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuations, each with the number of its first line, without comments and blank
    lines."""
    begun, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_WHITE_SPACE)
        # A comment ends with its line, and begins only where no logical line has begun.
        if not begun and (not line or line[0] in "#!"):
            continue
        if not begun:
            first = number
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if continued else line
        if not continued:
            yield first, begun
            begun = ""
    if begun:
        yield first, begun


def _unescaped(text: str, number: int) -> str:
    if "\\" not in text:
        return text

    def meaning(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        if escaped == "u":
            raise PropertiesError(f"line {number}: \\u must be followed by four hexadecimal digits")
        return _NAMED.get(escaped, escaped)

    plain = _ESCAPE.sub(meaning, text)
    # Characters beyond the first plane are written as two escapes, one for each half.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
