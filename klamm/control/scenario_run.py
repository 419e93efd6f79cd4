"""Runs a scenario, and reports what happened when. The standard library alone.

A run asks for verbs and pauses one after the other (`Run.steps`); `Run.run` does them with a control client, and
`klamm.Cluster` does them on trio.
"""

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from klamm.console.shown import shown
from klamm.control.fault_verbs import Fault
from klamm.control.scenario_file import EACH_BROKER, PAUSE, REPEAT, Scenario, Step
from klamm.protocol.near_names import did_you_mean
from klamm.protocol.printable import printable

_WHOLE: Final = re.compile(r"\$\{(\w+)\}")
WAITS: Final = "wait_for_"
WAIT: Final = "timeout_seconds"
DEFAULT_WAIT: Final = 10.0
UNDO_SECONDS: Final = 30.0
"""A step that undoes another waits for at most this time, even if the scenario has to be over."""
REMOVES_AFTER: Final = "add_fault"
REMOVES: Final = "remove_fault"
FINDS_LEADER: Final = "leader"
NO_LEADER: Final = -1


class ScenarioFailed(Exception):
    """A step failed, or the scenario took too long. `report` has the steps until then."""

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
    """The report of a scenario: its steps with their times, and its fault rules."""

    scenario: str
    steps: list[Happened] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """The fault rules that the scenario added, with their hits at the end."""

    def text(self) -> str:
        """The report as text: a line for each step, and a line for each fault rule."""
        lines = [f"scenario {self.scenario}"]
        for one in self.steps:
            result = f"  {one.result}" if one.result else ""
            lines.append(f"{one.at_seconds:8.3f} s  {one.seconds:7.3f} s  {one.outcome:7}  {one.step}{result}")
        lines += [f"fault {fault.id}: hits {fault.hits}, matches {fault.matches}" for fault in self.faults]
        return "".join(printable(line) + "\n" for line in lines)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self)


class Asked(NamedTuple):
    """What a run needs next: a verb of the client, or `pause`."""

    verb: str
    arguments: Mapping[str, Any]
    is_held: bool = False
    """Whether an interruption has to wait for its end, because the run would not know what to undo."""


Asking = Generator[Asked, Any, None]


