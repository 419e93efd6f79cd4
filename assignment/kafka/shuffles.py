"""The shuffles of striped placement: the ring of racks and the unfenced brokers of each rack after every shuffle.

One list, the line, holds the ring, followed by the brokers of all racks. Few swaps are done one by one. Otherwise all
shuffles are first done side by side, each on a line of its own that is in order, and then one after the other.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from klamm.assignment.cluster_view import Int64Array
from klamm.assignment.random_source import RandomSource, next_ints
from klamm.assignment.ranks import stable_order

_DRAWN_FOR_ONLY: Final = -1
"""Marks fenced brokers: they are never placed here, so only the random numbers of their shuffle are drawn."""
_SWAPS_AT_ONCE: Final = 100
"""With fewer swaps side by side, it is faster to do them one by one (measured)."""


class Shuffles:
    """The line of one topic after the last shuffle."""

    def __init__(self, ring: Sequence[int], racks: Sequence[tuple[int, Sequence[int]]], source: RandomSource) -> None:
        """`racks`: the number of fenced brokers and the ids of the unfenced brokers of each rack."""
        self._source = source
        self.line = np.array([*ring, *(broker_id for _, unfenced in racks for broker_id in unfenced)], dtype=np.int64)
        self.rows_between = len(self.line) - len(ring)
        self.done = 0
        parts, at = [(0, len(ring))], len(ring)
        for fenced, unfenced in racks:
            parts += [(_DRAWN_FOR_ONLY, fenced), (at, len(unfenced))]
            at += len(unfenced)
        # Java's Collections.shuffle: from the last position down, each item is swapped with one at or before it.
        self._bounds = np.array([left for _, size in parts for left in range(size, 1, -1)], dtype=np.int64)
        step = [before for _, size in parts for before in range(size - 1)]
        part_of = np.array([begin for begin, size in parts for _ in range(size - 1)], dtype=np.int64)
        self._swapped = np.flatnonzero(part_of != _DRAWN_FOR_ONLY)
        self._part_of = part_of[self._swapped]
        self.step = np.array(step, dtype=np.int64)[self._swapped]
        """int64[swaps]: the number of earlier swaps among the same items."""
        self.place = self._part_of + self._bounds[self._swapped] - 1
        """int64[swaps]: the items to be swapped with those that are drawn."""

    def drawn(self, rows_end: int) -> Int64Array:
        """int64[shuffles, swaps]: the items drawn by all further shuffles before the row `rows_end` - 1."""
        wanted = (rows_end - 1) // self.rows_between - self.done
        self.done += wanted
        return next_ints(self._source, self._bounds, wanted)[:, self._swapped] + self._part_of


def shuffled_together(topics: Sequence[tuple[Shuffles, int, int]]) -> tuple[Int64Array, Int64Array]:
    """The lines of topics for consecutive rows, from one row up to another, which follow those of the last call.

    Returns int64[items]: all lines, one after the other; and int64[rows]: where in it the line of each row begins.
    """
    draws, line_of, first = [], [], 0
    for topic, begin, end in topics:
        before, size = topic.done, len(topic.line)
        draws.append(topic.drawn(end))
        line_of.append(first + (np.arange(begin, end) // topic.rows_between - before) * size)
        first += (len(draws[-1]) + 1) * size
    lines = np.empty(first, dtype=np.int64)
    steps = max(int(topic.step.max(initial=0)) + 1 for topic, _, _ in topics)
    if sum(drawn.size for drawn in draws) < _SWAPS_AT_ONCE * steps:
        _shuffle_in_turn([topic for topic, _, _ in topics], draws, lines)
    else:
        _shuffle_side_by_side([topic for topic, _, _ in topics], draws, lines, steps)
    return lines, np.concatenate(line_of)


def _shuffle_in_turn(topics: Sequence[Shuffles], draws: Sequence[Int64Array], lines: Int64Array) -> None:
    """Write the lines of all topics, before and after each shuffle."""
    begin = 0
    for topic, drawn in zip(topics, draws, strict=True):
        line, places = topic.line.tolist(), topic.place.tolist()
        shuffled = line.copy()
        for others in drawn.tolist():
            for place, other in zip(places, others, strict=True):
                line[place], line[other] = line[other], line[place]
            shuffled += line
        lines[begin : begin + len(shuffled)] = shuffled
        begin += len(shuffled)
        topic.line = lines[begin - len(line) : begin].copy()


def _shuffle_side_by_side(
    topics: Sequence[Shuffles], draws: Sequence[Int64Array], lines: Int64Array, steps: int
) -> None:
    """The same as `_shuffle_in_turn`, with all shuffles of all topics at once."""
    # First each shuffle is done on the numbers 0, 1, … instead of a line.
    begin, tables, places, others, step_of = 0, [], [], [], []
    for topic, drawn in zip(topics, draws, strict=True):
        size = len(topic.line)
        table = lines[begin : begin + (len(drawn) + 1) * size].reshape(-1, size)
        table[:] = np.arange(size)
        tables.append(table)
        starts = begin + size * np.arange(1, len(table))[:, None]
        places.append((starts + topic.place).ravel())
        others.append((starts + drawn).ravel())
        step_of.append(np.broadcast_to(topic.step, drawn.shape).ravel())
        begin += table.size
    step = np.concatenate(step_of)
    order = stable_order(step)
    place, other = np.concatenate(places).take(order), np.concatenate(others).take(order)
    ends = np.cumsum(np.bincount(step, minlength=steps)).tolist()
    for first, end in zip((0, *ends[:-1]), ends, strict=True):
        one, two = place[first:end], other[first:end]
        lines[one], lines[two] = lines[two], lines[one]
    # Then each line is made from the one before it.
    for topic, table in zip(topics, tables, strict=True):
        line = table[0] = topic.line
        for shuffled in table[1:]:
            shuffled[:] = line = line.take(shuffled)
        topic.line = line
