"""Runs many seeds on all cores, or one with all that happened in it: scripts/simulate.

    scripts/simulate --seeds 1000 [--first N]     seeds N to N + 999; exit code 1 if one of them failed
    scripts/simulate --seed 17                    one seed, step by step

A seed's history depends on its number, --steps and --profile alone.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import cast

from klamm.controller.settings import PROFILES, Profile
from tests.simulation.cluster.simulation import STEPS, Ended, simulate

SHOWN_FAILURES = 20
SHOWN_CHARACTERS = 2_000
PROGRESS_SECONDS = 2.0


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    options = _options(arguments)
    profile = cast("Profile | None", options.profile)
    if options.seed is not None:
        return _tell_one(simulate(options.seed, steps=options.steps, profile=profile))
    return _tell_all(_run(options, profile), options)


def _run(options: argparse.Namespace, profile: Profile | None) -> Iterator[Ended]:
    """Every seed, in the order in which they end."""
    run = partial(simulate, steps=options.steps, profile=profile, traced=False)
    seeds = range(options.first, options.first + options.seeds)
    if options.processes == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        yield from pool.imap_unordered(run, seeds)


def _tell_all(all_ended: Iterable[Ended], options: argparse.Namespace) -> int:
    failed, requests, lives, done = [], 0, 0, 0
    began = shown_at = time.monotonic()
    for ended in all_ended:
        done, requests, lives = done + 1, requests + ended.requests, lives + ended.lives
        if ended.failure:
            failed.append(ended)
            if len(failed) <= SHOWN_FAILURES:
                print(f"seed {ended.seed}: {ended.failure[:SHOWN_CHARACTERS]}")
                print(f"    {_repeat(ended.seed, options)}", flush=True)
        if (now := time.monotonic()) - shown_at > PROGRESS_SECONDS:
            shown_at = now
            line = f"{done} of {options.seeds} seeds, {len(failed)} failed, {done / (now - began):.1f} per second"
            print(line, file=sys.stderr, end="\r" if sys.stderr.isatty() else "\n", flush=True)
    failed.sort(key=lambda one: one.seed)
    rate = done / (time.monotonic() - began)
    print(f"{requests} requests, {lives} starts of the server, {rate:.1f} seeds per second")
    print(f"{done - len(failed)} passed, {len(failed)} failed{_names(failed)}")
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Whole clusters in one process, from seeds.")
    parser.add_argument("--seeds", type=_positive, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first one (default: %(default)s)")
    parser.add_argument("--seed", type=int, metavar="N", help="this one alone, and what happened in it")
    parser.add_argument("--steps", type=_positive, default=STEPS, help="of each seed (default: %(default)s)")
    parser.add_argument("--profile", choices=PROFILES, help="default: as the seed decides")
    parser.add_argument(
        "--processes", type=_positive, default=os.cpu_count(), help="default: as many as there are cores"
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _tell_one(ended: Ended) -> int:
    for line in ended.trace:
        print(line)
    print(f"the log's bytes: {ended.digest}")
    print(f"failed: {ended.failure}" if ended.failure else "passed")
    return 1 if ended.failure else 0


def _names(failed: Sequence[Ended]) -> str:
    return ": seeds " + ", ".join(str(one.seed) for one in failed) if failed else ""


def _repeat(seed: int, options: argparse.Namespace) -> str:
    steps = f" --steps {options.steps}" if options.steps != STEPS else ""
    return f"scripts/simulate --seed {seed}{steps}" + (f" --profile {options.profile}" if options.profile else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
