"""Streams groups beside groups of other kinds on one shard, offsets in transactions, expiry; the records themselves."""

import dataclasses
from typing import Any

import pytest

from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.groups_with_streams import Beat, Creation
from klamm.broker.groups.offset_protocol import Commit, Committer
from klamm.broker.groups.streams.in_cluster import TopicsWithout
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from klamm.protocol.records.coordinator import streams_groups as records
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.groups.streams_host import GROUP, StreamsShard, topology

CLIENT = Client("c", "/127.0.0.1", 1, lambda _: True)


@pytest.fixture
def shard() -> StreamsShard:
    made = StreamsShard()
    made.create("t", 2)
    return made


def consumer_beat(shard: StreamsShard, epoch: int = 0) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="c",
        member_epoch=epoch,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return shard.run(lambda waiter: shard.state.consumer_heartbeat(request, CLIENT, waiter, shard.now_ms))


def share_beat(shard: StreamsShard) -> Any:
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="s", subscribed_topic_names=["t"])
    return shard.run(lambda waiter: shard.state.share_heartbeat(request, "c", "/h", waiter, shard.now_ms))


def test_members_of_other_kinds_are_refused_by_a_streams_group_even_when_it_is_empty(shard: StreamsShard) -> None:
    shard.beat("a")
    for _ in range(2):
        for beat, kind in ((consumer_beat, "consumer"), (share_beat, "share")):
            answer = beat(shard)
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group g is not a {kind} group.",
            )
        shard.beat("a", -1)
    assert list(shard.state.streams.groups) == [GROUP]


@pytest.mark.parametrize("beat", [consumer_beat, share_beat])
def test_streams_members_are_refused_by_groups_of_other_kinds(shard: StreamsShard, beat: Any) -> None:
    assert not beat(shard).error_code
    for epoch in (0, 3, -1):
        answer = shard.beat("a", epoch)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Group g is not a streams group.",
        )
    assert shard.describe().error_message == "Group g is not a streams group."
    assert GROUP not in shard.state.streams.groups


def test_other_descriptions_say_of_which_kind_the_group_is_not(shard: StreamsShard) -> None:
    shard.beat("a")
    described = shard.run(lambda waiter: shard.state.consumer_describe(GROUP, waiter))
    assert (described.group_id, described.error_code) == (GROUP, ErrorCode.GROUP_ID_NOT_FOUND)
    assert described.error_message == "Group g is not a consumer group."
    described = shard.run(lambda waiter: shard.state.describe(GROUP, waiter))
    assert (described.group_id, described.error_code, described.group_state) == (
        GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Dead",
    )
    assert described.error_message == "Group g is not a classic group."


def test_a_description_has_all_that_a_member_says_of_itself(shard: StreamsShard) -> None:
    shard.create("s", 2)
    shard.configure(standby_replicas=1)
    one = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        repartition_sink_topics=["x", "a"],
        state_changelog_topics=[TopicInfo(name="s", topic_configs=[KeyValue(key="k", value="v")])],
    )
    wanted = Topology(subtopologies=[one])
    shard.beat("a", topology=wanted, rack_id="r", user_endpoint=Endpoint(host="h", port=7))
    assert changelog_of(shard).partitions == 0, "the coordinator does not remember the topics of the first heartbeat"
    shard.beat("b", topology=wanted, client_tags=[KeyValue(key="zone", value="z")])
    shard.beat("a", 2, active={"0": {0, 1}})
    described = shard.describe()
    members = {member.member_id: member for member in described.members}
    a, b = members["a"], members["b"]
    assert a.user_endpoint is not None
    assert (a.user_endpoint.host, a.user_endpoint.port, a.rack_id, a.client_id) == ("h", 7, "r", "c")
    assert (a.client_host, a.process_id, a.topology_epoch, a.instance_id) == ("/127.0.0.1", "p-a", 0, None)
    assert (b.user_endpoint, [(tag.key, tag.value) for tag in b.client_tags]) == (None, [("zone", "z")])
    assert {name: (shown(each.target_assignment), shown(each.assignment)) for name, each in members.items()} == {
        "a": (({"0": [0]}, {"0": [1]}), ({"0": [0]}, {})),
        "b": (({"0": [1]}, {"0": [0]}), ({}, {"0": [0]})),
    }
    assert described.topology is not None
    (subtopology,) = described.topology.subtopologies or ()
    assert list(subtopology.repartition_sink_topics) == ["a", "x"]
    changelog = changelog_of(shard)
    assert (changelog.name, changelog.partitions, changelog.topic_configs[0].value) == ("s", 2, "v")


def changelog_of(shard: StreamsShard) -> Any:
    described = shard.describe().topology
    assert described is not None
    return (described.subtopologies or ())[0].state_changelog_topics[0]


def shown(assignment: Any) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    active, standby = (
        {each.subtopology_id: list(each.partitions) for each in tasks}
        for tasks in (assignment.active_tasks, assignment.standby_tasks)
    )
    return active, standby


