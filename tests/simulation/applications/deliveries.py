"""What the members of one share group were given, and what may be given from then on.

A member learns of its records later than the broker acquires them, or never. So a record counts as held from the
arrival of the request until the lock may have expired, and only while the leader is the same: a new leader knows
nothing of locks. What a lost response had is unknown.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from klamm.broker.share_partitions.acknowledgement import ACCEPT, REJECT, RELEASE, RENEW
from klamm.protocol.errors import ErrorCode
from tests.simulation.applications.world import WRITTEN, World
from tests.simulation.cluster.violation import demand

LOCK_MS: Final = 2_000
LIMIT: Final = 5
"""The most deliveries of a record."""
Place: TypeAlias = tuple[int, int]
"""A partition and an offset."""
Acks: TypeAlias = list[tuple[Place, int]]
"""Places with the type of their acknowledgement."""


@dataclass(slots=True)
class Delivered:
    """What is known of one record."""

    holder: str | None = None
    held_until_ms: int = 0
    leader_epoch: int = -1
    """Of the leader that gave it to the holder."""
    deliveries: int = 0
    """The highest count that a member was told."""
    is_done: bool = False
    """A response says that it was accepted or rejected."""
    may_be_done: bool = False
    """It may have been accepted or rejected: no response says that it failed."""


@dataclass(slots=True)
class Arrival:
    """A request of a member, as the broker gets it."""

    at_ms: int
    leader_epochs: dict[int, int]


@dataclass(slots=True)
class Deliveries:
    """Those of one group."""

    world: World
    group_id: str
    records: dict[Place, Delivered] = field(default_factory=dict)
    unanswered: Counter[int] = field(default_factory=Counter)
    """By partition: fetches that have arrived, and whose response no member has seen."""

    def _epoch(self, partition: int) -> int:
        return int(self.world.partitions(WRITTEN)[partition].leader_epoch)

    def arrives(self, member: str, fetched: Collection[int], acks: Acks) -> Arrival:
        """A request arrives that fetches from some partitions and acknowledges some records."""
        self.unanswered.update(fetched)
        for place, kind in acks:
            known = self.records[place]
            if kind == RELEASE and known.holder == member:
                known.holder = None
            known.may_be_done |= kind in (ACCEPT, REJECT)
        partitions = {*fetched, *(place[0] for place, _ in acks)}
        return Arrival(self.world.clock.now_ms, {partition: self._epoch(partition) for partition in partitions})

    def answered(self, fetched: Iterable[int]) -> None:
        """The member has the response to a fetch."""
        self.unanswered.subtract(fetched)

    def ends(self, member: str) -> None:
        """A session of a member ends, or its connections: what it had may be given to others at once."""
        for known in self.records.values():
            if known.holder == member:
                known.holder = None

    def acquired(self, member: str, partition: int, found: Any, arrival: Arrival) -> list[Place]:
        """The response says that the member has acquired these records. Returns those whose locks are certain to be
        of this leader. Raises Violation."""
        now_ms, epoch, places = self.world.clock.now_ms, self._epoch(partition), []
        until_ms = arrival.at_ms + LOCK_MS
        is_stale = now_ms >= until_ms or arrival.leader_epochs.get(partition) != epoch
        for offset in range(found.first_offset, found.last_offset + 1):
            known = self.records.setdefault((partition, offset), Delivered())
            reason = f"{self.group_id}: {offset} of partition {partition} to {member}: {known}"
            demand("a_record_is_delivered_up_to_the_limit", found.delivery_count <= LIMIT, reason)
            known.deliveries = max(known.deliveries, found.delivery_count)
            if is_stale:
                continue
            demand("an_accepted_record_is_never_delivered_again", not known.is_done, reason)
            is_held = known.leader_epoch == epoch and now_ms < known.held_until_ms
            demand("a_record_is_acquired_by_one_member", known.holder in (None, member) or not is_held, reason)
            known.holder, known.held_until_ms, known.leader_epoch = member, until_ms, epoch
            places.append((partition, offset))
        return places

    def acknowledged(self, member: str, partition: int, code: int, acks: Acks, arrival: Arrival) -> None:
        """The response says what became of a request's acknowledgements of one partition."""
        for place, kind in acks:
            if place[0] != partition:
                continue
            known = self.records[place]
            if code == ErrorCode.INVALID_RECORD_STATE:
                known.may_be_done = False
            if code:
                continue
            known.is_done |= kind in (ACCEPT, REJECT)
            if kind == RENEW and known.holder == member and known.leader_epoch == self._epoch(partition):
                known.held_until_ms = max(known.held_until_ms, arrival.at_ms + LOCK_MS)

    # -- the end ---------------------------------------------------------------------------------------------------

    def judge(self, partition: int, wanted: Collection[int], allowed: Collection[int]) -> None:
        """At the end, when members have accepted all that they get: `wanted` are the records that the group has to
        get, `allowed` the offsets that it may get. Raises Violation."""
        skipped = [offset for offset in wanted if not self._is_over((partition, offset))]
        where = f"{self.group_id}, partition {partition}"
        demand("no_record_is_skipped", not skipped, f"{where}: {skipped}")
        given = {offset for index, offset in self.records if index == partition}
        demand("a_group_is_given_no_other_records", given <= set(allowed), f"{where}: {given - set(allowed)}")

    def _is_over(self, place: Place) -> bool:
        known = self.records.get(place, Delivered())
        most = known.deliveries + self.unanswered[place[0]]
        return known.is_done or known.may_be_done or most >= LIMIT
