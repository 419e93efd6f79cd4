"""Where the replicas of a broker go when it leaves: each to one other broker, while all other replicas stay.

Of the brokers that are up, lack the partition and have room under `max.broker.partitions`, the replica goes to one in a
rack that the partition has not yet, and among these to the one with the fewest replicas.
It keeps its place in the list.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from klamm.admin.partition_types import TopicPartition
from klamm.controller.configs import max_broker_partitions
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings


class NoRoom(Exception):
    """No other broker can take a replica. The text is one line."""


def away_from(image: MetadataImage, settings: Settings, broker_id: int) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of each partition that the broker has. Raises NoRoom."""
    placed = list(_placements(image))
    held = Counter(replica for _, replicas in placed for replica in replicas if replica >= 0)
    racks = {one.broker_id: one.rack for one in image.brokers.values()}
    up = [one for one in sorted(racks) if one != broker_id and not image.brokers[one].fenced]
    limits = {one: max_broker_partitions(image.configs, settings, one) for one in up}
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for partition, replicas in placed:
        if broker_id not in replicas:
            continue
        room = [one for one in up if one not in replicas and held[one] < limits[one]]
        if not room:
            raise NoRoom(f"no broker that is up has room for a replica of partition {partition}")
        new = _best(room, [one for one in replicas if one != broker_id], racks, held)
        held[new] += 1
        found[partition] = tuple(new if one == broker_id else one for one in replicas)
    return found


def _placements(image: MetadataImage) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    return [
        (TopicPartition(name, index), image.partitions.read(image.topics_by_name[name].row, index).replicas)
        for name in sorted(image.topics_by_name)
        for index in range(image.partition_count(image.topics_by_name[name]))
    ]


def _best(room: Sequence[int], others: Sequence[int], racks: Mapping[int, str | None], held: Mapping[int, int]) -> int:
    taken = {racks.get(one) for one in others}
    return min(room, key=lambda one: (racks[one] in taken, held[one], one))
