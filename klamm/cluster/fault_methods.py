"""The methods of `klamm.Cluster` about fault rules: those of `klamm.control.fault_verbs`, on trio and without HTTP."""

from collections.abc import Sequence
from typing import Any, TypeVar

import trio

from klamm.cluster.errors import ClusterError
from klamm.cluster.fault_rules import add_fault, described, wait_for_hits
from klamm.control.fault_verbs import WAIT_SECONDS, Fault, plain
from klamm.server.faults.counting import RuleState
from klamm.server.faults.rules import NoSuchRule
from klamm.server.server import Server

T = TypeVar("T")


class FaultMethods:
    """The methods about fault rules."""

    @property
    def _up(self) -> Server:
        raise NotImplementedError

    async def fail(self, api: str | Sequence[str], error: str | None = None, **rule: Any) -> Fault:
        """Add a rule about an API: `await cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", times=2)`.
        Without `error`, other members define the effect. A rule without any effect only counts requests."""
        return await self.add_fault(api=api, error=error, **rule)

    async def add_fault(self, **rule: Any) -> Fault:
        """Add a rule by its members (docs/faults.md)."""
        await trio.lowlevel.checkpoint()
        try:
            return Fault.from_json(add_fault(self._up, {name: plain(value) for name, value in rule.items()}))
        except ValueError as error:
            raise ClusterError(str(error)) from None

    async def faults(self) -> tuple[Fault, ...]:
        """All rules, in the order in which they apply."""
        await trio.lowlevel.checkpoint()
        return tuple(self._shown(state) for state in self._up.faults.all())

    async def fault(self, fault: Fault | str) -> Fault:
        """The present state of a rule. `fault` is a rule or its id."""
        await trio.lowlevel.checkpoint()
        try:
            return self._shown(self._up.faults.find(_id(fault)))
        except NoSuchRule as error:
            raise ClusterError(str(error)) from None

    async def remove_fault(self, fault: Fault | str) -> Fault:
        """Remove a rule. Returns its last state. Klamm closes the connections that the rule keeps silent."""
        await trio.lowlevel.checkpoint()
        try:
            return self._shown(self._up.faults.remove(_id(fault)))
        except NoSuchRule as error:
            raise ClusterError(str(error)) from None

    async def remove_faults(self) -> int:
        """Remove all rules. Returns their number."""
        await trio.lowlevel.checkpoint()
        return self._up.faults.clear()

    async def wait_for_fault(self, fault: Fault | str, hits: int = 1, timeout_seconds: float = WAIT_SECONDS) -> Fault:
        """Wait until a rule has at least `hits` hits. Raises `TimeoutError`."""
        try:
            return Fault.from_json(await wait_for_hits(self._up, _id(fault), hits, timeout_seconds))
        except NoSuchRule as error:
            raise ClusterError(str(error)) from None

    def _shown(self, state: RuleState) -> Fault:
        return Fault.from_json(described(self._up, state))


def _id(fault: Fault | str) -> str:
    return fault if isinstance(fault, str) else fault.id
