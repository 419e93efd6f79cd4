"""Images built and containers run by Debian's buildah, without a daemon and without an image registry.

What the Dockerfile calls its base image is here a stand-in of the same name, with the same Debian and Python, made by
debootstrap once per machine. Images live in a store of their own in the cache, and share this machine's network.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from scripts.toolchain_checks.kafka_jars import cache
from scripts.toolchain_checks.report import CheckFailed

DEBIAN: Final = "bookworm"
TOOLS: Final = ("buildah", "debootstrap")
_PACKAGES: Final = "python3,python3-pip,ca-certificates"
_SECONDS: Final = 900.0
_TOLD_CHARACTERS: Final = 3000
# How this machine reaches packages, where it has been told: the build has to go the same way.
_HOST_FILES: Final = ("/etc/ssl/certs", "/etc/pip.conf")


def install_tools() -> None:
    """Have Debian install what is missing, if it is ours to say; what does not work is told by `why_no_images`."""
    if any(shutil.which(tool) is None for tool in TOOLS) and shutil.which("apt-get") and os.geteuid() == 0:
        with suppress(CheckFailed):
            run_program(["apt-get", "-qq", "update"])
            run_program(["apt-get", "-qq", "install", "--yes", "--no-install-recommends", *TOOLS])


def why_no_images() -> str | None:
    """What is missing for images to be built here, None if nothing is."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not on the PATH (Debian: apt install {' '.join(missing)})"
    return None if os.geteuid() == 0 else "buildah and debootstrap need root here"


class ImageStore:
    """Where images and containers are kept. All methods raise `CheckFailed` with what buildah said."""

    BASE: Final = "python:3.11-slim-bookworm"

    def __init__(self) -> None:
        self._folder = cache() / "images"
        self._folder.mkdir(parents=True, exist_ok=True)
        registries = self._folder / "registries.conf"
        registries.write_text('unqualified-search-registries = ["localhost"]\nshort-name-mode = "permissive"\n')
        self._environment = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_REGISTRIES_CONF": str(registries),
        }

    def build(self, context: Path, tag: str) -> None:
        """Build the Dockerfile of a folder, its HEALTHCHECK included, which only Docker's own format has."""
        self._make_base()
        mounts = [f"--volume={path}:{path}:ro" for path in _HOST_FILES if Path(path).exists()]
        self._bud("--format=docker", "--network=host", *mounts, "--tag", f"localhost/{tag}", str(context))
        self._call("rmi", "--prune")  # what had the tag before

    def config(self, tag: str) -> dict[str, Any]:
        """What a container of the image is started with: `User`, `Entrypoint`, `Healthcheck` and so on."""
        config: dict[str, Any] = json.loads(self._call("inspect", "--type", "image", f"localhost/{tag}"))["Docker"][
            "config"
        ]
        return config

    def files_bytes(self, container: str, folder: str) -> int:
        """What the files below a folder of the container take."""
        root = Path(self._call("mount", container).strip())
        return sum(path.lstat().st_size for path in (root / folder).rglob("*"))

    @contextmanager
    def container(self, tag: str) -> Iterator[str]:
        """A new container, in which nothing runs yet; gone after the block."""
        name = self._call("from", "--pull-never", f"localhost/{tag}").strip()
        try:
            yield name
        finally:
            self._call("rm", name)

    def command(
        self, container: str, command: Sequence[str], variables: Mapping[str, str], volumes: Sequence[str]
    ) -> list[str]:
        """The command line that runs `command` in a container, in the foreground, as the image's user."""
        given = [f"--env={name}={value}" for name, value in variables.items()]
        given += [f"--volume={volume}" for volume in volumes]
        return [*self._buildah("run"), *given, container, "--", *command]

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the command lines need."""
        return self._environment

    def _make_base(self) -> None:
        if not self._call("images", "--quiet", "--filter", f"reference=localhost/{self.BASE}").strip():
            unfinished = self._folder / "base"
            shutil.rmtree(unfinished, ignore_errors=True)
            root = unfinished / "root"
            run_program(["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", DEBIAN, str(root), *_mirror()])
            (root / "usr/bin/python").symlink_to("python3")
            for mark in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):  # the image's Python is nobody's but its own
                mark.unlink()
            (unfinished / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
            self._bud("--tag", f"localhost/{self.BASE}", str(unfinished))
            shutil.rmtree(unfinished)

    def _bud(self, *arguments: str) -> None:
        self._call("bud", "--pull-never", *arguments)

    def _call(self, *arguments: str) -> str:
        return run_program([*self._buildah(arguments[0]), *arguments[1:]], self._environment)

    def _buildah(self, command: str) -> list[str]:
        folder = self._folder
        return ["buildah", "--storage-driver=vfs", f"--root={folder}/root", f"--runroot={folder}/run", command]


def _mirror() -> list[str]:
    """Where this machine has its own packages of that Debian from; none, if it is another Debian."""
    listed = run_program(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {DEBIAN}", "Component: main"]
    )
    return listed.splitlines()[:1]


def run_program(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What a program wrote to stdout; `CheckFailed` with all that it said unless its exit code is 0."""
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{command[0]} did not end within {_SECONDS:.0f} s") from None
    if done.returncode:
        told = (done.stdout + done.stderr)[-_TOLD_CHARACTERS:].strip()
        raise CheckFailed(f"{' '.join(command[:6])} … ended with exit code {done.returncode}\n{told}")
    return done.stdout
