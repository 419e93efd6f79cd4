"""Random histories of the machine with records and moves."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.moving_machine import MovingMachine
from tests.simulation.test_simulation import HISTORIES, MAX_SHRINKING_SECONDS, PHASES, QUICK, STEPS


def test_whatever_moves_no_record_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(stateful_step_count=STEPS, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
    if QUICK:
        monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", MAX_SHRINKING_SECONDS)
        chosen = settings(chosen, max_examples=HISTORIES)
    run_state_machine_as_test(MovingMachine, settings=chosen)
