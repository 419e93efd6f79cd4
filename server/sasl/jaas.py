"""JAAS configurations, the format of `sasl.jaas.config`: `LoginModule required NAME="VALUE" …;`.

The words are those of java.io.StreamTokenizer as Kafka's JaasConfig sets it up: quoted words with C's escapes, comments
of both kinds. Errors never quote what was read, because it may be a secret.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<word>[\w\-$.]+)|(?P<mark>[=;])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_NAMED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})


class JaasError(ValueError):
    """A configuration that cannot be read. The text is one clause without any of the values."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry of a configuration."""

    class_name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name!r}, options hidden)"


def decode_jaas(text: str) -> LoginModule:
    """The one login module of a configuration. Raises JaasError; as in Kafka there must be exactly one."""
    modules = list(_modules(list(_tokens(text))))
    if len(modules) != 1:
        raise JaasError(f"one login module is expected, not {len(modules)}")
    return modules[0]


def _modules(tokens: list[tuple[str, bool]]) -> Iterator[LoginModule]:
    position = 0

    def take(what: str) -> str:
        nonlocal position
        if position == len(tokens):
            raise JaasError(f"{what} is missing at the end")
        position += 1
        return tokens[position - 1][0]

    def at_mark(mark: str) -> bool:
        return position < len(tokens) and tokens[position] == (mark, True)

    while position < len(tokens):
        class_name = take("the login module")
        if take("the control flag").upper() not in _FLAGS:
            raise JaasError(
                "the control flag after the login module must be required, requisite, sufficient or optional"
            )
        options: dict[str, str] = {}
        while not at_mark(";"):
            name = take("';'")
            if not at_mark("="):
                raise JaasError(
                    f"option {len(options) + 1} has no value: NAME=\"VALUE\" is expected, and ';' at the end"
                )
            position += 1
            options[name] = take("the value of an option")
        position += 1
        yield LoginModule(class_name, options)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words, and whether each is a mark (`=` or `;`) outside of quotes."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"character {position + 1} is not expected there")
        position = found.end()
        kind = found.lastgroup
        if kind in ("double", "single"):
            yield _ESCAPE.sub(_meant, found[kind]), False
        elif kind is not None:
            yield found[kind], kind == "mark"


def _meant(escape: re.Match[str]) -> str:
    character = escape[1]
    return chr(int(character, 8)) if character[0] in "01234567" else _NAMED.get(character, character)
