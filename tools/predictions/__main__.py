"""Predicts by a twin what a real Apache Kafka 4.3 cluster does in random cases, and compares.

    python -m tools.predictions [--first I] [--cases N] [--seed S] [--keep DIR]
    python -m tools.predictions --named [--keep DIR]

A case forks a twin of the cluster of a controller and three brokers, and does two to five random steps on both: moves,
new topics and partitions, configs, elections, brokers that are lost and return. By hand; it needs Java and about
1.5 GB of memory. 100 cases take about twenty minutes; with --first they run in pieces. A case depends on what the cases
before it have left in the cluster, so that the same number draws other steps in another piece. Exit code 1 if a
prediction was wrong. With --named it does the cases that were once predicted wrongly.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import trio

from tools.predictions.cases import CaseResult
from tools.predictions.running import REAL_CONFIGS, run_cases, run_named
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.real_cluster import real_cluster


def main(arguments: Sequence[str]) -> int:
    """Run the cases. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.predictions", allow_abbrev=False)
    parser.add_argument("--first", metavar="I", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=100, help="how many cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--named", action="store_true", help="the cases of named.py instead")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="a new directory for all files, which are kept")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        if given.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-predictions-")))
        else:
            folder = given.keep.absolute()
            folder.mkdir(parents=True)
        java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
        cluster = stack.enter_context(real_cluster(java, own_controller=True, configs=REAL_CONFIGS))
        if given.named:
            found = trio.run(run_named, cluster, folder / "copy", _say)
        else:
            numbers = range(given.first, given.first + given.cases)
            found = trio.run(run_cases, cluster, folder / "copy", numbers, given.seed, _say)
    wrong = sum(not one.is_as_predicted for one in found)
    _say(_summary(found))
    return 1 if wrong else 0


def _summary(found: Sequence[CaseResult]) -> str:
    kinds = Counter(type(step).__name__ for one in found for step in one.steps)
    differences = Counter(difference.kind for one in found for _, difference in one.differences)
    steps = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return (
        f"{len(found)} cases, {sum(one.is_as_predicted for one in found)} as predicted: {sum(kinds.values())} steps "
        f"({steps}), {sum(one.refused for one in found)} refusals, {sum(one.changes for one in found)} changes of "
        f"partitions. Differences: {dict(differences) or 'none'}"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
