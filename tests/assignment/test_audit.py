"""The auditor finds exactly the violations that a plain reference finds, and reports them with their numbers."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment.audit import MAX_LISTED_VIOLATIONS, Violation, ViolationKind, audit
from klamm.assignment.cluster_view import NO_LIMIT, ClusterView
from tests.assignment.strategies import clusters, seeded, small_cluster

Found = set[tuple[ViolationKind, int | None, int | None]]
K = ViolationKind

# Brokers 10 to 13, the last one fenced; 11 is at its limit, 12 is two over it, 10 and 13 have room for two.
CROWDED = replace(small_cluster([2, 0, -2, 2]), fenced=np.array([False, False, False, True]))
ROOMY = small_cluster([20, 20, 20, 20])


def rows(*given: list[int]) -> npt.NDArray[Any]:
    return np.array(given, dtype=np.int32)


def found(violations: list[Violation]) -> Found:
    return {(violation.kind, violation.row, violation.broker_id) for violation in violations}


def read_plainly(
    view: ClusterView, placed: npt.NDArray[Any], before: npt.NDArray[Any] | None, fenced_ok: bool
) -> Found:
    """The rules as they are told, row by row."""
    faults: Found = set()
    fenced = dict(zip(view.broker_ids.tolist(), view.fenced.tolist(), strict=True))
    counts = Counter(dict(zip(view.broker_ids.tolist(), view.replica_counts.tolist(), strict=True)))
    gained = set()
    olds = [[]] * len(placed) if before is None else before.tolist()
    for number, (row, old) in enumerate(zip(placed.tolist(), olds, strict=True)):
        new = {replica for replica in row if replica >= 0} - set(old)
        gained |= new
        counts.subtract(replica for replica in old if replica >= 0)
        counts.update(replica for replica in row if replica >= 0)
        faults |= {(K.REPEATED_BROKER, number, replica) for replica in row if replica >= 0 and row.count(replica) > 1}
        faults |= {(K.UNKNOWN_BROKER, number, broker_id) for broker_id in new - set(fenced)}
        if not fenced_ok:
            faults |= {(K.FENCED_BROKER, number, broker_id) for broker_id in new if fenced.get(broker_id)}
        faults |= {(kind, number, None) for kind in read_placeholders(row, None if before is None else old)}
    faults |= {
        (K.BROKER_LIMIT, None, broker_id)
        for broker_id in gained & set(fenced)
        if counts[broker_id] > view.replica_limit
    }
    if before is None and view.partition_count + len(placed) > view.partition_limit and len(placed):
        faults.add((K.CLUSTER_LIMIT, None, None))
    return faults


def read_placeholders(row: list[int], old: list[int] | None) -> set[ViolationKind]:
    placeholders = [replica for replica in row if replica < 0]
    faults = set()
    if row != [replica for replica in row if replica >= 0] + placeholders:
        faults.add(K.PLACEHOLDER_NOT_LAST)
    if row[0] < 0:
        faults.add(K.NO_LEADER)
    numbered = list(range(-1, -1 - len(placeholders), -1))
    if old is not None:
        numbered = sorted(set(old) & set(placeholders), reverse=True)
    if placeholders != numbered or min(placeholders, default=0) < -16:
        faults.add(K.PLACEHOLDER_NUMBER)
    return faults


Audited = tuple[ClusterView, npt.NDArray[Any], npt.NDArray[Any] | None, bool]


@st.composite
def audited(draw: st.DrawFn) -> Audited:
    """Rows that are sound, or have a fault here and there; and, in most cases, what they were before."""
    view, chance = draw(clusters(most_room=4) | clusters(most_room=20)), draw(seeded())
    at_limit = chance.choice((0, 0.3))
    full = np.array([chance.random() < at_limit for _ in view.racks], dtype=np.bool_)
    view = replace(view, replica_counts=np.where(full, view.replica_limit, view.replica_counts))
    height, width = chance.choice((0, 1, 2, 3, 4, 5, 5)), chance.randint(1, 5)
    strangers = chance.choice(([], [], [2**31 - 1, 99]))
    anybody, live = view.broker_ids.tolist() + strangers, view.broker_ids[view.live].tolist()
    brokers = chance.choice((anybody, live or anybody))
    before = [some_row(chance, chance.choice((brokers, anybody)), width) for _ in range(height)]
    faults, wider = chance.choice((0, 0, 0.5, 0.8)), width + chance.choice((0, 0, 1))
    is_new = chance.random() < 0.4
    if is_new:
        placed = [some_row(chance, brokers, wider) for _ in before]
    else:
        placed = [changed_row(chance, row, brokers, wider) for row in exchanged(chance, before)]
    placed = [spoiled(chance, row, anybody) if chance.random() < faults else row for row in placed]
    return (
        view,
        np.array(placed, dtype=np.int32).reshape(height, wider),
        None if is_new else np.array(before, dtype=np.int32).reshape(height, width),
        chance.random() < 0.3,
    )


def some_row(chance: Random, brokers: list[int], width: int) -> list[int]:
    real = chance.sample(brokers, min(chance.choice((width, chance.randint(1, width))), len(brokers)))
    return real + list(range(-1, -1 - width + len(real), -1))


def exchanged(chance: Random, rows: list[list[int]]) -> list[list[int]]:
    """The rows, of which in most cases two have exchanged two brokers: neither holds more than before."""
    rows = [list(row) for row in rows]
    if len(rows) > 1 and chance.random() < 0.7:
        one, other = chance.sample(rows, 2)
        given, taken = (
            [broker for broker in {*row} - {*rest} if broker >= 0] for row, rest in ((one, other), (other, one))
        )
        if given and taken:
            one[one.index(given[0])], other[other.index(taken[0])] = taken[0], given[0]
    return rows


def changed_row(chance: Random, row: list[int], brokers: list[int], width: int) -> list[int]:
    """A row with another broker, fewer placeholders, or its replicas in another order."""
    row = row + [min(0, *row) - 1] * (width - len(row))
    others = chance.sample([broker for broker in brokers if broker not in row], len({*brokers} - {*row}))
    for at in chance.sample(range(width), min(chance.choice((0, 0, 1, 2)), width)):
        first = next((place for place, replica in enumerate(row) if replica < 0), at)
        if others:
            row[chance.choice((at, first)) if row[at] >= 0 else first] = others.pop()
    if chance.random() < 0.3:
        row = sorted(row, key=lambda replica: (-1, chance.random()) if replica >= 0 else (0, -replica))
    return row


def spoiled(chance: Random, row: list[int], brokers: list[int]) -> list[int]:
    """The row with one replica that may be wrong."""
    at = chance.choice((0, chance.randrange(len(row))))
    wrong = (*brokers, *row, -1, -1, -2, -3, -16, -17, 2**31 - 1, -(2**31))
    return [*row[:at], chance.choice(wrong), *row[at + 1 :]]


@given(audited())
# A broker in one row twice that was there once before: it has gained nothing by our reading.
@example((CROWDED, rows([12, 12, 10]), rows([12, 10, 11]), False))
@example((CROWDED, rows([10, -2, -3]), rows([10, -1, -2]), False))
def test_the_auditor_finds_the_same_violations_as_a_plain_reference(case: Audited) -> None:
    view, placed, before, fenced_ok = case
    assert found(audit(view, placed, before, fenced_allowed=fenced_ok)) == read_plainly(view, placed, before, fenced_ok)


@pytest.mark.parametrize(
    ("placed", "kind", "row", "broker_id", "message"),
    [
        (rows([10, 9]), K.UNKNOWN_BROKER, 0, 9, "row 0 has the unknown broker 9: [10, 9]"),
        (rows([10], [13]), K.FENCED_BROKER, 1, 13, "row 1 has the fenced broker 13: [13]"),
        (rows([10, 10]), K.REPEATED_BROKER, 0, 10, "row 0 has more than once the broker 10: [10, 10]"),
        (
            rows([10], [10], [10]),
            K.BROKER_LIMIT,
            None,
            10,
            "broker 10 has 18 replicas, gains 3 and loses 0: more than the limit, 20",
        ),
        (rows([10, -1, 11]), K.PLACEHOLDER_NOT_LAST, 0, None, "row 0 has a placeholder before a broker: [10, -1, 11]"),
        (
            rows([10, -2]),
            K.PLACEHOLDER_NUMBER,
            0,
            None,
            "row 0 has placeholders other than -1, -2, … to -16: [10, -2]",
        ),
        (
            rows([-1, -2]),
            K.NO_LEADER,
            0,
            None,
            "row 0 has a placeholder in column 0, the place of the leader: [-1, -2]",
        ),
    ],
)
def test_a_violation_has_its_place_and_numbers(
    placed: npt.NDArray[Any], kind: ViolationKind, row: int | None, broker_id: int | None, message: str
) -> None:
    assert Violation(kind, row, broker_id, message) in audit(CROWDED, placed)


@pytest.mark.parametrize(("width", "shown"), [(19, "26, 27, 9]"), (20, "27, 28, 9]"), (21, "27, 28, 29…]")])
def test_messages_show_at_most_twenty_replicas_of_a_row(width: int, shown: str) -> None:
    """The last replica is on a broker that nobody knows."""
    (violation,) = audit(small_cluster([9] * 40), rows([*range(10, 9 + width), 9]))
    assert violation.message.endswith(shown)


def test_the_cluster_limit_counts_new_rows_only() -> None:
    view = replace(ROOMY, partition_count=8, partition_limit=9)
    assert audit(view, rows([10])) == []
    assert audit(view, rows([10], [11]), rows([11], [12])) == []
    (violation,) = audit(view, rows([10], [11]))
    assert violation.kind is K.CLUSTER_LIMIT
    assert violation.message == "8 partitions in the cluster and 2 new ones: more than the limit, 9"


@pytest.mark.parametrize(
    ("placed", "before", "message"),
    [
        (np.zeros(3, dtype=np.int32), None, "the placement is int32 of shape (3,)"),
        (np.zeros((3, 0), dtype=np.int32), None, "the placement is int32 of shape (3, 0)"),
        (np.zeros((3, 1)), None, "the placement is float64 of shape (3, 1)"),
        (np.zeros((3, 1), dtype=np.uint32), None, "the placement is uint32 of shape (3, 1)"),
        (rows([10]), np.zeros((1, 1, 1), dtype=np.int32), "the previous placement is int32 of shape (1, 1, 1)"),
        (rows([10]), rows([10], [11]), "the placement has 1 row, but the previous one has 2"),
    ],
)
def test_an_array_that_is_no_placement_gives_only_a_shape_violation(
    placed: npt.NDArray[Any], before: Any, message: str
) -> None:
    (violation,) = audit(CROWDED, placed, before)
    assert violation.kind is K.SHAPE
    assert violation.message.startswith(message)


def test_striped_placement_may_use_fenced_brokers() -> None:
    assert audit(CROWDED, rows([10, 13]), fenced_allowed=True) == []
    assert found(audit(CROWDED, rows([10, 13]))) == {(K.FENCED_BROKER, 0, 13)}


def test_replicas_of_the_previous_row_may_stay_on_any_broker() -> None:
    """12 is over its limit, 13 is fenced and 99 is unknown: all three stay, and none of them comes to another row."""
    before = rows([12, 13, 99], [10, 11, -1])
    assert audit(CROWDED, before[:, [2, 0, 1]], rows([12, 13, 99], [11, -1, 10])) == [
        Violation(K.PLACEHOLDER_NOT_LAST, 1, None, "row 1 has a placeholder before a broker: [-1, 10, 11]"),
        Violation(K.NO_LEADER, 1, None, "row 1 has a placeholder in column 0, the place of the leader: [-1, 10, 11]"),
    ]
    assert audit(CROWDED, before, before) == []
    assert found(audit(CROWDED, rows([10, 13, 99], [12, 13, 99]), before)) == {
        (K.UNKNOWN_BROKER, 1, 99),
        (K.FENCED_BROKER, 1, 13),
        (K.BROKER_LIMIT, None, 12),
    }


def test_a_removed_replica_makes_room_for_an_added_one() -> None:
    """11 is at its limit: it may give up one row for another, and may not have one more."""
    assert audit(CROWDED, rows([10], [11]), rows([11], [10])) == []
    assert found(audit(CROWDED, rows([11], [11]), rows([11], [10]))) == {(K.BROKER_LIMIT, None, 11)}


def test_counts_near_the_largest_long_do_not_overflow() -> None:
    view = ClusterView(np.array([1, 2]), (None, None), replica_counts=np.array([NO_LIMIT, NO_LIMIT - 1]))
    assert found(audit(view, rows([1, 2]))) == {(K.BROKER_LIMIT, None, 1)}


def test_remaining_placeholders_keep_their_numbers_after_filling() -> None:
    before = rows([10, -1, -2])
    assert audit(ROOMY, rows([10, 11, -2]), before) == []
    assert found(audit(ROOMY, rows([10, 11, -3]), before)) == {(K.PLACEHOLDER_NUMBER, 0, None)}
    assert found(audit(ROOMY, rows([10, -2, -1]), before)) == {(K.PLACEHOLDER_NUMBER, 0, None)}
    assert found(audit(ROOMY, rows([10, -2, -2]), before)) == {(K.PLACEHOLDER_NUMBER, 0, None)}


def test_sixteen_placeholders_are_allowed_and_seventeen_are_not() -> None:
    row = [10, *range(-1, -18, -1)]
    assert audit(ROOMY, rows(row[:-1])) == []
    assert found(audit(ROOMY, rows(row))) == {(K.PLACEHOLDER_NUMBER, 0, None)}
    assert found(audit(ROOMY, rows(row), rows(row))) == {(K.PLACEHOLDER_NUMBER, 0, None)}


def test_a_hundred_violations_are_listed_and_the_rest_is_counted() -> None:
    """What is about the whole placement comes first; what is counted at the end may be of several kinds."""
    strangers = np.arange(1000, 1000 + 2 * MAX_LISTED_VIOLATIONS, dtype=np.int32)[:, None]
    exactly = audit(ROOMY, strangers[:MAX_LISTED_VIOLATIONS])
    assert [violation.kind for violation in exactly] == [K.UNKNOWN_BROKER] * MAX_LISTED_VIOLATIONS
    more = audit(replace(ROOMY, partition_limit=1), np.concatenate((strangers, rows([-1]))))
    assert more[0].kind is K.CLUSTER_LIMIT
    assert more[1:MAX_LISTED_VIOLATIONS] == exactly[:-1]
    # A hundred strangers and one more, and a row without a leader.
    assert more[MAX_LISTED_VIOLATIONS:] == [Violation(K.NOT_LISTED, None, None, "102 more violations are not listed")]


def test_in_a_view_without_brokers_every_broker_is_unknown() -> None:
    empty = ClusterView(np.array([], dtype=np.int32), ())
    assert found(audit(empty, rows([0, -1]))) == {(K.UNKNOWN_BROKER, 0, 0)}


def test_an_empty_placement_has_no_violations() -> None:
    view = replace(ROOMY, partition_count=10, partition_limit=9)
    assert audit(view, np.zeros((0, 3), dtype=np.int32)) == []
    assert audit(view, np.zeros((0, 3), dtype=np.int32), np.zeros((0, 2), dtype=np.int32)) == []
