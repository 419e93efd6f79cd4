"""DescribeCluster, ApiVersions and DeleteTopics, in cases that the recordings lack."""

from collections.abc import Callable
from typing import Any

import pytest

from klamm.broker.dispatch import APIS, SERVED
from klamm.controller.settings import Profile
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster.api_versions import ApiVersionsRequest
from klamm.protocol.messages.cluster.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.topics.create_topics import CreatableTopicConfig
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.records.topics import RemoveTopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.cluster import DrivenCluster

Start = Callable[..., DrivenCluster]
BROKERS, CONTROLLERS = 1, 2
FIRST_VERSION_WITH_ENTRIES = 6


def deleted(*names: str, version: int = 6, timeout_ms: int = 1000) -> DeleteTopicsRequest:
    """A request to delete topics by name, in the form of the version."""
    if version < FIRST_VERSION_WITH_ENTRIES:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=timeout_ms)


@pytest.mark.parametrize("version", range(3))
def test_fenced_brokers_are_shown_to_whoever_asks_for_them(cluster: DrivenCluster, version: int) -> None:
    cluster.lose(2)
    plain = cluster.ask(DescribeClusterRequest(), version=version)
    assert [broker.broker_id for broker in plain.brokers] == [1, 3]
    assert plain.controller_id in {1, 3}
    if version >= 2:
        full = cluster.ask(DescribeClusterRequest(include_fenced_brokers=True), version=version)
        assert [(broker.broker_id, broker.is_fenced) for broker in full.brokers] == [(1, False), (2, True), (3, False)]


