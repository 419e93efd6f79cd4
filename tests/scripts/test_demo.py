"""The demonstration ends well, fits into 80 columns, and shows a broker that stops and starts."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demonstration_fits_into_80_columns() -> None:
    ended = subprocess.run(
        (sys.executable, "-P", "-m", "tools.demo_story"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    lines = ended.stdout.splitlines()
    first = lines.pop(0)
    assert first.startswith("klamm serve, process ")
    assert first.partition("bootstrap.servers=")[2].count(",127.0.0.1:") == 2, "the addresses of all brokers are on it"
    assert max(map(len, lines)) <= 80
    shown = [" ".join(line.split()) for line in lines]
    assert "broker 3 is stopped leader 1 replicas [3, 1, 2] ISR [1, 2]" in shown
    assert "waiting: broker 3 is back leader 2 replicas [2, 1, 3] ISR [1, 2, 3]" in shown
    assert "100 partitions are refused (44): max.broker.partitions is 10" in shown
