"""Checks a placement cell by cell, independently of the code that makes placements.

It shares no code with the placer (an import contract ensures that) and reads only the view's plain arrays, not its
derived values, so that one mistake cannot be in both. It reports violations and repairs nothing.
Rules: rows of distinct live brokers, limits (KIP-578), placeholders (KIP-409). Evenness is not checked.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from klamm.assignment.cluster_view import BoolArray, ClusterView, Int64Array
from klamm.assignment.wording import counted
from klamm.quick_dataclasses import dataclass

MAX_LISTED_VIOLATIONS: Final = 100
"""Violations listed one by one; a last one (`NOT_LISTED`) counts the rest."""
MAX_PLACEHOLDERS: Final = 16
"""Placeholders in a row at most: -1 to -16."""

_MAX_DENSE_ID: Final = 1 << 20  # below it, ids are looked up in a table instead of searched for


class ViolationKind(Enum):
    """The kinds of violations, in the order in which they are listed."""

    SHAPE = "shape"
    """Not signed integers in two dimensions, no column, or more or fewer rows than before."""
    CLUSTER_LIMIT = "cluster limit"
    UNKNOWN_BROKER = "unknown broker"
    FENCED_BROKER = "fenced broker"
    REPEATED_BROKER = "repeated broker"
    BROKER_LIMIT = "broker limit"
    PLACEHOLDER_NOT_LAST = "placeholder not last"
    PLACEHOLDER_NUMBER = "placeholder number"
    NO_LEADER = "no leader"
    NOT_LISTED = "not listed"
    """The last element of a full list. Its message has the number of violations that are not listed."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken in one place."""

    kind: ViolationKind
    row: int | None
    """The row of the placement; None if the violation concerns a whole broker or the whole placement."""
    broker_id: int | None
    message: str


class _Report:
    """Violations up to the limit, and a count of the rest: texts are made only for those that are listed."""

    def __init__(self) -> None:
        self.listed: list[Violation] = []
        self._not_listed = 0

    def add(self, kind: ViolationKind, rows: Any, broker_ids: Any, text: Callable[[int], str]) -> None:
        """Violations of one kind: `rows` and `broker_ids` are arrays or None; `text` takes an index into them."""
        count = len(rows if rows is not None else broker_ids)
        room = min(count, MAX_LISTED_VIOLATIONS - len(self.listed))
        self._not_listed += count - room
        for at in range(room):
            row = None if rows is None else int(rows[at])
            broker_id = None if broker_ids is None else int(broker_ids[at])
            self.listed.append(Violation(kind, row, broker_id, text(at)))

    def add_whole(self, kind: ViolationKind, message: str) -> None:
        """Add a violation of the placement as a whole. It is always listed."""
        self.listed.append(Violation(kind, None, None, message))

    def finished(self) -> list[Violation]:
        if self._not_listed:
            self.add_whole(ViolationKind.NOT_LISTED, f"{self._not_listed} more violations are not listed")
        return self.listed


def audit(
    view: ClusterView,
    placement: npt.ArrayLike,
    before: npt.ArrayLike | None = None,
    *,
    fenced_allowed: bool = False,
) -> list[Violation]:
    """The rules that a placement [partitions, replication_factor] of broker ids breaks: an empty list if none.

    Without `before` the placement is new: it is not yet part of `view.replica_counts` and `view.partition_count`, and
    its placeholders begin at -1. With `before` [partitions, any width], the earlier rows, the placement is a change:
    the counts include `before`, limits apply only to brokers that were added to a row, brokers that were in the row
    before may be fenced or unknown, and the first placeholders may be missing. With `fenced_allowed` (striped
    placement) fenced brokers may be used. At most 100 violations are listed, then one that counts the rest. A bad
    placement raises nothing; NumPy raises ValueError for lists that make no array.
    """
    report = _Report()
    placement = np.asarray(placement)
    before = None if before is None else np.asarray(before)
    _check_shapes(report, placement, before)
    if report.listed:
        return report.finished()
    if before is None:
        _check_cluster_limit(report, view, len(placement))
    at = _positions(view, placement)
    added = placement >= 0 if before is None else (placement >= 0) & _added(placement, before)
    _check_brokers(report, view, placement, at, added, fenced_allowed)
    _check_broker_limit(report, view, at, added, None if before is None else _positions(view, before))
    _check_placeholders(report, placement, before)
    return report.finished()


def _check_shapes(report: _Report, placement: npt.NDArray[Any], before: npt.NDArray[Any] | None) -> None:
    for name, array in (("the placement", placement), ("the previous placement", before)):
        if array is None:
            continue
        if array.ndim != 2 or array.dtype.kind != "i" or not array.shape[1]:
            message = f"{name} is {array.dtype} of shape {array.shape}, not signed integers [rows, at least one column]"
            report.add_whole(ViolationKind.SHAPE, message)
    if not report.listed and before is not None and len(before) != len(placement):
        report.add_whole(
            ViolationKind.SHAPE,
            f"the placement has {counted(len(placement), 'row')}, but the previous one has {len(before)}",
        )


