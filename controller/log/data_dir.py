"""The data directory as Apache Kafka lays it out: whose it is (`meta.properties`) and who has it now (`.lock`).

Files that are replaced are written beside their place, synced, and moved there, and the directory entry is synced,
too: after a crash there is the old file or the new one. The log itself is elsewhere (`segment_log`).
"""

import contextlib
import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from klamm.controller.log.errors import LogError, os_errors_as_log_errors
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.quick_dataclasses import dataclass

LOG_FOLDER: Final = "__cluster_metadata-0"
META_PROPERTIES: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
CLONE_ID: Final = "-1"
"""The node.id of what `klamm clone` wrote: of no node."""
_BESIDE: Final = ".tmp"
_LOGGED: Final = (".log", ".checkpoint")
_META_PROPERTIES_VERSION: Final = "1"
LONGEST_CONTROLLER_ID: Final = 9
"""Digits. Followers have ids of ten (`klamm.twin.followed_log`)."""
# One of these says that the directory is a controller's; which one's, and whether it is whole, is judged when locked.
_SIGNS_OF_A_CONTROLLER: Final = frozenset({META_PROPERTIES, LOG_FOLDER})
# What an interrupted first start leaves behind, and what a fresh volume holds.
_AS_GOOD_AS_NOTHING: Final = frozenset({LOCK_FILE, META_PROPERTIES + _BESIDE, "lost+found"})
_MAX_OWNER_BYTES: Final = 200  # host names have at most 64
_MAX_SMALL_FILE_BYTES: Final = 65_536  # of meta.properties, quorum-state: real ones have about a hundred


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose data a directory holds."""

    cluster_id: str
    directory_id: Uuid


class DataDirLock:
    """The right to write into a data directory, held until `release` or the end of the process."""

    def __init__(self, data_dir: Path) -> None:
        self._path = path = data_dir / LOCK_FILE
        with os_errors_as_log_errors("create", path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock(data_dir)
            with os_errors_as_log_errors("write", path):
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, f"{' '.join(_own_name())}\n".encode(), 0)
        except BaseException:
            os.close(self._fd)
            raise

    def _lock(self, data_dir: Path) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _shown_owner(os.pread(self._fd, _MAX_OWNER_BYTES, 0))
            raise LogError(f"data directory {data_dir} is in use by another Klamm, {owner}") from None
        try:
            # Java's locks are of the other kind. Both are taken, so that Apache Kafka and Klamm keep each other out.
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LogError(f"data directory {data_dir} is in use by another program, such as Apache Kafka") from None

    def remove(self) -> None:
        """Remove the file of the lock, before `release`."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def release(self) -> None:
        with contextlib.suppress(OSError):  # a stale process id misleads nobody: it is shown only beside a held lock
            os.ftruncate(self._fd, 0)
        os.close(self._fd)


def _own_name() -> tuple[str, str, str]:
    """Process id, host, and among whose process ids that one is: in containers on one volume each is process 1."""
    try:
        process_ids = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not on Linux
        process_ids = "-"
    return str(os.getpid()), os.uname().nodename or "-", process_ids


def _shown_owner(written: bytes) -> str:
    names = written.decode("ascii", "replace").split()
    if not names:
        return "a process that is just starting"
    process, (_, *own_place) = f"process {names[0]}", _own_name()
    place = names[1:3]
    if place in ([], own_place):
        return process
    return f"{process} of host {place[0]}" if place[:1] != own_place[:1] else f"{process} of another container"


def create_data_dir(data_dir: Path) -> Sequence[Path]:
    """Make sure that the directory is there and is one; parents are made as needed, and the entries synced. Returns
    the directories that were made, the innermost first."""
    with os_errors_as_log_errors("use data directory", data_dir):
        missing = []
        folder = data_dir
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        if not folder.is_dir():
            raise LogError(f"cannot use data directory {data_dir}: {folder} is not a directory")
        # Another process may have made this folder and died before the entry was synced. Where the system does not let
        # us sync the parent, the folder is not ours.
        with contextlib.suppress(OSError):
            sync_dir(folder.parent)
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            sync_dir(new.parent)
        return missing


def remove_empty_dirs(made: Sequence[Path]) -> None:
    """Remove directories that `create_data_dir` made, as far as nothing is in them."""
    with contextlib.suppress(OSError):
        for folder in made:
            folder.rmdir()


