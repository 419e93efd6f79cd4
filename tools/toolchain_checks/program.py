"""Runs programs until they exit, such as compilers, package managers and built programs, and ends those that exceed
their time.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.toolchain_checks.report import CheckFailed

TOLD_CHARACTERS = 3000
_SHOWN_WORDS = 6


def run_program(
    command: Sequence[str],
    seconds: float,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The stdout of a program. It runs in `folder` (None: the current one), with `environment` only (None: that of this
    process), and with empty stdin. Raises `CheckFailed` with the end of its output unless it ends within `seconds` with
    exit code 0."""
    shown = " ".join(command[:_SHOWN_WORDS]) + (" …" if len(command) > _SHOWN_WORDS else "")
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{shown} did not end within {seconds:.0f} s") from None
    if done.returncode:
        output = (done.stdout + done.stderr)[-TOLD_CHARACTERS:].strip()
        raise CheckFailed(f"{shown} ended with exit code {done.returncode}\n{output}")
    return done.stdout


@contextmanager
def ended_group(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """The process, which leads a group of its own; at the end of the block the whole group is ended."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def with_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process and these variables."""
    return {**os.environ, **variables}
