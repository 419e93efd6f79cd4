"""All access control entries, arranged so that a check of one name costs a few look-ups.

Entries that differ only in the resource share one `NamePatterns`. A check first finds the few `NamePatterns` for its
principal, host and operation, once for any number of names, and then matches each name with them. The cost of adding
and removing does not depend on the number of entries. The rules are those of Kafka's StandardAuthorizer: DENY before
ALLOW, literal, prefixed and "*" patterns, principal "User:*", host "*".
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from klamm.controller.authorizer.acls import (
    IMPLIED_BY,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

_Key = TypeVar("_Key")
FEW_PREFIXES = 32
"""Up to this many prefixes are tried one by one, in C; more are looked up, once for each length of a prefix."""
_ANY_NAME = "hardcode"
_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)


class NamePatterns:
    """Literal and prefixed names, each with the number of times it was added."""

    __slots__ = ("_few_prefixes", "_lengths", "_literals", "_prefixes")

    def __init__(self) -> None:
        self._literals: dict[str, int] = {}
        self._prefixes: dict[str, int] = {}
        self._lengths: dict[int, int] = {}
        """The number of different prefixes of each length."""
        self._few_prefixes: tuple[str, ...] | None = ()
        """All prefixes; None if there are more than `FEW_PREFIXES`."""

    def __bool__(self) -> bool:
        return bool(self._literals or self._prefixes)

    @property
    def match_everything(self) -> bool:
        return WILDCARD in self._literals

    def add(self, pattern_type: int, name: str) -> None:
        if pattern_type == PatternType.LITERAL:
            self._literals[name] = self._literals.get(name, 0) + 1
        else:
            if name not in self._prefixes:
                self._lengths[len(name)] = self._lengths.get(len(name), 0) + 1
            self._prefixes[name] = self._prefixes.get(name, 0) + 1
            self._note_few_prefixes()

    def remove(self, pattern_type: int, name: str) -> None:
        """Undo one `add`."""
        if pattern_type == PatternType.LITERAL:
            _take_one(self._literals, name)
        else:
            _take_one(self._prefixes, name)
            if name not in self._prefixes:
                _take_one(self._lengths, len(name))
            self._note_few_prefixes()

    def match(self, name: str) -> bool:
        """Whether any pattern matches the resource of this name."""
        if name in self._literals or WILDCARD in self._literals:
            return True
        if self._few_prefixes is not None:
            return name.startswith(self._few_prefixes)
        # There are at most as many lengths as a name has characters, but there may be many more prefixes.
        return any(name[:length] in self._prefixes for length in self._lengths)

    def reach_beyond(self, others: Iterable["NamePatterns"]) -> bool:
        """Whether any pattern matches a name that the others do not: a literal that they do not match, or a prefix that
        does not begin with any of their prefixes."""
        return any(not any(other.match(name) for other in others) for name in self._literals) or any(
            not any(other._begins(prefix) for other in others) for prefix in self._prefixes
        )

    def _begins(self, prefix: str) -> bool:
        return WILDCARD in self._literals or any(prefix[:length] in self._prefixes for length in self._lengths)

    def _note_few_prefixes(self) -> None:
        self._few_prefixes = tuple(self._prefixes) if len(self._prefixes) <= FEW_PREFIXES else None


class Rights(NamedTuple):
    """The rights of one requester for one resource type and operation, until an entry changes."""

    deny: tuple[NamePatterns, ...]
    allow: tuple[NamePatterns, ...]
    any_entry: NamePatterns | None
    """The patterns of all entries of the type, if resources without any entry are allowed; None if they are not."""

    def allow_everything(self) -> bool:
        """Whether every name is allowed, so that names need not be examined: the usual case if access is allowed."""
        return not self.deny and any(patterns.match_everything for patterns in self.allow)

    def allow_name(self, name: str) -> bool:
        for patterns in self.deny:
            if patterns.match(name):
                return False
        for patterns in self.allow:
            if patterns.match(name):
                return True
        return self.any_entry is not None and not self.any_entry.match(name)

    def allow_some(self) -> bool:
        """Whether some resource may be allowed. Kafka (Authorizer.authorizeByResourceType) tries one name in place of
        all that have no entry."""
        return self.allow_name(_ANY_NAME) or any(patterns.reach_beyond(self.deny) for patterns in self.allow)


_Rule = tuple[int, str, str, int, int]
"""Resource type, principal, host, operation, permission: an entry without its pattern."""


class AclIndex:
    """Every entry by its rule, and all patterns by resource type."""

    def __init__(self) -> None:
        self._by_rule: dict[_Rule, NamePatterns] = {}
        self._by_type: dict[int, NamePatterns] = {}

    def add(self, acl: Acl) -> None:
        """Add an entry. It may be added more than once, and applies until it has been removed as often.

        An entry with an unknown pattern type, from a log of another controller, matches no resource.
        """
        if acl.pattern_type not in _PATTERNS:
            return
        self._by_rule.setdefault(_rule(acl), NamePatterns()).add(acl.pattern_type, acl.resource_name)
        self._by_type.setdefault(acl.resource_type, NamePatterns()).add(acl.pattern_type, acl.resource_name)

    def remove(self, acl: Acl) -> None:
        """Undo one `add` of an equal entry."""
        if acl.pattern_type not in _PATTERNS:
            return
        rule = _rule(acl)
        self._by_rule[rule].remove(acl.pattern_type, acl.resource_name)
        if not self._by_rule[rule]:
            del self._by_rule[rule]
        self._by_type[acl.resource_type].remove(acl.pattern_type, acl.resource_name)

    def rights(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        *,
        allow_if_no_acl: bool,
    ) -> Rights:
        """The rights that follow from the entries for this requester, operation and resource type."""
        who = {principal: None, WILDCARD_PRINCIPAL: None}
        where = {host: None, WILDCARD: None}
        allowing = (operation, AclOperation.ALL, *IMPLIED_BY.get(operation, ()))

        def patterns(operations: Iterable[AclOperation], permission: AclPermissionType) -> tuple[NamePatterns, ...]:
            rules = ((resource_type, one, at, what, permission) for one in who for at in where for what in operations)
            return tuple(found for rule in rules if (found := self._by_rule.get(rule)))

        return Rights(
            deny=patterns((operation, AclOperation.ALL), AclPermissionType.DENY),
            allow=patterns(allowing, AclPermissionType.ALLOW),
            any_entry=self._by_type.get(resource_type, NamePatterns()) if allow_if_no_acl else None,
        )


def _rule(acl: Acl) -> _Rule:
    return acl.resource_type, acl.principal, acl.host, acl.operation, acl.permission_type


def _take_one(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
