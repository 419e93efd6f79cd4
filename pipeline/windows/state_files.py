"""The states of clusters on disk, as a chain of files per cluster: a whole state, then the changes of each micro-batch.

FOLDER/CLUSTER/FILE@BYTE.whole     the state at this position of the log
FOLDER/CLUSTER/FILE@BYTE.changes   the changes up to this position, since the position that its first line names

A file has its final name only when it is complete, and is never changed. Spark repeats a micro-batch that it did not
commit from the position where it began, so the chain to that position is kept.
"""

import json
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from klamm.pipeline.logs.metadata_logs import SNAPSHOT_SUFFIX
from klamm.pipeline.logs.metadata_pieces import Mark
from klamm.pipeline.windows.state import ClusterState, Plain

FORMAT: Final = 1
MAX_CHAIN: Final = 200
"""The most files of changes after a whole state."""
LEAST_WHOLE_BYTES: Final = 1 << 16
"""A whole state is written when the changes take more bytes than the last whole state, and more than this."""
_WHOLE: Final = ".whole"
_CHANGES: Final = ".changes"
_PART: Final = ".part"


class StateLost(Exception):
    """The state at a position is not on disk, or is damaged."""


class _Header(NamedTuple):
    """The first line of a file."""

    format: int
    start: Mark | None
    """The position of the file before it in the chain; None for a whole state."""
    whole: str
    """The name of the file at the beginning of the chain."""
    whole_bytes: int
    length: int
    """The number of files of changes in the chain, including this one."""
    earlier_bytes: int
    """The bytes of the earlier files of changes in the chain."""


class StateFiles:
    """The files of one cluster."""

    def __init__(self, folder: str, cluster_id: str) -> None:
        self._folder = Path(folder) / sha256(cluster_id.encode()).hexdigest()[:32]

    def load(self, mark: Mark, known: ClusterState | None = None, known_at: Mark | None = None) -> ClusterState:
        """The state at a position. `known`, the state at the position `known_at`, is modified, if the chain leads over
        it. Raises StateLost."""
        if known is not None and known_at == mark and self._newest(mark) is not None:
            return known
        chain: list[Path] = []
        at: Mark | None = mark
        while at is not None and (not chain or at != known_at):
            path = self._newest(at)
            if path is None:
                raise StateLost(f"{self._folder} has no state at {at.file}, byte {at.byte}")
            chain.append(path)
            at = _header(path).start
        state = ClusterState() if at is None or known is None else known
        for path in reversed(chain):
            _read(path, state)
        return state

    def save(self, start: Mark | None, end: Mark, state: ClusterState) -> None:
        """Write the state at `end`. Its changes began at `start`, or at the beginning of the log if that is None."""
        self._folder.mkdir(parents=True, exist_ok=True)
        before = None if start is None else self._newest(start)
        held = None if before is None else _header(before)
        if before is not None and held is not None:
            whole_bytes, changed_bytes = held.whole_bytes, held.earlier_bytes
            if held.start is None:
                whole_bytes = before.stat().st_size
            else:
                changed_bytes += before.stat().st_size
            if held.length < MAX_CHAIN and changed_bytes <= max(whole_bytes, LEAST_WHOLE_BYTES):
                header = _Header(FORMAT, start, held.whole, whole_bytes, held.length + 1, changed_bytes)
                self._write(self._path(end, _CHANGES), header, state.take_changes())
                return
        path = self._path(end, _WHOLE)
        self._write(path, _Header(FORMAT, None, path.name, 0, 0, 0), state.everything())
        state.forget_changes()
        if held is not None:
            self._delete_before(held.whole)

    def _path(self, mark: Mark, suffix: str) -> Path:
        return self._folder / f"{mark.file}@{mark.byte:020d}{suffix}"

    def _newest(self, mark: Mark) -> Path | None:
        """The file with the state at this position; None if there is none."""
        paths = (self._path(mark, suffix) for suffix in (_WHOLE, _CHANGES))
        return next((path for path in paths if path.is_file()), None)

    def _write(self, path: Path, header: _Header, lines: Iterable[Plain]) -> None:
        # A task of an earlier process may still be writing the same file.
        part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
        count = 0
        with part.open("w", encoding="utf-8") as file:
            file.write(_line(header))
            for plain in lines:
                file.write(_line(plain))
                count += 1
            file.write(_line({"lines": count}))
        part.replace(path)

    def _delete_before(self, whole: str) -> None:
        """Delete the files of chains that are older than the one that begins with the file `whole`."""
        for path in self._folder.iterdir():
            if path.suffix == _PART or _order(path.name) < _order(whole):
                path.unlink(missing_ok=True)


def _order(name: str) -> tuple[bool, str]:
    """The names of files in the order of their positions: a snapshot comes before all segments."""
    file, _, _ = name.partition("@")
    return not file.endswith(SNAPSHOT_SUFFIX), name


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _header(path: Path) -> _Header:
    with path.open(encoding="utf-8") as file:
        return _header_of(path, file.readline())


def _header_of(path: Path, line: str) -> _Header:
    try:
        header = _Header(*json.loads(line))
        start = None if header.start is None else Mark(*header.start)
    except (ValueError, TypeError) as error:
        raise StateLost(f"{path} has no header") from error
    if header.format != FORMAT:
        raise StateLost(f"{path} has another format")
    return header._replace(start=start)


def _read(path: Path, state: ClusterState) -> None:
    """Apply a file to the state before it."""
    with path.open(encoding="utf-8") as file:
        _header_of(path, file.readline())
        for count, line in enumerate(file):
            try:
                plain = json.loads(line)
            except ValueError as error:
                raise StateLost(f"{path} is damaged") from error
            if plain == {"lines": count}:
                return
            state.apply([plain])
    raise StateLost(f"{path} is incomplete")
