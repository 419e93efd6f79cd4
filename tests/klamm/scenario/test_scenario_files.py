"""What is no scenario is refused before its first step, with the reason."""

from pathlib import Path
from typing import Any

import pytest

import klamm
from klamm.control.scenario_file import find_scenario, read_scenario, shipped_scenarios

STEP = {"stop_broker": {"broker_id": 1}}
BAD: list[tuple[Any, str]] = [
    ([], "an object with steps"),
    ({}, "a list of steps"),
    ({"steps": []}, "a list of steps"),
    ({"steps": "stop"}, "a list of steps"),
    ({"stops": [STEP]}, "no member 'stops'; did you mean 'steps'?"),
    ({"steps": [7]}, "step 1: 7 is no object"),
    ({"steps": [{"wait_for_group": {"group": "g", "state": "Stabel"}}]}, "step 1: state 'Stabel': one of Assigning, "),
    ({"steps": [{"wait_for_group": {"group": "g", "state": 7}}]}, "step 1: state 7: one of "),
    ({"steps": [{}]}, "step 1: one verb is expected"),
    ({"steps": [STEP, {"a": 1, "b": 2}]}, "step 2: one verb is expected"),
    ({"steps": [{"stop_brokr": 1}]}, "no verb 'stop_brokr'; did you mean 'stop_broker'?"),
    ({"steps": [{"ask": {"method": "GET", "path": "/"}}]}, "no verb 'ask'"),
    ({"steps": [{"stop_broker": {"broker": 1}}]}, "stop_broker has no argument 'broker'; did you mean 'broker_id'?"),
    ({"steps": [{"stop_broker": {}}]}, "stop_broker needs broker_id"),
    ({"steps": [{"snapshot": 1}]}, "snapshot has no argument"),
    ({"steps": [{"pause": {"seconds": 3_601}}]}, "from 0 to 3600"),
    ({"steps": [{"pause": {"seconds": "1"}}]}, "from 0 to 3600"),
    ({"steps": [{"repeat": {"times": 0, "steps": [STEP]}}]}, "times 0"),
    ({"steps": [{"repeat": {"times": 2}}]}, "repeat needs steps"),
    ({"steps": [{"repeat": {"times": 9_999, "steps": [STEP, STEP]}}]}, "it has 19999 steps"),
    ({"steps": [{**STEP, "at": -1}]}, "at -1"),
    ({"steps": [{**STEP, "save": 1}]}, "save 1"),
    ({"steps": [STEP], "timeout_seconds": 0}, "timeout_seconds 0"),
    ({"steps": [STEP], "timeout_seconds": 10**6}, "3600 at most"),
    ({"steps": [STEP], "parameters": []}, "parameters []"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "reason"), BAD, ids=[str(content)[:50] for content, _ in BAD])
def test_what_is_no_scenario_is_refused_with_the_reason(content: Any, reason: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is asserted below
        read_scenario(content, klamm.ControlClient)
    assert reason in str(refused.value)


def test_steps_are_not_nested_without_end() -> None:
    nested: Any = STEP
    for _ in range(5):
        nested = {"repeat": {"times": 1, "steps": [nested]}}
    with pytest.raises(ValueError, match="nested more than 4 times"):
        read_scenario({"steps": [nested]}, klamm.ControlClient)


def test_the_scenarios_that_come_with_klamm_are_read() -> None:
    assert set(shipped_scenarios()) == {
        "full-disk", "leader-loss", "partition-limit", "rolling-restart", "slow-controller", "split-client",
    }  # fmt: skip
    for name in shipped_scenarios():
        found = find_scenario(name, klamm.ControlClient)
        assert found.description
        assert found.steps
    with pytest.raises(ValueError, match=r"there is no scenario 'roling-restart' .*; did you mean 'rolling-restart'"):
        find_scenario("roling-restart", klamm.ControlClient)


def test_a_file_is_read_and_named_in_refusals(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"steps": [{"advance": "5m"}]}')
    found = find_scenario(str(file), klamm.ControlClient)
    assert (found.name, found.steps[0].verb, found.steps[0].arguments) == ("mine", "advance", {"duration": "5m"})
    file.write_text("{")
    with pytest.raises(ValueError, match=r"mine\.json"):
        find_scenario(str(file), klamm.ControlClient)
