"""Fault rules for users: added by their members, and shown with their counts. Used by `klamm.Cluster`, by the control
interface and by `klamm serve --faults`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from klamm.console.documents import read_document
from klamm.console.shown import shown
from klamm.server.faults.counting import RuleState
from klamm.server.faults.reading import read_rule
from klamm.server.faults.rule import FaultRule
from klamm.server.faults.rules import RuleRefused
from klamm.server.server import Server

MOST_NAMED: Final = 3
"""The most members that a refusal names."""


def add_fault(server: Server, members: Mapping[str, Any]) -> dict[str, Any]:
    """Add a rule; returns it as `described` does. Raises ValueError."""
    rule = read_rule(members)
    _refuse_unknown_listener(server, rule)
    try:
        return described(server, server.faults.add(rule))
    except RuleRefused as error:
        raise ValueError(str(error)) from None


def _refuse_unknown_listener(server: Server, rule: FaultRule) -> None:
    """Raise ValueError if no broker has such a listener. With a listener of the controller, any name is taken."""
    names = sorted({name for broker_id in server.brokers.by_id for name in server.addresses_of(broker_id)})
    if rule.listener is None or server.controller_bootstrap_servers or any(map(rule.listener.matches, names)):
        return
    raise ValueError(f"listener {shown(rule.listener.text)}: the listeners are {', '.join(names)}")


def described(server: Server, state: RuleState) -> dict[str, Any]:
    """A rule, its counts and the newest requests that it hit, as JSON."""
    return {
        "id": state.rule_id,
        "rule": {name: value for name, value in state.rule.given.items() if name != "id"},
        "state": "removed" if state.is_removed else "over" if state.is_over(server.now_ms()) else "active",
        "matches": state.matches,
        "hits": state.hits,
        "requests": [
            {
                "time_ms": hit.time_ms,
                "api": hit.api,
                "api_version": hit.api_version,
                "correlation_id": hit.correlation_id,
                "client_id": hit.client_id,
                "broker_id": hit.broker_id,
                "items": list(hit.items),
            }
            for hit in state.requests
        ],
    }


async def wait_for_hits(server: Server, rule_id: str, hits: int, timeout_seconds: float) -> dict[str, Any]:
    """The rule, once it has this many hits. Raises NoSuchRule, and TimeoutError with a clause."""
    state = server.faults.find(rule_id)

    def reached() -> RuleState | None:
        return state if state.hits >= hits or state.is_removed else None

    if await server.wakeups.until(reached, timeout_seconds) is None or state.hits < hits:
        hits_of = f"{state.hits} of {hits} hit{'s' * (hits != 1)}"
        if state.is_removed:
            raise TimeoutError(f"rule {state.rule_id} was removed with {hits_of}")
        raise TimeoutError(f"rule {state.rule_id} has {hits_of} after {timeout_seconds:g} s")
    return described(server, state)


def read_fault_file(path: Path) -> tuple[FaultRule, ...]:
    """The rules of a file: JSON, or YAML if its name ends so. Raises ValueError with one line."""
    content = read_document(path, "fault rules")
    try:
        return read_rules(content)
    except ValueError as error:
        raise ValueError(f"fault rules {path}: {error}") from None


def read_rules(content: object) -> tuple[FaultRule, ...]:
    """The rules of a list, or of an object with the one member `faults`. Raises ValueError with a clause."""
    rules = content["faults"] if isinstance(content, Mapping) and set(content) == {"faults"} else content
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        if isinstance(content, Mapping) and rules is content:
            has = ", ".join(map(shown, list(content)[:MOST_NAMED])) or "no member"
            raise ValueError(
                f"a list of rules, or an object with the one member 'faults', is expected, but it has {has}"
            )
        raise ValueError(f"{shown(rules)} is no list of rules")
    found: list[FaultRule] = []
    for number, form in enumerate(rules, 1):
        try:
            found.append(read_rule(form))
        except ValueError as error:
            raise ValueError(f"rule {number}: {error}") from None
    return tuple(found)
