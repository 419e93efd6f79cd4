"""The generated cases of these tests cover every kind of rows and batches that the codec distinguishes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from klamm.protocol import Columns, Message, Parts, Ragged
from klamm.protocol.fields import Array, WireField, wire_fields
from klamm.protocol.messages.topics.metadata import MetadataResponseTopic
from klamm.protocol.record_batch import _MIN_RECORDS_WITH_RUNS, decode_batch, encode_batch
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from tests.protocol.column_strategies import LONGEST_OF_ONE_BYTE, runs
from tests.protocol.strategies import messages
from tests.protocol.test_column_records import LEVELS, logged
from tests.situations import rare_situations

Situations = dict[str, Callable[[Any], bool]]


def some_value(asks: Callable[[WireField, Any], bool]) -> Callable[[Columns[Any]], bool]:
    """Whether one of the values that a run names is so."""

    def occurs(run: Columns[Any]) -> bool:
        wires = {wire.name: wire for wire in wire_fields(run.message_class)}
        return len(run) > 0 and any(asks(wires[name], value) for name, value in run.values.items())

    return occurs


def defaults(wire: WireField, value: Any) -> set[bool]:
    """Of the rows of a tagged number: whether they have its default."""
    is_number = isinstance(value, np.ndarray) and wire.tag is not None and not isinstance(wire.type, Array)
    return {row == wire.default for row in value.tolist()} if is_number else set()


def width(value: Any) -> int:
    """Elements in each row of a column of arrays."""
    return int(value.shape[1]) if isinstance(value, np.ndarray) and value.ndim > 1 else -1


def row_lengths(value: Any) -> set[int]:
    """Of a ragged column."""
    return set(value.lengths.tolist()) if isinstance(value, Ragged) else set()


RUNS: Situations = {
    "no rows": lambda run: len(run) == 0,
    "a field is left out": lambda run: len(run.values) < len(wire_fields(run.message_class)),
    "a constant": some_value(lambda _, value: isinstance(value, (int, bytes, tuple))),
    "a constant null": some_value(lambda _, value: value is None),
    "rows of unequal length": some_value(lambda _, value: len(row_lengths(value)) > 1),
    "an empty row among others": some_value(lambda _, value: {0} < row_lengths(value)),
    "the longest count of one byte": some_value(lambda _, value: width(value) == LONGEST_OF_ONE_BYTE),
    "a count of two bytes": some_value(lambda _, value: width(value) == LONGEST_OF_ONE_BYTE + 1),
    "a tag in some rows": some_value(lambda wire, value: defaults(wire, value) == {False, True}),
    "a tag in all rows": some_value(lambda wire, value: defaults(wire, value) == {False}),
}
TOPICS: Situations = {
    "texts": some_value(lambda _, value: isinstance(value, np.ndarray) and value.dtype.hasobject),
    "texts of two bytes in front": some_value(
        lambda _, value: isinstance(value, np.ndarray) and value.dtype.hasobject and max(map(len, value.tolist())) > 126
    ),
    "parts": some_value(lambda _, value: isinstance(value, Parts)),
    "parts that leave rows out": some_value(
        lambda _, value: isinstance(value, Parts) and 0 < value.bounds[-1] - value.bounds[0] < len(value.whole)
    ),
    "an empty part": some_value(lambda _, value: isinstance(value, Parts) and 0 in np.diff(value.bounds)),
}


class Seen(NamedTuple):
    """A batch: its records, their level, and how it was decoded."""

    records: list[Message]
    level: int
    columns: list[Columns[Any]]
    lengths: list[int]
    """Of each run, 0 for each record that is in none."""


def seen(logged: tuple[list[Message], int]) -> Seen:
    contents = decode_batch(encode_batch(0, 1, 99, *logged), 0).contents
    columns = [content for content in contents if isinstance(content, Columns)]
    return Seen(*logged, columns, [len(content) if isinstance(content, Columns) else 0 for content in contents])


BATCHES: Situations = {
    "a run": lambda batch: any(batch.lengths),
    "a run among records": lambda batch: any(batch.lengths) and 0 in batch.lengths,
    "several runs": lambda batch: sum(map(bool, batch.lengths)) > 1,
    "too few records for runs": lambda batch: len(batch.records) < _MIN_RECORDS_WITH_RUNS,
    "places of one byte and of two": lambda batch: len(batch.records) > 64,
    "runs of both kinds of records": lambda batch: len({run.message_class for run in batch.columns}) > 1,
    "lists of unequal length": lambda batch: any(
        isinstance(value, Ragged) for run in batch.columns for value in run.values.values()
    ),
    "tags that nobody knows": lambda batch: any(record.unknown_tags for record in batch.records),
    "an old version": lambda batch: batch.level == min(LEVELS),
    "the newest version": lambda batch: batch.level == max(LEVELS),
}
MESSAGES: Situations = {
    "tags that nobody knows": lambda message: bool(message.unknown_tags),
    "a null": lambda message: message.eligible_leader_replicas is None,
    "an empty list": lambda message: message.eligible_leader_replicas == (),
    "a list": lambda message: len(message.eligible_leader_replicas or ()) > 0,
    "a tag at its default": lambda message: message.leader_recovery_state == -1,
    "a tag that is set": lambda message: message.leader_recovery_state != -1,
}

GENERATORS: dict[str, tuple[st.SearchStrategy[Any], Situations, int, int]] = {
    "partition records": (runs(PartitionRecord, 2, True), RUNS, 100, 3),
    "partition changes": (runs(PartitionChangeRecord, 2, True), RUNS, 100, 3),
    "topics": (runs(MetadataResponseTopic, 8, False), TOPICS, 100, 2),
    "batches": (logged().map(seen), BATCHES, 120, 2),
    "messages": (messages(PartitionChangeRecord, 2, flexible=True), MESSAGES, 100, 3),
}


@pytest.mark.parametrize(("strategy", "situations", "count", "least"), GENERATORS.values(), ids=GENERATORS)
def test_generated_messages_cover_every_situation_of_the_codec(
    strategy: st.SearchStrategy[Any], situations: Situations, count: int, least: int
) -> None:
    assert rare_situations(strategy, situations, count=count, least=least) == {}