class Run:
    """One run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        parameters: Mapping[str, Any],
        said: Callable[[Happened], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        begun: Callable[[float, str], None] = lambda _at, _step: None,
    ) -> None:
        """`begun` is called with the time and the text of each step when it begins, and `said` with each step when it
        is over. `clock` is in seconds."""
        unknown = [name for name in parameters if name not in scenario.parameters]
        if unknown:
            known = ", ".join(scenario.parameters) or "none"
            near = did_you_mean(unknown[0], scenario.parameters)
            raise ValueError(f"scenario {scenario.name} has no parameter {unknown[0]!r} (known: {known}){near}")
        for name, value in parameters.items():
            default = scenario.parameters[name]
            if isinstance(default, int | float) and not isinstance(value, int | float):
                raise ValueError(
                    f"scenario {scenario.name}: parameter {name} {shown(value)}: "
                    f"a number is expected, such as {default}"
                )
        self._scenario = scenario
        self._values = {**scenario.parameters, **parameters}
        self._said = said
        self._begun = begun
        self._report = Report(scenario=scenario.name)
        self.added: list[str] = []
        """The ids of the fault rules that steps have added."""
        self._clock = clock
        self._started = clock()
        self._undo: list[tuple[str, dict[str, Any], str]] = []
        """The verbs, arguments and texts of the steps that undo others."""
        self._holds = False
        self._interruption: BaseException | None = None

    @property
    def report(self) -> Report:
        """What has happened so far."""
        return self._report

    def interrupt(self, error: BaseException) -> None:
        """End the run from a signal handler, by raising `error`. During a step that has to be undone, such as adding a
        rule, and while steps are undone, the first interruption waits until that is done."""
        first, self._interruption = self._interruption is None, error
        if not (self._holds and first):
            raise error

    @contextmanager
    def _held(self, holds: bool) -> Iterator[None]:
        before, self._holds = self._interruption, holds
        try:
            yield
        finally:
            self._holds = False
        if self._interruption is not None and self._interruption is not before:
            raise self._interruption

    def run(self, client: Any) -> Report:
        """Do all steps with a client that has the verbs. Raises ScenarioFailed. An interrupted run undoes what it has
        to undo, and removes the fault rules that it added."""

        def answer(asked: Asked) -> Any:
            if asked.verb == PAUSE:
                return time.sleep(asked.arguments["seconds"])
            return getattr(client, asked.verb)(**asked.arguments)

        def drive(steps: Generator[Asked, Any, Any]) -> Any:
            try:
                asked = next(steps)
                while True:
                    with self._held(asked.is_held):
                        try:
                            answered = answer(asked)
                        except Exception as error:  # noqa: BLE001 - the run decides what a failure means
                            asked = steps.throw(error)
                        else:
                            asked = steps.send(answered)
            except StopIteration as end:
                return end.value

        try:
            report: Report = drive(self.steps())
            return report
        except ScenarioFailed:
            raise
        except BaseException:
            drive(self.clean_up())
            raise

    def steps(self) -> Generator[Asked, Any, Report]:
        """What to do, one after the other; send the result of each, or throw why it failed. The steps are undone at the
        end, and the fault rules that they added are removed. Raises ScenarioFailed."""
        try:
            for step in self._scenario.steps:
                yield from self._do(step)
        except ScenarioFailed:
            yield from self.clean_up()
            raise
        failure = yield from self.clean_up()
        if failure is not None:
            raise ScenarioFailed(failure, self._report)
        return self._report

    def _do(self, step: Step) -> Asking:
        yield from self._wait_for(step)
        if step.verb == REPEAT:
            for number in range(1, step.arguments["times"] + 1):
                self._values["number"] = number
                for one in step.steps:
                    yield from self._do(one)
        elif step.verb == EACH_BROKER:
            for broker in (yield Asked("brokers", {})):
                if broker.state == "up":
                    self._values["broker"] = broker.id
                    for one in step.steps:
                        yield from self._do(one)
        else:
            yield from self._call(step)

    @property
    def _left(self) -> float:
        """The seconds until the scenario has to be over."""
        return self._scenario.timeout_seconds - (self._clock() - self._started)

    def _wait_for(self, step: Step) -> Asking:
        if self._left < 0:
            raise self._too_long()
        elapsed = self._clock() - self._started
        if step.at is not None and step.at > elapsed:
            yield from self._sleep(step.at - elapsed)

    def _sleep(self, seconds: float) -> Asking:
        left = self._left
        yield Asked(PAUSE, {"seconds": max(0.0, min(seconds, left))})
        if seconds > left:
            raise self._too_long()

    def _too_long(self) -> ScenarioFailed:
        return ScenarioFailed(f"it did not end within {self._scenario.timeout_seconds:g} s", self._report)

    def _call(self, step: Step) -> Asking:
        began, shown = self._clock(), step.verb
        try:
            arguments, shown = self._with_values(step)
            refused = None if step.refused is None else str(self._filled(step.refused))
            if step.undo is not None:  # what it lacks is named before there is something to undo
                self._with_values(step.undo, known={step.save: 0} if step.save else {})
        except ValueError as error:
            raise ScenarioFailed(f"{shown}: {error}", self._report) from None
        self._begun(round(began - self._started, 3), shown)
        try:
            result = yield from self._verb(step, arguments)
        except ScenarioFailed:
            raise
        except Exception as error:
            if refused is not None and refused in str(error):
                self._note(began, shown, "refused", str(error))
                return
            self._note(began, shown, "failed", str(error))
            raise ScenarioFailed(f"{shown}: {error}", self._report) from error
        if step.save is not None:
            self._values[step.save] = result
        if step.undo is not None:
            self._undo.append((step.undo.verb, *self._with_values(step.undo)))
        self._note(began, shown, "done" if refused is None else "failed", _short(result))
        if refused is not None:
            raise ScenarioFailed(f"{shown}: it was expected to be refused with {refused!r}", self._report)

    def _with_values(self, step: Step, known: Mapping[str, Any] = MappingProxyType({})) -> tuple[dict[str, Any], str]:
        """The arguments of a step with its parameters, and its text. `known` has further parameters."""
        arguments = {name: self._filled(value, known) for name, value in step.arguments.items()}
        return arguments, f"{step.verb} {' '.join(f'{name}={value}' for name, value in arguments.items())}".rstrip()

    def _verb(self, step: Step, arguments: Mapping[str, Any]) -> Generator[Asked, Any, Any]:
        if step.verb == PAUSE:
            yield from self._sleep(arguments["seconds"])
            return None
        if step.verb.startswith(WAITS):  # no wait is longer than the scenario
            longest = min(arguments.get(WAIT, DEFAULT_WAIT), max(self._left, 0.001))
            arguments = {**arguments, WAIT: longest}
        result = yield Asked(step.verb, arguments, is_held=step.verb == REMOVES_AFTER or step.undo is not None)
        if step.verb == FINDS_LEADER and step.save is not None and result == NO_LEADER:
            raise ValueError(f"{arguments['topic']}-{arguments['partition']} has no leader")
        if step.verb == REMOVES_AFTER:
            self.added.append(result.id)
        elif step.verb == REMOVES:
            self._report.faults.append(result)
        return result

    def _filled(self, value: Any, known: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """The value with its parameters: a text that is one parameter alone becomes its value, such as a number."""
        if isinstance(value, str):
            whole = _WHOLE.fullmatch(value)
            if whole is not None:
                return self._value(whole[1], known)
            return _WHOLE.sub(lambda found: str(self._value(found[1], known)), value)
        if isinstance(value, Mapping):
            return {name: self._filled(one, known) for name, one in value.items()}
        return [self._filled(one, known) for one in value] if isinstance(value, list) else value

    def _value(self, name: str, known: Mapping[str, Any]) -> Any:
        if name in known:
            return known[name]
        if name not in self._values:
            raise ValueError(f"there is no parameter {name!r}{did_you_mean(name, self._values)}")
        return self._values[name]

    def _note(self, began: float, step: str, outcome: Literal["done", "refused", "failed"], result: str) -> None:
        happened = Happened(
            at_seconds=round(began - self._started, 3),
            seconds=round(self._clock() - began, 3),
            step=step,
            outcome=outcome,
            result=result,
        )
        self._report.steps.append(happened)
        self._said(happened)

    def clean_up(self) -> Generator[Asked, Any, str | None]:
        """Undo the steps that have something to undo, the last one first, and remove the rules that were added, unless
        a step has done so. Returns why a step could not be undone."""
        failure: str | None = None
        while self._undo:
            verb, arguments, shown = self._undo.pop()
            if verb.startswith(WAITS):
                arguments[WAIT] = min(arguments.get(WAIT, DEFAULT_WAIT), UNDO_SECONDS)
            began = self._clock()
            self._begun(round(began - self._started, 3), shown)
            try:
                result = yield Asked(verb, arguments, is_held=True)
            except Exception as error:  # noqa: BLE001 - the other steps are undone, too
                self._note(began, shown, "failed", str(error))
                failure = failure or f"{shown}: {error}"
            else:
                self._note(began, shown, "done", _short(result))
        if self.added:
            yield from self._remove_added()
        return failure

    def _remove_added(self) -> Asking:
        try:
            there = {fault.id for fault in (yield Asked("faults", {}, is_held=True))}
            for one in self.added:
                if one in there:
                    self._report.faults.append((yield Asked(REMOVES, {"fault": one}, is_held=True)))
        except Exception as error:  # noqa: BLE001 - the reason why the scenario failed must not get lost
            self._note(self._clock(), "remove faults", "failed", str(error))


def _short(result: Any) -> str:
    """What a step has found, on one line."""
    if isinstance(result, Fault):
        return f"{result.id}, hits {result.hits}"
    if isinstance(result, tuple):
        return f"{len(result)} found"
    return "" if result is None or is_dataclass(result) else str(result)[:80]
