"""Random histories of the machine, as many as the profile of the tests has time for."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.machine import ClusterMachine

MAX_SHRINKING_SECONDS = 20
"""A failure is told soon; a smaller example may be looked for at leisure."""
QUICK = os.environ.get("KLAMM_HYPOTHESIS_PROFILE", "quick") == "quick"
STEPS = 40
HISTORIES = 40
"""In the quick profile; others say themselves how many."""
# What a failure depends on is told by no shorter example than that which is found: explaining takes minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)


def test_whatever_happens_the_controller_does_as_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(stateful_step_count=STEPS, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
    if QUICK:
        monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", MAX_SHRINKING_SECONDS)
        chosen = settings(chosen, max_examples=HISTORIES)
    run_state_machine_as_test(ClusterMachine, settings=chosen)
