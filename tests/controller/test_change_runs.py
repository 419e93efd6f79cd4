"""Runs of partition changes have the values of their single records, in every field; and how runs are formed."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.metadata.columns import PADDING
from klamm.controller.transitions.change_runs import RUN_LENGTH, groups, in_lists, in_runs
from klamm.protocol.columns import Columns
from klamm.protocol.fields import wire_fields
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid

LISTS = (
    "isr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)
"""Fields that hold broker ids."""
NAMED = {*LISTS, "partition_id", "topic_id", "leader", "leader_recovery_state", "directories"}


def change(number: int, shape: dict[str, int]) -> PartitionChangeRecord:
    """A change of partition `number` with the fields of `shape`; lists and directories have the given length. No two
    changes and no two fields have a value in common."""
    values: dict[str, Any] = {}
    for place, (name, length) in enumerate(shape.items()):
        first = number * 1_000 + place * 20
        if name == "directories":
            values[name] = [Uuid((first + at).to_bytes(16, "big")) for at in range(length)]
        elif name in LISTS:
            values[name] = list(range(first, first + length))
        elif name == "leader":
            values[name] = first
        else:
            values[name] = length  # the recovery state, which is part of the shape
    return PartitionChangeRecord(partition_id=number, topic_id=Uuid((number // 3).to_bytes(16, "big")), **values)


def single(records: Sequence[object]) -> list[PartitionChangeRecord]:
    found: list[PartitionChangeRecord] = []
    for record in records:
        if isinstance(record, Columns):
            found += record
        else:
            assert isinstance(record, PartitionChangeRecord)
            found.append(record)
    return found


def as_values(record: PartitionChangeRecord) -> dict[str, object]:
    return {field.name: _plain(getattr(record, field.name)) for field in wire_fields(PartitionChangeRecord)}


def _plain(value: object) -> object:
    return [_plain(one) for one in value] if isinstance(value, list | tuple | np.ndarray) else value


def test_every_field_of_a_change_is_tried() -> None:
    """A field that a later metadata.version adds fails here until runs have it."""
    assert {field.name for field in wire_fields(PartitionChangeRecord)} == NAMED


lengths = st.integers(0, 4)
shapes = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(LISTS, lengths),
        "directories": lengths,
        "leader": st.just(1),
        "leader_recovery_state": st.sampled_from([0, 1]),
    },
)


@given(st.lists(st.tuples(shapes, st.sampled_from([1, RUN_LENGTH - 1, RUN_LENGTH, RUN_LENGTH + 5])), max_size=4))
def test_a_run_says_what_its_changes_say_one_by_one(shape_counts: list[tuple[dict[str, int], int]]) -> None:
    alike = [shape for shape, count in shape_counts for _ in range(count)]
    changes = [change(number, shape) for number, shape in enumerate(alike)]
    records = list(in_runs(iter(changes)))
    assert [as_values(one) for one in single(records)] == [as_values(one) for one in changes]
    in_a_row = [len(list(run)) for _, run in groupby(sorted(shape.items()) for shape in alike)]
    runs = [len(record) for record in records if isinstance(record, Columns)]
    assert runs == [count for count in in_a_row if count >= RUN_LENGTH]


@pytest.mark.parametrize("name", sorted(NAMED - {"partition_id", "topic_id"}))
def test_changes_that_name_different_fields_are_no_run(name: str) -> None:
    plain = [change(number, {}) for number in range(RUN_LENGTH - 1)]
    records = list(in_runs([*plain, change(RUN_LENGTH, {name: 1})]))
    assert not any(isinstance(record, Columns) for record in records)


columns = st.integers(0, 12).flatmap(
    lambda rows: st.lists(st.lists(st.integers(0, 3), min_size=rows, max_size=rows), min_size=1, max_size=4)
)


@given(columns)
def test_groups_are_the_rows_of_one_shape_in_order(shape_columns: list[list[int]]) -> None:
    found = [group.tolist() for group in groups(*(np.array(column, dtype=np.int32) for column in shape_columns))]
    rows = list(zip(*shape_columns, strict=True))
    expected: dict[tuple[int, ...], list[int]] = {}
    for place, row in enumerate(rows):
        expected.setdefault(row, []).append(place)
    assert sorted(found) == sorted(expected.values())


def test_padding_is_in_no_list() -> None:
    values = np.array([[1, PADDING, 3], [4, 4, PADDING]], dtype=np.int32)
    lists = np.array([[3, 1, PADDING], [PADDING, 5, 6]], dtype=np.int32)
    assert in_lists(values, lists).tolist() == [[True, False, True], [False, False, False]]
