"""StreamsGroupHeartbeat and StreamsGroupDescribe of a broker: rights, internal topics that a heartbeat creates, and
when streams groups are not served."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.topic_creation_errors import MAX_ERRORS, CreationErrors
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.streams.streams_group_describe import StreamsGroupDescribeRequest
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.groups.conversation import Asked
from tests.controller.handlers.guarded_cluster import GuardedCluster, cluster_entry, entry

GROUP, STORE, REPARTITION = "g", "g-store-changelog", "g-r-repartition"
CONFIGS = {
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
STATEFUL = Subtopology(
    subtopology_id="0",
    source_topics=["t"],
    state_changelog_topics=[
        TopicInfo(name=STORE, topic_configs=[KeyValue(key="cleanup.policy", value="compact")], replication_factor=1)
    ],
)
MISSING = (3, f"Internal topics are missing: {STORE}")


class Application:
    """Members of one streams group, on a cluster of one broker."""

    def __init__(self, configs: Mapping[str, str] | None = None) -> None:
        self.cluster = GuardedCluster(1, configs={**CONFIGS, **(configs or {})})
        self.cluster.brokers.add(1).is_up = True
        self.cluster.create("t", 2, 1)
        self.cluster.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))

    def ask(self, request: Any) -> Any:
        cluster = self.cluster
        call = replace(cluster.call(request), principal=cluster.principal, host=cluster.host, client_id="c")
        return Asked(cluster, call, cluster.controller.submit(call)).response

    def join(self, *subtopologies: Subtopology, member_id: str = "a", **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            rebalance_timeout_ms=1_000,
            topology=Topology(subtopologies=subtopologies or (STATEFUL,)),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(request)

    def beat(self, epoch: int, member_id: str = "a") -> Any:
        return self.ask(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch))

    def describe(self, *group_ids: str, operations: bool = False) -> Any:
        asked = StreamsGroupDescribeRequest(group_ids=group_ids or (GROUP,), include_authorized_operations=operations)
        return self.ask(asked).groups


@pytest.fixture
def application() -> Application:
    return Application()


def statuses(response: Any) -> list[tuple[int, str]]:
    return [(status.status_code, status.status_detail) for status in response.status]


def test_a_heartbeat_creates_the_internal_topics_and_calls_them_missing(application: Application) -> None:
    first = application.join()
    assert (first.member_epoch, statuses(first)) == (2, [MISSING])
    image = application.cluster.image
    assert image.partition_count(image.topics_by_name[STORE]) == 2
    resource = DescribeConfigsResource(resource_type=2, resource_name=STORE, configuration_keys=["cleanup.policy"])
    described = application.cluster.ask(DescribeConfigsRequest(resources=[resource]))
    assert described.results[0].configs[0].value == "compact"
    second = application.beat(2)
    assert (second.member_epoch, statuses(second)) == (3, [])
    assert [(each.subtopology_id, list(each.partitions)) for each in second.active_tasks] == [("0", [0, 1])]


def test_topics_that_have_gone_are_created_again(application: Application) -> None:
    application.join()
    application.beat(2)
    application.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=STORE)], timeout_ms=1_000))
    assert statuses(application.beat(3)) == [MISSING]
    assert STORE in application.cluster.image.topics_by_name


def test_a_heartbeat_that_is_refused_creates_nothing(application: Application) -> None:
    assert application.join(member_id="").error_code == ErrorCode.INVALID_REQUEST
    assert application.beat(4).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    application.join(Subtopology(subtopology_id="0", source_topics=["t"]))
    assert application.join(member_id="b").error_code == ErrorCode.INVALID_REQUEST
    assert STORE not in application.cluster.image.topics_by_name


def test_who_may_not_create_topics_is_told_so(application: Application) -> None:
    cluster = application.cluster
    describe, create = AclOperation.DESCRIBE, AclOperation.CREATE
    cluster.grant(entry(AclOperation.READ, GROUP, AclResourceType.GROUP), entry(describe, "t"), entry(describe, STORE))
    remark = f"; Unauthorized to CREATE on topics {STORE}."
    with cluster.asking():
        assert statuses(application.join()) == [(3, MISSING[1] + remark)]
        assert STORE not in cluster.image.topics_by_name
    cluster.grant(entry(create, STORE))
    with cluster.asking():
        assert statuses(application.beat(2)) == [MISSING]
    assert STORE in cluster.image.topics_by_name


def test_the_right_to_create_topics_on_the_cluster_is_enough(application: Application) -> None:
    cluster = application.cluster
    cluster.grant(
        entry(AclOperation.READ, GROUP, AclResourceType.GROUP),
        entry(AclOperation.DESCRIBE, "t"),
        entry(AclOperation.DESCRIBE, STORE),
        cluster_entry(AclOperation.CREATE),
    )
    with cluster.asking():
        application.join()
    assert STORE in cluster.image.topics_by_name


@pytest.mark.parametrize("lacking", ["t", "sink", REPARTITION, STORE])
def test_each_topic_of_a_topology_needs_the_right_to_describe(application: Application, lacking: str) -> None:
    cluster = application.cluster
    names = {"t", "sink", REPARTITION, STORE} - {lacking}
    cluster.grant(
        entry(AclOperation.READ, GROUP, AclResourceType.GROUP),
        *(entry(AclOperation.DESCRIBE, name) for name in names),
    )
    one = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        repartition_sink_topics=["sink"],
        repartition_source_topics=[TopicInfo(name=REPARTITION)],
        state_changelog_topics=[TopicInfo(name=STORE)],
    )
    with cluster.asking():
        refused = application.join(one)
    assert (refused.error_code, refused.error_message) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_a_group_with_a_topic_that_one_may_not_describe_is_hidden(application: Application) -> None:
    cluster = application.cluster
    application.join()
    cluster.grant(entry(AclOperation.DESCRIBE, GROUP, AclResourceType.GROUP), entry(AclOperation.DESCRIBE, "t"))
    with cluster.asking():
        (hidden,) = application.describe()
    assert (hidden.error_code, hidden.topology, list(hidden.members)) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        None,
        [],
    )
    assert hidden.error_message == "The described group uses topics that the client is not authorized to describe."
    cluster.grant(entry(AclOperation.DESCRIBE, STORE))
    with cluster.asking():
        (shown,) = application.describe(operations=True)
    assert (shown.group_state, len(shown.members)) == ("NotReady", 1)
    assert shown.authorized_operations == 1 << AclOperation.DESCRIBE


@pytest.mark.parametrize("lacking", ["t", "sink", REPARTITION, STORE])
def test_a_group_is_hidden_by_each_of_its_topics(application: Application, lacking: str) -> None:
    cluster = application.cluster
    cluster.create("sink", 2, 1)
    one = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        repartition_sink_topics=["sink"],
        repartition_source_topics=[TopicInfo(name=REPARTITION, partitions=2)],
        state_changelog_topics=[TopicInfo(name=STORE)],
    )
    application.join(one)
    names = {"t", "sink", REPARTITION, STORE} - {lacking}
    cluster.grant(
        entry(AclOperation.DESCRIBE, GROUP, AclResourceType.GROUP),
        *(entry(AclOperation.DESCRIBE, name) for name in names),
    )
    with cluster.asking():
        (hidden,) = application.describe()
    assert (hidden.group_id, hidden.error_code) == (GROUP, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_operations_are_told_to_who_asks(application: Application) -> None:
    application.join()
    assert [group.authorized_operations for group in application.describe()] == [-(2**31)]


def test_only_what_was_not_created_is_told_and_tried_later(application: Application) -> None:
    both = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        state_changelog_topics=[TopicInfo(name="bad", replication_factor=9), TopicInfo(name=STORE)],
    )
    application.join(both)
    assert STORE in application.cluster.image.topics_by_name
    ((code, text),) = statuses(application.beat(2))
    assert (code, text.startswith("Internal topics are missing: bad; Creation failed: bad (")) == (3, True)


def test_why_topics_were_not_created_is_told_for_a_while_in_which_none_is_tried(application: Application) -> None:
    bad = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        state_changelog_topics=[TopicInfo(name=STORE, replication_factor=9)],
    )
    assert statuses(application.join(bad)) == [MISSING]
    text = statuses(application.beat(2))[0][1]
    assert text.startswith(f"{MISSING[1]}; Creation failed: {STORE} (Unable to replicate the partition 9 time(s): ")
    assert text.endswith(").")
    application.cluster.clock.advance(9_999)
    assert "Creation failed" in statuses(application.beat(2))[0][1]
    application.cluster.clock.advance(1)
    assert statuses(application.beat(2)) == [MISSING]
    assert "Creation failed" in statuses(application.beat(2))[0][1]


def test_errors_of_topics_are_few_and_end() -> None:
    errors = CreationErrors()
    for number in range(MAX_ERRORS + 1):
        errors.put(str(number), "no", 100 - number % 2)
    assert len(errors.of(map(str, range(MAX_ERRORS + 1)), 98)) == MAX_ERRORS
    assert errors.of(["1"], 98) == {}, "the first of those that end first was dropped"
    assert errors.of(["2", "3"], 99) == {"2": "no"}
    assert errors.of(["2"], 100) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_topics_that_no_topology_may_have(application: Application, name: str, text: str) -> None:
    refused = application.join(Subtopology(subtopology_id="0", source_topics=["t", name]))
    assert (refused.error_code, refused.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def test_streams_groups_may_be_switched_off() -> None:
    application = Application({"group.coordinator.rebalance.protocols": "classic,consumer"})
    assert application.join().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [group.error_code for group in application.describe()] == [ErrorCode.UNSUPPORTED_VERSION]


def test_streams_groups_need_their_feature(application: Application) -> None:
    application.cluster.image.features["streams.version"] = 0
    assert application.join().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [group.error_code for group in application.describe()] == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_group_needs_the_rights_to_read_and_to_describe_it(application: Application) -> None:
    cluster = application.cluster
    application.join()
    cluster.grant(entry(AclOperation.DESCRIBE, "t"), entry(AclOperation.DESCRIBE, STORE))
    with cluster.asking():
        assert application.join().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert [group.error_code for group in application.describe()] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    cluster.grant(entry(AclOperation.READ, GROUP, AclResourceType.GROUP))
    with cluster.asking():
        assert application.join().error_code == ErrorCode.NONE
        assert [group.error_code for group in application.describe()] == [ErrorCode.NONE]


def test_members_are_shown_with_their_clients(application: Application) -> None:
    application.join()
    ((member,),) = [group.members for group in application.describe()]
    assert (member.client_id, member.client_host) == ("c", f"/{application.cluster.host}")


def test_unknown_and_empty_group_ids_are_described_by_their_errors(application: Application) -> None:
    described = application.describe("none", "", "none")
    assert [(group.group_id, group.error_code) for group in described] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
