"""The windows that close between two positions of a log, with the states of clusters kept between micro-batches.

The processes that read logs for Spark live for many micro-batches, so each keeps the states that it used last. Another
process may have read the micro-batches in between: then their changes are read from the files of the states.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import LogPart, Mark, Piece, cut_log
from klamm.pipeline.logs.metadata_rows import read_pieces
from klamm.pipeline.windows.arrow_records import records_of, window_rows
from klamm.pipeline.windows.fold import READ_TYPES, ClosedWindow, WindowFold
from klamm.pipeline.windows.state import ClusterState
from klamm.pipeline.windows.state_files import StateFiles, StateLost

MAX_KEPT_PARTITIONS: Final = 1_000_000
"""The most partitions in the states that a process keeps, besides those of the cluster that it read last."""
_PIECE_BYTES: Final = 8 << 20
_ROWS_AT_ONCE: Final = 10_000


_kept: "OrderedDict[tuple[str, str], tuple[Mark, ClusterState]]" = OrderedDict()
"""The states that this process used last, by the folder of states and the cluster id."""


def close_windows(part: LogPart, states: str) -> Iterator[pa.RecordBatch]:
    """The rows of live.closed_window that a part of a log closes. Afterwards the state at its end is in the folder
    `states`. Raises PipelineError if a file cannot be read, or if the state at the beginning is lost."""
    files = StateFiles(states, part.cluster_id)
    known_at, known = _kept.pop((states, part.cluster_id), (None, None))
    state, saved_at = _state_before(part, files, known, known_at)
    windows = _fold(part.pieces, state)
    while together := list(islice(windows, _ROWS_AT_ONCE)):
        yield window_rows(part.cluster_id, together)
    try:
        files.save(saved_at, part.end, state)
    except OSError as error:
        raise PipelineError(f"cannot write to {states}: {error.strerror}") from error
    _keep((states, part.cluster_id), part.end, state)


def _fold(pieces: tuple[Piece, ...], state: ClusterState) -> Iterator[ClosedWindow]:
    rows = read_pieces(pieces, READ_TYPES)
    return WindowFold(state).add(record for some in rows for record in records_of(some))


def _state_before(
    part: LogPart, files: StateFiles, known: ClusterState | None, known_at: Mark | None
) -> tuple[ClusterState, Mark | None]:
    """The state before a part, and the position of its file; None if it has no file."""
    if part.start is None:
        return ClusterState(), None
    try:
        return files.load(part.start, known, known_at), part.start
    except (StateLost, OSError):
        return _rebuilt(part, part.start), None


def _rebuilt(part: LogPart, start: Mark) -> ClusterState:
    """The state at a position from all records before it. A file of a state can be lost if the machine loses power."""
    (log,) = find_metadata_logs([part.folder])
    if log.files[0].is_snapshot:
        raise PipelineError(
            f"the windows that were open in {part.folder} at offset {start.offset} are lost, and so is the beginning of"
            " the log: ingest anew, with --overwrite"
        )
    state = ClusterState()
    for _ in _fold(tuple(cut_log(log, None, _PIECE_BYTES, start)), state):
        pass
    state.forget_changes()
    return state


def _keep(key: tuple[str, str], mark: Mark, state: ClusterState) -> None:
    _kept[key] = (mark, state)
    kept = sum(state.partition_count for _, state in _kept.values()) - state.partition_count
    while kept > MAX_KEPT_PARTITIONS:
        _, (_, oldest) = _kept.popitem(last=False)
        kept -= oldest.partition_count
