"""The quota of controller mutations: which requests take tokens, and who is refused (KIP-599). The recorded answers are
in tests/behaviour; these tests have the cases that the recording lacks."""

from dataclasses import replace
from typing import Any

import pytest

from klamm.controller.requester import Requester
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.configs.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from klamm.protocol.messages.topics.alter_topics import AlterTopicRequest, AlterTopicsRequest
from klamm.protocol.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.controller.handlers.cluster import DrivenCluster

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
ANONYMOUS = "User:ANONYMOUS"


class LimitedCluster(DrivenCluster):
    """A cluster whose client with the id `test` has a quota of 2 mutations per second, so 22 at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(1, **options)
        self.set_quota(2.0)

    def call(self, request: Message, **options: Any) -> Any:
        return replace(super().call(request, **options), principal=ANONYMOUS)

    def set_quota(self, rate: float | None) -> None:
        entity = [EntityData(entity_type="client-id", entity_name="test")]
        ops = [OpData(key="controller_mutation_rate", value=rate or 0.0, remove=rate is None)]
        self.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)]))

    def make(self, name: str, partitions: int, *, version: int = 7, validate_only: bool = False) -> tuple[int, int]:
        """The error code and the throttle time."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)
        answer = self.ask(request, version=version)
        return answer.topics[0].error_code, answer.throttle_time_ms


@pytest.fixture
def cluster() -> LimitedCluster:
    return LimitedCluster()


def test_a_request_may_take_the_last_token_and_overdraw_the_bucket(cluster: LimitedCluster) -> None:
    assert cluster.make("a", 22) == (0, 0)
    assert cluster.make("b", 1) == (0, 0), "nothing is owed yet"
    assert cluster.make("c", 1) == (EXCEEDED, 500)


def test_a_debt_is_paid_by_time(cluster: LimitedCluster) -> None:
    cluster.make("a", 30)
    cluster.clock.now_ms += 3999
    assert cluster.make("b", 1) == (EXCEEDED, 1)
    cluster.clock.now_ms += 1
    assert cluster.make("b", 1) == (0, 0)


def test_an_older_version_is_done_and_pays_with_time(cluster: LimitedCluster) -> None:
    cluster.make("a", 30)
    assert cluster.make("b", 1, version=5) == (0, 4500)
    assert cluster.make("c", 1, version=6) == (EXCEEDED, 4500)
    assert cluster.make("d", 21, version=2)[1] == 15_000


def test_what_is_only_validated_takes_tokens_as_well(cluster: LimitedCluster) -> None:
    assert cluster.make("a", 30, validate_only=True) == (0, 0)
    assert cluster.make("a", 1, validate_only=True) == (EXCEEDED, 4000)


def test_a_request_that_takes_nothing_has_no_effect(cluster: LimitedCluster) -> None:
    cluster.make("a", 30)
    call = cluster.call(CreateTopicsRequest(topics=[], timeout_ms=1000))
    mutations = cluster.controller.context(call, cluster.clock()).mutations
    assert mutations.take(1, strict=True) is not None
    assert mutations.effects == []
    assert mutations.take(1, strict=False) is None
    assert len(mutations.effects) == 1


def test_refused_topics_take_nothing(cluster: LimitedCluster) -> None:
    for _ in range(30):
        assert cluster.make("bad name!", 22)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert cluster.make("a", 22) == (0, 0)


def test_the_bucket_outlives_the_quota(cluster: LimitedCluster) -> None:
    cluster.make("a", 30)
    cluster.set_quota(None)
    assert cluster.make("b", 100) == (0, 0)
    cluster.set_quota(2.0)
    assert cluster.make("c", 1) == (EXCEEDED, 4000)
    cluster.set_quota(4.0)
    assert cluster.make("c", 1) == (EXCEEDED, 2000)


def test_the_windows_are_configs_of_the_controller() -> None:
    configs = {"controller.quota.window.num": "2", "controller.quota.window.size.seconds": "3"}
    cluster = LimitedCluster(configs=configs)
    assert cluster.make("a", 12) == (0, 0)
    assert cluster.make("b", 1) == (0, 0)
    assert cluster.make("c", 1)[0] == EXCEEDED


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, EXCEEDED)])
def test_new_partitions_take_tokens(cluster: LimitedCluster, version: int, code: int) -> None:
    cluster.make("a", 1)
    answers = []
    for count in (31, 32):
        topic = CreatePartitionsTopic(name="a", count=count, assignments=None)
        answers.append(cluster.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1000), version=version))
    assert [answer.results[0].error_code for answer in answers] == [0, code]
    assert answers[1].throttle_time_ms == (5000 if code == 0 else 4500)


@pytest.mark.parametrize(("version", "code"), [(4, 0), (5, EXCEEDED)])
def test_deleted_partitions_take_tokens(cluster: LimitedCluster, version: int, code: int) -> None:
    cluster.set_quota(None)
    cluster.make("a", 30)
    cluster.make("b", 2)
    cluster.set_quota(2.0)
    assert _delete(cluster, "a", version)[0] == 0
    assert _delete(cluster, "nothing", version) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert _delete(cluster, "b", version) == (code, 5000 if code == 0 else 4000)
    assert ("b" in cluster.image.topics_by_name) is (code != 0)


def _delete(cluster: LimitedCluster, name: str, version: int) -> tuple[int, int]:
    answer = cluster.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), version=version)
    return answer.responses[0].error_code, answer.throttle_time_ms


def test_alter_topics_takes_tokens_for_new_partitions(cluster: LimitedCluster) -> None:
    cluster.make("a", 22)
    answers = []
    for count in (23, 24):
        wanted = AlterTopicRequest(topic="a", num_partitions=count, replication_factor=-1)
        answers.append(cluster.ask(AlterTopicsRequest(alter_topic_requests=[wanted], timeout=1000)))
    assert [answer.topic_errors[0].error_code for answer in answers] == [0, EXCEEDED]
    assert answers[1].throttle_time_ms == 500


def test_a_client_that_names_unknown_topics_makes_no_more_than_its_quota(cluster: LimitedCluster) -> None:
    cluster.make("a", 23)
    answer = cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "new" not in cluster.image.topics_by_name
    cluster.clock.now_ms += 1000
    cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
    assert "new" in cluster.image.topics_by_name
    assert cluster.make("b", 22) == (0, 0)
    assert cluster.make("c", 1) == (EXCEEDED, 11_000), "the topic that was made on demand took a token"


def test_the_cluster_itself_has_no_quota(cluster: LimitedCluster) -> None:
    call = replace(cluster.call(CreateTopicsRequest(topics=[], timeout_ms=1000)), principal=None)
    assert call.requester == Requester("broker", 1, "test", None)
    context = cluster.controller.context(call, cluster.clock())
    assert context.mutations.take(1_000_000, strict=True) is None
    assert context.mutations.take(1, strict=True) is None
    assert context.mutations.effects == []