def test_end_points_show_active_and_standby_partitions_of_all_members(shard: StreamsShard) -> None:
    shard.create("s", 2)
    shard.configure(standby_replicas=1)
    wanted = topology("t", changelogs=("s",))
    shard.beat("a", topology=wanted, user_endpoint=Endpoint(host="h", port=7))
    shard.beat("b", topology=wanted)
    shard.beat("a", 2, active={"0": {0, 1}})
    shard.beat("a", 2, active={"0": {0}})
    found = shard.beat("b", 3, active={}, endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert found is not None
    ((endpoint, active, standby),) = [
        (
            (each.user_endpoint.host, each.user_endpoint.port),
            [(at.topic, list(at.partitions)) for at in each.active_partitions],
            [(at.topic, list(at.partitions)) for at in each.standby_partitions],
        )
        for each in found
    ]
    assert (endpoint, active, standby) == (("h", 7), [("t", [0])], [])
    shard.beat("a", 3, active={"0": {0}})
    again = shard.beat("b", 3, endpoint_information_epoch=-1).partitions_by_user_endpoint
    assert again is not None
    assert [(at.topic, list(at.partitions)) for at in again[0].standby_partitions] == [("t", [1])]


# -- what topics a request sees ----------------------------------------------------------------------------------------


def test_topics_that_the_request_creates_are_missing_to_it_and_there_for_the_next(shard: StreamsShard) -> None:
    shard.create("s", 2)
    wanted = topology("t", changelogs=("s",))
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP, member_id="a", rebalance_timeout_ms=1_000, topology=wanted, active_tasks=[]
    )
    beat = Beat(request, CLIENT, Creation(hidden=("s",)))
    answer = shard.run(lambda waiter: shard.state.streams_heartbeat(beat, waiter, shard.now_ms))
    assert [(each.status_code, each.status_detail) for each in answer.status] == [(3, "Internal topics are missing: s")]
    hidden = TopicsWithout(shard.topics, ("s",))
    assert (hidden.named("s"), list(hidden.names())) == (None, ["t"])
    topic = shard.topics.named("s")
    assert topic is not None
    assert hidden.with_id(topic.topic_id) is None
    again = Beat(dataclasses_replace(request, member_epoch=2, topology=None, active_tasks=None), CLIENT)
    answer = shard.run(lambda waiter: shard.state.streams_heartbeat(again, waiter, shard.now_ms))
    assert (answer.member_epoch, list(answer.status)) == (3, [])


def dataclasses_replace(message: Any, **fields: Any) -> Any:
    return type(message)(
        **{each.name: fields.get(each.name, getattr(message, each.name)) for each in dataclasses.fields(message)}
    )


def test_a_reason_why_topics_are_not_created_belongs_to_missing_internal_topics_alone(shard: StreamsShard) -> None:
    answer = shard.beat("a", topology=topology("gone"), remark="; because.")
    assert [each.status_detail for each in answer.status or ()] == ["Source topics gone are missing."]


# -- offsets -----------------------------------------------------------------------------------------------------------


def commit_in_transaction(
    shard: StreamsShard, member_id: str, epoch: int, topic: str = "t", instance_id: str | None = None
) -> Any:
    commits = [Commit(topic, ZERO_UUID, 0, 5, -1, "")]
    committer = Committer(GROUP, member_id, instance_id, epoch)
    found = shard.run(
        lambda waiter: shard.state.offset_protocol.commit_in_transaction(
            committer, commits, waiter, shard.now_ms, producer_id=7, producer_epoch=0
        )
    )
    return found if isinstance(found, ErrorCode) else set(found.codes.values())


