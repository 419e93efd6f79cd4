"""The programs in tools/real_clusters that have several cases refuse wrong options before they start a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("older_brokers", ("--release", "4.3.0"), "'4.3.0': a release such as 4.1.0 of 3.9, 4.0, 4.1, 4.2 is expected"),
        ("older_brokers", ("--release", "4.1"), "'4.1': a release such as 4.1.0 of 3.9, 4.0, 4.1, 4.2 is expected"),
        ("secured_brokers", ("--protocol", "TLS"), "invalid choice: 'TLS' (choose from 'SSL', 'SASL_SSL')"),
        ("follow_releases", ("--release", "4.0"), "'4.0': a release such as 4.0.1 is expected"),
    ],
)
def test_wrong_options_are_refused(tool: str, arguments: tuple[str, ...], reason: str) -> None:
    refused = subprocess.run(
        (sys.executable, "-P", "-m", f"tools.real_clusters.{tool}", *arguments),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.endswith(f"{reason}\n")
