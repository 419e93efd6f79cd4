"""The command line of `scripts/mutate`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from tools.mutation.code_swap import code_swaps
from tools.mutation.faults import ROOT, Fault, StaleFault, read_faults
from tools.mutation.generated import generate_faults
from tools.mutation.rooms import homes_of
from tools.mutation.trial import Campaign, Terms
from tools.mutation.verdict import Verdict, summary, survivors


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    try:
        faults = list(_wanted(given))
        homes = homes_of({fault.file: None for fault in faults})
    except (StaleFault, LookupError, OSError, SyntaxError) as problem:
        print(f"mutate: {problem}", file=sys.stderr)
        return 2
    if given.list:
        print("\n".join(map(str, faults)))
        return 0
    verdicts: list[Verdict] = []
    for patterns, files in homes.items():
        tests = given.tests or [str(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        campaign = Campaign(
            [fault for fault in faults if fault.file in files],
            Terms(
                jobs=given.jobs,
                confirm=given.confirm,
                seconds=given.seconds / len(homes),
                spare_seconds=given.spare_seconds,
            ),
            lambda verdict: _tell(verdict, given.report, everything=given.verbose),
        )
        options = ["-q", "-q", "--capture=no", "-p", "no:xdist", f"--rootdir={ROOT}"]
        code = pytest.main([*options, *tests], plugins=[campaign])
        if campaign.failed:
            print(f"mutate: a test fails without any fault: {campaign.failed[0]}", file=sys.stderr)
        if campaign.failed or code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            return 2
        verdicts += campaign.verdicts
    print("\n".join(summary(verdicts)))
    return 1 if survivors(verdicts) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/mutate", allow_abbrev=False, description=main.__doc__)
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="modules and folders to generate faults for")
    parser.add_argument("--faults", type=Path, action="append", default=[], metavar="FILE", help="hand-written faults")
    parser.add_argument("--tests", nargs="+", metavar="TEST", help="files and folders of tests (those of the modules)")
    parser.add_argument("--sample", type=int, metavar="N", help="number of faults, drawn at random (all)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed of the sample (0)")
    parser.add_argument("--seconds", type=float, default=7200.0, metavar="N", help="time for starting trials (7200)")
    parser.add_argument(
        "--spare-seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="extra time for a test (10)",
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of trials at the same time (2)")
    parser.add_argument("--confirm", action="store_true", help="try each survivor again in a new process")
    parser.add_argument("--report", type=Path, metavar="FILE", help="append a line of JSON for each fault")
    parser.add_argument("--verbose", action="store_true", help="also print the detected faults")
    parser.add_argument(
        "--bodies", action="store_true", help="leave out faults in code that runs at import, which is much faster"
    )
    parser.add_argument("--list", action="store_true", help="print the faults without trying them")
    return parser


def _wanted(given: argparse.Namespace) -> Iterator[Fault]:
    faults = [fault for path in given.faults for fault in read_faults(path)]
    for source in given.sources:
        path = Path(source).resolve()
        modules = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        faults += [fault for module in modules for fault in generate_faults(module)]
    if given.bodies:
        faults = [fault for fault in faults if _is_in_a_body(fault)]
    if given.sample is not None and given.sample < len(faults):
        faults = [faults[place] for place in sorted(Random(given.seed).sample(range(len(faults)), given.sample))]
    yield from faults


def _is_in_a_body(fault: Fault) -> bool:
    sound = (ROOT / fault.file).read_text(encoding="utf-8")
    return code_swaps(fault.file, sound, fault.text) is not None


def _tell(verdict: Verdict, report: Path | None, *, everything: bool) -> None:
    if report is not None:
        with report.open("a", encoding="utf-8") as lines:
            lines.write(verdict.to_line() + "\n")
    if not verdict.seen_by:
        untried = "" if verdict.tests else " (no test runs it)"
        print(f"survived: {verdict.fault}{untried}{' (equivalent)' if verdict.fault.equivalent else ''}", flush=True)
    elif everything:
        print(f"seen: {verdict.fault}: by {verdict.seen_by}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
