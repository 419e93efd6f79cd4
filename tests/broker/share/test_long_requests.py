"""Requests about many partitions of a share group ask the share coordinator in steps, whose questions are counted."""

from itertools import pairwise
from typing import Literal

import pytest
import trio

import klamm
from klamm.broker.share_state import persister
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.protocol.internal_topics import SHARE_GROUP_STATE
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.groups.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.shares import alter_share_group_offsets
from klamm.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.broker.groups.conversation import Conversation
from tests.broker.share.members import beat, new_conversation, partitions
from tests.server.harness import Peer

AT_ONCE = 10
MANY = 35
OTHER = "other"


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    monkeypatch.setattr(persister, "ASKED_AT_ONCE", AT_ONCE)
    made = new_conversation()
    beat(Conversation(made.cluster, OTHER), "first", 0, ["t"], group_id=OTHER)  # the internal topics are there
    made.cluster.create("many", MANY, 1)
    made.cluster.create("few", 3, 1)
    return made


def known(group: Conversation, group_id: str | None = None) -> int:
    """How many partitions of the group the share coordinators know."""
    states = group.cluster.brokers.coordinators.loaded_states(SHARE_GROUP_STATE)
    keys: list[SharePartitionKey] = [key for state in states for key in state.by_key]  # type: ignore[attr-defined]
    return sum(key.group_id == (group_id or group.group_id) for key in keys)


def steps(group: Conversation) -> list[int]:
    """What the share coordinators know after each step, until none is left."""
    brokers, found = group.cluster.brokers, []
    while brokers.has_work:
        brokers.work()
        found.append(known(group))
    return found


def test_a_heartbeat_asks_about_so_many_partitions_and_steps_ask_about_the_others(group: Conversation) -> None:
    joined = beat(group, "a", 0, ["many"])
    begun = known(group)
    assert begun in (AT_ONCE, 2 * AT_ONCE), "the second step is that of a tick"
    assert steps(group) == [count for count in (20, 30, 35) if count > begun]
    group.pass_time(2)
    assert partitions(beat(group, "a", joined.member_epoch, ["many"])) == list(range(MANY))


def test_each_tick_does_a_step(group: Conversation) -> None:
    beat(group, "a", 0, ["many"])
    counts = [known(group)]
    while group.cluster.brokers.has_work:
        group.pass_time(1)
        counts.append(known(group))
    assert counts[-1] == MANY
    assert max(after - before for before, after in pairwise(counts)) == AT_ONCE


def test_few_partitions_leave_nothing_for_later(group: Conversation) -> None:
    beat(group, "a", 0, ["few"])
    assert not group.cluster.brokers.has_work
    assert known(group) == 3


def test_groups_take_turns(group: Conversation) -> None:
    beat(group, "a", 0, ["many"])
    beat(Conversation(group.cluster, OTHER), "b", 0, ["many"])
    begun = known(group), known(group, OTHER)
    group.cluster.brokers.work()
    group.cluster.brokers.work()
    gained = known(group) - begun[0], known(group, OTHER) - begun[1]
    assert gained == (AT_ONCE, AT_ONCE)
    assert steps(group)
    assert (known(group), known(group, OTHER)) == (MANY, MANY + 2)


def alter(group: Conversation) -> AlterShareGroupOffsetsRequest:
    altered = [AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0) for index in range(MANY)]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name="many", partitions=altered)]
    return AlterShareGroupOffsetsRequest(group_id=group.group_id, topics=topics)


def test_an_alteration_is_answered_when_all_its_steps_are_done(group: Conversation) -> None:
    asked = group.submit(alter(group))
    group.pass_time(1)
    while group.cluster.brokers.has_work:
        assert asked.is_waiting
        group.cluster.brokers.work()
    group.pass_time(1)
    assert [one.error_code for one in asked.response.responses[0].partitions] == [0] * MANY
    assert known(group) == MANY


def test_a_group_is_deleted_behind_what_it_has_begun(group: Conversation) -> None:
    """Its partitions are initialized, then their state is deleted: none is left."""
    altered = group.submit(alter(group))
    group.pass_time(1)
    assert 0 < known(group) < MANY
    deleted = group.submit(DeleteGroupsRequest(groups_names=[group.group_id]))
    while group.cluster.brokers.has_work:
        group.pass_time(1)
    group.pass_time(1)
    assert [one.error_code for one in altered.response.responses[0].partitions] == [0] * MANY
    assert [one.error_code for one in deleted.response.results] == [0]
    assert known(group) == 0


@pytest.mark.parametrize("clock", ["real", "manual"])
async def test_a_server_does_the_steps_by_itself(clock: Literal["real", "manual"]) -> None:
    """No request and no advance of the clock is needed."""
    async with klamm.Cluster(brokers=1, clock=clock) as cluster:
        await cluster.create_topic("many", 4 * persister.ASKED_AT_ONCE, 1)
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        altered = [
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0) for index in range(400)
        ]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name="many", partitions=altered)]
        request = AlterShareGroupOffsetsRequest(group_id="g", topics=topics)
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            peer = Peer(stream)
            for _ in range(2):  # the first makes the internal topic
                await peer.ask(find_coordinator.API, 6, FindCoordinatorRequest(coordinator_keys=["g"]))
            with trio.fail_after(20):
                answer = await peer.ask(alter_share_group_offsets.API, 0, request)
        assert [one.error_code for one in answer.responses[0].partitions] == [0] * 400
