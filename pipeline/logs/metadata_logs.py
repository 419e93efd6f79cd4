"""Metadata logs on disk: their cluster ids and their files.

A log is a folder of segments and snapshots as Apache Kafka lays them out, with `meta.properties` beside it or in the
folder above.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.pipeline.errors import PipelineError

LOG_FOLDER: Final = "__cluster_metadata-0"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
_META_PROPERTIES: Final = "meta.properties"
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_MAX_PROPERTIES_BYTES: Final = 65_536
MAX_OFFSET: Final = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """A segment, whose first record has `base_offset`, or a snapshot of all records below `base_offset`."""

    base_offset: int
    path: str
    size: int
    """The size in bytes when the file was found."""
    is_snapshot: bool = False

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """The log of one controller. `files` are in the order of reading. The first one is a snapshot if the segments begin
    after offset 0."""

    cluster_id: str
    folder: str
    files: tuple[LogFile, ...]


def find_metadata_logs(paths: Sequence[str]) -> list[MetadataLog]:
    """The log in each of the paths, which are data directories or log folders. Raises PipelineError for other paths,
    and if two logs have the same cluster id, because replicas of one log would be counted twice."""
    logs: dict[str, MetadataLog] = {}
    for path in paths:
        log = _open_log(Path(path))
        other = logs.setdefault(log.cluster_id, log)
        if os.path.realpath(other.folder) != os.path.realpath(log.folder):
            raise PipelineError(f"{other.folder} and {log.folder} are both logs of cluster {log.cluster_id}: give one")
    return list(logs.values())


def list_snapshots(log: MetadataLog) -> list[LogFile]:
    """All snapshots of a log, the oldest first, including those that are not needed to read the log. Raises
    PipelineError if the folder cannot be read."""
    folder = Path(log.folder)
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise PipelineError(f"cannot read metadata log {folder}: {error.strerror}") from error
    found = [file for name in names for file in _files(folder, _SNAPSHOT.fullmatch(name), is_snapshot=True)]
    return sorted(file for file in found if file.base_offset)  # offset 0: Kafka's voters, no records


def _open_log(path: Path) -> MetadataLog:
    folder = path / LOG_FOLDER if (path / LOG_FOLDER).is_dir() else path
    try:
        names = sorted(path.name for path in folder.iterdir())
        segments = [file for name in names for file in _files(folder, _SEGMENT.fullmatch(name))]
        snapshots = [file for name in names for file in _files(folder, _SNAPSHOT.fullmatch(name), is_snapshot=True)]
    except OSError as error:
        raise PipelineError(f"cannot read metadata log {path}: {error.strerror}") from error
    if not segments and not snapshots and folder.name != LOG_FOLDER:
        raise PipelineError(f"{path} holds no metadata log: neither {LOG_FOLDER} nor segments (20 digits, .log)")
    return MetadataLog(_cluster_id(folder), str(folder), _readable_files(folder, segments, snapshots))


def _files(folder: Path, match: re.Match[str] | None, *, is_snapshot: bool = False) -> list[LogFile]:
    """The file with this name; None if it has been deleted since its name was read."""
    if match is None:
        return []
    base_offset, path = int(match[1]), folder / match[0]
    if base_offset > MAX_OFFSET:
        raise PipelineError(f"{path} is named by an offset that no log has")
    try:
        return [LogFile(base_offset, str(path), path.stat().st_size, is_snapshot)]
    except FileNotFoundError:
        return []


def _readable_files(folder: Path, segments: list[LogFile], snapshots: list[LogFile]) -> tuple[LogFile, ...]:
    if segments and segments[0].base_offset == 0:
        return tuple(segments)
    # The oldest snapshot that a segment continues is used, because then the most records are read one by one. The
    # snapshot of offset 0, in which Kafka keeps its voters, replaces no records.
    start = segments[0].base_offset if segments else 1
    usable = [snapshot for snapshot in snapshots if snapshot.base_offset >= start]
    if not segments and not usable:
        return ()
    if not usable:
        raise PipelineError(f"{folder} begins at offset {start}, and no snapshot has the earlier records")
    first = usable[0] if segments else usable[-1]
    return (first, *segments)


def _cluster_id(folder: Path) -> str:
    """The cluster id in `meta.properties`; without that file, the path of the folder."""
    for place in (folder / _META_PROPERTIES, folder.parent / _META_PROPERTIES):
        try:
            with place.open("rb") as file:
                text = file.read(_MAX_PROPERTIES_BYTES).decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise PipelineError(f"cannot read {place}: {error.strerror}") from error
        for line in text.splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip() == "cluster.id" and value.strip():
                return value.strip()
    return f"path:{folder.resolve()}"
