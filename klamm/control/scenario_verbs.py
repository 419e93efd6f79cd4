"""Scenarios from Python, for `klamm.ControlClient`, `klamm.ServerProcess` and the fixture. Standard library alone."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm.control.scenario_run import Report

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


class ScenarioVerbs:
    """The method about scenarios."""

    def run_scenario(
        self, scenario: "str | os.PathLike[str] | Mapping[str, Any]", **parameters: str | float
    ) -> "Report":
        """Run a scenario (docs/scenarios.md). `scenario` is the path of a file, the name of a scenario that comes with
        Klamm, or its content. `parameters` replace those of the scenario. Raises ValueError for an invalid scenario,
        and `klamm.ScenarioFailed`, which has the report, if a step fails."""
        from klamm.control.scenario_file import scenario_of
        from klamm.control.scenario_run import Run

        return Run(scenario_of(scenario, type(self)), parameters).run(self)
