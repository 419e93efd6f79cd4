"""The effects of a reassignment on replica lists: the examples of Apache Kafka's PartitionReassignmentReplicas and
PartitionReassignmentRevert, the effects of a second target, and placeholders."""

import pytest

from klamm.controller.metadata.partition import Partition
from klamm.controller.transitions.reassignment import Assignment, assignment_of, completed, reassigned, reverted


@pytest.mark.parametrize(
    ("present", "target", "expected"),
    [
        ((3, 2, 1), (3, 2, 1), Assignment((3, 2, 1))),
        ((3, 2, 1), (3, 6, 2, 1, 5), Assignment((3, 6, 2, 1, 5), (5, 6), ())),
        ((3, 2, 1, 0), (3, 1), Assignment((3, 1, 0, 2), (), (0, 2))),
        ((3, 2, 1, 0), (7, 3, 1, 9), Assignment((7, 3, 1, 9, 0, 2), (7, 9), (0, 2))),
        ((3, 2, 1, 0), (0, 1, 3, 2), Assignment((0, 1, 3, 2))),
        # Placeholders are removed after the replicas that are removed.
        ((1, 2, -1, -2), (3, 2), Assignment((3, 2, 1, -1, -2), (3,), (1, -1, -2))),
        ((1, -1), (1,), Assignment((1, -1), (), (-1,))),
    ],
)
def test_the_target_comes_first_then_what_goes(
    present: tuple[int, ...], target: tuple[int, ...], expected: Assignment
) -> None:
    assert reassigned(Assignment(present), target) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        # From 1, 2 to 1, 3. Recorded from a real cluster: a second target that adds nothing keeps the replicas being
        # added, one that removes nothing keeps those being removed, and only newly added ones are waited for.
        ((1, 3), Assignment((1, 3, 2), (3,), (2,))),
        ((2, 3), Assignment((2, 3, 1), (3,), (1,))),
        ((3,), Assignment((3, 1, 2), (3,), (1, 2))),
        ((4, 3), Assignment((4, 3, 1, 2), (4,), (1, 2))),
        # Also recorded: a target that is the original list never completes, and a target of all three still removes 2.
        ((1, 2), Assignment((1, 2, 3), (3,), (3,))),
        ((1, 3, 2), Assignment((1, 3, 2), (3,), (2,))),
    ],
)
def test_a_second_target_is_set_against_what_the_first_one_made(target: tuple[int, ...], expected: Assignment) -> None:
    assert reassigned(Assignment((1, 3, 2), (3,), (2,)), target) == expected


@pytest.mark.parametrize(
    ("moving", "isr", "expected"),
    [
        (Assignment((0, 1, 2)), (0, 1, 2), None),
        # 0, 1, 2 to 3, 4, 5.
        (Assignment((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2)), (0, 1, 2, 3, 4), None),
        (Assignment((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2)), (0, 1, 2, 3, 4, 5), ((3, 4, 5), (3, 4, 5))),
        # 0, 1, 2 to 0, 1, 3: as many are removed as added, so the added ones are enough.
        (Assignment((0, 1, 3, 2), (3,), (2,)), (0, 1, 2, 3), ((0, 1, 3), (0, 1, 3))),
        (Assignment((0, 1, 3, 2), (3,), (2,)), (3,), ((0, 1, 3), (3,))),
        # Fewer are added than removed: all that stay have to be in sync.
        (Assignment((0, 1, 2), (), (2,)), (0, 2), None),
        (Assignment((0, 1, 2), (), (2,)), (1, 0), ((0, 1), (1, 0))),
        (Assignment((3, 0, 1, 2), (3,), (1, 2)), (3, 1), None),
        (Assignment((3, 0, 1, 2), (3,), (1, 2)), (3, 0), ((3, 0), (3, 0))),
        # More are added: those are enough.
        (Assignment((0, 1, 2), (1, 2), ()), (1, 2), ((0, 1, 2), (1, 2))),
        (Assignment((0, 1, 2), (1, 2), ()), (0, 2), None),
        # No replica that stays is in sync.
        (Assignment((3, 2), (), (2,)), (2,), None),
        (Assignment((3, 2), (), (2,)), (), None),
        # All are removed: no replica would be left.
        (Assignment((2,), (), (2,)), (2,), None),
        # A replica that is added and removed at once is never added.
        (Assignment((1, 2, 3), (3,), (3,)), (1, 2, 3), None),
        # A placeholder is removed like a replica.
        (Assignment((1, 2, -1), (2,), (-1,)), (1, 2), ((1, 2), (1, 2))),
        (Assignment((1, -1), (), (-1,)), (1,), ((1,), (1,))),
    ],
)
def test_a_reassignment_is_complete_when_those_it_waits_for_are_in_sync(
    moving: Assignment, isr: tuple[int, ...], expected: tuple[tuple[int, ...], tuple[int, ...]] | None
) -> None:
    assert completed(moving, isr) == expected


@pytest.mark.parametrize(
    ("moving", "isr", "expected"),
    [
        (Assignment((3, 2, 1)), (3, 2), ((3, 2, 1), (3, 2), False)),
        (Assignment((3, 2, 1), (), (2, 1)), (3, 2), ((3, 2, 1), (3, 2), False)),
        (Assignment((4, 5, 3, 2, 1), (4, 5), ()), (4, 5, 2), ((3, 2, 1), (2,), False)),
        (Assignment((4, 5, 3, 2, 1), (4, 5), (2,)), (4, 5, 2), ((3, 2, 1), (2,), False)),
        # No replica that stays is in sync.
        (Assignment((4, 5, 3, 2, 1), (4, 5), (2,)), (4, 5), ((3, 2, 1), (3,), True)),
        # Placeholders return to their positions.
        (Assignment((3, 2, 1, -1, -2), (3,), (1, -1, -2)), (1, 2), ((2, 1, -1, -2), (1, 2), False)),
    ],
)
def test_taking_back_drops_what_was_added(
    moving: Assignment, isr: tuple[int, ...], expected: tuple[tuple[int, ...], tuple[int, ...], bool]
) -> None:
    replicas, adding, removing = moving
    partition = Partition(
        replicas, isr, isr[0], 0, 0, (), adding_replicas=adding, removing_replicas=removing
    )  # fmt: skip
    assert assignment_of(partition) == moving
    assert reverted(partition) == expected