def _positions(view: ClusterView, placement: npt.NDArray[Any]) -> Int64Array:
    """Index of each cell's broker in the view; -1 where the view has no such broker, placeholders included."""
    ids = view.broker_ids.astype(np.int64)
    if not ids.size:
        return np.full(placement.shape, -1, dtype=np.int64)
    if int(ids.max()) < _MAX_DENSE_ID:
        # One entry more than the largest id, for all that is not a broker of the view.
        table = np.full(int(ids.max()) + 2, -1, dtype=np.int64)
        table[ids] = np.arange(ids.size)
        outside = (placement < 0) | (placement > ids.max())
        return table[np.where(outside, len(table) - 1, placement)]
    order = np.argsort(ids, kind="stable")
    nearest = order[np.minimum(np.searchsorted(ids[order], placement), ids.size - 1)]
    return np.where(ids[nearest] == placement, nearest, -1)


def _added(placement: npt.NDArray[Any], before: npt.NDArray[Any]) -> BoolArray:
    """Cells with an id that their row did not have before."""
    added = np.ones(placement.shape, dtype=np.bool_)
    for column in range(before.shape[1]):
        added &= placement != before[:, column, None]
    return added


def _check_brokers(
    report: _Report,
    view: ClusterView,
    placement: npt.NDArray[Any],
    at: Int64Array,
    added: BoolArray,
    fenced_allowed: bool,
) -> None:
    def add(kind: ViolationKind, cells: npt.NDArray[Any], at_fault: BoolArray, rule: str) -> None:
        rows, columns = np.nonzero(at_fault)
        ids = cells[rows, columns]
        report.add(kind, rows, ids, lambda i: f"row {rows[i]} {rule} {ids[i]}: {_shown(placement[rows[i]])}")

    add(ViolationKind.UNKNOWN_BROKER, placement, added & (at < 0), "has the unknown broker")
    if view.fenced.any() and not fenced_allowed:
        add(ViolationKind.FENCED_BROKER, placement, added & (at >= 0) & view.fenced[at], "has the fenced broker")
    ascending = np.sort(placement, axis=1)
    repeated = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
    add(ViolationKind.REPEATED_BROKER, ascending[:, 1:], repeated, "has more than once the broker")


def _check_broker_limit(
    report: _Report, view: ClusterView, at: Int64Array, added: BoolArray, before_at: Int64Array | None
) -> None:
    gained = np.bincount(at[added & (at >= 0)], minlength=len(view))
    kept = _replicas_on(view, at) - gained
    lost = (0 if before_at is None else _replicas_on(view, before_at)) - kept
    # Headroom rather than sums: counts may be as large as the largest int64.
    over = np.flatnonzero((gained > 0) & (gained - lost > view.replica_limit - view.replica_counts))
    ids, counts = view.broker_ids[over], view.replica_counts[over]
    report.add(
        ViolationKind.BROKER_LIMIT,
        None,
        ids,
        lambda i: (
            f"broker {ids[i]} has {counted(int(counts[i]), 'replica')}, "
            f"gains {gained[over[i]]} and loses {lost[over[i]]}: more than the limit, {view.replica_limit}"
        ),
    )


def _replicas_on(view: ClusterView, at: Int64Array) -> Int64Array:
    return np.bincount(at[at >= 0], minlength=len(view))


def _check_cluster_limit(report: _Report, view: ClusterView, new_partitions: int) -> None:
    if new_partitions and view.partition_count + new_partitions > view.partition_limit:
        report.add_whole(
            ViolationKind.CLUSTER_LIMIT,
            f"{counted(view.partition_count, 'partition')} in the cluster and {counted(new_partitions, 'new one')}: "
            f"more than the limit, {view.partition_limit}",
        )


def _check_placeholders(report: _Report, placement: npt.NDArray[Any], before: npt.NDArray[Any] | None) -> None:
    touched = np.flatnonzero((placement < 0).any(axis=1))
    rows = placement[touched].astype(np.int64)
    negative = rows < 0

    def add(kind: ViolationKind, at_fault: Any, rule: str) -> None:
        numbers = touched[at_fault]
        report.add(kind, numbers, None, lambda i: f"row {numbers[i]} {rule}: {_shown(placement[numbers[i]])}")

    in_front = (negative[:, :-1] & ~negative[:, 1:]).any(axis=1)
    add(ViolationKind.PLACEHOLDER_NOT_LAST, in_front, "has a placeholder before a broker")
    unsound = rows < -MAX_PLACEHOLDERS
    if before is None:
        unsound |= negative & (-rows != np.cumsum(negative, axis=1))
        rule = f"has placeholders other than -1, -2, … to -{MAX_PLACEHOLDERS}"
    else:
        lowest_so_far = np.minimum.accumulate(np.minimum(rows, 0), axis=1)
        unsound |= negative & _added(rows, before[touched])
        unsound[:, 1:] |= negative[:, 1:] & (rows[:, 1:] >= lowest_so_far[:, :-1])
        rule = f"has placeholders that are new, not descending, or below -{MAX_PLACEHOLDERS}"
    add(ViolationKind.PLACEHOLDER_NUMBER, unsound.any(axis=1), rule)
    add(ViolationKind.NO_LEADER, negative[:, 0], "has a placeholder in column 0, the place of the leader")


def _shown(row: npt.NDArray[Any]) -> str:
    return "[" + ", ".join(str(broker_id) for broker_id in row[:20]) + ("…]" if len(row) > 20 else "]")
