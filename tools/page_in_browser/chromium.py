"""Chromium, driven by Playwright: for the checks of the page, its pictures and its figures.

Playwright is in an environment of no level: `requirements/browser.txt` is installed in the toolchain's own folder, and
put on the path of this process.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.kafka_jars import kept_folder
from tools.toolchain_checks.program import run_program, with_variables

ROOT: Final = Path(__file__).resolve().parents[2]
REQUIREMENTS: Final = ROOT / "requirements" / "browser.txt"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
SECONDS: Final = 300.0
FLAGS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
"""Chromium asks no other host, and runs as root, too."""


def found_chromium() -> str | None:
    """The path of Chromium; None: it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def can_install_chromium() -> bool:
    """Whether Debian can install it."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install_chromium() -> None:
    """Let Debian install it. Raises `CheckFailed`."""
    environment = with_variables({"DEBIAN_FRONTEND": "noninteractive"})
    apt_get = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={SECONDS:.0f}", "-o", "Acquire::Retries=3"]

    def install() -> None:
        run_program([*apt_get, "update"], SECONDS, environment=environment)
        packages = ("chromium", "fonts-dejavu-core")
        run_program(
            [*apt_get, "install", "--yes", "--no-install-recommends", *packages], SECONDS, environment=environment
        )

    fetched(install)


def put_playwright_on_the_path() -> None:
    """Install Playwright, once, and let this process import it. Raises `CheckFailed`."""

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command = [*pip, "install", "--quiet", "--require-hashes", "--target", str(folder), "-r", str(REQUIREMENTS)]
        fetched(lambda: run_program(command, SECONDS))

    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = str(kept_folder(f"playwright-{digest}", install))
    if folder not in sys.path:
        sys.path.append(folder)


@contextmanager
def open_chromium(path: str) -> Iterator[Any]:
    """A browser of Playwright, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
