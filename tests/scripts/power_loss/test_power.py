"""`scripts/power`: a hundred images, and that it would notice what must not be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.controller.log import segment_log
from tools.power_loss.disk import Disk
from tools.power_loss.fates import PAGE_BYTES, random_pages
from tools.power_loss.images import Findings, try_workload

ROOT = Path(__file__).parents[3]
SECONDS = 600.0
SEED = 3
WORKLOADS = 6
"""Among them are some with a hole and some with a torn tail."""


def findings() -> Findings:
    found = Findings()
    for number in range(WORKLOADS):
        found.add(try_workload(SEED, number, 25))
    return found


def test_every_start_finds_what_was_promised_in_a_hundred_images() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tools.power_loss", "--images", "101", "--seed", str(SEED)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    closing = rf"power: seed {SEED}, 3 workloads, 101 images, \d+ holes and \d+ torn tails cut off; "
    assert re.fullmatch(closing + "101 starts found all that was promised, 0 did not\n", done.stdout), done.stdout


def test_holes_and_torn_tails_are_among_the_images() -> None:
    found = findings()
    assert found.faults == []
    assert found.images == 25 * WORKLOADS
    assert found.holes > 0
    assert found.torn > 0


def test_without_a_recovery_point_holes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_log, "load_recovery_point", lambda _folder, _epoch: None)
    found = findings()
    assert found.faults
    assert all("refused: " in fault and "a sound batch follows" in fault for fault in found.faults)


def test_a_sync_that_syncs_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "sync", lambda _disk, _fd: None)
    assert any("was promised" in fault or "was used" in fault for fault in findings().faults)


class Choices:
    """In place of `Random`: the last one of every choice, and these numbers in turn."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0)

    def choice(self, among: "tuple[int, ...] | range") -> int:
        return among[0]

    def randrange(self, _stop: int) -> int:
        return 3


def test_each_page_is_stored_or_not() -> None:
    old, new = b"o" * (PAGE_BYTES + 10), b"n" * (3 * PAGE_BYTES + 10)
    found = random_pages(Choices(0.9, 0.1, 0.9, 0.1), 0.5)(old, new)  # type: ignore[arg-type]
    pages = [found[start : start + PAGE_BYTES] for start in range(0, len(found), PAGE_BYTES)]
    assert pages == [b"o" * PAGE_BYTES, b"n" * PAGE_BYTES, bytes(PAGE_BYTES), b"n" * 10]
