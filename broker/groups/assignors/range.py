"""The assignor `range`: each topic's partitions in contiguous runs over its subscribers, in an order of their names.

Source: KIP-848, section on assignors; compared with Apache Kafka's RangeAssignor 4.3.0 (tests/golden/assignors).
"""

from collections.abc import Mapping

from klamm.assignment.kafka.rack_order import utf16_units
from klamm.broker.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from klamm.protocol.uuid import Uuid


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Partitions by member id. What members had before does not count.

    Members with an instance id come first, in the order of these; the others follow in the order of their member ids.
    Of a topic's partitions the first subscribers get one more each where the division leaves a remainder. Members get
    equal indexes of all topics where they are subscribed to the same topics of equal size (co-partitioning).
    """
    ordered = sorted(group.members, key=lambda member_id: _rank(member_id, group.members[member_id]))
    runs = {topic_id: _Runs(group.partition_counts[topic_id], count) for topic_id, count in _subscribers(group).items()}
    return {
        member_id: {
            topic_id: run for topic_id in sorted(group.members[member_id].topic_ids) if (run := runs[topic_id].next())
        }
        for member_id in ordered
    }


def _rank(member_id: str, member: MemberSpec) -> tuple[bool, bytes]:
    # Java compares strings by their UTF-16 units.
    if member.instance_id is not None:
        return False, utf16_units(member.instance_id)
    return True, utf16_units(member_id)


def _subscribers(group: GroupSpec) -> Mapping[Uuid, int]:
    counts: dict[Uuid, int] = {}
    for member in group.members.values():
        for topic_id in member.topic_ids:
            counts[topic_id] = counts.get(topic_id, 0) + 1
    return counts


class _Runs:
    """The partitions of one topic, given out from the first to the last."""

    __slots__ = ("_longer", "_shortest", "_start")

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._shortest, self._longer = divmod(partitions, subscribers)
        self._start = 0

    def next(self) -> tuple[int, ...]:
        length = self._shortest + (self._longer > 0)
        self._longer -= self._longer > 0
        run = tuple(range(self._start, self._start + length))
        self._start += length
        return run
