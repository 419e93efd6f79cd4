"""AlterTopics of a topic that is being reassigned is refused because of the reassignment, and for no other reason."""

from collections.abc import Callable

import pytest

from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest
from tests.controller.handlers.alteration_requests import alter, altered, replicas
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.reassignment_requests import move

NONE = ErrorCode.NONE
BAD_COUNT = ErrorCode.INVALID_PARTITIONS
BAD_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
BAD_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
IN_PROGRESS = ErrorCode.REASSIGNMENT_IN_PROGRESS
Start = Callable[..., DrivenCluster]


@pytest.fixture
def cluster(start: Start, profile: Profile) -> DrivenCluster:
    """Four live brokers without racks, and a topic `t` of three partitions with two replicas each."""
    cluster = start(4, profile=profile, racks=())
    assert cluster.create_at("t", [1, 2], [2, 3], [3, 1]).error_code == NONE
    return cluster


@pytest.mark.parametrize(
    "topic",
    [
        altered("t"),
        altered("t", 4),
        altered("t", factor=9),
        altered("t", factor=3),
        altered("t", assignment={0: [1, 2]}),
    ],
    ids=repr,
)
def test_a_topic_in_reassignment_waits(cluster: DrivenCluster, topic: AlterTopicRequest) -> None:
    cluster.create("u", 1, 1)
    cluster.lose(4)
    assert move(cluster, "t", None, [4, 2]) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, NONE]
    assert alter(cluster, topic, altered("u", 2)) == [IN_PROGRESS, NONE]
    assert alter(cluster, altered("t", 2)) == [BAD_COUNT]
    assert alter(cluster, altered("t", assignment={0: [1, 1]})) == [BAD_ASSIGNMENT]
    assert move(cluster, "t", None, None) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, NONE]
    assert alter(cluster, topic)[0] in (NONE, BAD_FACTOR)


@pytest.mark.parametrize(
    "topic",
    [
        altered("t", assignment={1: [1, 2]}),
        altered("t", assignment={index: [1, 2] for index in range(3)}),
        altered("t", factor=2, assignment={0: [1, 2]}),
    ],
    ids=repr,
)
def test_a_topic_whose_first_partition_moves_waits(cluster: DrivenCluster, topic: AlterTopicRequest) -> None:
    """It has more replicas meanwhile, and no assignment is refused because of them."""
    cluster.lose(4)
    assert move(cluster, "t", [4, 3]) == [NONE]
    assert len(replicas(cluster)[0]) > 2
    assert alter(cluster, topic) == [IN_PROGRESS]
