"""Runs many seeds on all cores, or one: scripts/simulate applications.

scripts/simulate applications --seeds 1000 [--first N]     exit code 1 if one of them failed
scripts/simulate applications --seed 17 [--shrink]         one seed; the shortest history that fails in the same way
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence

from tests.simulation.applications.simulation import Ended, shrunk, simulate, steps_of

SHOWN_CHARACTERS = 2_000


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    options = _options(arguments)
    if options.seed is not None:
        return _tell_one(options.seed, shrink=options.shrink)
    failed, records = [], 0
    for seed, ended in _run(options):
        records += ended.records
        if ended.failure is not None:
            failed.append(seed)
            print(f"seed {seed}: {ended.failure[:SHOWN_CHARACTERS]}", flush=True)
    print(f"{records} records")
    names = ": seeds " + ", ".join(map(str, sorted(failed))) if failed else ""
    print(f"{options.seeds - len(failed)} passed, {len(failed)} failed{names}")
    return 1 if failed else 0


def _run(options: argparse.Namespace) -> Iterator[tuple[int, Ended]]:
    """Every seed, in the order in which they end."""
    seeds = range(options.first, options.first + options.seeds)
    if options.processes == 1:
        yield from map(_one, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        yield from pool.imap_unordered(_one, seeds)


def _one(seed: int) -> tuple[int, Ended]:
    return seed, simulate(seed)


def _tell_one(seed: int, *, shrink: bool) -> int:
    ended = simulate(seed)
    print(f"the bytes of all partitions: {ended.digest}")
    if ended.failure is None:
        print("passed")
        return 0
    print(f"failed: {ended.failure}")
    if shrink:
        print(f"steps: {shrunk(seed, steps_of(seed))}")
    return 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate applications", description="Groups, transactions and readers on clusters, from seeds."
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first one (default: %(default)s)")
    parser.add_argument("--seed", type=int, metavar="N", help="this one alone")
    parser.add_argument("--shrink", action="store_true", help="with --seed: look for fewer steps that fail as it does")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: as many as there are cores")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
