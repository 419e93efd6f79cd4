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
        """Run a scenario (docs/scenarios.md): the path of a file, the name of one of Klamm's, or its content.
        `parameters` replace those of the scenario. Raises ValueError for what is no scenario, and
        `klamm.ScenarioFailed` with the report of what happened until then."""
        from klamm.control.scenario_file import scenario_of
        from klamm.control.scenario_run import Run

        return Run(scenario_of(scenario, type(self)), parameters).run(self)
