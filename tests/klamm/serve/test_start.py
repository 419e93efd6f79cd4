"""What a start of `klamm serve` imports, and the memory that it takes."""

import fcntl
import re
from pathlib import Path

from tests.klamm.serve.processes import FREE, HEAVY, SECONDS, first_line, serving

PIPE_BYTES = 1 << 20
"""Nothing reads stderr before the ready line, so all lines about imports have to fit into its pipe."""


def test_a_start_imports_nothing_that_it_does_not_need() -> None:
    with serving(*FREE, flags=("-X", "importtime")) as process:
        assert process.stderr is not None
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        first_line(process)
        process.terminate()
        _, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    imported = {line.rsplit("|", 1)[1].strip() for line in stderr.splitlines() if line.startswith("import time:")}
    assert "trio" in imported
    assert sorted(name for name in imported if name.split(".")[0] in HEAVY) == []
    assert sorted(name for name in imported if name.startswith("klamm.assign.command")) == []


def test_a_ready_server_is_small() -> None:
    with serving(*FREE, cold=True) as process:
        first_line(process)
        status = Path(f"/proc/{process.pid}/status").read_text()
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
    assert int(kilobytes) < 70_000
