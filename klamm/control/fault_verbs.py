"""Fault rules from Python: what `klamm.ControlClient`, `klamm.ServerProcess` and the pytest fixture can do with them.

Standard library alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self
from urllib.parse import quote

WAIT_SECONDS = 10.0

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault rule of a running cluster, as it was at one moment (docs/faults.md)."""

    id: str
    rule: Mapping[str, Any]
    """The members of the rule, as they were given."""
    state: Literal["active", "over", "removed"]
    matches: int
    """The requests that it matched while it was not over."""
    hits: int
    """The requests on which it counted, and did what it says."""
    requests: Sequence[Mapping[str, Any]]
    """The newest 100 hits: `api`, `api_version`, `client_id`, `broker_id`, `correlation_id`, `time_ms` and `items`."""

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Made of an object in an answer; members that a newer server adds are ignored."""
        return cls(**{field.name: members[field.name] for field in fields(cls)})


class FaultVerbs:
    """The methods about fault rules."""

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON of the answer to a request of the control interface."""
        raise NotImplementedError

    def fail(self, api: str | Sequence[str], error: str | None = None, **rule: Any) -> Fault:
        """Add a rule about an API: `fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=2)`. Without
        `error`, other members define the effect. A rule without any effect only counts requests."""
        return self.add_fault(api=api, error=error, **rule)

    def add_fault(self, **rule: Any) -> Fault:
        """Add a rule by its members (docs/faults.md): `add_fault(broker=2, client_id="orders-*", answer="none")`."""
        return Fault.from_json(self.ask("POST", "/faults", {name: plain(value) for name, value in rule.items()}))

    def faults(self) -> tuple[Fault, ...]:
        """All rules, in the order in which they apply."""
        return tuple(map(Fault.from_json, self.ask("GET", "/faults")["faults"]))

    def fault(self, fault: Fault | str) -> Fault:
        """The present state of a rule. `fault` is a rule or its id."""
        return Fault.from_json(self.ask("GET", _path(fault)))

    def remove_fault(self, fault: Fault | str) -> Fault:
        """Remove a rule. Returns its last state. Klamm closes the connections that the rule keeps silent."""
        return Fault.from_json(self.ask("DELETE", _path(fault)))

    def remove_faults(self) -> int:
        """Remove all rules. Returns their number."""
        removed: int = self.ask("DELETE", "/faults")["removed"]
        return removed

    def wait_for_fault(self, fault: Fault | str, hits: int = 1, timeout_seconds: float = WAIT_SECONDS) -> Fault:
        """Wait until a rule has at least `hits` hits. Raises `TimeoutError`."""
        body = {"hits": hits, "timeout_ms": round(timeout_seconds * 1000)}
        return Fault.from_json(waited(self, f"{_path(fault)}/wait", body))


def waited(verbs: Any, path: str, body: Mapping[str, object]) -> Any:
    """The answer to a request that waits. Raises `TimeoutError` if what it waits for did not happen in time."""
    try:
        return verbs.ask("POST", path, body)
    except Exception as error:
        if getattr(error, "status", None) == 504:
            raise TimeoutError(str(error)) from None
        raise


def _path(fault: Fault | str) -> str:
    return f"/faults/{quote(fault if isinstance(fault, str) else fault.id, safe='')}"


def plain(value: Any) -> Any:
    """The value as JSON has it: error codes by name, sequences as lists."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return list(value) if isinstance(value, tuple | set | frozenset | range) else value
