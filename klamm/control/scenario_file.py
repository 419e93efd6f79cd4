"""Reads scenarios: steps that a cluster is put through, one after the other. The standard library alone.

A step is an object with the name of a verb, which is a method of `klamm.ControlClient`, and its arguments. What is
misspelt or unbounded is refused before the first step runs.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from klamm.console.documents import read_document
from klamm.console.shown import shown
from klamm.control.group_states import check_group_state
from klamm.protocol.near_names import did_you_mean

VERBS: Final = (
    "add_broker", "add_fault", "advance", "clean_logs", "create_topic", "delete_topic", "expire_session",
    "fence_broker", "grow_isr", "isr", "kill_broker", "leader", "move_leader", "partition_limit", "rehash_coordinators",
    "remove_broker", "remove_fault", "remove_faults", "repair_log_dir", "return_disk", "set_replication_rate",
    "shrink_isr", "snapshot",
    "start_broker", "stop_broker", "take_disk", "take_log_dir_offline", "time_out_transaction", "unfence_broker",
    "wait_for_fault", "wait_for_group", "wait_for_isr", "wait_for_reassignments", "wait_for_requests",
    "wait_for_topic",
)  # fmt: skip
"""The methods of `ControlClient` that a step can name."""
PAUSE, REPEAT, EACH_BROKER = "pause", "repeat", "each_broker"
OWN: Final[Mapping[str, Sequence[str]]] = {PAUSE: ("seconds",), REPEAT: ("times", "steps"), EACH_BROKER: ("steps",)}
"""What a scenario adds to the verbs: a pause, steps several times, and steps for each broker that is up."""
BESIDE: Final = ("at", "save", "refused", "undo", "note")
"""What a step may have beside its verb."""
MEMBERS: Final = ("name", "description", "parameters", "timeout_seconds", "steps")
SHIPPED: Final = Path(__file__).parent / "scenarios"
MAX_STEPS: Final = 10_000
MAX_SECONDS: Final = 3_600
DEFAULT_SECONDS: Final = 300
MAX_DEPTH: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step."""

    verb: str
    arguments: Mapping[str, Any]
    at: float | None = None
    """When it begins at the earliest, in seconds after the start of the scenario."""
    save: str | None = None
    """The parameter that gets its result."""
    refused: str | None = None
    """The step succeeds only if the server refuses it with this text."""
    undo: "Step | None" = None
    """What is done at the end of the scenario if this step was done, also if a later step failed."""
    steps: tuple["Step", ...] = ()
    """Of `repeat` and `each_broker`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole scenario."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """Values for ${NAME} in the arguments."""
    timeout_seconds: float
    steps: tuple[Step, ...]


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with Klamm, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.json"))}


def find_scenario(name: str, client: type[object]) -> Scenario:
    """The scenario of a file, or one that comes with Klamm by its name. `client` has the verbs. Raises ValueError with
    one line."""
    path, shipped = Path(name), shipped_scenarios()
    if name in shipped:
        path = shipped[name]
    elif not path.suffix and not path.exists():
        raise ValueError(
            f"there is no scenario {shown(name)} (known: {', '.join(shipped)}){did_you_mean(name, shipped)}"
        )
    content = read_document(path, "scenario")
    try:
        return read_scenario(content, client, path.stem)
    except ValueError as error:
        raise ValueError(f"scenario {path}: {error}") from None


def scenario_of(given: "str | os.PathLike[str] | Mapping[str, Any]", client: type[object]) -> Scenario:
    """The scenario of a file, of one that comes with Klamm by its name, or of its content. Raises ValueError."""
    return read_scenario(given, client) if isinstance(given, Mapping) else find_scenario(os.fspath(given), client)


def read_scenario(content: object, client: type[object], name: str = "scenario") -> Scenario:
    """The scenario of a decoded document. `client` has the verbs. Raises ValueError with a clause."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{shown(content)}: an object with steps is expected")
    _refuse_unknown("a scenario has no member", content, MEMBERS)
    seconds = content.get("timeout_seconds", DEFAULT_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"timeout_seconds {shown(seconds)}: a number above 0, and {MAX_SECONDS} at most, is expected")
    parameters = content.get("parameters", {})
    if not isinstance(parameters, Mapping) or not all(
        isinstance(value, str | int | float) for value in parameters.values()
    ):
        raise ValueError(f"parameters {shown(parameters)}: an object of texts and numbers is expected")
    steps = _steps(content.get("steps"), client, 1)
    count = sum(map(_count, steps))
    if count > MAX_STEPS:
        raise ValueError(f"it has {count} steps, and {MAX_STEPS} at most are run")
    return Scenario(
        name=str(content.get("name", name)),
        description=str(content.get("description", "")),
        parameters=dict(parameters),
        timeout_seconds=seconds,
        steps=steps,
    )


