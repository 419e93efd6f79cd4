"""Round robin for a few small partitions, one broker at a time: for ten rows arrays cost more than they save.

The same placement as `round_robin` makes of arrays, which a property test demands. Nothing is validated here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from klamm.assignment.kafka.rack_order import utf16_units

Member = tuple[int, str | None]
"""A broker's id and its rack."""


class FewRing(NamedTuple):
    """Brokers in the order in which leaders go round."""

    members: Sequence[Member]
    racks: int
    """How many racks they have; 0: racks do not count."""


def few_ring(brokers: Sequence[Member]) -> FewRing:
    """With racks in turn as `rack_alternated_order` has them; without, in the order given."""
    if brokers[0][1] is None:
        return FewRing(brokers, 0)
    turn: dict[str, int] = {}
    rounds = []
    for broker_id, rack in sorted(brokers):
        name = rack or ""
        turn[name] = turn.get(name, -1) + 1
        rounds.append((turn[name], utf16_units(name), broker_id, rack))
    return FewRing([(broker_id, rack) for _, _, broker_id, rack in sorted(rounds)], len(turn))


def place_few_rows(
    ring: FewRing, partitions: range, replication_factor: int, start_index: int, shift: int
) -> list[list[int]]:
    """The brokers of each partition, by broker id; `shift` is the one that the first of them finds."""
    members, racks = ring
    count, stride = len(members), racks or 1
    rows = []
    for partition in partitions:
        if partition % count == 0 and partition > 0:
            shift += 1
        leader = (partition + start_index) % count
        row = [members[leader]]
        step = shift * stride
        while len(row) < replication_factor:
            candidate = members[(leader + 1 + step % (count - 1)) % count]
            step += 1
            # Without racks the walk meets each broker once. With racks: first one broker per rack, then the others.
            if racks and (candidate in row if len(row) >= racks else any(candidate[1] == met[1] for met in row)):
                continue
            row.append(candidate)
        rows.append([broker_id for broker_id, _ in row])
    return rows
