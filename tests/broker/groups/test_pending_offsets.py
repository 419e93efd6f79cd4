"""Offsets of open transactions (KIP-447): what becomes of them at the end, and what they keep from being removed."""

from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.broker.groups.groups import Groups
from klamm.broker.groups.offset_protocol import Committed
from klamm.broker.groups.offsets import Offsets
from klamm.broker.groups.settings import GroupSettings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records.coordinator.groups import OffsetCommitKey, OffsetCommitValue

GROUP, TOPIC = "g", "t"
RETENTION_MS = 1_000
SETTINGS = GroupSettings(
    max_size=10,
    initial_rebalance_delay_ms=0,
    min_session_timeout_ms=1,
    max_session_timeout_ms=1_000,
    offset_metadata_max_bytes=10,
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_interval_ms=100,
)
PRODUCER_ID = 5

Steps = list[tuple[str, int, int]]
"""Kind of step, producer, partition."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "pending", "pending", "remove", "commit", "abort"]),
        st.integers(0, 1),
        st.integers(0, 1),
    ),
    max_size=12,
)


@given(STEPS)
@example([("pending", 0, 0), ("plain", 0, 0), ("commit", 0, 0)])
@example([("pending", 0, 0), ("pending", 1, 0), ("commit", 1, 0), ("commit", 0, 0)])
@example([("plain", 0, 0), ("pending", 0, 0), ("remove", 0, 0), ("commit", 0, 0)])
def test_offsets_are_those_of_the_newest_record_that_counts(steps: Steps) -> None:
    """A record of a transaction counts from its commit on, unless a newer one was written for its partition, or the
    partition's offset was removed, meanwhile."""
    found = Offsets()
    counts: dict[int, int] = {}
    pending: dict[int, dict[int, int]] = {0: {}, 1: {}}
    for offset, (kind, producer, partition) in enumerate(steps):
        key = OffsetCommitKey(group=GROUP, topic=TOPIC, partition=partition)
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
        match kind:
            case "plain":
                found.replay(key, value, Written(offset, 0))
                counts[partition] = offset
            case "pending":
                found.replay(key, value, Written(offset, 0, producer))
                pending[producer][partition] = offset
            case "remove":
                found.replay(key, None, Written(offset, 0))
                for places in (counts, *pending.values()):
                    places.pop(partition, None)
            case _:
                found.end_transaction(producer, committed=kind == "commit")
                for place, at in pending[producer].items() if kind == "commit" else ():
                    counts[place] = max(at, counts.get(place, -1))
                pending[producer] = {}
        assert {place: one.offset for place, one in found.of_group(GROUP).get(TOPIC, {}).items()} == counts
        assert found.count == len(counts)
        for place in range(2):
            assert found.is_pending(GROUP, TOPIC, place) == any(place in places for places in pending.values())
        assert found.has_pending(GROUP) == any(pending.values())


class Refused(AssertionError):
    """A test reads the outbox; nothing is delivered."""


class Asker:
    def resolve(self, response: object) -> None:
        raise Refused

    def refuse(self, code: ErrorCode) -> None:
        raise Refused


class Driven:
    """The groups of a shard, whose records are replayed as they are written."""

    def __init__(self) -> None:
        self.groups = Groups(SETTINGS, lambda: "id")
        self.offsets = count()
        self.groups.loaded(0)

    def commit(self, partition: int, *, producer_id: int = -1, now_ms: int = 0) -> None:
        key = OffsetCommitKey(group=GROUP, topic=TOPIC, partition=partition)
        value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=now_ms, expire_timestamp=-1)
        self.groups.replay(key, value, Written(next(self.offsets), now_ms, producer_id))

    def apply(self, out: Outbox, now_ms: int) -> int:
        """How many records there are."""
        for record in out.records:
            self.groups.replay(record.key, record.value, Written(next(self.offsets), now_ms, live=True))
        return len(out.records)

    def expire(self, now_ms: int) -> int:
        out = self.groups.tick(now_ms)
        assert out is not None
        return self.apply(out, now_ms)


@pytest.mark.parametrize("has_committed", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_what_an_open_transaction_changes_does_not_expire(has_committed: bool, committed: bool) -> None:
    driven = Driven()
    if has_committed:
        driven.commit(0)
    driven.commit(0, producer_id=PRODUCER_ID, now_ms=RETENTION_MS)
    assert driven.expire(RETENTION_MS * 5) == 0
    assert GROUP in driven.groups.groups
    driven.groups.replay_end_of_transaction(PRODUCER_ID, committed=committed)
    assert driven.expire(RETENTION_MS * 10) > 0
    assert GROUP not in driven.groups.groups


def test_other_partitions_expire_beside_an_open_transaction() -> None:
    driven = Driven()
    driven.commit(0)
    driven.commit(1, producer_id=PRODUCER_ID)
    assert driven.expire(RETENTION_MS) == 1
    assert driven.groups.offsets.of_group(GROUP) == {}
    assert driven.groups.offsets.has_pending(GROUP)


@pytest.mark.parametrize("producer_id", [-1, PRODUCER_ID])
def test_deleted_offsets_do_not_come_back_with_the_end_of_a_transaction(producer_id: int) -> None:
    driven = Driven()
    driven.commit(0, producer_id=producer_id)
    out = driven.groups.offset_protocol.delete_offsets(GROUP, {TOPIC: [0, 1]}, Asker())
    assert out.replies[0].response == Committed({(TOPIC, 0): ErrorCode.NONE, (TOPIC, 1): ErrorCode.NONE})
    assert driven.apply(out, 0) == 1
    driven.groups.replay_end_of_transaction(PRODUCER_ID, committed=True)
    assert driven.groups.offsets.of_group(GROUP) == {}