def test_commits_in_transactions(shard: StreamsShard) -> None:
    shard.beat("a")
    assert commit_in_transaction(shard, "a", 2) == {ErrorCode.NONE}
    assert commit_in_transaction(shard, "", -1) == {ErrorCode.NONE}, "who says nothing is not checked"
    assert commit_in_transaction(shard, "", -1, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(shard, "", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(shard, "a", -1) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(shard, "a", 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(shard, "a", 3) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(shard, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.beat("a", 2, rack_id="r")
    assert commit_in_transaction(shard, "a", 2) == {ErrorCode.NONE}
    shard.remove("t")
    assert commit_in_transaction(shard, "a", 2) == ErrorCode.ILLEGAL_GENERATION, "the topic has gone"


def test_a_group_with_members_or_with_offsets_in_use_does_not_expire(shard: StreamsShard) -> None:
    shard.configure(session_timeout_ms=10**12)
    shard.settle(shard.state.loaded(shard.now_ms))
    shard.beat("a")
    shard.commit("a", 2, 0)
    shard.commit("a", 2, 0, topic="other")
    shard.pass_time(86_400_000 + 600_000)
    assert set(shard.state.offsets.of_group(GROUP)) == {"t"}, "tasks read the topic"
    shard.beat("a", -1)
    commit_in_transaction(shard, "", -1)
    shard.pass_time(86_400_000)
    assert GROUP in shard.state.streams.groups, "a transaction has offsets of the group"


def test_an_empty_group_with_offsets_that_hold_stays(shard: StreamsShard) -> None:
    shard.settle(shard.state.loaded(shard.now_ms))
    shard.beat("a")
    shard.commit("a", 2, 0)
    shard.beat("a", -1)
    shard.pass_time(1_200_000)
    assert GROUP in shard.state.streams.groups


# -- records -----------------------------------------------------------------------------------------------------------


def assigned() -> list[tuple[Message, Message]]:
    """The records of the assignment of both tasks to the member in epoch 2."""
    of_member = {"group_id": GROUP, "member_id": "a"}
    return [
        (
            records.StreamsGroupTargetAssignmentMemberKey(**of_member),
            records.StreamsGroupTargetAssignmentMemberValue(
                active_tasks=[records.TaskIds(subtopology_id="0", partitions=[0, 1])]
            ),
        ),
        (
            records.StreamsGroupTargetAssignmentMetadataKey(group_id=GROUP),
            records.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=2, assignment_timestamp=1_000),
        ),
        (
            records.StreamsGroupCurrentMemberAssignmentKey(**of_member),
            records.StreamsGroupCurrentMemberAssignmentValue(
                member_epoch=2,
                previous_member_epoch=0,
                active_tasks=[
                    records.StreamsGroupCurrentMemberAssignmentValueTaskIds(
                        subtopology_id="0", partitions=[0, 1], assignment_epochs=[2, 2]
                    )
                ],
            ),
        ),
    ]


def test_the_records_of_a_member_that_joins(shard: StreamsShard) -> None:
    one = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        repartition_sink_topics=["r"],
        repartition_source_topics=[TopicInfo(name="r", partitions=2, replication_factor=1)],
        copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
    )
    shard.create("r", 2)
    shard.configure(standby_replicas=1)
    shard.beat("a", topology=Topology(epoch=4, subtopologies=[one]), client_tags=[KeyValue(key="k", value="v")])
    key = {"group_id": GROUP}
    of_member = {**key, "member_id": "a"}
    expected: list[tuple[Message, Message]] = [
        (
            records.StreamsGroupMemberMetadataKey(**of_member),
            records.StreamsGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=2_000,
                topology_epoch=4,
                process_id="p-a",
                client_tags=[records.KeyValue(key="k", value="v")],
            ),
        ),
        (
            records.StreamsGroupTopologyKey(**key),
            records.StreamsGroupTopologyValue(
                epoch=4,
                subtopologies=[
                    records.Subtopology(
                        subtopology_id="0",
                        source_topics=["t"],
                        repartition_sink_topics=["r"],
                        repartition_source_topics=[records.TopicInfo(name="r", partitions=2, replication_factor=1)],
                        copartition_groups=[records.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
                    )
                ],
            ),
        ),
        (
            records.StreamsGroupMetadataKey(**key),
            records.StreamsGroupMetadataValue(
                epoch=2,
                metadata_hash=shard.group.metadata_hash,
                validated_topology_epoch=4,
                last_assignment_configs=[records.LastAssignmentConfig(key="num.standby.replicas", value="1")],
            ),
        ),
    ]
    assert shard.log == [*expected, *assigned()]


def test_standby_tasks_have_no_epochs_and_members_are_removed_by_three_records(shard: StreamsShard) -> None:
    shard.create("s", 2)
    shard.configure(standby_replicas=1)
    shard.beat("a", topology=topology("t", changelogs=("s",)))
    shard.beat("b", topology=topology("t", changelogs=("s",)))
    shard.beat("a", 2, active={"0": {0, 1}})
    shard.beat("a", 2, active={"0": {0}})
    shard.beat("b", 3, active={})
    shard.beat("a", 3, active={"0": {0}})
    (standby,) = shard.log[-1][1].standby_tasks  # type: ignore[union-attr]
    assert (list(standby.partitions), standby.assignment_epochs) == ([1], ())
    at = len(shard.log)
    shard.beat("b", -1)
    of_member = {"group_id": GROUP, "member_id": "b"}
    assert shard.log[at : at + 3] == [
        (records.StreamsGroupCurrentMemberAssignmentKey(**of_member), None),
        (records.StreamsGroupTargetAssignmentMemberKey(**of_member), None),
        (records.StreamsGroupMemberMetadataKey(**of_member), None),
    ]
    shard.beat("a", -1)
    at = len(shard.log)
    shard.run(lambda waiter: shard.state.delete(GROUP, waiter))
    assert shard.log[at:] == [
        (records.StreamsGroupTargetAssignmentMetadataKey(group_id=GROUP), None),
        (records.StreamsGroupMetadataKey(group_id=GROUP), None),
        (records.StreamsGroupTopologyKey(group_id=GROUP), None),
    ]
