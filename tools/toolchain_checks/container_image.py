"""Builds images with Debian's buildah, without a daemon and without an image registry.

The Dockerfile's base image is replaced by an image of the same name, with the same Debian and Python, which debootstrap
makes once per machine. Images are kept in a store of their own in the cache.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.kafka_jars import cache
from tools.toolchain_checks.program import run_program, with_variables
from tools.toolchain_checks.report import CheckFailed

DEBIAN: Final = "bookworm"
TOOLS: Final = ("buildah", "debootstrap")
_NOT_COPIED: Final = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")
"""Parts of the base image that the build does not need: half of its size, which each build step would copy."""
_PACKAGES: Final = "python3,python3-pip,ca-certificates"
_SECONDS: Final = 600.0
# The files by which this machine reaches packages: the build has to use them, too.
_HOST_FILES: Final = ("/etc/ssl/certs", "/etc/pip.conf")


def can_install() -> bool:
    """Whether something is missing that `install_tools` can install."""
    return bool(_missing()) and shutil.which("apt-get") is not None and os.geteuid() == 0


def install_tools() -> None:
    """Let Debian install what is missing. Raises `CheckFailed`."""
    environment = with_variables({"DEBIAN_FRONTEND": "noninteractive"})

    def install() -> None:
        # Another process may be installing: wait for its lock.
        apt_get = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_SECONDS:.0f}", "-o", "Acquire::Retries=3"]
        run_program([*apt_get, "update"], _SECONDS, environment=environment)
        install = [*apt_get, "install", "--yes", "--no-install-recommends", *TOOLS]
        run_program(install, 2 * _SECONDS, environment=environment)

    fetched(install)
    if missing := _missing():
        raise CheckFailed(f"apt-get has installed no {' and '.join(missing)}")


def why_no_images() -> str | None:
    """What is missing to build images here; None if nothing is."""
    if missing := _missing():
        return f"{' and '.join(missing)} not on the PATH (Debian: apt install {' '.join(missing)})"
    return None if os.geteuid() == 0 else "buildah and debootstrap need root here"


def _missing() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


class ImageStore:
    """A store of images and containers. All methods raise `CheckFailed` with buildah's output."""

    BASE: Final = "python:3.11-slim-bookworm"

    def __init__(self) -> None:
        self._folder = cache() / "images"
        self._folder.mkdir(parents=True, exist_ok=True)
        registries = self._folder / "registries.conf"
        registries.write_text('unqualified-search-registries = ["localhost"]\nshort-name-mode = "permissive"\n')
        self._environment = with_variables(
            {"BUILDAH_ISOLATION": "chroot", "CONTAINERS_REGISTRIES_CONF": str(registries)}
        )

    def build(self, context: Path, tag: str) -> None:
        """Build the Dockerfile of a folder, in Docker's format, because only that has HEALTHCHECK."""
        self._make_base()
        mounts = [f"--volume={path}:{path}:ro" for path in _HOST_FILES if Path(path).exists()]
        tagged = ("--tag", f"localhost/{tag}", str(context))
        fetched(lambda: self._bud("--format=docker", "--network=host", *mounts, *tagged))
        self._call("rmi", "--prune")  # the former image with the tag

    def config(self, tag: str) -> dict[str, Any]:
        """The settings of a container of the image: `User`, `Entrypoint`, `Healthcheck` and so on."""
        config: dict[str, Any] = json.loads(self._call("inspect", "--type", "image", f"localhost/{tag}"))["Docker"][
            "config"
        ]
        return config

    @contextmanager
    def files(self, tag: str) -> Iterator[Path]:
        """A folder with the image's files, which exists until the block ends."""
        name = self._call("from", "--pull-never", f"localhost/{tag}").strip()
        try:
            yield Path(self._call("mount", name).strip())
        finally:
            self._call("rm", name)

    def _make_base(self) -> None:
        if self._call("images", "--quiet", "--filter", f"reference=localhost/{self.BASE}").strip():
            return
        unfinished = self._folder / "base"
        root = unfinished / "root"

        def bootstrap() -> None:
            shutil.rmtree(unfinished, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", DEBIAN, str(root), *_mirror()]
            run_program(command, 2 * _SECONDS)

        fetched(bootstrap)
        (root / "usr/bin/python").symlink_to("python3")
        for mark in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):  # no package manager owns the image's Python
            mark.unlink()
        for folder in _NOT_COPIED:
            shutil.rmtree(root / folder)
        (unfinished / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
        self._bud("--tag", f"localhost/{self.BASE}", str(unfinished))
        shutil.rmtree(unfinished)

    def _bud(self, *arguments: str) -> None:
        self._call("bud", "--pull-never", *arguments)

    def _call(self, *arguments: str) -> str:
        folder = self._folder
        buildah = ["buildah", "--storage-driver=vfs", f"--root={folder}/root", f"--runroot={folder}/run"]
        return run_program([*buildah, *arguments], 2 * _SECONDS, environment=self._environment)


def _mirror() -> list[str]:
    """The mirror from which this machine has packages of that Debian; none, if it runs another one."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {DEBIAN}", "Component: main"]
    listed = run_program(command, _SECONDS)
    return listed.splitlines()[:1]
