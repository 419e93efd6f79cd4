"""Some seeds of the simulated cluster, and that a seed's number is all that its history depends on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster import holds
from tests.simulation.cluster.command import main
from tests.simulation.cluster.simulation import simulate
from tests.simulation.cluster.violation import Violation
from tests.simulation.cluster.world import World

ROOT = Path(__file__).resolve().parents[3]
SEEDS = (0, 8)
"""With members of share groups: `World.has_shares`."""
QUICK_SEEDS = (5, 6, 9, 11, 16)
"""Without them."""
FOUND = {
    105: "a broker crashes while it answers a heartbeat of a share member, which has to name its topics again",
    1036: "400 seconds pass while an answer is on its way: tests/server/test_pauses.py",
    2185: "one broker from outside is too few for `__consumer_offsets`, so that groups have no coordinator",
}
"""Seeds that failed once, and why. Their histories change with the code."""
COMPARED = (7,)
COMPARED_STEPS = 20
DEADLINE_SECONDS = 300


@pytest.mark.parametrize("seed", [*SEEDS, *QUICK_SEEDS, *FOUND])
def test_every_invariant_holds(seed: int) -> None:
    assert simulate(seed, traced=False).failure is None


@pytest.mark.parametrize("seed", COMPARED)
def test_a_seed_gives_the_same_bytes_and_the_same_history_in_every_process(seed: int) -> None:
    here = simulate(seed, steps=COMPARED_STEPS)
    assert here == simulate(seed, steps=COMPARED_STEPS)
    command = [sys.executable, "-m", "tests.simulation.cluster.command", "--seed", str(seed)]
    command += ["--steps", str(COMPARED_STEPS)]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    there = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS
    )
    assert there.stdout.splitlines() == [*here.trace, f"the log's bytes: {here.digest}", "passed"]


def test_different_seeds_give_different_histories() -> None:
    assert len({simulate(seed, steps=10, traced=False).digest for seed in QUICK_SEEDS}) == 5


def fails_in_the_end(world: World) -> None:
    if world.requests_ever > 10:  # whatever the seed
        raise Violation("nobody_asks_much", f"{world.requests_ever} requests")


def test_a_seed_that_fails_is_named_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(holds, "ALWAYS", (*holds.ALWAYS, fails_in_the_end))
    assert main(["--seeds", "2", "--first", "5", "--steps", "40", "--processes", "1"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "0 passed, 2 failed: seeds 5, 6"
    assert told[0].startswith("seed 5: nobody_asks_much: ")
    assert told[1] == "    scripts/simulate --seed 5 --steps 40"
    assert main(["--seed", "5", "--steps", "40"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-1].startswith("failed: nobody_asks_much: ")
    assert len(told) > 10


def test_seeds_that_pass_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "5", "--steps", "5", "--profile", "kafka", "--processes", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"
