"""Lose the power at every kind of moment: what is left of a data directory has to start with all that was promised.

    python -m tools.power_loss --images 10000 --seed 7 [--processes N]
    python -m tools.power_loss --seed 7 --workload 12       that workload once more

No machine is switched off: writes, syncs and changes of directories are recorded, and of what was not synced any part
may be stored, page by page (`tools.power_loss.fates`). Exit code 0 if every start found what was promised, else 1.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tools.power_loss.images import Findings, try_workload

IMAGES_OF_A_WORKLOAD = 50
SECONDS_BETWEEN_LINES = 15.0
SHOWN_FAULTS = 20


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    workloads, last = divmod(given.images + IMAGES_OF_A_WORKLOAD - 1, IMAGES_OF_A_WORKLOAD)
    numbers, images = range(workloads), [IMAGES_OF_A_WORKLOAD] * (workloads - 1) + [last + 1]
    if given.workload is not None:
        numbers, images = range(given.workload, given.workload + 1), [IMAGES_OF_A_WORKLOAD]
    all_found = Findings()
    told_at = began = time.monotonic()
    with ProcessPoolExecutor(given.processes) as pool:
        for found in pool.map(partial(try_workload, given.seed), numbers, images):
            all_found.add(found)
            if time.monotonic() - told_at > SECONDS_BETWEEN_LINES:
                told_at = time.monotonic()
                print(f"{all_found.images} of {sum(images)} images, {told_at - began:.0f} s", flush=True)
    for fault in all_found.faults[:SHOWN_FAULTS]:
        print(fault)
    print(closing_line(all_found, given.seed, len(numbers)), flush=True)
    return 1 if all_found.faults else 0


def closing_line(found: Findings, seed: int, workloads: int) -> str:
    """The sum of all workloads."""
    return (
        f"power: seed {seed}, {workloads} workloads, {found.images} images, {found.holes} holes and {found.torn} torn "
        f"tails cut off; {found.images - len(found.faults)} starts found all that was promised, "
        f"{len(found.faults)} did not"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/power", description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--images", metavar="N", type=_count, default=10_000, help="how many images (10000)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="the source of all chance (1)")
    parser.add_argument("--workload", metavar="N", type=int, help="this workload of the seed alone")
    parser.add_argument("--processes", metavar="N", type=_count, default=2, help="how many at a time (2)")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1 is expected")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
