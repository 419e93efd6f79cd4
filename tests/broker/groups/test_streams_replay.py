"""What records make of a streams group: fields that few members have, values of other writers, and what is left when
members have gone."""

from dataclasses import replace

import pytest

from klamm.broker.coordinator.outbox import Written
from klamm.broker.groups.streams.member import UserEndpoint
from klamm.broker.groups.streams.tasks import AssignedTasks
from klamm.protocol.messages.streams.streams_group_heartbeat import Endpoint, KeyValue, Subtopology, Topology
from klamm.protocol.records.coordinator.groups import OffsetCommitKey
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from klamm.protocol.records.coordinator.streams_groups import (
    Subtopology as RecordedSubtopology,
)
from tests.broker.groups.streams_host import GROUP, StreamsShard

REPLAYED = Written(99, 0)


@pytest.fixture
def shard() -> StreamsShard:
    made = StreamsShard()
    made.create("t", 4)
    return made


def test_every_field_of_a_member_comes_back_with_its_records(shard: StreamsShard) -> None:
    shard.beat(
        "a",
        rack_id="r",
        user_endpoint=Endpoint(host="h", port=7),
        client_tags=[KeyValue(key="zone", value="1")],
    )
    before = shard.group.members["a"]
    for _, value in shard.log:
        if isinstance(value, StreamsGroupMemberMetadataValue):
            value.instance_id = "i"  # as a later release may write it
    shard.reload()
    after = shard.group.members["a"]
    assert after == replace(before, instance_id="i")
    assert (after.instance_id, after.rack_id, after.client_id, after.client_host) == ("i", "r", "c", "/127.0.0.1")
    assert (after.user_endpoint, after.client_tags) == (UserEndpoint("h", 7), {"zone": "1"})
    assert (after.rebalance_timeout_ms, after.topology_epoch, after.process_id) == (2_000, 0, "p-a")
    assert (after.member_epoch, after.assigned) == (2, AssignedTasks({"0": dict.fromkeys(range(4), 2)}))


def test_a_member_that_changes_one_field_keeps_its_epoch_and_its_tasks(shard: StreamsShard) -> None:
    shard.beat("a")
    before = shard.group.members["a"]
    shard.beat("a", 2, rack_id="r9")
    assert shard.group.members["a"] == replace(before, rack_id="r9", member_epoch=3, previous_member_epoch=2)


def test_a_topology_that_cannot_be_is_none(shard: StreamsShard) -> None:
    """Kafka's coordinator writes none; members are asked for theirs again."""
    shard.beat("a")
    one = RecordedSubtopology(subtopology_id="0", source_topics=["t"])
    key = StreamsGroupTopologyKey(group_id=GROUP)

    def is_known(*subtopologies: RecordedSubtopology) -> bool:
        value = StreamsGroupTopologyValue(epoch=1, subtopologies=subtopologies) if subtopologies else None
        shard.state.replay(key, value, REPLAYED)
        return shard.group.topology is not None

    assert not is_known(one, one)
    assert is_known(one)
    assert not is_known()


@pytest.mark.parametrize("leaves", [False, True])
def test_offsets_that_are_read_before_the_group_make_no_classic_group(shard: StreamsShard, leaves: bool) -> None:
    """Compaction keeps the newest record of each key, so that offsets may come before the records of their group."""
    shard.beat("a")
    assert shard.commit("a", 2, 0) == {0}
    if leaves:
        shard.beat("a", -1)
    newest = {str(key): (key, value) for key, value in shard.log}
    kept = [(key, value) for key, value in newest.values() if value is not None]
    shard.log = sorted(kept, key=lambda record: not isinstance(record[0], OffsetCommitKey))
    shard.reload()
    assert GROUP not in shard.state.groups
    assert list(shard.state.streams.groups) == [GROUP]


def test_subtopologies_are_described_in_the_order_of_their_names(shard: StreamsShard) -> None:
    subtopologies = [Subtopology(subtopology_id=name, source_topics=[f"missing-{name}"]) for name in ("9", "10", "a")]
    shard.beat("a", topology=Topology(epoch=1, subtopologies=subtopologies))
    topology = shard.describe().topology
    assert topology is not None
    assert [one.subtopology_id for one in topology.subtopologies or ()] == ["10", "9", "a"]


def test_tables_of_tasks_hold_nothing_for_members_that_have_gone(shard: StreamsShard) -> None:
    shard.beat("a")
    group = shard.group
    following = AssignedTasks({"0": {0: 2}}, {"0": frozenset({1})}, {"0": frozenset({2})})
    group.put_member(replace(group.members["a"], assigned=following))
    assert (group.active_process("0", 0), group.follows("0", 1, "p-a"), group.follows("0", 2, "p-a")) == (
        "p-a",
        True,
        True,
    )
    group.remove_member("a")
    processes = group._processes
    assert (processes.active, processes.standby, processes.warmup) == ({}, {}, {})


def test_a_member_is_told_its_tasks_in_the_order_of_their_partitions(shard: StreamsShard) -> None:
    shard.beat("a")
    group = shard.group
    group.put_member(replace(group.members["a"], assigned=AssignedTasks({"0": {3: 2, 0: 2, 2: 2, 1: 2}})))
    (told,) = shard.beat("a", 0).active_tasks or ()
    assert told.partitions == [0, 1, 2, 3]
