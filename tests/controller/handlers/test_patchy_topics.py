"""Topics with unlike partitions: of several replication factors, in several tables, led by brokers other than their
first. Every API describes and changes each partition separately, wherever its row is."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.controller.metadata import partition_table
from klamm.controller.transitions import placement
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.controller.handlers.alteration_requests import alter, altered
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.handlers.reassignment_requests import elect, in_progress, moved_some, reassign
from tests.controller.handlers.stepwise import check_answers
from tests.controller.handlers.test_limits import enlarge

Start = Callable[..., DrivenCluster]
PREFERRED, UNCLEAN = 0, 1
PARTITIONS = 9
OTHER_FACTORS = {3: [1, 2, 3], 5: [1, 2, 3, 4], 8: [3]}
"""Blocks of two partitions move to wider tables, so partitions 2 and 4 are there, too, and 8 has a row for two."""
LED_BY_OTHERS = {1: [2, 1], 3: [2, 1, 3], 4: [2, 1], 6: [2, 1]}
"""Moves that only change the order: the leader stays."""


@pytest.fixture
def patchy(start: Start, monkeypatch: pytest.MonkeyPatch) -> DrivenCluster:
    monkeypatch.setattr(partition_table, "BLOCK_PARTITIONS", 2)
    cluster = start(4, racks=())
    for name in ("before", "t", "behind"):
        assert cluster.create_at(name, *[[1, 2]] * PARTITIONS).error_code == 0
    for targets in (OTHER_FACTORS, LED_BY_OTHERS):
        answer = reassign(cluster, moved_some("t", targets))
        assert {one.error_code for one in answer.responses[0].partitions} == {0}
        cluster.tick()
    expected = {index: [1, 2] for index in range(PARTITIONS)} | OTHER_FACTORS | LED_BY_OTHERS
    assert [list(one.replicas) for one in cluster.partitions("t")] == list(expected.values())
    assert len(cluster.image.partitions.ranges[cluster.image.topics_by_name["t"].row]) > 3, "in several tables"
    return cluster


def test_preferred_leaders_are_elected_where_others_lead(patchy: DrivenCluster) -> None:
    code, elected = elect(patchy, None, PREFERRED)
    in_need = {"t": [(index, 0, None) for index in LED_BY_OTHERS]}
    assert (code, {name: results for name, results in elected.items() if results}) == (0, in_need)
    assert all(one.leader == one.replicas[0] for one in patchy.partitions("t"))


def test_unclean_leaders_are_elected_where_there_is_none(patchy: DrivenCluster) -> None:
    patchy.lose(3)
    _, elected = elect(patchy, None, UNCLEAN)
    assert {name: [index for index, _, _ in results] for name, results in elected.items() if results} == {"t": [8]}


def test_every_page_is_a_part_of_the_whole(patchy: DrivenCluster) -> None:
    """From every partition of every topic on, and of every length."""
    check_answers(patchy)
    names = sorted(patchy.image.topics_by_name)
    whole = [(name, index) for name in names for index in range(PARTITIONS)]
    facts = {(name, index): one for name in names for index, one in enumerate(patchy.partitions(name))}
    for first, (name, index) in enumerate(whole):
        for limit in (1, 2, 3, PARTITIONS, PARTITIONS + 1, len(whole)):
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=one) for one in names],
                response_partition_limit=limit,
                cursor=Cursor(topic_name=name, partition_index=index),
            )
            answer = patchy.ask(request)
            reported = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
            assert reported == whole[first : first + limit]
            for topic in answer.topics:
                for one in topic.partitions:
                    partition = facts[topic.name, one.partition_index]
                    assert (tuple(one.replica_nodes), tuple(one.isr_nodes), one.leader_id) == (
                        partition.replicas, partition.isr, partition.leader
                    )  # fmt: skip
            following = whole[first + limit] if first + limit < len(whole) else None
            cursor = answer.next_cursor
            assert (None if cursor is None else (cursor.topic_name, cursor.partition_index)) == following


@pytest.mark.parametrize("broker_id", [1, 2, 3, 4])
def test_each_broker_describes_its_own_replicas(patchy: DrivenCluster, broker_id: int) -> None:
    hosted = [index for index, one in enumerate(patchy.partitions("t")) if broker_id in one.replicas]
    for requested in (list(range(PARTITIONS)), [8, 5, 5, 99, 3], []):
        topics = [DescribableLogDirTopic(topic="t", partitions=requested)]
        (directory,) = patchy.ask(DescribeLogDirsRequest(topics=topics), broker_id=broker_id).results
        reported = [one.partition_index for topic in directory.topics for one in topic.partitions]
        assert reported == [index for index in hosted if index in requested]


def test_reassignments_are_listed_with_their_replicas(patchy: DrivenCluster) -> None:
    patchy.set_down([4])
    reassign(patchy, moved_some("t", {0: [1, 4], 3: [4, 1, 2], 8: [4, 3]}))
    expected = {
        "t-0": ([1, 4, 2], [4], [2]),
        "t-3": ([4, 1, 2, 3], [4], [3]),
        "t-8": ([4, 3], [4], []),
    }
    assert in_progress(patchy) == expected
    assert in_progress(patchy, {"t": [8, 1, 99, 3]}) == {name: expected[name] for name in ("t-8", "t-3")}


def test_new_partitions_have_as_many_replicas_as_the_first_one(patchy: DrivenCluster) -> None:
    assert enlarge(patchy, "t", PARTITIONS + 1).error_code == 0
    assert len(patchy.partitions("t")[-1].replicas) == 2
    assert by_hand(patchy, [[3, 4], [3, 4, 1]]) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "The manual partition assignment includes a partition with 3 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s)."
        ),
    )
    reassign(patchy, moved_some("t", {0: [1]}))
    patchy.tick()
    assert by_hand(patchy, [[3]]) == (ErrorCode.NONE, None)


def test_an_altered_topic_grows_by_partitions_like_the_first_one(
    patchy: DrivenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions with another factor that do not change do not count as changes of the request."""
    with monkeypatch.context() as patch:
        patch.setattr(placement, "MAX_PARTITIONS_PER_REQUEST_KIP", 1)
        assert alter(patchy, altered("t", PARTITIONS + 2)) == [ErrorCode.POLICY_VIOLATION]
        patch.setattr(placement, "MAX_PARTITIONS_PER_REQUEST_KIP", 2)
        assert alter(patchy, altered("t", PARTITIONS + 2), validate_only=True) == [ErrorCode.NONE]
    assert alter(patchy, altered("t", PARTITIONS + 2)) == [ErrorCode.NONE]
    assert [len(one.replicas) for one in patchy.partitions("t")[PARTITIONS:]] == [2, 2]
    assert alter(patchy, altered("t", factor=2)) == [ErrorCode.NONE]
    patchy.tick()
    assert {len(one.replicas) for one in patchy.partitions("t")} == {2}


def test_the_partition_whose_brokers_are_all_fenced_is_named(patchy: DrivenCluster) -> None:
    patchy.lose(3, 4)
    code, text = by_hand(patchy, [[1, 3], [3, 4]])
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert f"for partition {PARTITIONS + 1} are fenced" in text


def by_hand(cluster: DrivenCluster, replicas: list[list[int]]) -> tuple[int, Any]:
    """The result of adding partitions with these replicas to topic t."""
    present = len(cluster.partitions("t"))
    topic = CreatePartitionsTopic(
        name="t",
        count=present + len(replicas),
        assignments=[CreatePartitionsAssignment(broker_ids=row) for row in replicas],
    )
    (result,) = cluster.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=ENOUGH_TIME_MS)).results
    return result.error_code, result.error_message


def test_a_topic_is_deleted_from_all_tables(patchy: DrivenCluster) -> None:
    others = {name: patchy.partitions(name) for name in ("before", "behind")}
    patchy.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=ENOUGH_TIME_MS))
    assert {name: patchy.partitions(name) for name in patchy.image.topics_by_name} == others
    check_answers(patchy)
