"""Jars of Apache Kafka and of frameworks, which Maven downloads into a cache once per pom.xml and machine.

A folder of the cache is moved into place when it is complete, so an existing folder can be used without a check.
"""

import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import CheckFailed

CACHE_VARIABLE = "KLAMM_TOOLCHAIN_CACHE"
FETCH_SECONDS = 600.0
_POM = Path(__file__).with_name("pom.xml")
_VERSION = re.compile(r"(<kafka\.version>)[^<]*(</kafka\.version>)")


def find_program(name: str, debian_package: str) -> str:
    """The program's path; raises `CheckFailed` if it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise CheckFailed(f"{name} is needed, and is not on the PATH (Debian: apt install {debian_package})")
    return path


def fetch_class_path(pom: Path = _POM, name: str = "kafka") -> str:
    """The class path for `java -cp` of what `pom` names. Downloads the jars if they are not in the cache, in which
    their folder's name begins with `name`; raises `CheckFailed` if that fails."""
    kept = f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    return f"{kept_folder(kept, lambda folder: _fetch(pom, folder))}{os.sep}*"


def fetch_release(release: str) -> str:
    """The same for the jars of another release of Apache Kafka, such as "4.1.0"."""

    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="klamm-pom-") as made:
            pom = Path(made) / "pom.xml"
            pom.write_text(_VERSION.sub(rf"\g<1>{release}\g<2>", _POM.read_text("utf-8")), encoding="utf-8")
            _fetch(pom, folder)
        for second in folder.glob("slf4j-reload4j-*.jar"):  # of 3.9, which would be used instead of slf4j-simple
            second.unlink()

    return f"{kept_folder(f'kafka-release-{release}', fill)}{os.sep}*"


def kept_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache; if there is none, `fill` makes it at the path that it gets."""
    folder = cache() / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Another process has made it meanwhile.
            if not folder.is_dir():
                unfinished = folder.with_suffix(".unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                fill(unfinished)
                unfinished.rename(folder)
    return folder


def cache() -> Path:
    """The folder of everything that is downloaded or built once; it may not exist yet."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).absolute()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "klamm-toolchain"


def _fetch(pom: Path, unfinished: Path) -> None:
    maven = find_program("mvn", "maven")
    sys.stderr.write(f"toolchain: fetching jars into {unfinished.parent} (once)\n")
    # Maven remembers failed downloads, and repeats them only with this option.
    command = [maven, "--batch-mode", "--quiet", "--strict-checksums", "--update-snapshots", "--file", str(pom)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"]
    fetched(lambda: run_program(command, FETCH_SECONDS))
