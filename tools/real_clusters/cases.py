"""What the programs with several cases have in common: the command line, a folder for each case, and the report.

An option that can be repeated names the cases, and `--keep` a folder for the files of all.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tools.toolchain_checks.report import Report

Check = Callable[[Report, str, Path], None]
"""Checks one case, whose files belong into this folder."""


def check_cases(
    arguments: Sequence[str], program: str, option: str, cases: Sequence[str], check: Check, **accepted: Any
) -> int:
    """Check the cases that `option` names, all of `cases` if it names none. `accepted` is what argparse is to accept as
    a case. Returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m tools.real_clusters.{program}", allow_abbrev=False)
    parser.add_argument(option, action="append", dest="cases", help=f"default: {', '.join(cases)}", **accepted)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="a new directory for all files, which are kept")
    given = parser.parse_args(arguments)
    report = Report()
    with ExitStack() as stack:
        parent = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"klamm-{program}-")))
        for case in given.cases or cases:
            folder = parent.absolute() / case
            folder.mkdir(parents=True)
            check(report, case, folder)
    return report.close()
