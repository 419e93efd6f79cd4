"""The result of trying a fault, and the summary of a run."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tools.mutation.faults import Fault

TIME: Final = "(the tests do not end)"
DEATH: Final = "(the process of the tests dies)"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One fault after its trial."""

    fault: Fault
    seen_by: str
    """The first test that failed, TIME or DEATH; empty if the fault survived."""
    tests: int
    """How many tests run the faulty lines; 0: no test does."""

    def to_line(self) -> str:
        """The verdict as one line of JSON."""
        values = {
            "file": self.fault.file,
            "line": self.fault.line,
            "name": self.fault.name,
            "seen_by": self.seen_by,
            "tests": self.tests,
            "equivalent": self.fault.equivalent,
        }
        return json.dumps(values, ensure_ascii=False)


def survivors(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The faults that no test detected, although a test could."""
    return [verdict for verdict in verdicts if not verdict.seen_by and not verdict.fault.equivalent]


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each file, and one for all."""
    lines = []
    planted = Counter(verdict.fault.file for verdict in verdicts)
    survived = Counter(verdict.fault.file for verdict in survivors(verdicts))
    for file in sorted(planted):
        seen = planted[file] - survived[file]
        lines.append(f"{file:<60} {seen:>4} of {planted[file]:>4} seen")
    total = sum(1 for verdict in verdicts if verdict.seen_by)
    equivalent = sum(1 for verdict in verdicts if not verdict.seen_by and verdict.fault.equivalent)
    left = sum(survived.values())
    share = 100 * total / max(1, total + left)
    lines.append(
        f"{total + left} faults: {total} seen ({share:.1f} %), {left} survived; {equivalent} equivalent ones beside"
    )
    return lines
