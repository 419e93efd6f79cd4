"""How the owner of a locked data directory is named: by process id only if reader and owner share process ids."""

import fcntl
import os
from pathlib import Path

import pytest

from klamm.controller.log import LogError
from tests.controller.log.logs import open_log

HOST = os.uname().nodename
PROCESS_IDS = Path("/proc/self/ns/pid").readlink()


@pytest.mark.parametrize(("written", "told"), [
    (f"7 {HOST} {PROCESS_IDS}\n", "process 7"),
    ("7\n", "process 7"),  # by an earlier Klamm
    (f"1 {HOST} pid:[1]\n", "process 1 of another container"),
    (f"1 elsewhere {PROCESS_IDS}\n", "process 1 of host elsewhere"),
    ("1 elsewhere pid:[1]\n", "process 1 of host elsewhere"),
    ("1 elsewhere\n", "process 1 of host elsewhere"),
    ("", "a process that is just starting"),
    ("1 " + "h" * 300, "process 1 of host " + "h" * 198),  # The text stays short, whatever the file has.
])  # fmt: skip
def test_who_has_the_directory(tmp_path: Path, written: str, told: str) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        lock.write(written)
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LogError) as refused:
            open_log(tmp_path)
    assert str(refused.value) == f"data directory {tmp_path} is in use by another Klamm, {told}"
