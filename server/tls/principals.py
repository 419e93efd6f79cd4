"""`ssl.principal.mapping.rules`: from the name of a client certificate to the name of its principal, as in Kafka's
SslPrincipalMapper. The first rule that matches the whole name counts.
"""

import re
from dataclasses import dataclass
from typing import Final

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.DOTALL)
_PARSER: Final = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class NoRuleMatches(Exception):
    """No rule maps a name, so that its connection has to be refused."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: the name stays as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        result = _REFERENCE.sub(lambda reference: _referred(found, reference), self.replacement)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)


def _referred(found: re.Match[str], reference: re.Match[str]) -> str:
    """What an escape, or a reference to a group, stands for; a group that does not exist stands for itself."""
    if reference[1] is not None:
        return str(reference[1])
    number = int(reference[2])
    return str(found[number] or "") if number <= (found.re.groups) else str(reference[0])


class PrincipalRules:
    """The rules of a listener."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """Raises ValueError with one clause about the first rule that cannot be read."""
        self._rules = [_decoded(rule) for rule in _split(text)] or [_Rule(None)]

    def name_of(self, subject: str) -> str:
        """The name of the principal for a certificate's subject. Raises NoRuleMatches."""
        for rule in self._rules:
            if (name := rule.apply(subject)) is not None:
                return name
        raise NoRuleMatches(subject)


def _split(text: str) -> list[str]:
    text, position, rules = text.strip(), 0, []
    while position < len(text):
        found = _SPLITTER.match(text, position)
        assert found is not None, "the last alternative matches any text"
        if found[1]:
            rules.append(found[1])
        if found.end() == position:
            break
        position = found.end()
    return rules


def _decoded(rule: str) -> _Rule:
    found = _PARSER.fullmatch(rule)
    if found is None:
        raise ValueError(f"rule {rule!r} is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/, with L or U at its end")
    if found[1]:
        return _Rule(None)
    try:
        pattern = re.compile(found[2])
    except re.error as error:
        raise ValueError(f"rule {rule!r}: its pattern cannot be read: {error}") from None
    return _Rule(pattern, found[3], found[4])
