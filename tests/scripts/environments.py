"""A project's environment without the minutes that a real one takes: a Python that writes down what pip was asked."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("runtime", "pipeline", "test", "check", "fuzz")
PYTHON = """#!/bin/sh
case "$1 $2 $3" in
"-m pip --version") exit 0 ;;
"-m pip install") echo "$@" >>{installed}; echo "pip speaks"; exit {pip_exit_code} ;;
esac
exec {python} "$@"
"""


@dataclass(frozen=True)
class Environment:
    """A folder that KLAMM_VENV can name."""

    folder: Path

    def make(self, *levels: str, pip_exit_code: int = 0, java: str = "21.0.8") -> "Environment":
        """Put a Python there, a Java that tells this version, and stamps of these levels as the script does."""
        python = self.folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        quoted = {"installed": shlex.quote(str(self.folder / "installed")), "python": shlex.quote(sys.executable)}
        python.write_text(PYTHON.format(**quoted, pip_exit_code=pip_exit_code))
        python.chmod(0o755)
        program = self.java_home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{java}\" 2026-01-20' >&2\n")
        program.chmod(0o755)
        for level in levels:
            shutil.copy(ROOT / "requirements" / f"{level}.txt", self.stamp(level))
        return self

    @property
    def java_home(self) -> Path:
        return self.folder / "java"

    def stamp(self, level: str) -> Path:
        return self.folder / f"klamm-{level}.txt"

    @property
    def stamped(self) -> set[str]:
        """The levels whose stamps say what the requirements say."""
        wanted = {level: (ROOT / "requirements" / f"{level}.txt").read_text() for level in LEVELS}
        return {
            level
            for level, text in wanted.items()
            if self.stamp(level).exists() and self.stamp(level).read_text() == text
        }

    @property
    def installed(self) -> list[str]:
        """The requirement files that pip was asked to install, in order."""
        record = self.folder / "installed"
        lines = record.read_text().splitlines() if record.exists() else []
        return [Path(line.rpartition(" ")[2]).name for line in lines]

    def start(self, *command: str | Path, cwd: Path = ROOT, **variables: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env={**os.environ, "KLAMM_VENV": str(self.folder), "JAVA_HOME": str(self.java_home), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str | Path, cwd: Path = ROOT, **variables: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with self.start(*command, cwd=cwd, **variables) as process:
            stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr
