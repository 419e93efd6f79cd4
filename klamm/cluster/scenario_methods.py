"""The method of `klamm.Cluster` that runs scenarios: that of `klamm.control.scenario_verbs`, on trio, without HTTP."""

import os
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import trio

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
        from klamm.control.scenario_run import UNDO_SECONDS, Run

        run = Run(scenario_of(scenario, type(self)), parameters, clock=trio.current_time)
        try:
            report: Report = await self._drive(run.steps(), is_over=False)
            return report
        except trio.Cancelled:
            with trio.move_on_after(UNDO_SECONDS, shield=True):
                await self._drive(run.clean_up(), is_over=True)
            raise

    async def _drive(self, steps: "Generator[Asked, Any, Any]", *, is_over: bool) -> Any:
        try:
            asked = next(steps)
            while True:
                try:
                    # A step that has to be undone is not left half-way: the run would not know it.
                    with trio.CancelScope(shield=asked.is_held and not is_over):
                        answered = await self._answer(asked)
                except Exception as error:  # noqa: BLE001 - the run decides what a failure means
                    asked = steps.throw(error)
                else:
                    asked = steps.send(answered)
        except StopIteration as end:
            return end.value

    async def _answer(self, asked: "Asked") -> Any:
        if asked.verb == "pause":
            return await trio.sleep(asked.arguments["seconds"])
        if asked.verb == "brokers":
            await trio.lowlevel.checkpoint()
            by_id = sorted(self._up.brokers.by_id.items())
            return [_Broker(broker_id, "up" if one.is_up else "down") for broker_id, one in by_id]
        return await getattr(self, asked.verb)(**asked.arguments)
