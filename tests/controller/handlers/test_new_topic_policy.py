"""Decisions wait for the create-topic policy: before its results nothing changes, not even the random generator."""

import pytest

from klamm.controller.core import Call
from klamm.controller.topic_policy import RequestedTopic, Unjudged, Verdicts
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.messages.topics.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.image_facts import image_facts

NO = ApiError(ErrorCode.POLICY_VIOLATION, "no")


def call(verdicts: Verdicts | None, *names: str) -> Call:
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=2) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS)
    return Call(create_topics.API, 7, request, broker_id=1, verdicts=verdicts)


def test_a_topic_without_verdict_leaves_everything_as_it_was() -> None:
    cluster = DrivenCluster()
    before, chance = image_facts(cluster.image), cluster.controller.rng.bit_generator.state
    with pytest.raises(Unjudged) as unjudged:
        cluster.controller.submit(call({"a": None}, "a", "b", "c"))
    assert list(unjudged.value.topics) == [
        RequestedTopic(topic_name=name, num_partitions=2, replication_factor=2, configs={}) for name in ("b", "c")
    ]
    assert image_facts(cluster.image) == before
    assert cluster.controller.rng.bit_generator.state == chance


def test_asking_changes_no_answer() -> None:
    """With a policy that allows everything, the same seed gives the same topics as without a policy."""
    requested, unasked = DrivenCluster(seed=3), DrivenCluster(seed=3)
    with pytest.raises(Unjudged):
        requested.controller.submit(call({}, "a", "b"))
    answers = [
        requested.controller.submit(call({"a": None, "b": None}, "a", "b")),
        unasked.controller.submit(call(None, "a", "b")),
    ]
    assert answers[0] == answers[1]
    assert image_facts(requested.image) == image_facts(unasked.image)


def test_one_round_asks_about_all_topics_that_some_verdicts_would_leave_room_for() -> None:
    cluster = DrivenCluster(configs={"max.partitions": "2"})
    with pytest.raises(Unjudged) as unjudged:
        cluster.controller.submit(call({}, "a", "b"))
    assert [topic.topic_name for topic in unjudged.value.topics] == ["a", "b"]
    answer = cluster.controller.submit(call({"a": NO, "b": None}, "a", "b"))
    assert [topic.error_code for topic in answer.response.topics] == [44, 0]  # type: ignore[union-attr]
    assert list(cluster.image.topics_by_name) == ["b"]


def test_of_a_topic_whose_replicas_are_named_the_policy_is_asked_about_these() -> None:
    cluster = DrivenCluster()
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in ((0, [1, 2]), (1, [3, 1]))
    ]
    topic = CreatableTopic(name="a", num_partitions=-1, replication_factor=-1, assignments=assignments)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=ENOUGH_TIME_MS)
    with pytest.raises(Unjudged) as unjudged:
        cluster.controller.submit(Call(create_topics.API, 7, request, broker_id=1, verdicts={}))
    assert list(unjudged.value.topics) == [
        RequestedTopic(topic_name="a", replica_assignments={0: (1, 2), 1: (3, 1)}, configs={})
    ]
