"""Striped placement of many partitions at once, for clusters in which every rack always has a free unfenced broker.

Then each partition uses consecutive racks of the ring, beginning one rack after the previous partition, and each rack
gives its unfenced brokers in turn. Topics of several clusters are placed together, because each call of NumPy has a
fixed cost. A property test checks that placement and random draws are the same as those of `striped`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import Int32Array, Int64Array
from klamm.assignment.kafka.shuffles import Shuffles, shuffled_together
from klamm.assignment.random_source import RandomSource
from klamm.assignment.ranks import rank_within

_MAX_CHUNK_CELLS: Final = 1 << 18  # replicas placed at a time


_MOST_RACKS_TO_COUNT: Final = 4
"""Up to this many racks per replica of a row, uses are counted in a table; otherwise they are sorted."""


class RackInBulk(NamedTuple):
    """A rack before the first partition."""

    unfenced: Sequence[int]
    """Broker ids in the order in which they are used."""
    first: int
    """The index into `unfenced` of the first broker to be used."""
    fenced: int
    """The number of fenced brokers."""


class ToStripe(NamedTuple):
    """A topic to place. Precondition: `is_regular`."""

    racks: Sequence[RackInBulk]
    """In the order in which Kafka draws random numbers for them."""
    ring: Sequence[int]
    """Indexes into `racks`."""
    start: int
    """The position in the ring where the first partition begins."""
    shape: tuple[int, int]
    """The number of partitions, and the replication factor."""
    source: RandomSource


def is_regular(unfenced: Sequence[int], replication_factor: int) -> bool:
    """Whether racks with these numbers of unfenced brokers always have a free one, so that no rack is ever skipped."""
    racks, brokers = len(unfenced), sum(unfenced)
    if brokers < 2 or min(unfenced) < -(-replication_factor // racks):
        return False
    # If a rack is last used in one epoch and next used in an epoch of the same number after a shuffle, it continues its
    # turn (`_Turns.next`). With this many brokers there are never enough partitions between two uses for that.
    return brokers > 2 * (racks - replication_factor) + 1


def place_in_bulk(topics: Sequence[ToStripe]) -> list[Int32Array]:
    """The brokers of the partitions of each topic: int32[shape]; column 0 leads."""
    progress = [_Progress(topic) for topic in topics]
    alike = defaultdict(list)
    for topic, one in zip(topics, progress, strict=True):
        alike[topic.shape[1], len(topic.ring)].append(one)
    for group in alike.values():
        for chunk in _chunks(group):
            _place_chunk(chunk)
    return [one.placed for one in progress]


class _Progress:
    """A topic, as far as it is placed."""

    def __init__(self, topic: ToStripe) -> None:
        racks, ring, start, shape, source = topic
        self.placed = np.empty(shape, dtype=np.int32)
        self.shuffles = Shuffles(ring, [(rack.fenced, rack.unfenced) for rack in racks], source)
        self.start = start
        self.sizes = np.array([len(rack.unfenced) for rack in racks], dtype=np.int64)
        # Racks that the first partition uses begin with their first broker, all others with the broker after it.
        self.turns = np.array([rack.first + 1 for rack in racks], dtype=np.int64)
        self.turns[[ring[(start + place) % len(ring)] for place in range(min(shape[1], len(ring)))]] -= 1


class _Part(NamedTuple):
    """Consecutive partitions of one topic."""

    topic: _Progress
    begin: int
    end: int


def _chunks(topics: Sequence[_Progress]) -> Iterator[list[_Part]]:
    """Parts of topics with the same replication factor, so that arrays stay small. Each chunk has at most one part of
    each topic."""
    room = most = max(1, _MAX_CHUNK_CELLS // topics[0].placed.shape[1])
    chunk: list[_Part] = []
    for topic in topics:
        begin = 0
        while begin < len(topic.placed):
            end = min(begin + room, len(topic.placed))
            chunk.append(_Part(topic, begin, end))
            room -= end - begin
            if not room:
                yield chunk
                chunk, room = [], most
            begin = end
    if chunk:
        yield chunk


def _place_chunk(parts: Sequence[_Part]) -> None:
    """Place partitions of topics with the same replication factor and number of racks."""
    replication_factor, racks = parts[0].topic.placed.shape[1], len(parts[0].topic.sizes)
    width, columns = min(replication_factor, racks), np.arange(replication_factor)
    # `lines` has the ring, followed by the brokers of all racks, once for each shuffle.
    lines, line_of = shuffled_together([(topic.shuffles, begin, end) for topic, begin, end in parts])
    counts = np.array([end - begin for _, begin, end in parts])
    turns = np.concatenate([topic.turns for topic, _, _ in parts])
    sizes = np.concatenate([topic.sizes for topic, _, _ in parts]).astype(np.uint32)
    offsets = np.concatenate([np.cumsum(topic.sizes) - topic.sizes + racks for topic, _, _ in parts]).astype(np.uint32)
    row = np.concatenate([np.arange(end - begin) for _, begin, end in parts])
    # Arrays have one line for each column of the placement, because NumPy is slow with short lines.
    position = (row + np.repeat([(topic.start + begin) % racks for topic, begin, _ in parts], counts)) % racks
    position = position + columns[:width, None]
    position -= np.where(position >= racks, racks, 0)
    position += line_of
    rack = lines.take(position)
    asked = rack + np.repeat(np.arange(0, racks * len(parts), racks), counts)
    turn = turns.take(asked)
    turn += row if width == racks else _earlier_uses(asked, rack, racks, counts)
    if width < replication_factor:
        asked, turn = asked[columns % width], turn[columns % width] + columns[:, None] // width
    member = turn.astype(np.uint32) % sizes.take(asked)  # twice as fast as with 64 bits
    member += offsets.take(asked)
    placed = lines.take(member + line_of)
    used = np.bincount(asked[:width].ravel(), minlength=len(turns)).reshape(len(parts), racks)
    at = 0
    for (topic, begin, end), more in zip(parts, used, strict=True):
        topic.placed[begin:end] = placed[:, at : at + end - begin].T
        topic.turns += more
        at += end - begin


def _earlier_uses(asked: Int64Array, rack: Int64Array, racks: int, counts: Int64Array) -> Int64Array:
    """int64[columns, rows]: how many earlier rows of the same topic have the same rack. Racks are numbered over all
    topics (`asked`) and within each topic (`rack`, below `racks`). `counts`, int64[topics]: the rows of each topic."""
    width, rows = asked.shape
    if racks > _MOST_RACKS_TO_COUNT * width:
        return rank_within(asked.T.ravel()).reshape(rows, width).T
    # The table has a line for each rack within a topic, with 1 for each row that uses it.
    cells = rack * rows + np.arange(rows)
    used = np.zeros(racks * rows, dtype=np.int64)
    used[cells] = 1
    so_far = used.reshape(racks, rows).cumsum(axis=1)
    begins = np.cumsum(counts) - counts
    before = so_far.take(begins, axis=1) - used.reshape(racks, rows).take(begins, axis=1)
    earlier: Int64Array = so_far.take(cells) - 1 - before.T.take(asked)
    return earlier
