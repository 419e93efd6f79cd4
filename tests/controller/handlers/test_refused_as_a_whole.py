"""Requests that are refused as a whole: the code and its field, and that nothing of them is done."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.controller.handlers.topics import create_topics
from klamm.controller.settings import Profile
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.describe_log_dirs import DescribeLogDirsRequest
from klamm.protocol.messages.configs.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from klamm.protocol.messages.configs.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from klamm.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.controller.handlers.cluster import ENOUGH_TIME_MS, DrivenCluster
from tests.controller.handlers.guarded_cluster import ALICE, GuardedCluster
from tests.controller.image_facts import image_facts

INVALID, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR
Start = Callable[..., DrivenCluster]


@pytest.mark.parametrize("excess", [0, 1])
def test_profile_kafka_writes_no_more_records_for_one_request_of_new_topics(
    start: Start, profile: Profile, excess: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic, a config and two partitions each: exactly at the limit all are created, and with one more none."""
    monkeypatch.setattr(create_topics, "MAX_RECORDS_PER_REQUEST_KAFKA", 8 - excess)
    cluster = start(profile=profile)
    configs = [CreatableTopicConfig(name="retention.ms", value="1")]
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=configs) for name in ("a", "b")]
    answer = cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=ENOUGH_TIME_MS))
    is_refused = bool(excess) and profile == "kafka"
    code = ErrorCode.POLICY_VIOLATION if is_refused else ErrorCode.NONE
    text = "Unable to perform excessively large batch operation." if is_refused else None
    assert [(one.name, one.error_code, one.error_message) for one in answer.topics] == [
        (name, code, text) for name in ("a", "b")
    ]
    assert len(cluster.image.topics_by_name) == (0 if is_refused else 2)


@pytest.mark.parametrize(
    ("names", "cursor", "code"),
    [
        (["t", "u"], ("t", -1), INVALID),
        (["t", "u"], ("v", 0), INVALID),
        (["t", "", "u"], None, UNKNOWN),
        (["t", ""], ("t", -1), INVALID),
    ],
    ids=["a negative index", "a topic that is not asked for", "a topic without a name", "both"],
)
def test_a_page_of_partitions(
    cluster: DrivenCluster, names: list[str], cursor: tuple[str, int] | None, code: ErrorCode
) -> None:
    cluster.create("t")
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = cluster.ask(request)
    assert [(one.name, one.error_code, list(one.partitions)) for one in answer.topics] == [
        (name, code, []) for name in names
    ]
    assert answer.next_cursor is None


@pytest.mark.parametrize("version", [10, 11, 12])
def test_metadata_of_a_topic_that_is_not_named(cluster: DrivenCluster, version: int) -> None:
    """Versions 10 and 11 have no topics without a name; from version 12 on one without an id fails as in Kafka."""
    cluster.create("t")
    requested = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None)]
    answer = cluster.ask(MetadataRequest(topics=requested), version=version)
    code = INVALID if version < 12 else UNKNOWN
    assert [(one.name, one.error_code) for one in answer.topics] == [("t", code), ("", code)]
    assert (list(answer.brokers), answer.cluster_id) == ([], None)


def test_log_directories_are_not_described_to_whom_they_are_denied() -> None:
    cluster = GuardedCluster()
    cluster.create("t")
    with cluster.asking(ALICE):
        answer = cluster.ask(DescribeLogDirsRequest(topics=None))
    assert (answer.error_code, list(answer.results)) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


def test_the_controller_has_no_log_directories_of_topics(cluster: DrivenCluster) -> None:
    cluster.create("t")
    answer = cluster.ask(DescribeLogDirsRequest(topics=None), broker_id=None)
    assert (answer.error_code, list(answer.results)) == (ErrorCode.NONE, [])


EXACT, DEFAULT, SPECIFIED = 0, 1, 2
FILTERS: dict[str, tuple[list[tuple[str, int, str | None]], ErrorCode, str]] = {
    "no type": ([("", EXACT, "a")], INVALID, "Invalid empty entity type."),
    "a type twice": (
        [("user", EXACT, "a"), ("user", DEFAULT, None)], INVALID, "user cannot appear more than once in the filter."
    ),
    "an unknown type": ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
    "an unknown match": ([("user", 3, "a")], INVALID, "Unknown match type 3"),
    "exact without a name": ([("user", EXACT, None)], INVALID, "MATCH_TYPE_EXACT, but set match string to null."),
    "a default with a name": ([("user", DEFAULT, "a")], INVALID, "MATCH_TYPE_DEFAULT, but also specified a match"),
    "any with a name": ([("user", SPECIFIED, "a")], INVALID, "MATCH_TYPE_SPECIFIED, but also specified a match"),
    "an address and a user": (
        [("ip", DEFAULT, None), ("user", DEFAULT, None)], INVALID, "should not be used with user or clientId"
    ),
    "the first fault": ([("user", 3, None), ("", EXACT, None)], INVALID, "Unknown match type 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_quotas(cluster: DrivenCluster, name: str) -> None:
    requested, code, text = FILTERS[name]
    components = [ComponentData(entity_type=one, match_type=kind, match=match) for one, kind, match in requested]
    answer = cluster.ask(DescribeClientQuotasRequest(components=components))
    assert (answer.error_code, answer.entries) == (code, None)
    assert text in answer.error_message


ENTITIES: dict[str, tuple[list[tuple[str, str | None]], str]] = {
    "none": ([], "Invalid empty client quota entity"),
    "an unknown type": ([("group", "a")], "Unhandled client quota entity type: group"),
    "an empty name": ([("user", "")], "Empty user not supported"),
    "an address and a user": ([("ip", "10.0.0.1"), ("user", "a")], "IP entity shouldnot be combined"),
    "no address": ([("ip", "-")], "- is not a valid IP or resolvable host."),
}


@pytest.mark.parametrize("name", ENTITIES)
def test_entities_that_can_have_no_quota(cluster: DrivenCluster, name: str) -> None:
    named, text = ENTITIES[name]
    before = image_facts(cluster.image)
    entity = [EntityData(entity_type=one, entity_name=other) for one, other in named]
    values: dict[str, Any] = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
    (result,) = cluster.ask(
        AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[OpData(**values)])])
    ).entries
    assert result.error_code == INVALID
    assert text in result.error_message
    assert image_facts(cluster.image) == before
