"""The snapshot with which a page begins: the topics and panels as JSON, then all partitions as cells.

4 bytes with the length of the JSON, little-endian; the JSON, padded with spaces to a multiple of 4; the cells. The page
then asks for the events behind `seq`: what changed while the snapshot was made is among them.
"""

from typing import Any, Final

import trio

from klamm.control.page.feed import Feed, encoded
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode
from klamm.server.server import Server

TOPICS_AT_ONCE: Final = 4_096
ALIGNMENT: Final = 4


async def take_snapshot(server: Server, feed: Feed) -> list[bytes]:
    """A snapshot, in pieces."""
    feed.watch()
    feed.begin_again()
    seq, image, panels = feed.events.count, server.image, feed.panels
    head: dict[str, Any] = {
        "seq": seq,
        "now_ms": server.now_ms(),
        "cluster": panels.cluster(),
        "brokers": panels.brokers(),
        "moves": panels.moves(),
        "groups": panels.groups(),
        "faults": panels.faults(),
        "clock": panels.clock(),
        "requests": panels.requests(-1),
        "errors": {int(code): code.name for code in ErrorCode},
    }
    before, after = encoded(head)[:-1] + b',"topics":[', b"]}"
    topics = await _topics(image)
    pieces = await feed.cells.all(image)
    length = len(before) + sum(map(len, topics)) + len(after)
    padding = b" " * (-length % ALIGNMENT)
    return [(length + len(padding)).to_bytes(4, "little"), before, *topics, after, padding, *pieces]


async def _topics(image: MetadataImage) -> list[bytes]:
    """Pairs of row and name, in pieces."""
    rows, pieces = list(image.topics_by_row), list[bytes]()
    for first in range(0, len(rows), TOPICS_AT_ONCE):
        await trio.lowlevel.checkpoint()
        found = [image.topics_by_row.get(row) for row in rows[first : first + TOPICS_AT_ONCE]]
        piece = encoded([[topic.row, topic.name] for topic in found if topic is not None])[1:-1]
        pieces += [b",", piece] if pieces and piece else [piece]
    return pieces
