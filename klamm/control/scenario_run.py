"""Runs a scenario by a control client, and reports what happened when. The standard library alone."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Final, Literal

from klamm.control.fault_verbs import Fault
from klamm.control.scenario_file import EACH_BROKER, PAUSE, REPEAT, Scenario, Step
from klamm.protocol.near_names import did_you_mean
from klamm.protocol.printable import printable

_WHOLE: Final = re.compile(r"\$\{(\w+)\}")
REMOVES_AFTER: Final = "add_fault"
REMOVES: Final = "remove_fault"


class ScenarioFailed(Exception):
    """A step did not succeed, or the scenario took too long. `report` has what happened until then."""

    def __init__(self, reason: str, report: "Report") -> None:
        super().__init__(reason)
        self.report = report


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One step that was run."""

    at_seconds: float
    """When it began, after the start of the scenario."""
    seconds: float
    step: str
    """The verb and its arguments."""
    outcome: Literal["done", "refused", "failed"]
    """`refused`: as the scenario expects."""
    result: str


@dataclass(slots=True, kw_only=True)
class Report:
    """What happened when."""

    scenario: str
    steps: list[Happened] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """The fault rules that the scenario added, with their hits at the end."""

    def text(self) -> str:
        """The report for people: a line for each step, and one for each fault rule."""
        lines = [f"scenario {self.scenario}"]
        for one in self.steps:
            result = f"  {one.result}" if one.result else ""
            lines.append(f"{one.at_seconds:8.3f} s  {one.seconds:7.3f} s  {one.outcome:7}  {one.step}{result}")
        lines += [f"fault {fault.id}: hits {fault.hits}, matches {fault.matches}" for fault in self.faults]
        return "".join(printable(line) + "\n" for line in lines)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self)


class Run:
    """One run of a scenario."""

    def __init__(
        self, scenario: Scenario, client: Any, parameters: Mapping[str, Any], said: Callable[[Happened], None]
    ) -> None:
        """`client` has the verbs; `said` is called with each step when it is over."""
        unknown = [name for name in parameters if name not in scenario.parameters]
        if unknown:
            known = ", ".join(scenario.parameters) or "none"
            near = did_you_mean(unknown[0], scenario.parameters)
            raise ValueError(f"scenario {scenario.name} has no parameter {unknown[0]!r} (known: {known}){near}")
        self._scenario = scenario
        self._client = client
        self._values = {**scenario.parameters, **parameters}
        self._said = said
        self._report = Report(scenario=scenario.name)
        self._added: list[str] = []
        self._started = time.monotonic()

    def run(self) -> Report:
        """Run all steps. The fault rules that they added are removed at the end. Raises ScenarioFailed."""
        try:
            for step in self._scenario.steps:
                self._do(step)
        finally:
            self._clean_up()
        return self._report

    def _do(self, step: Step) -> None:
        self._wait_for(step)
        if step.verb == REPEAT:
            for number in range(1, step.arguments["times"] + 1):
                self._values["number"] = number
                for one in step.steps:
                    self._do(one)
        elif step.verb == EACH_BROKER:
            for broker in self._client.brokers():
                if broker.state == "up":
                    self._values["broker"] = broker.id
                    for one in step.steps:
                        self._do(one)
        else:
            self._call(step)

    def _wait_for(self, step: Step) -> None:
        elapsed = time.monotonic() - self._started
        if elapsed > self._scenario.timeout_seconds:
            raise ScenarioFailed(f"it did not end within {self._scenario.timeout_seconds:g} s", self._report)
        if step.at is not None and step.at > elapsed:
            self._sleep(step.at - elapsed)

    def _sleep(self, seconds: float) -> None:
        left = self._scenario.timeout_seconds - (time.monotonic() - self._started)
        time.sleep(max(0.0, min(seconds, left)))
        if seconds > left:
            raise ScenarioFailed(f"it did not end within {self._scenario.timeout_seconds:g} s", self._report)

    def _call(self, step: Step) -> None:
        began, shown = time.monotonic(), step.verb
        try:
            arguments = {name: self._filled(value) for name, value in step.arguments.items()}
            shown = f"{step.verb} {' '.join(f'{name}={value}' for name, value in arguments.items())}".rstrip()
            refused = None if step.refused is None else str(self._filled(step.refused))
        except ValueError as error:
            raise ScenarioFailed(f"{shown}: {error}", self._report) from None
        try:
            result = self._verb(step, arguments)
        except ScenarioFailed:
            raise
        except Exception as error:
            if refused is not None and refused in str(error):
                self._note(began, shown, "refused", str(error))
                return
            self._note(began, shown, "failed", str(error))
            raise ScenarioFailed(f"{shown}: {error}", self._report) from error
        self._note(began, shown, "done" if refused is None else "failed", _short(result))
        if refused is not None:
            raise ScenarioFailed(f"{shown}: it was expected to be refused with {refused!r}", self._report)
        if step.save is not None:
            self._values[step.save] = result

    def _verb(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        if step.verb == PAUSE:
            self._sleep(arguments["seconds"])
            return None
        result = getattr(self._client, step.verb)(**arguments)
        if step.verb == REMOVES_AFTER:
            self._added.append(result.id)
        elif step.verb == REMOVES:
            self._report.faults.append(result)
        return result

    def _filled(self, value: Any) -> Any:
        """The value with its parameters: a text that is one parameter alone becomes its value, such as a number."""
        if isinstance(value, str):
            whole = _WHOLE.fullmatch(value)
            if whole is not None:
                return self._value(whole[1])
            return _WHOLE.sub(lambda found: str(self._value(found[1])), value)
        if isinstance(value, Mapping):
            return {name: self._filled(one) for name, one in value.items()}
        return [self._filled(one) for one in value] if isinstance(value, list) else value

    def _value(self, name: str) -> Any:
        if name not in self._values:
            raise ValueError(f"there is no parameter {name!r}{did_you_mean(name, self._values)}")
        return self._values[name]

    def _note(self, began: float, step: str, outcome: Literal["done", "refused", "failed"], result: str) -> None:
        happened = Happened(
            at_seconds=round(began - self._started, 3),
            seconds=round(time.monotonic() - began, 3),
            step=step,
            outcome=outcome,
            result=result,
        )
        self._report.steps.append(happened)
        self._said(happened)

    def _clean_up(self) -> None:
        """Remove the rules that were added, unless a step has done so."""
        try:
            there = {fault.id for fault in self._client.faults()}
            self._report.faults += [self._client.remove_fault(one) for one in self._added if one in there]
        except Exception as error:  # noqa: BLE001 - the reason why the scenario failed must not get lost
            self._note(time.monotonic(), "remove faults", "failed", str(error))


def _short(result: Any) -> str:
    """What a step has found, on one line."""
    if isinstance(result, Fault):
        return f"{result.id}, hits {result.hits}"
    if isinstance(result, tuple):
        return f"{len(result)} found"
    return "" if result is None or is_dataclass(result) else str(result)[:80]
