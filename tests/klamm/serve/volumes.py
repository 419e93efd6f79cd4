"""Real volumes as containers have them: small, full or read-only; and processes as they are in containers. The mounts
are in a mount namespace, which root may create on most machines; outside of it they are reached through `/proc`. Where
that is not allowed, the test is skipped with the reason; each such test has a twin without mounts."""

import ctypes
import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
# Private, so that no mount leaves the namespace, which exists until stdin is closed.
_HOLDER = ("unshare", "--mount", "--propagation", "private", "sh", "-c")


@contextmanager
def mounted(script: str, *arguments: str) -> Iterator[str]:
    """A mount namespace after `script` has run in it, as the process id that represents it."""
    command = [*_HOLDER, f"set -e; {script}; echo mounted; exec cat", "sh", *arguments]
    try:
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        pytest.skip("unshare is not there (util-linux): its twin without mounts is tried in any case")
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        if holder.stdout.readline() != "mounted\n":
            assert holder.stderr is not None
            pytest.skip(f"mounts are not allowed here: {holder.stderr.read().strip()}")
        try:
            yield str(holder.pid)
        finally:
            holder.stdin.close()


@contextmanager
def small_volume(folder: Path, size: str) -> Iterator[Path]:
    """An empty volume of this size, such as `64k`."""
    with mounted('mount -t tmpfs -o "size=$1" none "$2"', size, str(folder)) as holder:
        yield Path(f"/proc/{holder}/root{folder}")


@contextmanager
def read_only_mount(folder: Path) -> Iterator[Path]:
    """The folder as a volume that is mounted read-only."""
    script = 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"'
    with mounted(script, str(folder)) as holder:
        yield Path(f"/proc/{holder}/root{folder}")


def fill(volume: Path) -> Path:
    """Write a file that takes all free space."""
    filler = volume / "filler"
    with filler.open("ab", buffering=0) as file:
        for chunk in (4096, 1):
            try:
                while file.write(bytes(chunk)):
                    pass
            except OSError:
                continue
    return filler


def obey_permissions() -> Callable[[], None]:
    """For a new process: as root, give up the capabilities to ignore file permissions."""
    libc = ctypes.CDLL(None, use_errno=True)

    def obey() -> None:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if os.geteuid() == 0 and libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), f"cannot give up capability {capability}")

    return obey


def limit_open_files(number: int) -> Callable[[], None]:
    """For a new process: `ulimit -n`."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def in_another_container(command: Sequence[str]) -> list[str]:
    """The command with process ids of its own and another host name. Skips the test where that is not allowed."""
    own = ["unshare", "--pid", "--fork", "--kill-child", "--uts"]
    allowed = subprocess.run([*own, "true"], capture_output=True, text=True, check=False)
    if allowed.returncode:
        pytest.skip(f"namespaces are not allowed here: {allowed.stderr.strip()}")
    return [*own, "sh", "-c", 'hostname elsewhere && exec "$@"', "sh", *command]
