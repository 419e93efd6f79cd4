"""What the members of one share group were given, as far as it is certain, through leader moves and restarts.

A member knows when it sent a request, when the server decided it, and what the response said. So an acquisition was
made between two moments, and its lock is certain from the second of them until the lock may have ended: by time, by an
acknowledgement, with the connection, with the leader, or with the process of the server.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import trio

from klamm.broker.share_partitions.acknowledgement import ACCEPT, REJECT, RENEW
from klamm.protocol.errors import ErrorCode
from tests.simulation.cluster.violation import demand
from tests.simulation.cluster.witness import Place

LOCK_MS: Final = 2_000
LIMIT: Final = 4
"""The most deliveries of a record."""
CLOCK_SECONDS: Final = 0.001
"""Locks end at whole milliseconds."""
FINAL: Final = (ACCEPT, REJECT)
RecordAt: TypeAlias = tuple[Place, int]
Acks: TypeAlias = list[tuple[RecordAt, int]]
"""Records with the type of their acknowledgement."""


@dataclass(slots=True)
class Sent:
    """A request of a member, as it was sent."""

    member: str
    connection: str
    life: int
    at: float
    fetched: tuple[Place, ...]
    acks: Acks
    leader_epochs: Mapping[Place, int]


@dataclass(slots=True, eq=False)
class Acquired:
    """A member has a record. `held_until`: the lock is certain until then, and it began before `decided_at`."""

    member: str
    connection: str
    life: int
    leader_epoch: int
    sent_at: float
    decided_at: float
    held_until: float

    def overlaps(self, other: "Acquired") -> bool:
        """Whether the other one was made while this one's lock was certain."""
        same = (self.life, self.leader_epoch) == (other.life, other.leader_epoch)
        return same and self.decided_at < other.sent_at and other.decided_at < self.held_until


@dataclass(slots=True)
class Delivered:
    """What is known of one record."""

    acquired: list[Acquired] = field(default_factory=list)
    deliveries: int = 0
    """The highest count that a member was told."""
    done_at: float | None = None
    """When it was accepted or rejected, by a response that said so."""
    uncertain: int = 0
    """Acknowledgements that may have ended it: no response says what became of them."""

    @property
    def told(self) -> str:
        given = ", ".join(
            f"{one.member} {one.sent_at:.3f}-{one.decided_at:.3f} until {one.held_until:.3f} epoch {one.leader_epoch}"
            for one in self.acquired
        )
        return f"{self.deliveries} deliveries, done at {self.done_at}, {self.uncertain} uncertain: {given}"


class Deliveries:
    """Those of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.records: dict[RecordAt, Delivered] = {}
        self._unanswered: Counter[Place] = Counter()
        """Fetches that were sent, and whose response no member has seen."""
        self._held: dict[str, list[Acquired]] = {}
        """By connection."""

    def sends(self, sent: Sent) -> None:
        """A request leaves its member."""
        self._unanswered.update(sent.fetched)
        for record, kind in sent.acks:
            known = self.records[record]
            known.uncertain += kind in FINAL
            if kind != RENEW:
                _cut(one for one in known.acquired if one.member == sent.member)

    def ends(self, connection: str) -> None:
        """A connection may be closed from now on: what was acquired on it may be given to others at once."""
        _cut(self._held.pop(connection, ()))

    def answered(self, sent: Sent) -> None:
        """The member has the response."""
        self._unanswered.subtract(sent.fetched)

    def acquired(
        self, sent: Sent, decided_at: float, place: Place, epoch: int, found: Any, *, may_end: bool
    ) -> list[int]:
        """The response gives these records; `epoch` is that of the leader now. Returns the offsets. Raises
        Violation."""
        is_certain = sent.leader_epochs.get(place) == epoch and not may_end
        until = sent.at + LOCK_MS / 1000 - CLOCK_SECONDS if is_certain else decided_at
        for offset in range(found.first_offset, found.last_offset + 1):
            known = self.records.setdefault((place, offset), Delivered())
            one = Acquired(sent.member, sent.connection, sent.life, epoch, sent.at, decided_at, until)
            reason = f"{self.group_id}: {offset} of {place} to {sent.member} at {sent.at:.3f}-{decided_at:.3f}: "
            reason += known.told
            demand("a_record_is_delivered_up_to_the_limit", found.delivery_count <= LIMIT, reason)
            is_done = known.done_at is not None and known.done_at < sent.at
            demand("an_accepted_record_is_never_delivered_again", not is_done, reason)
            others = [other for other in known.acquired if other.member != sent.member]
            double = any(other.overlaps(one) or one.overlaps(other) for other in others)
            demand("a_record_is_acquired_by_one_member", not double, reason)
            known.deliveries = max(known.deliveries, found.delivery_count)
            known.acquired.append(one)
            if is_certain:
                self._held.setdefault(sent.connection, []).append(one)
        return list(range(found.first_offset, found.last_offset + 1))

    def acknowledged(self, sent: Sent, decided_at: float, place: Place, code: int) -> None:
        """The response says what became of a request's acknowledgements of one partition. Raises Violation."""
        for record, kind in sent.acks:
            if record[0] != place:
                continue
            known = self.records[record]
            if kind in FINAL and code in (ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE):
                known.uncertain -= 1
            if code:
                continue
            if kind in FINAL:
                known.done_at = decided_at if known.done_at is None else min(known.done_at, decided_at)
                later = [one for one in known.acquired if one.sent_at > known.done_at]
                reason = f"{self.group_id}: {record[1]} of {place}: {known.told}"
                demand("an_accepted_record_is_never_delivered_again", not later, reason)
            elif kind == RENEW:
                self._renewed(known, sent)

    def _renewed(self, known: Delivered, sent: Sent) -> None:
        for one in self._held.get(sent.connection, ()):
            if one in known.acquired and one.held_until > trio.current_time():
                one.held_until = max(one.held_until, sent.at + LOCK_MS / 1000 - CLOCK_SECONDS)

    def forget(self) -> None:
        """The coordinators may have lost what they had written: whatever was accepted may come again, or nothing."""
        for known in self.records.values():
            known.done_at, known.uncertain = None, 1

    # -- the end ---------------------------------------------------------------------------------------------------

    def skipped(self, place: Place, wanted: Iterable[int]) -> list[int]:
        """The records that are neither over, nor may be."""
        lost = self._unanswered[place]
        return [offset for offset in wanted if not self._is_over((place, offset), lost)]

    def _is_over(self, record: RecordAt, lost: int) -> bool:
        known = self.records.get(record, Delivered())
        return known.done_at is not None or known.uncertain > 0 or known.deliveries + lost >= LIMIT


def _cut(ended: Iterable[Acquired]) -> None:
    now = trio.current_time()
    for one in ended:
        one.held_until = min(one.held_until, now)