def foreign_file(data_dir: Path) -> str | None:
    """The name of something in a directory that has a use; None: the directory is as good as empty."""
    with os_errors_as_log_errors("use", data_dir):
        return min({path.name for path in data_dir.iterdir()} - _AS_GOOD_AS_NOTHING, default=None)


def refuse_foreign_dir(data_dir: Path) -> None:
    """LogError if the directory holds something, and nothing that a controller keeps. Nothing is created in it."""
    with os_errors_as_log_errors("use data directory", data_dir):
        held = {path.name for path in data_dir.iterdir()}
    foreign = held - _AS_GOOD_AS_NOTHING
    if foreign and not held & _SIGNS_OF_A_CONTROLLER:
        raise LogError(
            f"{data_dir} is no data directory: it is not empty (it holds {min(foreign)!r}) and has no {META_PROPERTIES}"
        )


def load_identity(data_dir: Path, new: Identity) -> Identity:
    """The identity of the directory; a directory without one gets `new`. Raises LogError for a foreign directory."""
    path = data_dir / META_PROPERTIES
    text = load_small_file(path)
    if text is None:
        if any(path.suffix in _LOGGED for path in (data_dir / LOG_FOLDER).glob("*")):
            raise LogError(f"{data_dir} holds a metadata log, but no {META_PROPERTIES} that says whose it is")
        _write_identity(path, new)
        return new
    properties = _decode_properties(path, text)
    version = properties.get("version")
    if version != _META_PROPERTIES_VERSION:
        era = ": it was written for a broker with ZooKeeper" if version == "0" else ""
        told = "no version" if version is None else f"version {version}"
        raise LogError(f"{path} has {told}, not {_META_PROPERTIES_VERSION}{era}")
    if len(properties.get("node.id", "")) > LONGEST_CONTROLLER_ID:
        raise LogError(f"{data_dir} is a copy that klamm follow keeps: klamm serve --twin begins with it")
    if properties.get("node.id") == CLONE_ID:
        raise LogError(f"{data_dir} is a copy that klamm clone wrote: klamm serve --twin begins with it")
    if properties.get("node.id") != str(CONTROLLER_ID):
        raise LogError(f"{path} belongs to node {properties.get('node.id')}, not to the controller, {CONTROLLER_ID}")
    if not properties.get("cluster.id"):
        raise LogError(f"{path} names no cluster.id")
    if "directory.id" not in properties:  # allowed by Apache Kafka, which adds one, too
        identity = Identity(properties["cluster.id"], new.directory_id)
        _write_identity(path, identity)
        return identity
    return Identity(properties["cluster.id"], _decode_directory_id(path, properties["directory.id"]))


def _write_identity(path: Path, identity: Identity) -> None:
    properties = {
        "version": _META_PROPERTIES_VERSION,
        "node.id": str(CONTROLLER_ID),
        "cluster.id": identity.cluster_id,
        "directory.id": str(identity.directory_id),
    }
    replace_file(path, "".join(f"{name}={value}\n" for name, value in properties.items()))


def _decode_properties(path: Path, text: str) -> Mapping[str, str]:
    properties = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise LogError(f"{path} line {number} is no name=value: {line[:80]!r}")
        properties[name.rstrip()] = value.lstrip()
    return properties


def pairs_of(text: str) -> Mapping[str, str]:
    """What the properties of somebody else's directory say; lines without a pair are left out."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _decode_directory_id(path: Path, text: str) -> Uuid:
    try:
        directory_id = Uuid.from_text(text)
    except ValueError as error:
        raise LogError(f"{path} has a directory.id that is none: {error}") from None
    if directory_id == ZERO_UUID:
        raise LogError(f"{path} has a directory.id that is none: {text}")
    return directory_id


def load_small_file(path: Path) -> str | None:
    """The text of a file, None if there is none; LogError if it is no text, or far too long."""
    with os_errors_as_log_errors("read", path):
        try:
            with path.open("rb") as file:
                raw = file.read(_MAX_SMALL_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
    if len(raw) > _MAX_SMALL_FILE_BYTES:
        raise LogError(f"{path} has more than {_MAX_SMALL_FILE_BYTES} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is no UTF-8 text: {error}") from None


def replace_file(path: Path, text: str) -> None:
    """Write `path` such that a crash leaves the old file or the new one."""
    beside = path.with_name(path.name + _BESIDE)
    with os_errors_as_log_errors("write", path):
        with beside.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_dir(path.parent)


def sync_dir(folder: Path) -> None:
    """Make the entries of a directory durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
