"""Runs a container: the image's files as root folder, its user and variables, and its command as process 1.

The command has its own mount and process namespaces, so it has the duties of a container's first process. The root
folder is mounted read-only, so only the volume keeps data. The network is that of this machine.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import CheckFailed, expect

SECONDS: Final = 240.0
_POLL_SECONDS: Final = 0.05
_ENTER: Final = """set -e
root=$1 volume=$2 place=$3 mode=$4
shift 4
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind "$volume" "$root$place"
mount -o "remount,bind,$mode" "$root$place"
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder of this machine, and where the container has it."""

    folder: Path
    place: str
    is_writable: bool = True


@dataclass(frozen=True, slots=True)
class Image:
    """The source of containers: the folder with the image's files, and its `config` in Docker's form."""

    root: Path
    config: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that a user sets."""

    @contextmanager
    def started(
        self, volume: Volume, user: str | None = None, arguments: Sequence[str] = ()
    ) -> Iterator["RunningContainer"]:
        """A container that is starting; when the block ends, it is killed with all its processes. `arguments` are those
        after the image's name."""
        mode = "rw" if volume.is_writable else "ro"
        with subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *("sh", "-c", _ENTER, "sh", str(self.root), str(volume.folder), volume.place, mode),
                *("chroot", f"--userspec={user or self.config['User']}", str(self.root)),
                *self.command([*self.config["Entrypoint"], *arguments]),
            ],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield RunningContainer(self, process)
            finally:
                for first in _children(process.pid):  # The kernel then kills all processes in the container.
                    os.kill(first, signal.SIGKILL)
                process.kill()

    def command(self, command: Sequence[str]) -> list[str]:
        """A command line for inside, with the variables of the image and the user, and no others."""
        given = [*self.config["Env"], *(f"{name}={value}" for name, value in self.variables.items())]
        return ["env", "--ignore-environment", f"--chdir={self.config['WorkingDir']}", *given, *command]


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A started container."""

    image: Image
    process: "subprocess.Popen[str]"

    def line(self) -> str:
        """The first line on stdout, without its end; raises `CheckFailed` with stderr if there is none."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            raise CheckFailed(f"it says nothing within {SECONDS:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise CheckFailed(f"it ends at once: {self.end()}")
        return line.rstrip("\n")

    def first_process(self) -> int:
        """The process id of the container's process 1 on this machine."""
        children = _children(self.process.pid)
        expect(bool(children), "nothing runs in it")
        return children[0]

    def stop(self, number: signal.Signals) -> tuple[int, str, str]:
        """Send process 1 a signal. Returns exit code, stdout and stderr."""
        os.kill(self.first_process(), number)
        return self.end()

    def end(self) -> tuple[int, str, str]:
        """Wait for the end. Returns exit code, stdout and stderr."""
        try:
            stdout, stderr = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"it does not end within {SECONDS:.0f} s") from None
        return self.process.returncode, stdout, stderr

    def run(self, command: Sequence[str]) -> str:
        """The output of another process inside, like `docker exec`; raises `CheckFailed` unless its exit code is 0."""
        user, _, group = self.image.config["User"].partition(":")
        inside = ["nsenter", f"--target={self.first_process()}", "--mount", "--pid", "--root"]
        inside += [f"--setuid={user}", f"--setgid={group}"]
        return run_program([*inside, *self.image.command(command)], SECONDS)

    def expect_alone(self) -> None:
        """Check that process 1 has no child left, neither a running one nor a zombie."""
        deadline = time.monotonic() + SECONDS
        while left := _children(self.first_process()):
            expect(time.monotonic() < deadline, f"process 1 keeps {_states(left)}")
            time.sleep(_POLL_SECONDS)


def _children(process_id: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    except OSError:  # it has ended
        return []
    return [int(child) for child in listed.split()]


def _states(process_ids: Sequence[int]) -> str:
    """Name and state of each process, `Z` for a zombie."""
    found = []
    for process_id in process_ids:
        with suppress(OSError):
            found.append(" ".join(Path(f"/proc/{process_id}/stat").read_text().split()[1:3]))
    return ", ".join(found)
