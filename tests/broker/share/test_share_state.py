"""The share coordinator: the state of share partitions, and how batches of state are combined."""

from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.coordinator import shard
from klamm.broker.coordinator.coordinators import partition_of
from klamm.broker.share_state.combiner import Batch, combine
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import SHARE_GROUP_STATE
from klamm.protocol.messages.share_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from klamm.protocol.uuid import Uuid
from tests.broker.groups.conversation import Conversation
from tests.broker.share.members import ask_state, join, new_conversation, state_of

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: Batch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 8),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
        st.integers(1, 4),
    ),
    max_size=8,
)


@given(BATCHES, BATCHES, st.integers(-1, 35))
def test_the_batch_with_the_highest_count_and_state_has_each_offset(
    so_far: list[Batch], newer: list[Batch], start: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in (*so_far, *newer):
        for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
            expected[offset] = max(batch.rank, expected.get(offset, batch.rank))
    found = combine(so_far, newer, start)
    assert {
        offset: batch.rank for batch in found for offset in range(batch.first_offset, batch.last_offset + 1)
    } == expected
    for before, after in pairwise(found):
        assert before.last_offset < after.first_offset
        assert before.last_offset + 1 < after.first_offset or before.rank != after.rank


@pytest.fixture
def group() -> Conversation:
    """A group with a member, whose partitions are initialized."""
    group = new_conversation(share_coordinator_snapshot_update_records_per_snapshot="3")
    join(group, "a")
    return group


def topic_id(group: Conversation) -> Uuid:
    return group.cluster.image.topics_by_name["t"].topic_id


def write(group: Conversation, *batches: tuple[int, int, int, int], partition: int = 0, **fields: int) -> int:
    values = {"state_epoch": 2, "leader_epoch": 0, "start_offset": -1, "delivery_complete_count": 0, **fields}
    state = [
        write_share_group_state.StateBatch(first_offset=a, last_offset=b, delivery_state=c, delivery_count=d)
        for a, b, c, d in batches
    ]
    one = write_share_group_state.PartitionData(partition=partition, state_batches=state, **values)
    topic = write_share_group_state.WriteStateData(topic_id=topic_id(group), partitions=[one])
    request = write_share_group_state.WriteShareGroupStateRequest(group_id=group.group_id, topics=[topic])
    code: int = ask_state(group, request, partition).error_code
    return code


def read(group: Conversation, leader_epoch: int, partition: int = 0) -> object:
    one = read_share_group_state.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = read_share_group_state.ReadStateData(topic_id=topic_id(group), partitions=[one])
    request = read_share_group_state.ReadShareGroupStateRequest(group_id=group.group_id, topics=[topic])
    return ask_state(group, request, partition)


def initialize(group: Conversation, state_epoch: int, start_offset: int, partition: int = 0) -> int:
    one = initialize_share_group_state.PartitionData(
        partition=partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_share_group_state.InitializeStateData(topic_id=topic_id(group), partitions=[one])
    request = initialize_share_group_state.InitializeShareGroupStateRequest(group_id=group.group_id, topics=[topic])
    code: int = ask_state(group, request, partition).error_code
    return code


def test_what_is_written_is_read_in_order(group: Conversation) -> None:
    assert write(group, (0, 4, AVAILABLE, 1), (5, 9, ACKNOWLEDGED, 1), start_offset=0) == 0
    assert write(group, (2, 2, ACKNOWLEDGED, 1), delivery_complete_count=6) == 0
    found = read(group, 0)
    assert (found.start_offset, found.state_epoch) == (0, 2)  # type: ignore[attr-defined]
    assert [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in found.state_batches  # type: ignore[attr-defined]
    ] == [(0, 1, AVAILABLE, 1), (2, 2, ACKNOWLEDGED, 1), (3, 4, AVAILABLE, 1), (5, 9, ACKNOWLEDGED, 1)]
    assert write(group, start_offset=6) == 0
    assert state_of(group).batches == (Batch(6, 9, ACKNOWLEDGED, 1),)


def test_older_leaders_and_older_initializations_are_fenced(group: Conversation) -> None:
    assert read(group, 5).error_code == 0  # type: ignore[attr-defined]
    assert state_of(group).leader_epoch == 5
    assert write(group, (0, 0, AVAILABLE, 1), leader_epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert read(group, 4).error_code == ErrorCode.FENCED_LEADER_EPOCH  # type: ignore[attr-defined]
    assert write(group, (0, 0, AVAILABLE, 1), leader_epoch=5, state_epoch=1) == ErrorCode.FENCED_STATE_EPOCH
    assert initialize(group, 1, 0) == ErrorCode.FENCED_STATE_EPOCH
    assert initialize(group, 2, 9) == 0
    assert (state_of(group).start_offset, state_of(group).delivery_complete_count) == (9, 0)
    assert read(group, 4).error_code == ErrorCode.FENCED_LEADER_EPOCH, "the leader's epoch outlives the state"  # type: ignore[attr-defined]


def test_partitions_that_do_not_exist_or_were_not_initialized_are_refused(group: Conversation) -> None:
    assert write(group, partition=-1) == ErrorCode.INVALID_REQUEST
    assert initialize(group, 1, 0, partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write(group, partition=2) == ErrorCode.INVALID_REQUEST
    one = delete_share_group_state.PartitionData(partition=0)
    topic = delete_share_group_state.DeleteStateData(topic_id=topic_id(group), partitions=[one])
    request = delete_share_group_state.DeleteShareGroupStateRequest(group_id=group.group_id, topics=[topic])
    assert ask_state(group, request).error_code == 0
    assert write(group) == ErrorCode.INVALID_REQUEST
    assert read(group, 0).error_message == "Read operation on uninitialized share partition not allowed."  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [0, 1])
def test_the_summary_of_every_version(group: Conversation, version: int) -> None:
    write(group, (0, 4, ACKNOWLEDGED, 1), start_offset=0, delivery_complete_count=5)
    one = read_share_group_state_summary.PartitionData(partition=0)
    topic = read_share_group_state_summary.ReadStateSummaryData(topic_id=topic_id(group), partitions=[one])
    request = read_share_group_state_summary.ReadShareGroupStateSummaryRequest(group_id=group.group_id, topics=[topic])
    found = ask_state(group, request, version=version)
    assert (found.error_code, found.start_offset) == (0, 0)
    assert found.delivery_complete_count == (5 if version else -1)


def log_size(group: Conversation) -> int:
    topic = group.cluster.image.topics_by_name[SHARE_GROUP_STATE]
    key = SharePartitionKey(group.group_id, topic_id(group), 0)
    found = group.cluster.data.find(topic.topic_id, partition_of(str(key), group.cluster.image.partition_count(topic)))
    assert found is not None
    return found.log.size_bytes


def test_many_writes_keep_the_partition_small_and_a_new_coordinator_knows_them(
    group: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "BEGIN_AT_BYTES", 5_000)
    for broker_id in (1,):
        group.cluster.shut_down(broker_id)
    moved = Conversation(group.cluster)
    for offset in range(400):
        assert write(moved, (offset, offset, ACKNOWLEDGED, 1), start_offset=max(0, offset - 3)) == 0
    assert log_size(moved) < 15_000
    before = state_of(moved)
    assert before.start_offset == 396
    moved.cluster.shut_down(2)
    assert state_of(Conversation(moved.cluster)).batches == before.batches


MANY = 3_000


@pytest.mark.parametrize("batches", ["nested", "one begin", "one end", "ladder"])
def test_the_time_to_combine_batches_grows_with_their_number(batches: str) -> None:
    """However they overlap: each edge of a batch is met once."""
    rows = {
        "nested": [Batch(at, 2 * MANY - at, 0, at % 30_000) for at in range(MANY)],
        "one begin": [Batch(0, at, 0, MANY - at) for at in range(MANY)],
        "one end": [Batch(at, MANY, 0, MANY - at) for at in range(MANY)],
        "ladder": [Batch(at, at + MANY, at % 3, at % 7) for at in range(MANY)],
    }[batches]
    Counted.compared = 0
    found = combine((), [Counted(*row) for row in rows], -1)
    assert Counted.compared < 60 * MANY
    assert found[0].first_offset == 0
    assert all(before.last_offset < after.first_offset for before, after in pairwise(found))


class Counted(Batch):
    """Counts how often batches are compared."""

    compared: ClassVar[int] = 0

    def __lt__(self, other: object) -> bool:
        Counted.compared += 1
        return tuple.__lt__(self, other)  # type: ignore[operator]


@given(
    st.lists(st.builds(Batch, st.integers(0, 9), st.integers(-3, 9), st.sampled_from([0, 2]), st.integers(1, 2))),
    st.integers(-1, 5),
)
def test_batches_that_end_before_they_begin_change_nothing_else(batches: list[Batch], start: int) -> None:
    found = combine(batches, (), start)
    assert [batch for batch in found if batch.has_records] == list(
        combine([batch for batch in batches if batch.has_records], (), start)
    )
    assert list(found) == sorted(set(found))
    for batch in found:
        assert batch.has_records or batch in batches


def test_a_batch_that_ends_before_it_begins_is_kept_until_another_has_its_place() -> None:
    """Recorded from Apache Kafka: share-hostile-state-batches."""
    absurd = Batch(5, 2, 0, 1)
    assert combine((), [absurd], -1) == (absurd,)
    assert combine((), [absurd], 5) == (absurd,)
    assert combine((), [absurd], 6) == ()
    assert combine([absurd], [Batch(0, 4, 0, 1)], -1) == (Batch(0, 4, 0, 1), absurd)
    assert combine([absurd], [Batch(0, 5, 0, 1)], -1) == (Batch(0, 5, 0, 1),)
    assert combine([absurd], [Batch(5, 5, 0, 1)], -1) == (Batch(5, 5, 0, 1),)
    assert combine([absurd], [Batch(6, 7, 0, 1)], -1) == (absurd, Batch(6, 7, 0, 1))
