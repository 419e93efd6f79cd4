"""A regular expression as a graph, and names matched against it by following all paths at once.

A step of the graph reads a character, or checks a boundary, or leads on to others. For each character of a name every
step is visited once at most (Thompson's construction), whatever the expression is.
"""

from collections.abc import Sequence as Many
from typing import Final

from klamm.broker.groups.regex import classes
from klamm.broker.groups.regex.parser import (
    Boundary,
    Characters,
    Choice,
    InvalidRegex,
    Node,
    Repeat,
    Sequence,
    parse,
)
from klamm.quick_dataclasses import dataclass

LARGEST_PROGRAM: Final = 5_000
"""Steps. RE2J has no limit: it would try to build what `(a{1000}){1000}` means."""
_MOST_REMEMBERED: Final = 50_000
"""Steps in all the sets that one matcher remembers, about 5 MB."""


@dataclass(slots=True)
class _Step:
    """`mask`: reads one of these characters; `boundary`: checks; neither: only leads on. `next`: where to."""

    next: tuple[int, ...]
    mask: int = 0
    boundary: str | None = None


class Program:
    """A compiled expression; it belongs to one thread, since it remembers what it has seen."""

    def __init__(self, steps: Many[_Step], start: int) -> None:
        self._steps = steps
        self._start = frozenset((start,))
        self._seen: dict[tuple[frozenset[int], bool, str, bool], frozenset[int]] = {}
        self._remembered = 0

    def fullmatch(self, name: str) -> bool:
        """Whether all of `name` matches."""
        reached, was_word = self._start, False
        for at, character in enumerate(name):
            reached = self._after(reached, character, was_word=was_word, first=at == 0)
            if not reached:
                return False
            was_word = _is_word(character)
        around = _boundaries(first=not name, last=True, was_word=was_word, is_word=False)
        return any(not self._steps[step].next for step in self._closure(reached, around))

    def _after(self, reached: frozenset[int], character: str, *, was_word: bool, first: bool) -> frozenset[int]:
        """The steps that are next after reading `character`."""
        key = reached, was_word, character, first
        found = self._seen.get(key)
        if found is None:
            around = _boundaries(first=first, last=False, was_word=was_word, is_word=_is_word(character))
            bit = classes.single(ord(character))
            found = frozenset(
                self._steps[step].next[0] for step in self._closure(reached, around) if self._steps[step].mask & bit
            )
            self._remembered += len(found) + 1
            if self._remembered > _MOST_REMEMBERED:
                self._seen.clear()
                self._remembered = 0
            self._seen[key] = found
        return found

    def _closure(self, reached: frozenset[int], around: frozenset[str]) -> list[int]:
        """The steps that read, and the end, that can be reached without reading between these two characters."""
        visited, waiting, found = set(reached), list(reached), []
        while waiting:
            number = waiting.pop()
            step = self._steps[number]
            if step.mask or not step.next:
                found.append(number)
            elif step.boundary is None or step.boundary in around:
                for following in step.next:
                    if following not in visited:
                        visited.add(following)
                        waiting.append(following)
        return found


def _is_word(character: str) -> bool:
    return bool(classes.WORD & classes.single(ord(character)))


def _boundaries(*, first: bool, last: bool, was_word: bool, is_word: bool) -> frozenset[str]:
    """Which boundaries there are between the character before and the one after."""
    held = {"word" if was_word != is_word else "not_word"}
    if first:
        held.add("start")
    if last:
        held.add("end")
    return frozenset(held)


def compile_regex(text: str) -> Program:
    """The expression, ready to match. Raises InvalidRegex: it is not one, or needs more than LARGEST_PROGRAM steps."""
    builder = _Builder()
    end = builder.add(())
    return Program(builder.steps, builder.build(parse(text), end))


class _Builder:
    """Builds from the end to the start, so that each step knows what follows it."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def add(self, following: tuple[int, ...], mask: int = 0, boundary: str | None = None) -> int:
        if len(self.steps) >= LARGEST_PROGRAM:
            raise InvalidRegex("expression is too large")
        self.steps.append(_Step(following, mask, boundary))
        return len(self.steps) - 1

    def build(self, node: Node, after: int) -> int:
        """The step with which `node` starts; `after` is what follows it."""
        match node:
            case Characters(mask):
                # A class without ASCII characters reads what no name has: it leads nowhere, but has a successor.
                return self.add((after,), mask or 1 << 128)
            case Boundary(kind):
                return self.add((after,), boundary=kind)
            case Sequence(parts):
                for part in reversed(parts):
                    after = self.build(part, after)
                return after
            case Choice(parts):
                return self.add(tuple(self.build(part, after) for part in parts))
            case Repeat(part, least, most):
                return self._repeat(part, least, most, after)

    def _repeat(self, part: Node, least: int, most: int | None, after: int) -> int:
        start = after
        if most is None:
            start = self.add((after,))
            self.steps[start].next = (self.build(part, start), after)
        else:
            for _ in range(most - least):
                start = self.add((self.build(part, start), after))
        for _ in range(least):
            start = self.build(part, start)
        return start
