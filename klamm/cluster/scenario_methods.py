"""The method of `klamm.Cluster` that runs scenarios: that of `klamm.control.scenario_verbs`, on trio, without HTTP."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import trio

from klamm.server.faults.rules import NoSuchRule
from klamm.server.server import Server

if TYPE_CHECKING:
    from klamm.control.scenario_run import Asked, Report


class _Broker(NamedTuple):
    """What a scenario asks of a broker."""

    id: int
    state: Literal["up", "down"]


class ScenarioMethods:
    """The method about scenarios."""

    @property
    def _up(self) -> Server:
        raise NotImplementedError

    async def run_scenario(
        self, scenario: "str | os.PathLike[str] | Mapping[str, Any]", **parameters: str | float
    ) -> "Report":
        """Run a scenario (docs/scenarios.md). `scenario` is the path of a file, the name of a scenario that comes with
        Klamm, or its content. `parameters` replace those of the scenario. Trio's clock measures its pauses and its
        timeout. Raises ValueError for an invalid scenario, and `klamm.ScenarioFailed`, which has the report, if a step
        fails."""
        from klamm.control.scenario_file import scenario_of
        from klamm.control.scenario_run import Run

        run = Run(scenario_of(scenario, type(self)), parameters, clock=trio.current_time)
        steps = run.steps()
        try:
            asked = next(steps)
            while True:
                try:
                    answered = await self._answer(asked)
                except Exception as error:  # noqa: BLE001 - the run decides what a failure means
                    asked = steps.throw(error)
                else:
                    asked = steps.send(answered)
        except StopIteration as end:
            report: Report = end.value
            return report
        except trio.Cancelled:
            for rule_id in run.added:
                with suppress(NoSuchRule):
                    self._up.faults.remove(rule_id)
            raise

    async def _answer(self, asked: "Asked") -> Any:
        if asked.verb == "pause":
            return await trio.sleep(asked.arguments["seconds"])
        if asked.verb == "brokers":
            await trio.lowlevel.checkpoint()
            by_id = sorted(self._up.brokers.by_id.items())
            return [_Broker(broker_id, "up" if one.is_up else "down") for broker_id, one in by_id]
        return await getattr(self, asked.verb)(**asked.arguments)
