"""Round robin for few partitions, one broker at a time, which is faster than arrays for about ten rows.

A property test checks that the placement is the same as that of `round_robin`. Arguments are not validated here.
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
    """The number of racks; 0 if racks are ignored."""


def few_ring(brokers: Sequence[Member]) -> FewRing:
    """The ring of these brokers: in the order of `rack_alternated_order` if they have racks, otherwise as given."""
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
    """The broker ids of each partition. `shift` is the value of the shift at the first partition."""
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
