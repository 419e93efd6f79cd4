"""The answer of `klamm assign` to one line, as JSON text in pieces.

Each line has exactly one answer: an assignment, the reason why there is none, or INVALID_REQUEST. A large placement is
given piece by piece, so that neither its whole text nor a Python object for each replica is in memory.
"""

import json
from collections.abc import Iterator
from typing import Final

import numpy as np

from klamm.assign.request import AssignRequest, InvalidRequest, decode_line
from klamm.assignment import NO_LIMIT, CannotPlace, ClusterView, JavaRandom, PlacementSpec, place
from klamm.assignment.cluster_view import Int32Array, Int64Array
from klamm.assignment.wording import counted

INVALID_REQUEST: Final = "INVALID_REQUEST"
_ROWS_AT_ONCE: Final = 1 << 14

Refusal = tuple[str, str]
"""A reason, such as "INVALID_REQUEST", and a message for users."""


def answer(line: bytes) -> Iterator[str]:
    """The answer to a line: pieces of one JSON object, without the line end."""
    request = decode_or_refuse(line)
    if isinstance(request, tuple):
        yield _refusal_text(request)
        return
    view, rng = request.view, JavaRandom(request.seed)
    opening, separator, closing = ('{"results":[', ",", "]}") if request.has_calls else ("", "", "")
    yield opening
    for number, spec in enumerate(request.specs):
        placed = place_or_refuse(view, spec, rng)
        if number:
            yield separator
        yield from _placed_text(spec, placed)
        if request.has_calls and not isinstance(placed, tuple):
            view = view_with(view, placed)
    yield closing


def decode_or_refuse(line: bytes) -> AssignRequest | Refusal:
    """The request of a line, or the refusal of an invalid line."""
    try:
        return decode_line(line)
    except InvalidRequest as error:
        return INVALID_REQUEST, str(error)
    except MemoryError:
        return INVALID_REQUEST, f"there is not enough memory to read a line of {len(line)} bytes"


def place_or_refuse(view: ClusterView, spec: PlacementSpec, rng: JavaRandom) -> Int32Array | Refusal:
    """The placement, int32[partitions, replication_factor], or why there is none."""
    try:
        return place(view, spec, rng)
    except CannotPlace as refused:
        return refused.reason.value, refused.message
    except MemoryError:
        return INVALID_REQUEST, (
            f"there is not enough memory for {counted(spec.partitions, 'partition')} with replication factor "
            f"{spec.replication_factor}"
        )


def view_with(view: ClusterView, placed: Int32Array) -> ClusterView:
    """The view with the replicas and partitions of the placement added; placeholders count for no broker."""
    return ClusterView(
        broker_ids=view.broker_ids,
        racks=view.racks,
        fenced=view.fenced,
        replica_counts=replicas_after(view, placed),
        replica_limit=view.replica_limit,
        partition_count=view.partition_count + len(placed),
        partition_limit=view.partition_limit,
    )


def replicas_after(view: ClusterView, placed: Int32Array) -> Int64Array:
    """int64[n]: replicas on each broker with those of the placement; at most NO_LIMIT."""
    added = replicas_per_broker(view, placed)
    # Without a limit, the counts of a request can be as large as NO_LIMIT.
    return np.minimum(view.replica_counts, NO_LIMIT - added) + added


def replicas_per_broker(view: ClusterView, placed: Int32Array) -> Int64Array:
    """int64[n]: replicas of the placement on each broker of the view; placeholders are on no broker."""
    index = view.index_of(placed).ravel()
    return np.bincount(index[index >= 0], minlength=len(view))


def _placed_text(spec: PlacementSpec, placed: Int32Array | Refusal) -> Iterator[str]:
    if isinstance(placed, tuple):
        yield _refusal_text(placed)
        return
    yield '{"assignment":{'
    partitions, replication_factor = placed.shape
    row_text = f'"%d":[{",".join(["%d"] * replication_factor)}]'
    for begin in range(0, partitions, _ROWS_AT_ONCE):
        rows = placed[begin : begin + _ROWS_AT_ONCE]
        numbers = np.arange(spec.first_partition + begin, spec.first_partition + begin + len(rows))
        if begin:
            yield ","
        # One format operation for many rows is four times as fast as one for each row.
        yield ",".join([row_text] * len(rows)) % tuple(np.column_stack((numbers, rows)).ravel().tolist())
    yield "}}"


def _refusal_text(refusal: Refusal) -> str:
    reason, message = refusal
    return json.dumps({"error": {"reason": reason, "message": message}}, separators=(",", ":"))
