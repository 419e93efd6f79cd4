"""The table of KIP-179 with its exact column widths, because scripts read fixed columns or split at two blanks."""

from collections.abc import Iterable
from typing import Final

from klamm.admin.partition_types import TopicPartitionReplica

_NARROWEST_TOPIC: Final = 11
_HEADINGS: Final = ("Topic", "Partition", "Broker", "Status")


def table_lines(cells: Iterable[tuple[TopicPartitionReplica, str]]) -> tuple[str, ...]:
    """A line with the headings and one for each replica and status, without trailing blanks."""
    rows = [(*map(str, replica), status) for replica, status in cells]
    width = max([_NARROWEST_TOPIC, *(len(row[0]) + 3 for row in rows)])
    return tuple(
        f"{topic:<{width}}{partition:<11}{broker:<8}{status}".rstrip()
        for topic, partition, broker, status in [_HEADINGS, *rows]
    )
