"""Random members of a share group, on a cluster whose brokers stop and start, with named invariants.

After every request: a record is acquired by at most one member at a time, an accepted or rejected record is never
delivered again, and no record is delivered more often than the limit. At the end of a history, members accept all that
they get: every record was accepted, rejected, or delivered as often as the limit allows, so nothing is skipped.

A leader that stops takes deliveries with it that no acknowledgement followed, as in Kafka; so does a request about
which the member learns nothing. Therefore the model counts the deliveries that each acquisition reports, and counts an
acknowledgement only if the answer has no error.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT, REJECT, RELEASE, RENEW, Fetcher, produce
from tests.broker.share.members import LOCK_MS, join, new_conversation, set_config

LIMIT = 3
MEMBERS = ("a", "b", "c")
FINAL = frozenset((ACCEPT, REJECT))
MANY_ROUNDS = 40


@dataclass(slots=True)
class Seen:
    """What members know of one record."""

    holder: str | None = None
    held_until_ms: int = 0
    deliveries: int = 0
    is_done: bool = False
    """It was accepted or rejected, and the answer said so."""


@dataclass(slots=True)
class Member:
    """A member with a session of its own connection."""

    fetcher: Fetcher
    connection_id: int
    held: dict[int, int] = field(default_factory=dict)
    """By offset: when its lock ends."""


class ShareGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.connections = 0
        self.records: list[Seen] = []
        self.members: dict[str, Member] = {}
        self.down: int | None = None

    @initialize(batches=st.lists(st.integers(1, 6), max_size=3))
    def begin(self, batches: list[int]) -> None:
        self.group = new_conversation()
        set_config(self.group, "share.auto.offset.reset", "earliest")
        set_config(self.group, "share.delivery.count.limit", str(LIMIT))
        join(self.group, "a")
        for count in batches:
            self.produce(count)
        for member_id in MEMBERS:
            self._connect(member_id)

    @rule(count=st.integers(1, 6))
    def produce(self, count: int) -> None:
        produce(self.group, count)
        self.records += [Seen() for _ in range(count)]

    @rule(
        member_id=st.sampled_from(MEMBERS),
        max_records=st.integers(1, 8),
        batch_size=st.integers(1, 8),
        mode=st.sampled_from((0, 0, 1)),
    )
    def fetch(self, member_id: str, max_records: int, batch_size: int, mode: int) -> None:
        self._fetch(member_id, max_records=max_records, batch_size=batch_size, share_acquire_mode=mode)

    @precondition(lambda self: any(member.held for member in self.members.values()))
    @rule(data=st.data(), piggybacked=st.booleans())
    def acknowledge(self, data: st.DataObject, *, piggybacked: bool) -> None:
        """Acknowledge some of what one member has, each record in its own way."""
        member_id = data.draw(st.sampled_from(sorted(name for name, one in self.members.items() if one.held)))
        member = self.members[member_id]
        offsets = sorted(data.draw(st.sets(st.sampled_from(sorted(member.held)), min_size=1)))
        kinds = (ACCEPT, ACCEPT, RELEASE, REJECT) if piggybacked else (ACCEPT, ACCEPT, RELEASE, REJECT, RENEW)
        acks = [(offset, offset, [data.draw(st.sampled_from(kinds))]) for offset in offsets]
        if piggybacked:
            self._fetch(member_id, acks)
            return
        is_renewing = any(types == [RENEW] for _, _, types in acks)
        asked = member.fetcher.submit(member.fetcher.acknowledge_request(acks, renew=is_renewing))
        answer = self._answer(asked)
        if answer.error_code:
            self._connect(member_id)
            return
        member.fetcher.epoch += 1
        self._acknowledged(member_id, acks, answer.responses[0].partitions[0].error_code)

    @rule(milliseconds=st.sampled_from((10, LOCK_MS // 2, LOCK_MS)))
    def time_passes(self, milliseconds: int) -> None:
        self.group.pass_time(milliseconds)

    @rule(member_id=st.sampled_from(MEMBERS), politely=st.booleans())
    def go(self, member_id: str, *, politely: bool) -> None:
        """A session is closed, or its connection; its records are free, and the member comes back at once."""
        member = self.members[member_id]
        if politely and member.fetcher.epoch:
            answer = self._answer(member.fetcher.submit(member.fetcher.fetch_request(epoch=-1, topics=[])))
            if answer.error_code:
                self._connect(member_id)
                return
        self.group.cluster.brokers.connection_closed(member.connection_id)
        self._forget(member_id)
        self._connect(member_id)

    @precondition(lambda self: self.down is None)
    @rule(which=st.sampled_from(("leader", "coordinator", "other")))
    def stop_broker(self, which: str) -> None:
        """A broker shuts down; a leader's locks are gone."""
        cluster = self.group.cluster
        leader = cluster.partitions("t")[0].leader
        candidates = {
            "leader": leader,
            "coordinator": self.group.coordinator_id,
            "other": min({1, 2, 3} - {leader, self.group.coordinator_id}),
        }
        self.down = candidates[which]
        cluster.shut_down(self.down)
        cluster.set_down({self.down})
        self._settle(leader)

    @precondition(lambda self: self.down is not None)
    @rule()
    def start_broker(self) -> None:
        cluster = self.group.cluster
        leader = cluster.partitions("t")[0].leader
        assert self.down is not None
        cluster.set_down(())
        cluster.come_back(self.down)
        self.down = None
        cluster.pass_time(100)
        self._settle(leader)

    def teardown(self) -> None:
        """Nothing is skipped: when members accept all that they get, nothing is left."""
        if not self.members:
            return
        for _ in range(MANY_ROUNDS):
            self.group.pass_time(LOCK_MS)
            for member_id in MEMBERS:
                self._fetch(member_id)
                held = sorted(self.members[member_id].held)
                if held:
                    self._fetch(member_id, [(offset, offset, [ACCEPT]) for offset in held])
            if all(seen.is_done or seen.deliveries == LIMIT for seen in self.records):
                return
        skipped = [offset for offset, seen in enumerate(self.records) if not seen.is_done and seen.deliveries < LIMIT]
        assert not skipped, f"skipped: {skipped}"

    # What members learn

    @property
    def _now(self) -> int:
        return self.group.cluster.clock.now_ms

    def _settle(self, former_leader: int) -> None:
        """After the metadata have changed: clients find the coordinator and the leader."""
        self.group = Conversation(self.group.cluster)
        if self.group.cluster.partitions("t")[0].leader != former_leader:
            for member_id in MEMBERS:
                self._forget(member_id)
                self._connect(member_id)
        for member in self.members.values():
            member.fetcher.group = self.group

    def _connect(self, member_id: str) -> None:
        """A new session of a member. Records that it has of an older one stay locked until their time is over."""
        self.connections += 1
        self.members[member_id] = Member(Fetcher(self.group, member_id, self.connections), self.connections)

    def _forget(self, member_id: str) -> None:
        for seen in self.records:
            if seen.holder == member_id:
                seen.holder = None

    def _answer(self, asked: Any) -> Any:
        for _ in range(5):
            if asked.response is None:
                self.group.pass_time(2)
        assert asked.response is not None
        return asked.response

    def _fetch(self, member_id: str, acks: Any = (), **limits: Any) -> None:
        member = self.members[member_id]
        if not member.fetcher.epoch:
            assert not acks, "a first request of a session acknowledges nothing"
        before_ms = self._now
        answer = self._answer(member.fetcher.submit(member.fetcher.fetch_request(acks, **limits)))
        if answer.error_code:
            self._connect(member_id)
            return
        member.fetcher.epoch += 1
        for partition in (one for topic in answer.responses for one in topic.partitions):
            if acks:
                self._acknowledged(member_id, acks, partition.acknowledge_error_code)
            for batch in partition.acquired_records:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self._acquired(member_id, offset, batch.delivery_count, before_ms)

    def _acquired(self, member_id: str, offset: int, delivery_count: int, before_ms: int) -> None:
        seen = self.records[offset]
        assert not seen.is_done, f"{offset} was accepted or rejected, and is delivered again"
        is_held = seen.holder is not None and self._now < seen.held_until_ms
        assert not is_held, f"{offset} is acquired by {member_id} and by {seen.holder}"
        assert delivery_count <= LIMIT, f"{offset} is delivered {delivery_count} times"
        seen.holder, seen.held_until_ms = member_id, before_ms + LOCK_MS
        seen.deliveries = delivery_count
        self.members[member_id].held[offset] = seen.held_until_ms

    def _acknowledged(self, member_id: str, acks: Any, error_code: int) -> None:
        member = self.members[member_id]
        for offset, _, (kind,) in acks:
            if error_code or kind != RENEW:
                member.held.pop(offset, None)
            seen = self.records[offset]
            if error_code or seen.holder != member_id:
                continue
            if kind == RENEW:
                seen.held_until_ms = self._now + LOCK_MS - 20
                continue
            seen.holder = None
            seen.is_done |= kind in FINAL


ShareGroupMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestShareGroups = ShareGroupMachine.TestCase
