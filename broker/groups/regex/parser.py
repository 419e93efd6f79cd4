"""The syntax of RE2J's regular expressions: text to a tree, or `InvalidRegex` with RE2J's words."""

from collections.abc import Callable
from dataclasses import field
from typing import Final, NoReturn, TypeAlias

from klamm.broker.groups.regex import classes
from klamm.quick_dataclasses import dataclass

LARGEST_REPEAT: Final = 1000
DEEPEST_NESTING: Final = 100
"""Of groups. RE2J has no such limit of its own."""


class InvalidRegex(ValueError):
    """The expression is not one; the text is RE2J's."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a class."""

    mask: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """Between two characters: `start` or `end` of the name, `word` boundary or `not_word` boundary."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    part: "Node"
    least: int
    most: int | None
    """None: without end."""


Node: TypeAlias = Characters | Boundary | Sequence | Choice | Repeat


def parse(text: str) -> Node:
    """The tree of an expression. Captures, lazy repeats and the flags m, s and U are accepted and have no effect: they
    change neither whether a whole name matches, nor can a name have a line break. Raises InvalidRegex."""
    return _Parser(text).parse()


@dataclass(slots=True)
class _Group:
    """A group that is open: its alternatives so far, and what follows the last bar."""

    ignores_case_outside: bool
    alternatives: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)

    def end_alternative(self) -> None:
        self.alternatives.append(Sequence(tuple(self.parts)))
        self.parts.clear()

    def close(self) -> Node:
        self.end_alternative()
        return self.alternatives[0] if len(self.alternatives) == 1 else Choice(tuple(self.alternatives))


_MARKS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_SIMPLE_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_BOUNDARIES: Final = {"A": "start", "z": "end", "b": "word", "B": "not_word"}


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = False
        self._groups = [_Group(False)]
        self._names: set[str] = set()

    def parse(self) -> Node:
        follows_repeat = False
        while self._more():
            follows_repeat = self._item(follows_repeat=follows_repeat)
        if len(self._groups) > 1:
            _fail("missing closing )")
        return self._groups[0].close()

    def _item(self, *, follows_repeat: bool) -> bool:
        """Read one item; says whether it was a repetition."""
        character = self._text[self._at]
        if character in _MARKS:
            self._at += 1
            self._repeat(*_MARKS[character], follows_repeat=follows_repeat)
            return True
        if character == "{":
            counts = self._counts()
            if counts is None:
                self._literal()
            else:
                self._repeat(*counts, follows_repeat=follows_repeat)
            # RE2J refuses a repetition also after a brace that is an ordinary character.
            return True
        read: Callable[[], None] = {
            "(": self._open,
            ")": self._close,
            "|": self._bar,
            "[": self._class,
            "\\": self._backslash,
            ".": lambda: self._push(Characters(classes.ALL), 1),
            "^": lambda: self._push(Boundary("start"), 1),
            "$": lambda: self._push(Boundary("end"), 1),
        }.get(character, self._literal)
        read()
        return False

    def _more(self) -> bool:
        return self._at < len(self._text)

    def _push(self, node: Node, length: int = 0) -> None:
        self._groups[-1].parts.append(node)
        self._at += length

    def _literal(self) -> None:
        self._push_code(ord(self._text[self._at]))
        self._at += 1

    def _push_code(self, code: int) -> None:
        self._push(Characters(self._range(code, code)))

    def _range(self, low: int, high: int) -> int:
        return classes.folded(low, high) if self._ignores_case else classes.between(low, high)

    def _repeat(self, least: int, most: int | None, *, follows_repeat: bool) -> None:
        if self._text.startswith("?", self._at):
            self._at += 1
        if follows_repeat:
            _fail("invalid nested repetition operator")
        parts = self._groups[-1].parts
        if not parts:
            _fail("missing argument to repetition operator")
        parts[-1] = Repeat(parts[-1], least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,5}`; None, with nothing read, where a brace is an ordinary character."""
        end = self._text.find("}", self._at)
        first, comma, second = self._text[self._at + 1 : end if end >= 0 else self._at].partition(",")
        least = _number(first)
        most = _number(second) if second else None if comma else least
        if least is None or (second and most is None):
            return None
        if least > LARGEST_REPEAT or (most is not None and not least <= most <= LARGEST_REPEAT):
            _fail("invalid repeat count")
        self._at = end + 1
        return least, most

    def _open(self) -> None:
        if self._text.startswith("(?", self._at):
            self._open_with_flags()
        else:
            self._begin_group(1)

    def _begin_group(self, length: int) -> None:
        if len(self._groups) > DEEPEST_NESTING:
            _fail("expression nests too deeply")
        self._groups.append(_Group(self._ignores_case))
        self._at += length

    def _open_with_flags(self) -> None:
        """`(?P<name>…`, `(?<name>…`, `(?flags)` and `(?flags:…`."""
        for start in ("(?P<", "(?<"):
            if self._text.startswith(start, self._at):
                self._begin_group(len(start))
                self._name()
                return
        at, ignores_case, negative, seen = self._at + 2, self._ignores_case, False, False
        while at < len(self._text):
            flag = self._text[at]
            at += 1
            if flag in "imsU":
                seen = True
                if flag == "i":
                    ignores_case = not negative
            elif flag == "-" and not negative:
                negative, seen = True, False
            elif flag in "):" and (seen or not negative):
                if flag == ":":
                    self._begin_group(0)
                self._at, self._ignores_case = at, ignores_case
                return
            else:
                break
        _fail("invalid or unsupported Perl syntax")

    def _name(self) -> None:
        name, closed, _ = self._text[self._at :].partition(">")
        if not closed or not name or not all(_is_word(character) for character in name):
            _fail("invalid named capture")
        if name in self._names:
            _fail("duplicate capture group name")
        self._names.add(name)
        self._at += len(name) + 1

    def _close(self) -> None:
        if len(self._groups) == 1:
            _fail("regexp/syntax: internal error")
        group = self._groups.pop()
        self._ignores_case = group.ignores_case_outside
        self._push(group.close(), 1)

    def _bar(self) -> None:
        self._groups[-1].end_alternative()
        self._at += 1

    def _backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "C":
            _fail("invalid escape sequence")
        elif following == "Q":
            quoted, _, _ = self._text[self._at + 2 :].partition("\\E")
            for character in quoted:
                self._push_code(ord(character))
            self._at = min(self._at + 4 + len(quoted), len(self._text))
        elif following in _BOUNDARIES:
            self._push(Boundary(_BOUNDARIES[following]), 2)
        else:
            mask = self._escaped_class()
            if mask is None:
                self._push_code(self._escaped_code())
            else:
                self._push(Characters(mask))

    def _escaped_class(self) -> int | None:
        """`\\d` and its like, `\\pL` and `\\p{Greek}`; None, with nothing read, if it is none."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in ("p", "P"):
            return self._unicode_class(negative=letter == "P")
        if letter.lower() not in classes.PERL:
            return None
        self._at += 2
        mask = classes.PERL[letter.lower()]
        if self._ignores_case:
            mask = classes.ignoring_case(mask)
        return mask if letter.islower() else classes.ALL & ~mask

    def _unicode_class(self, *, negative: bool) -> int:
        at = self._at + 2
        end = at + 1
        name = self._text[at:end]
        if name == "{":
            end = self._text.find("}", at) + 1
            name = self._text[at + 1 : end - 1] if end else ""
            if not end:
                _fail("invalid character class range")
        if name.startswith("^"):
            negative, name = not negative, name[1:]
        mask = classes.unicode_class(name, ignore_case=self._ignores_case)
        if mask is None:
            _fail("invalid character class range")
        self._at = end
        return classes.ALL & ~mask if negative else mask

    def _escaped_code(self) -> int:
        """The character that a backslash and what follows it stand for."""
        self._at += 1
        if not self._more():
            _fail("trailing backslash at end of expression")
        character = self._text[self._at]
        self._at += 1
        if character in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[character]
        if character == "x":
            return self._hexadecimal()
        if character == "0" or (character in "1234567" and self._text[self._at : self._at + 1] in tuple("01234567")):
            return self._octal(character)
        if character.isascii() and character.isalnum():
            _fail("invalid escape sequence")
        return ord(character)

    def _octal(self, digits: str) -> int:
        while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
            digits += self._text[self._at]
            self._at += 1
        return int(digits, 8)

    def _hexadecimal(self) -> int:
        if self._text.startswith("{", self._at):
            digits, closed, _ = self._text[self._at + 1 :].partition("}")
            length = len(digits) + 2
        else:
            digits, closed, length = self._text[self._at : self._at + 2], "}", 2
            if len(digits) < length:
                closed = ""
        if not closed or not digits or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            _fail("invalid escape sequence")
        code = int(digits, 16)
        if code > 0x10FFFF:
            _fail("invalid escape sequence")
        self._at += length
        return code

    def _class(self) -> None:
        self._at += 1
        negative = self._text.startswith("^", self._at)
        self._at += negative
        mask, first = 0, True
        while first or not self._text.startswith("]", self._at):
            first = False
            mask |= self._class_item()
        self._push(Characters(classes.ALL & ~mask if negative else mask), 1)

    def _class_item(self) -> int:
        if self._text.startswith("[:", self._at) and ":]" in self._text[self._at :]:
            return self._posix_class()
        if self._text.startswith("\\", self._at):
            mask = self._escaped_class()
            if mask is not None:
                return mask
        low = high = self._class_code()
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            self._at += 1
            high = self._class_code()
        if high < low:
            _fail("invalid character class range")
        return self._range(low, high)

    def _posix_class(self) -> int:
        name, _, _ = self._text[self._at + 2 :].partition(":]")
        mask = classes.POSIX.get(name.removeprefix("^"))
        if mask is None:
            _fail("invalid character class range")
        self._at += len(name) + 4
        if self._ignores_case:
            mask = classes.ignoring_case(mask)
        return classes.ALL & ~mask if name.startswith("^") else mask

    def _class_code(self) -> int:
        if not self._more():
            _fail("missing closing ]")
        if self._text[self._at] == "\\":
            return self._escaped_code()
        self._at += 1
        return ord(self._text[self._at - 1])


def _number(digits: str) -> int | None:
    """A count without leading zeros; one of more than eight digits is too large in any case."""
    if not digits or not all(digit in "0123456789" for digit in digits) or (len(digits) > 1 and digits[0] == "0"):
        return None
    return int(digits) if len(digits) <= 8 else LARGEST_REPEAT + 1


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


def _fail(reason: str) -> NoReturn:
    raise InvalidRegex(reason)