def _steps(forms: object, client: type[object], depth: int) -> tuple[Step, ...]:
    if not isinstance(forms, Sequence) or isinstance(forms, str) or not forms:
        raise ValueError(f"steps {shown(forms)}: a list of steps is expected")
    if depth > MAX_DEPTH:
        raise ValueError(f"steps are nested more than {MAX_DEPTH} times")
    return tuple(_step(form, f"step {number}", client, depth) for number, form in enumerate(forms, 1))


def _step(form: object, where: str, client: type[object], depth: int) -> Step:
    if not isinstance(form, Mapping):
        raise ValueError(f"{where}: {shown(form)} is no object")
    verbs = [name for name in form if name not in BESIDE]
    if len(verbs) != 1:
        raise ValueError(f"{where}: one verb is expected, such as stop_broker, not {len(verbs)}")
    verb = str(verbs[0])
    if verb not in VERBS and verb not in OWN:
        raise ValueError(f"{where}: there is no verb {shown(verb)}{did_you_mean(verb, (*VERBS, *OWN))}")
    known, required, is_open = _signature(verb, client)
    given = form[verb]
    if given is None:
        given = {}
    if not isinstance(given, Mapping):  # the first argument alone
        if not known:
            raise ValueError(f"{where}: {verb} has no argument")
        given = {known[0]: given}
    if not is_open:
        _refuse_unknown(f"{where}: {verb} has no argument", given, known)
    missing = [name for name in required if name not in given]
    if missing:
        raise ValueError(f"{where}: {verb} needs {missing[0]}")
    steps = _steps(given["steps"], client, depth + 1) if verb in (REPEAT, EACH_BROKER) else ()
    _refuse_unbounded(where, verb, given)
    _refuse_unknown_state(where, verb, given)
    return Step(verb=verb, arguments={name: value for name, value in given.items() if name != "steps"}, steps=steps,
        undo=_undo(form.get("undo"), where, client), **_beside(form, where))  # fmt: skip


def _undo(form: object, where: str, client: type[object]) -> Step | None:
    if form is None:
        return None
    if isinstance(form, Mapping) and (len(form) > 1 or form.keys() & OWN.keys()):
        raise ValueError(f"{where}: undo {shown(form)}: one verb alone is expected, such as start_broker")
    return _step(form, f"{where}: undo", client, 1)


def _beside(form: Mapping[str, Any], where: str) -> dict[str, Any]:
    at, save, refused = form.get("at"), form.get("save"), form.get("refused")
    if at is not None and (isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= MAX_SECONDS):
        raise ValueError(f"{where}: at {shown(at)}: seconds from 0 to {MAX_SECONDS} are expected")
    for name, text in (("save", save), ("refused", refused)):
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{where}: {name} {shown(text)}: a text is expected")
    return {"at": at, "save": save, "refused": refused}


def _refuse_unbounded(where: str, verb: str, given: Mapping[str, Any]) -> None:
    if verb == REPEAT:
        times = given["times"]
        if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= MAX_STEPS:
            raise ValueError(f"{where}: times {shown(times)}: a whole number from 1 to {MAX_STEPS} is expected")
    if verb == PAUSE:
        seconds = given["seconds"]
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SECONDS:
            raise ValueError(f"{where}: seconds {shown(seconds)}: a number from 0 to {MAX_SECONDS} is expected")


def _refuse_unknown_state(where: str, verb: str, given: Mapping[str, Any]) -> None:
    state = given.get("state", "Stable")
    if verb == "wait_for_group" and "${" not in str(state):
        try:
            check_group_state(state)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


def _signature(verb: str, client: type[object]) -> tuple[Sequence[str], Sequence[str], bool]:
    """The arguments of a verb, those that it needs, and whether it takes any others."""
    if verb in OWN:
        return OWN[verb], OWN[verb], False
    parameters = list(inspect.signature(getattr(client, verb)).parameters.values())[1:]
    is_open = any(one.kind is one.VAR_KEYWORD for one in parameters)
    named = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    return [one.name for one in named], [one.name for one in named if one.default is one.empty], is_open


def _count(step: Step) -> int:
    times = step.arguments["times"] if step.verb == REPEAT else 1
    return 1 + int(times) * sum(map(_count, step.steps))


def _refuse_unknown(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{what} {shown(name)}{did_you_mean(str(name), known)}")