@pytest.mark.parametrize(
    ("broker_id", "endpoint_type", "code"),
    [
        (1, BROKERS, ErrorCode.NONE),
        (1, CONTROLLERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (None, CONTROLLERS, ErrorCode.NONE),
        (None, BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (1, 0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (None, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (1, -128, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_each_listener_describes_its_own_kind(
    cluster: DrivenCluster, broker_id: int | None, endpoint_type: int, code: ErrorCode
) -> None:
    response = cluster.ask(DescribeClusterRequest(endpoint_type=endpoint_type), broker_id=broker_id)
    assert response.error_code == code
    shown = {broker.broker_id for broker in response.brokers}
    if code:
        assert (shown, response.controller_id) == (set(), -1)
        assert response.error_message
    elif broker_id is None:
        assert shown == {response.controller_id} == {cluster.controller.identity.controller_id}
    else:
        assert shown == {1, 2, 3}


def test_the_controller_says_where_it_is_reached(cluster: DrivenCluster) -> None:
    """KIP-919: clients that were given the controller's address continue with the end point in the answer."""
    cluster.controller.advertise("controller.example", 9093)
    response = cluster.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS), broker_id=None)
    assert [(broker.host, broker.port) for broker in response.brokers] == [("controller.example", 9093)]


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(("broker_id", "listener"), [(1, "broker"), (None, "controller")])
def test_what_is_served_is_what_is_listed(
    cluster: DrivenCluster, version: int, broker_id: int | None, listener: Any
) -> None:
    response = cluster.ask(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        version=version,
        broker_id=broker_id,
    )
    assert [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys] == [
        # As in Kafka, which answers Produce from version 3 on all the same.
        (api.key, 0 if api.name == "Produce" else api.kept_versions.start, api.latest_stable)
        for api in (served.api for served in SERVED.tables[listener].values() if served.described)
    ]
    assert {key for table in SERVED.tables.values() for key in table} == {api.key for api in APIS}
    reported = {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features}
    # Older clients treat a lowest level of 0 as an error (KIP-584).
    at_least = 0 if version >= 4 else 1
    supported = {name: levels for name, levels in SUPPORTED_FEATURES.items() if levels[0] >= at_least}
    assert reported == (supported if version >= 3 else {})


@pytest.mark.parametrize(("name", "refused"), [("", True), ("a b", True), ("-a", True), ("a-1.b", False), ("ä", True)])
def test_a_client_names_itself_in_plain_characters(cluster: DrivenCluster, name: str, refused: bool) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=name, client_software_version="1"),
        ApiVersionsRequest(client_software_name="x", client_software_version=name),
    ):
        response = cluster.ask(request)
        assert response.error_code == (ErrorCode.INVALID_REQUEST if refused else ErrorCode.NONE)
        assert bool(response.api_keys) != refused


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_deletion_may_be_switched_off(start: Start, profile: Profile, version: int, code: ErrorCode) -> None:
    cluster = start(profile=profile, configs={"delete.topic.enable": "false"})
    cluster.create("t")
    with cluster.writing() as written:
        response = cluster.ask(deleted("t", "none", version=version), version=version)
    assert [(result.name, result.error_code) for result in response.responses] == [("t", code), ("none", code)]
    assert written == []


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_in_one_batch_with_all_that_belongs_to_them(cluster: DrivenCluster, version: int) -> None:
    ids = [
        cluster.create(name, 3, 2, configs=[CreatableTopicConfig(name="retention.ms", value="5")]).topic_id
        for name in "ab"
    ]
    cluster.create("c", 2, 1)
    with cluster.writing() as written:
        response = cluster.ask(deleted("a", "none", "b", version=version), version=version)
    assert {result.name: result.error_code for result in response.responses} == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.NONE,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [(type(record), record.topic_id) for record in written] == [  # type: ignore[attr-defined]
        (RemoveTopicRecord, topic_id) for topic_id in ids
    ]
    assert set(cluster.image.topics_by_name) == {"c"}
    assert cluster.image.total_partitions() == 2
    assert not any(name == "a" for _, name in cluster.image.configs)


def test_a_topic_made_again_is_another_one(cluster: DrivenCluster) -> None:
    first = cluster.create("t", 2, 3).topic_id
    cluster.lose(3)
    cluster.ask(deleted("t"))
    second = cluster.create_at("t", [1, 2]).topic_id
    assert first != second
    [row] = cluster.partitions("t")
    assert (row.leader_epoch, row.partition_epoch) == (0, 0)
    response = cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=first)], timeout_ms=1000))
    assert response.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_entries_in_doubt_delete_nothing_and_the_others_do(cluster: DrivenCluster) -> None:
    ids: dict[str, Uuid] = {name: cluster.create(name).topic_id for name in ("twice", "both", "apart", "good")}
    entries = [
        DeleteTopicState(name="twice"),
        DeleteTopicState(name="twice"),
        DeleteTopicState(name="both", topic_id=ids["both"]),
        DeleteTopicState(name="apart"),
        DeleteTopicState(name=None, topic_id=ids["apart"]),
        DeleteTopicState(name=None),
        DeleteTopicState(name="good"),
    ]
    response = cluster.ask(DeleteTopicsRequest(topics=entries, timeout_ms=1000))
    refused = {result.name for result in response.responses if result.error_code == ErrorCode.INVALID_REQUEST}
    assert refused == {"twice", "both", "apart", None}
    assert set(cluster.image.topics_by_name) == {"twice", "both", "apart"}


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_deleted(cluster: DrivenCluster, timeout_ms: int) -> None:
    cluster.create("t")
    response = cluster.ask(deleted("t", timeout_ms=timeout_ms))
    assert [result.error_code for result in response.responses] == [ErrorCode.REQUEST_TIMED_OUT]
    assert "t" in cluster.image.topics_by_name


def test_without_time_names_that_are_in_doubt_are_told_so_and_no_others_are_decided(cluster: DrivenCluster) -> None:
    """As in Apache Kafka, which looks for names that occur twice before it checks the timeout."""
    cluster.create("t")
    twice = DeleteTopicsRequest(topics=[DeleteTopicState(name="t"), DeleteTopicState(name="t")], timeout_ms=0)
    assert [result.error_code for result in cluster.ask(twice).responses] == [ErrorCode.INVALID_REQUEST]
    more = DeleteTopicsRequest(topics=[*twice.topics, DeleteTopicState(name="u")], timeout_ms=0)
    assert ErrorCode.REQUEST_TIMED_OUT in {result.error_code for result in cluster.ask(more).responses}
    assert "t" in cluster.image.topics_by_name
