"""scripts/soak in short, through the same code, and that it tells what grows from what comes back."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.server.limits import MIB
from scripts.soak_run.sampling import ALLOWED_LOG_BYTES, Sample, growth, leaks, sparkline, take_sample

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 300
REST = Sample(
    seconds=1.0,
    requests=1_000,
    resident_bytes=80 * MIB,
    descriptors=16,
    threads=3,
    log_bytes=MIB,
    snapshots=0,
)


def samples(resident_mib: list[float]) -> list[Sample]:
    """One for each 1,000 requests."""
    return [
        dataclasses.replace(REST, requests=1_000 * number, resident_bytes=int(mib * MIB))
        for number, mib in enumerate(resident_mib, 1)
    ]


def test_a_short_soak_leaves_nothing_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "scripts.soak_run", "--minutes", "0.2"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "soak: nothing is left behind" in done.stdout
    assert "bug" not in done.stderr


def test_what_grows_only_at_first_is_no_leak() -> None:
    assert leaks(samples([70, 80, 90, 95, *[96.0] * 8]), REST, REST) == []


def test_memory_that_goes_up_and_down_is_no_leak() -> None:
    assert leaks(samples([90, 100] * 10), REST, REST) == []


def test_memory_that_grows_is_told_with_the_requests_that_it_took() -> None:
    (told,) = leaks(samples([70.0 + 2 * number for number in range(20)]), REST, REST)
    assert told == "memory grew by 18.0 MiB over the second half, 9,000 requests; 8.0 MiB are allowed"


def test_in_a_long_run_what_is_allowed_follows_the_requests() -> None:
    long = [dataclasses.replace(sample, requests=sample.requests * 1_000) for sample in samples([70.0, 90.0] * 20)]
    grown = [
        dataclasses.replace(sample, resident_bytes=sample.resident_bytes + 10 * sample.requests) for sample in long
    ]
    assert leaks(long, REST, REST) == []
    assert len(leaks(grown, REST, REST)) == 1


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (dataclasses.replace(REST, descriptors=18), "2 descriptors are left open"),
        (dataclasses.replace(REST, threads=4), "1 threads are left"),
        (dataclasses.replace(REST, log_bytes=ALLOWED_LOG_BYTES + MIB), "the metadata log has 65 MiB; 64 are allowed"),
    ],
)
def test_what_did_not_come_back_is_told(last: Sample, told: str) -> None:
    assert leaks(samples([80.0] * 8), REST, last) == [told]


def test_growth_is_of_the_second_half_alone() -> None:
    assert growth(samples([10, 20, 30, 40, 50, 50, 50, 50]), lambda sample: sample.resident_bytes) == 0
    assert growth(samples([50, 50, 50, 50, 10, 20, 30, 40]), lambda sample: sample.resident_bytes / MIB) == (
        pytest.approx(30)
    )


def test_bars_go_from_the_lowest_to_the_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5]) == "▁▁"
    assert len(sparkline(list(range(1000)), 40)) == 40
    assert sparkline([]) == ""


def test_a_sample_is_of_a_process_and_of_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(bytes(1000))
    (folder / "00000000000000000010-0000000001.checkpoint").write_bytes(bytes(24))
    sample = take_sample(os.getpid(), tmp_path, 1.5, 7)
    with (tmp_path / "open").open("w"):
        more = take_sample(os.getpid(), tmp_path, 1.5, 7)
    assert (sample.log_bytes, sample.snapshots, sample.seconds, sample.requests) == (1024, 1, 1.5, 7)
    assert more.descriptors == sample.descriptors + 1
    assert sample.threads >= 1
    assert sample.resident_bytes > MIB
