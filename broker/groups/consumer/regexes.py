"""Subscriptions by regular expression: when expressions are matched against the topics, and what follows from it.

Matching reads all topic names, so it is no part of a heartbeat: the heartbeat says what has to be resolved, the host
runs `resolve_in_steps` in the background, and `record_resolved` makes records of what was found. Source: KIP-848,
section on regular expressions, and Kafka 4.3's answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from klamm.broker.groups.consumer import records
from klamm.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from klamm.broker.groups.consumer.member import Member
from klamm.broker.groups.consumer.outcome import Context, Outcome
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.subscriptions import metadata_hash
from klamm.broker.groups.consumer.topics import Topics
from klamm.broker.groups.regex import InvalidRegex, compile_regex
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError

LEAST_BETWEEN_RESOLUTIONS_MS: Final = 10_000


class RegexChange(Enum):
    """What a heartbeat did to a member's regular expression."""

    NONE = auto()
    CHANGED = auto()
    """To one that has to be resolved before it changes the group."""
    CHANGED_AND_RESOLVED = auto()
    """To one whose topics are known, or to none."""


@dataclass(frozen=True, slots=True)
class RegexDecision:
    change: RegexChange
    records: list[Record]
    to_resolve: frozenset[str] = frozenset()


def decide(group: ConsumerGroup, was: Member, becomes: Member, context: Context) -> RegexDecision | ApiError:
    """What follows from the regular expressions of a member before and after a heartbeat."""
    old, new = was.subscribed_topic_regex, becomes.subscribed_topic_regex
    change, unresolved = RegexChange.NONE, False
    written: list[Record] = []
    if old != new:
        change = RegexChange.CHANGED
        if old and group.regex_counts[old] == 1:
            written.append(records.no_regex(group.group_id, old))
        if not new or (new in group.resolved and group.regex_counts[new]):
            change = RegexChange.CHANGED_AND_RESOLVED
        elif not group.regex_counts[new]:
            unresolved = True
            refusal = _check(new)
            if refusal is not None:
                return refusal
    counts = group.regex_counts.copy()
    if not unresolved and not counts:
        return RegexDecision(change, written)
    for regex, step in ((old, -1), (new, 1)):
        if regex:
            counts[regex] += step
    used = frozenset(+counts)
    if used and _is_due(group, used, context, unresolved=unresolved):
        return RegexDecision(change, written, used)
    return RegexDecision(change, written)


def _check(regex: str) -> ApiError | None:
    try:
        compile_regex(regex)
    except InvalidRegex as invalid:
        return ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {invalid}.",
        )
    return None


def _is_due(group: ConsumerGroup, used: frozenset[str], context: Context, *, unresolved: bool) -> bool:
    last = next(iter(group.resolved.values()), None)
    if last is None:
        return True
    if context.now_ms <= last.resolved_at_ms + LEAST_BETWEEN_RESOLUTIONS_MS:
        return False
    return (
        unresolved
        or len(used) != len(group.resolved)
        or last.version < context.topics.version_of_newest_topic
        or context.now_ms > last.resolved_at_ms + context.settings.regex_refresh_interval_ms
    )


def resolve_in_steps(
    regexes: Iterable[str], topics: Topics, now_ms: int, may_describe: Callable[[str], bool], names_at_once: int
) -> Iterator[dict[str, ResolvedRegex] | None]:
    """Match each expression against all topic names; those whose topics may not be described are left out.

    Yields None after so many names, and at last what was found. An expression that is not valid matches nothing: it
    was checked when it came, so that this is one of a newer release.
    """
    names, left = list(topics.names()), names_at_once
    found: dict[str, ResolvedRegex] = {}
    for regex in sorted(regexes):
        matched: list[str] = []
        try:
            matches = compile_regex(regex).fullmatch
        except InvalidRegex:
            found[regex] = ResolvedRegex(frozenset(), topics.version, now_ms)
            continue
        for name in names:
            if matches(name) and may_describe(name):
                matched.append(name)
            left -= 1
            if not left:
                left = names_at_once
                yield None
        found[regex] = ResolvedRegex(frozenset(matched), topics.version, now_ms)
    yield found


def record_resolved(group: ConsumerGroup, found: Mapping[str, ResolvedRegex], topics: Topics) -> Outcome:
    """The records of what was found for the expressions that members still have. The group epoch goes up if any
    expression has other topics than before, or if the topics have changed."""
    written: list[Record] = []
    changed = False
    names = group.resolved_topic_counts.copy()
    for regex, resolved in found.items():
        if not group.regex_counts[regex]:
            continue
        before = group.resolved[regex].topic_names if regex in group.resolved else frozenset()
        if before != resolved.topic_names:
            changed = True
            names.subtract(before)
            names.update(resolved.topic_names)
        written.append(records.resolved_regex(group.group_id, regex, resolved))
    new_hash = metadata_hash((+names).keys() | group.topic_name_counts.keys(), topics)
    if not changed and new_hash == group.metadata_hash:
        return Outcome(records=written)
    epoch = group.group_epoch + 1
    return Outcome(records=[*written, records.group_epoch(group.group_id, epoch, new_hash)], refreshed_at=epoch)
