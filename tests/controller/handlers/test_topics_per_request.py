"""A request changes so many topics at most, because others wait while its records are applied."""

import pytest

from klamm.controller.handlers.topics import create_topics as creating
from klamm.controller.handlers.topics import delete_topics as deleting
from klamm.controller.transitions.topics_per_request import MAX_TOPICS_PER_REQUEST
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster


def create(cluster: DrivenCluster, count: int) -> list[int]:
    topics = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(count)]
    answer = cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS))
    return [topic.error_code for topic in answer.topics]


def delete(cluster: DrivenCluster, count: int) -> list[int]:
    topics = [DeleteTopicState(name=f"t{number}") for number in range(count)]
    answer = cluster.ask(DeleteTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS))
    return [topic.error_code for topic in answer.responses]


def test_one_topic_too_many_refuses_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (creating, deleting):
        assert module.MAX_TOPICS_PER_REQUEST == MAX_TOPICS_PER_REQUEST
        monkeypatch.setattr(module, "MAX_TOPICS_PER_REQUEST", 3)
    cluster = DrivenCluster()
    refused = [ErrorCode.POLICY_VIOLATION] * 4
    assert create(cluster, 4) == refused
    assert create(cluster, 3) == [0] * 3
    assert delete(cluster, 4) == refused
    assert len(cluster.image.topics_by_name) == 3
    assert delete(cluster, 3) == [0] * 3
