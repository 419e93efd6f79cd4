"""`scripts/fuzz server`: runs hypothesis and boofuzz in turn against a live server until the time is over."""

from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

from tools.fuzzing.hunt import Hunt

TURN_SECONDS: Final = 10.0


def fuzz_server(seconds: float, seed: int, corpus: Path) -> int:
    """Run for the given time, print the findings and the number of sessions. Returns the number of broken promises."""
    from tools.fuzzing.with_boofuzz import boofuzz_turn
    from tools.fuzzing.with_hypothesis import hypothesis_turn

    hunt, seeds = Hunt(seconds, corpus), Random(seed)
    spent = {"hypothesis": 0, "boofuzz": 0}
    turn_seconds = min(TURN_SECONDS, seconds / 2)
    try:
        while not hunt.is_over:
            for name, turn in (("hypothesis", hypothesis_turn), ("boofuzz", boofuzz_turn)):
                before = hunt.executions
                turn(hunt, seeds.randrange(2**31), min(monotonic() + turn_seconds, hunt.deadline))
                spent[name] += hunt.executions - before
    finally:
        hunt.close()
    took = monotonic() - hunt.started
    print(
        f"fuzz server: seed {seed}, {hunt.executions} executions in {took:.0f} s ({hunt.executions / took:.0f}/s):"
        f" hypothesis {spent['hypothesis']}, boofuzz {spent['boofuzz']}; {len(hunt.found)} promises broken"
    )
    return len(hunt.found)
