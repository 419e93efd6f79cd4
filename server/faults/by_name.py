"""Finds the rules that name a topic, a group or a client, whole or by a pattern, among a thousand of them.

A pattern is looked up by the literal text before its first wildcard, else by that behind its last one, else by the end
of its longest literal text. What was found for a name is remembered, for a bounded number of names.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from klamm.server.faults.counting import RuleState
from klamm.server.faults.rule import Pattern

MAX_KNOWN: Final = 1_024
"""The names whose rules are remembered; with more, all are forgotten."""
GRAM: Final = 3
"""The characters of a literal text between wildcards by which its pattern is looked up."""
_LITERALS: Final = re.compile(r"[*?]+")

_ByText = dict[str, list[tuple[Pattern, RuleState]]]


class RulesByName:
    """The rules of one API that have a pattern for one kind of name."""

    __slots__ = ("_inside", "_known", "_prefixes", "_short", "_suffixes", "_whole")

    def __init__(self) -> None:
        self._whole: dict[str, list[RuleState]] = {}
        self._prefixes: dict[int, _ByText] = {}
        """By the length of their literal beginning, then by that text."""
        self._suffixes: dict[int, _ByText] = {}
        self._inside: _ByText = {}
        """Patterns that begin and end with wildcards, by the last characters of their longest literal text."""
        self._short: list[tuple[Pattern, RuleState]] = []
        """Those without such a text, which are compared one by one."""
        self._known: dict[str, Sequence[RuleState]] = {}

    def add(self, pattern: Pattern, state: RuleState) -> None:
        """Add a rule with this pattern."""
        self._known.clear()
        if pattern.compiled is None:
            self._whole.setdefault(pattern.text, []).append(state)
            return
        literals = _LITERALS.split(pattern.text)
        prefix, suffix = literals[0], literals[-1]
        if prefix:
            self._prefixes.setdefault(len(prefix), {}).setdefault(prefix, []).append((pattern, state))
        elif suffix:
            self._suffixes.setdefault(len(suffix), {}).setdefault(suffix, []).append((pattern, state))
        elif len(longest := max(literals, key=len)) >= GRAM:
            self._inside.setdefault(longest[-GRAM:], []).append((pattern, state))
        else:
            self._short.append((pattern, state))

    def all(self) -> Iterator[RuleState]:
        """All of them."""
        for states in self._whole.values():
            yield from states
        for by_text in (*self._prefixes.values(), *self._suffixes.values(), self._inside):
            for found in by_text.values():
                yield from (state for _, state in found)
        yield from (state for _, state in self._short)

    def of(self, name: str) -> Sequence[RuleState]:
        """Those whose pattern matches a name."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[name] = self._matching(name)
        return known

    def _matching(self, name: str) -> list[RuleState]:
        found = list(self._whole.get(name, ()))
        for length, by_text in self._prefixes.items():
            found += [state for pattern, state in by_text.get(name[:length], ()) if pattern.matches(name)]
        for length, by_text in self._suffixes.items():
            found += [state for pattern, state in by_text.get(name[-length:], ()) if pattern.matches(name)]
        if self._inside:
            for gram in {name[at : at + GRAM] for at in range(len(name) - GRAM + 1)}:
                found += [state for pattern, state in self._inside.get(gram, ()) if pattern.matches(name)]
        found += [state for pattern, state in self._short if pattern.matches(name)]
        return found
