"""All rules of a server: added, removed, counted, and found for a request.

Rules are looked up by API, and within an API by the topic, the group or another name that they match (`by_name`), so
that a request meets few of a thousand rules. Rules are applied in the order in which they were added. An item is
refused by the first rule that would; a request that gets no answer, or a damaged one, has that from the first rule;
delays add up. A rule of which nothing is left to do is not counted.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from klamm.broker.dispatch import APIS
from klamm.controller.generators import new_generator
from klamm.protocol.near_names import did_you_mean
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass
from klamm.server.faults.by_name import RulesByName
from klamm.server.faults.counting import Hit, RuleState
from klamm.server.faults.rule import Asked, FaultRule
from klamm.server.faults.shapes import shape_of
from klamm.server.faults.struck import LONGEST_DELAY_MS, Struck
from klamm.server.faults.subjects import Item, Subject, asks_for_all, items_of, whole_subject

MAX_RULES: Final = 2_000
MAX_STALE_RULES: Final = 16
"""Each rule with stale metadata keeps a copy of all metadata."""
FAULT_STREAM: Final = 2
"""The stream of random numbers of fault rules, beside those of the controller (`klamm.controller.generators`)."""
DEEDS_FOR_ALL: Final = frozenset({"ElectLeaders"})
"""APIs in which a request for all there are changes something. It is refused as a whole."""
Topics = Callable[[Uuid], str | None]
_EVERY_KEY: Final = tuple(api.key for api in APIS)


class NoSuchRule(Exception):
    """No rule has this id. The text is one clause for users."""


class RuleRefused(Exception):
    """The rule cannot be added. The text is one clause for users."""


class FaultRules:
    """The rules of one server."""

    def __init__(
        self, seed: int | None, clock_ms: Callable[[], int], topic_name: Topics, stale_metadata: Callable[[], Any]
    ) -> None:
        """`topic_name` finds a topic by its id; `stale_metadata` copies the metadata as they are now."""
        self._seed = seed
        self._clock_ms = clock_ms
        self._topic_name = topic_name
        self._stale_metadata = stale_metadata
        self._states: dict[str, RuleState] = {}
        self._added = 0
        self._by_api: dict[int, _OfApi] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called after each hit and each removal, for clients that wait for them."""

    def concern(self, api_key: int) -> bool:
        """Whether any rule may match a request of this API."""
        return api_key in self._by_api

    def refuse_items(self, api_key: int) -> bool:
        """Whether a rule may match or refuse single items of requests of this API."""
        return api_key in self._by_api and self._by_api[api_key].names_items

    def add(self, rule: FaultRule) -> RuleState:
        """Add a rule behind the others. Raises RuleRefused."""
        if len(self._states) >= MAX_RULES:
            raise RuleRefused(f"there are {MAX_RULES} rules, and more are not possible")
        if rule.stale_metadata and sum(state.stale is not None for state in self._states.values()) >= MAX_STALE_RULES:
            raise RuleRefused(f"{MAX_STALE_RULES} rules keep stale metadata, and more are not possible")
        if rule.rule_id in self._states:
            raise RuleRefused(f"there is a rule {rule.rule_id!r} already")
        self._added += 1
        rule_id = rule.rule_id or self._new_id()
        rng = new_generator(self._seed, 0, FAULT_STREAM, self._added)
        state = self._states[rule_id] = RuleState(rule, rule_id, self._added, self._clock_ms(), rng)
        if rule.stale_metadata:
            state.stale = self._stale_metadata()
        self._enter(state)
        return state

    def _new_id(self) -> str:
        number = self._added
        while f"fault-{number}" in self._states:
            number += 1
        return f"fault-{number}"

    def find(self, rule_id: str) -> RuleState:
        """The rule with this id. Raises NoSuchRule."""
        state = self._states.get(rule_id)
        if state is None:
            raise NoSuchRule(f"there is no rule {rule_id[:40]!r}{did_you_mean(rule_id[:40], self._states)}")
        return state

    def remove(self, rule_id: str) -> RuleState:
        """Remove a rule. Connections that it keeps silent are closed. Raises NoSuchRule."""
        state = self.find(rule_id)
        del self._states[rule_id]
        self._end(state)
        return state

    def clear(self) -> int:
        """Remove all rules; returns their number."""
        states, self._states = list(self._states.values()), {}
        for state in states:
            self._end(state)
        return len(states)

    def all(self) -> Sequence[RuleState]:
        """All rules, in their order; those that will never hit again included."""
        return list(self._states.values())

    def _end(self, state: RuleState) -> None:
        state.is_removed = True
        for call in tuple(state.at_removal):
            call()
        self._index()
        self.on_change()

    def _index(self) -> None:
        """Build the index anew from the rules that may hit. Rules change seldom, requests come often."""
        self._by_api = {}
        for state in self._states.values():
            if state.hits != state.rule.times:
                self._enter(state)

    def _enter(self, state: RuleState) -> None:
        for key in [api.key for api in state.rule.apis] or _EVERY_KEY:
            if key not in self._by_api:
                self._by_api[key] = _OfApi()
            self._by_api[key].add(state)

    def strike(self, asked: Asked, correlation_id: int) -> Struck | None:
        """Apply the rules to a request; None: none hits."""
        now_ms = self._clock_ms()
        shape = shape_of(asked.api, asked.api_version)
        names = _Names(self._topic_name)
        struck = Struck(asked, shape, names)
        items = items_of(asked.request, shape.request, names)
        if not items or not shape.response:
            items = [*items, Item((), whole_subject(asked.request))]
        asks_all = bool(shape.response) and asks_for_all(asked.request, shape.request)
        asking = _Asking(items, asks_all, correlation_id, now_ms)
        found = self._by_api[asked.api.key].candidates(asked, [item.subject for item in items], asks_all)
        for state in found:
            if state.rule.matches_request(asked):
                self._consider(state, struck, asking)
        if any(state.hits == state.rule.times for state in found):
            self._index()
        return struck if struck.rule_ids or struck.deferred else None

    def _consider(self, state: RuleState, struck: Struck, asking: "_Asking") -> None:
        """Apply a rule that matches a request, if it matches items of it, has something left to do, and counts."""
        rule, items = state.rule, asking.items
        if asking.for_all and rule.error and not rule.whole and struck.asked.api.name not in DEEDS_FOR_ALL:
            struck.deferred.append(state)
            return
        mine = [item for item in items if rule.matches_item(item.subject)] if rule.has_subject else items
        if not mine and not (asking.for_all and rule.has_subject):
            return
        left = _left_to_do(struck, state, mine)
        if left is not None and state.count(asking.now_ms):
            _apply(struck, state, left)
            self._note(state, struck, left, asking.correlation_id, asking.now_ms)

    def take(self, struck: Struck, correlation_id: int) -> Callable[[RuleState, Sequence[Item]], bool]:
        """The function that counts the hits of the deferred rules of a request."""

        def count(state: RuleState, items: Sequence[Item]) -> bool:
            now_ms = self._clock_ms()
            if state.is_removed or not state.count(now_ms):
                return False
            self._note(state, struck, items, correlation_id, now_ms)
            return True

        return count

    def _note(self, state: RuleState, struck: Struck, items: Sequence[Item], correlation_id: int, now_ms: int) -> None:
        asked = struck.asked
        named = tuple(text for item in items if (text := _text(item.subject)))
        who = asked.client_id, asked.client.broker_id
        state.requests.append(Hit(now_ms, asked.api.name, asked.api_version, correlation_id, *who, named))
        self.on_change()


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the rules see of one request beside its `Asked`."""

    items: Sequence[Item]
    for_all: bool
    correlation_id: int
    now_ms: int


class _Names:
    """Names of topics by their ids, remembered for one request: it may delete the topic."""

    def __init__(self, find: Topics) -> None:
        self._find = find
        self._known: dict[Uuid, str | None] = {}

    def __call__(self, topic_id: Uuid) -> str | None:
        if topic_id not in self._known:
            self._known[topic_id] = self._find(topic_id)
        return self._known[topic_id]


class _OfApi:
    """The rules that may match requests of one API."""

    def __init__(self) -> None:
        self._any: list[RuleState] = []
        self._by_topic, self._by_group, self._by_transaction = RulesByName(), RulesByName(), RulesByName()
        self._by_client, self._by_principal = RulesByName(), RulesByName()
        self.names_items = False
        """Whether a rule is about items, or refuses them."""

    def add(self, state: RuleState) -> None:
        rule = state.rule
        self.names_items = self.names_items or rule.has_subject or rule.error is not None
        for pattern, rules in (
            (rule.topic, self._by_topic), (rule.group, self._by_group), (rule.transactional_id, self._by_transaction),
            (rule.client_id, self._by_client), (rule.principal, self._by_principal),
        ):  # fmt: skip
            if pattern is not None:
                rules.add(pattern, state)
                return
        self._any.append(state)

    def candidates(self, asked: Asked, subjects: Sequence[Subject], asks_all: bool) -> Sequence[RuleState]:
        """The rules that may match, in order."""
        found = list(self._any)
        if asked.client_id is not None:
            found += self._by_client.of(asked.client_id)
        if asked.client.principal is not None:
            found += self._by_principal.of(asked.client.principal)
        if asks_all:
            for rules in (self._by_topic, self._by_group, self._by_transaction):
                found += rules.all()
        else:
            found += _of(self._by_topic, {subject.topic for subject in subjects})
            found += _of(self._by_group, {subject.group for subject in subjects})
            found += _of(self._by_transaction, {subject.transactional_id for subject in subjects})
        return sorted(set(found), key=_number) if len(found) > 1 else found


def _of(rules: RulesByName, names: set[str | None]) -> list[RuleState]:
    return [state for name in names if name is not None for state in rules.of(name)]


def _number(state: RuleState) -> int:
    return state.number


def _left_to_do(struck: Struck, state: RuleState, items: Sequence[Item]) -> list[Item] | None:
    """The items that the rule can still take; None: other rules have done all that it would do."""
    rule = state.rule
    if rule.error is not None:
        if struck.whole is not None:
            return None
        if rule.whole or not struck.shape.response:
            return list(items)
        left = [
            item for item in items if item.place not in struck.before.codes and item.place not in struck.after.codes
        ]
        return left or None
    if rule.answer is not None and struck.answer is not None:
        return None
    return None if rule.stale_metadata and struck.stale is not None else list(items)


def _apply(struck: Struck, state: RuleState, items: Sequence[Item]) -> None:
    rule = state.rule
    struck.rule_ids.append(state.rule_id)
    if rule.error is not None:
        if rule.whole or not struck.shape.response or () in {item.place for item in items}:
            struck.whole, struck.whole_after = (rule.error, state), rule.after
        else:
            (struck.after if rule.after else struck.before).add(items, state, rule.error)
    if rule.delay is not None:
        name = "delay_after_ms" if rule.after else "delay_before_ms"
        spent = struck.delay_after_ms + struck.delay_before_ms
        setattr(struck, name, getattr(struck, name) + state.delay_ms(LONGEST_DELAY_MS - spent))
    if rule.throttle_time_ms is not None and struck.throttle_time_ms is None:
        struck.throttle_time_ms = rule.throttle_time_ms
    if rule.answer is not None:
        struck.answer, struck.answer_after, struck.answer_by = rule.answer, rule.after, state
    if rule.stale_metadata:
        struck.stale = state.stale
    struck.sets += rule.set


def _text(subject: Subject) -> str:
    if subject.topic is not None:
        return subject.topic if subject.partition is None else f"{subject.topic}-{subject.partition}"
    return subject.group or subject.transactional_id or ""
