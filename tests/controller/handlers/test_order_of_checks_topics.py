"""The order of checks of the APIs about topics."""

import pytest

from klamm.controller.settings import Profile
from klamm.controller.transitions import placement
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.controller.handlers.alteration_requests import altered
from tests.controller.handlers.alteration_requests import request as alteration
from tests.controller.handlers.cluster import ENOUGH_TIME_MS
from tests.controller.handlers.guarded_cluster import ALICE, GuardedCluster
from tests.controller.handlers.order_of_checks import Broken, Order, Rule, Told, check_order, never
from tests.controller.handlers.reassignment_requests import move
from tests.controller.handlers.test_create_partitions import enlarged
from tests.controller.handlers.test_create_partitions import request as enlargement
from tests.controller.handlers.test_limits import set_config

MOST = 4
"""The number of partitions that one request may create."""


@pytest.fixture(autouse=True)
def few_partitions_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_PARTITIONS_PER_REQUEST_KIP", "MAX_PARTITIONS_PER_REQUEST_KAFKA"):
        monkeypatch.setattr(placement, limit, MOST)


def fence(cluster: GuardedCluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        assert cluster.heartbeat(broker_id, want_fence=True).is_fenced


def manual_row(broken: Broken) -> list[int]:
    """Replicas of a new partition of factor 2; brokers 2 and 3 are those that may be fenced."""
    other = "another factor" in broken
    if "a broker twice" in broken:
        return [2] * (3 if other else 2)
    row = [2 if "nobody is live" in broken else 1, 9 if "unknown broker" in broken else 3]
    return row[1:] if other else row


MANUAL = [
    Rule("a broker twice", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
    Rule("unknown broker", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
    Rule("another factor", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent with previous partitions"),
    Rule("nobody is live", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "are fenced or in controlled shutdown"),
    Rule("limits", ErrorCode.POLICY_VIOLATION, "would exceed the limits"),
]
NEVER_BOTH_BY_HAND = never("a broker twice", "unknown broker")


# CreatePartitions


def ask_for_partitions(cluster: GuardedCluster, broken: Broken) -> Told:
    cluster.create_at("t", [1, 2], [2, 1])
    cluster.create_at("other", [1])
    if "reassignment" in broken:
        move(cluster, "t", [1, 3])
    if "limits" in broken:
        set_config(cluster, "max.broker.partitions", 1)
    if "nobody is live" in broken:
        fence(cluster, 2, 3)
    adding = 0 if "no increase" in broken else MOST + 1 if "too many" in broken else 1
    rows = [manual_row(broken)] * adding
    if "number of assignments" in broken:
        rows = [*rows, [1, 2]]
    name = "none" if "unknown topic" in broken else "t"
    times = 2 if "named twice" in broken else 1
    topics = [enlarged(name, 2 + adding, *rows)] * times + [enlarged("other", 2, [1])]
    timeout_ms = 0 if "no time" in broken else ENOUGH_TIME_MS
    with cluster.asking(ALICE if "denied" in broken else None):
        response = cluster.ask(enlargement(*topics, timeout_ms=timeout_ms))
    return response.results[0].error_code, response.results[0].error_message or ""


def partition_rules(profile: Profile) -> list[Rule]:
    kip = profile == "kip"
    unknown = ErrorCode.INVALID_TOPIC_EXCEPTION if kip else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    number = ErrorCode.INVALID_REQUEST if kip else ErrorCode.INVALID_REPLICA_ASSIGNMENT
    moving = [Rule("reassignment", ErrorCode.REASSIGNMENT_IN_PROGRESS, "is in progress")] if kip else []
    return [
        Rule("named twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        Rule("denied", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        Rule("unknown topic", unknown),
        Rule("no increase", ErrorCode.INVALID_PARTITIONS, "already has 2"),
        *moving,
        Rule("number of assignments", number, "Attempted to add"),
        Rule("too many", ErrorCode.POLICY_VIOLATION, "this request may make"),
        *MANUAL,
    ]


def test_create_partitions(profile: Profile) -> None:
    impossible = NEVER_BOTH_BY_HAND + never("no increase", "too many")
    check_order(Order(partition_rules(profile), ask_for_partitions, impossible), profile)


def test_without_time_no_rule_of_create_partitions_is_looked_at(profile: Profile) -> None:
    """As long as one entry is neither named twice nor denied."""
    for rule in partition_rules(profile):
        broken = frozenset({"no time", rule.name})
        expected = rule.code if rule.name == "denied" else ErrorCode.REQUEST_TIMED_OUT
        assert ask_for_partitions(GuardedCluster(profile=profile, racks=()), broken)[0] == expected


# CreateTopics


def rows_of_topic(broken: Broken) -> list[CreatableReplicaAssignment]:
    rows = [[1, 2], manual_row(broken)]
    if "too many" in broken:
        rows += [[1, 2]] * MOST
    indexes = [*range(len(rows))]
    if "gap" in broken:
        indexes[-1] += 1
    if "a partition twice" in broken:
        indexes[1] = 0
    return [
        CreatableReplicaAssignment(partition_index=index, broker_ids=row)
        for index, row in zip(indexes, rows, strict=True)
    ]


def new_topic(broken: Broken, *, by_hand: bool) -> CreatableTopic:
    name = "t"
    for rule, other in (("exists", "there.is"), ("collides", "there_is"), ("illegal name", "a b")):
        name = other if rule in broken else name
    if "prohibited" in broken:
        name = "__cluster_metadata"
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    if by_hand:
        topic.assignments = rows_of_topic(broken)
        topic.replication_factor = 2 if "factor beside rows" in broken else -1
        topic.num_partitions = 2 if "count beside rows" in broken else -1
    else:
        topic.replication_factor = 0 if "factor is 0" in broken else 9 if "too few brokers" in broken else 1
        topic.num_partitions = 0 if "count is 0" in broken else MOST + 1 if "too many" in broken else 2
    if "bad config" in broken:
        topic.configs = [CreatableTopicConfig(name="retention.ms", value="x")]
    return topic


def ask_for_topic(cluster: GuardedCluster, broken: Broken, *, by_hand: bool) -> Told:
    cluster.create_at("there.is", [1, 2], [2, 1])
    if "limits" in broken:
        set_config(cluster, "max.broker.partitions", 1)
    if "nobody is live" in broken:
        fence(cluster, 2, 3)
    topics = [new_topic(broken, by_hand=by_hand)] * (2 if "named twice" in broken else 1)
    last = CreatableTopic(name="last", num_partitions=1, replication_factor=9)
    timeout_ms = 0 if "no time" in broken else ENOUGH_TIME_MS
    with cluster.asking(ALICE if "denied" in broken else None):
        response = cluster.ask(CreateTopicsRequest(topics=[*topics, last], timeout_ms=timeout_ms))
    return response.topics[0].error_code, response.topics[0].error_message or ""


NAME_RULES = [
    Rule("named twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    Rule("denied", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    Rule("prohibited", ErrorCode.INVALID_REQUEST, "is prohibited"),
    Rule("illegal name", ErrorCode.INVALID_TOPIC_EXCEPTION, "contains one or more characters"),
    Rule("collides", ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic"),
    Rule("exists", ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
    Rule("bad config", ErrorCode.INVALID_CONFIG),
]
BY_HAND_RULES = [
    Rule("factor beside rows", ErrorCode.INVALID_REQUEST, "replication factor was not set to -1"),
    Rule("count beside rows", ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
    Rule("a partition twice", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
    *MANUAL[:-1],
    Rule("gap", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
    MANUAL[-1],
]
AUTOMATIC_RULES = [
    Rule("factor is 0", ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
    Rule("count is 0", ErrorCode.INVALID_PARTITIONS, "non-positive"),
    Rule("too few brokers", ErrorCode.INVALID_REPLICATION_FACTOR, "cannot be reached"),
    Rule("limits", ErrorCode.POLICY_VIOLATION, "would exceed the limits"),
]
NEVER_BOTH_NAMES = never("prohibited", "illegal name", "collides", "exists") + never("prohibited", "denied")


@pytest.mark.parametrize("by_hand", [True, False])
def test_create_topics(profile: Profile, by_hand: bool) -> None:
    rules = [*NAME_RULES, *(BY_HAND_RULES if by_hand else AUTOMATIC_RULES)]
    impossible = NEVER_BOTH_NAMES + NEVER_BOTH_BY_HAND + never("factor is 0", "too few brokers")
    check_order(
        Order(rules, lambda cluster, broken: ask_for_topic(cluster, broken, by_hand=by_hand), impossible), profile
    )


@pytest.mark.parametrize("by_hand", [True, False])
def test_time_and_size_of_a_request_for_topics_come_before_what_each_of_them_asks(
    profile: Profile, by_hand: bool
) -> None:
    """Topics that are denied or named twice do not count."""
    for rule in [*NAME_RULES, *(BY_HAND_RULES if by_hand else AUTOMATIC_RULES)]:
        for first, code in (("no time", ErrorCode.REQUEST_TIMED_OUT), ("too many", ErrorCode.POLICY_VIOLATION)):
            if first == "too many" and rule.name in ("named twice", "denied", "prohibited", "count is 0"):
                continue
            cluster = GuardedCluster(profile=profile, racks=())
            expected = rule.code if rule.name == "denied" else code
            assert ask_for_topic(cluster, frozenset({first, rule.name}), by_hand=by_hand)[0] == expected, rule


# DeleteTopics


def ask_for_deletion(cluster: GuardedCluster, broken: Broken, *, by_id: bool) -> Told:
    topic_id = cluster.create_at("t", [1]).topic_id
    entry = DeleteTopicState(name=None if by_id else "none" if "unknown" in broken else "t")
    if by_id:
        entry.topic_id = cluster.controller.new_uuid() if "unknown" in broken else topic_id
    if "name and id" in broken:
        entry.name, entry.topic_id = "t", topic_id
    entries = [entry] * (2 if "named twice" in broken else 1)
    last = DeleteTopicState(name="last")
    timeout_ms = 0 if "no time" in broken else ENOUGH_TIME_MS
    with cluster.asking(ALICE if "denied" in broken else None):
        response = cluster.ask(DeleteTopicsRequest(topics=[*entries, last], timeout_ms=timeout_ms))
    return response.responses[0].error_code, response.responses[0].error_message or ""


@pytest.mark.parametrize("by_id", [True, False])
def test_delete_topics(profile: Profile, by_id: bool) -> None:
    """By name, an unknown topic has the same answer as one that may not be described; ids are not secret."""
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rules = [
        Rule("no time", ErrorCode.REQUEST_TIMED_OUT),
        Rule("name and id", ErrorCode.INVALID_REQUEST, "may not specify both"),
        Rule("named twice", ErrorCode.INVALID_REQUEST, "Duplicate topic"),
        Rule("unknown", unknown, "does not host"),
        Rule("denied", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    if not by_id:
        rules[3:] = reversed(rules[3:])
    check_order(Order(rules, lambda cluster, broken: ask_for_deletion(cluster, broken, by_id=by_id)), profile)


# AlterTopics


def rows_of_alteration(broken: Broken) -> dict[int, list[int]]:
    rows = {0: [9, 2] if "unknown broker" in broken else [3, 2]}
    if "limits" in broken:
        rows[1] = [3, 2]
    if "too many" in broken:
        rows |= {1: [3, 2], 2: [3, 2]}
    if "a broker twice" in broken:
        rows[1] = [1, 1]
    return rows | {7: [1, 2]} if "unknown partition" in broken else rows


def ask_for_alteration(cluster: GuardedCluster, broken: Broken, *, by_hand: bool) -> Told:
    cluster.create_at("t", [1, 2], [1, 2])
    if by_hand:
        cluster.ask(enlargement(enlarged("t", 3, [1, 2])))
    if "reassignment" in broken:
        fence(cluster, 3)
        move(cluster, "t", [1, 2], [1, 3])
    if "limits" in broken:
        set_config(cluster, "max.broker.partitions", 1)
    count = -1
    for rule, other in (("too many", 9), ("rows beside a count", 9), ("fewer partitions", 1)):
        count = other if rule in broken and (not by_hand or rule != "too many") else count
    factor = -1
    for rule, other in (("limits", 3), ("too few brokers", 9), ("factor is 0", 0)):
        factor = other if rule in broken and (not by_hand or rule == "factor is 0") else factor
    name = "none" if "unknown topic" in broken else "t"
    topics = [altered(name, count, factor, rows_of_alteration(broken) if by_hand else None)]
    timeout = 0 if "no time" in broken else ENOUGH_TIME_MS
    with cluster.asking(ALICE if "denied" in broken else None):
        response = cluster.ask(alteration(*topics * (2 if "named twice" in broken else 1), timeout=timeout))
    return response.topic_errors[0].error_code, response.topic_errors[0].error_message or ""


@pytest.mark.parametrize("by_hand", [True, False])
def test_alter_topics(profile: Profile, by_hand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that the handler and docs/alter-topics.md name."""
    for limit in ("MAX_PARTITIONS_PER_REQUEST_KIP", "MAX_PARTITIONS_PER_REQUEST_KAFKA"):
        monkeypatch.setattr(placement, limit, 2)
    bad_rows = [
        Rule("unknown broker", ErrorCode.UNKNOWN_MEMBER_ID),
        Rule("rows beside a count", ErrorCode.INVALID_REQUEST, "together with another number"),
        Rule("unknown partition", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "There is no partition 7"),
        Rule("a broker twice", ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
    ]
    too_few = Rule("too few brokers", ErrorCode.INVALID_REPLICATION_FACTOR, "cannot be reached")
    rules = [
        Rule("denied", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        Rule("named twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        Rule("no time", ErrorCode.REQUEST_TIMED_OUT),
        Rule("unknown topic", ErrorCode.INVALID_TOPIC_EXCEPTION, "There is no topic"),
        Rule("fewer partitions", ErrorCode.INVALID_PARTITIONS, "would be fewer"),
        Rule("factor is 0", ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        *(bad_rows if by_hand else []),
        Rule("reassignment", ErrorCode.REASSIGNMENT_IN_PROGRESS, "is in progress"),
        Rule("too many", ErrorCode.POLICY_VIOLATION, "to make or change"),
        *([] if by_hand else [too_few]),
        Rule("limits", ErrorCode.POLICY_VIOLATION, "max.broker.partitions=1"),
    ]
    order = Order(rules, lambda cluster, broken: ask_for_alteration(cluster, broken, by_hand=by_hand))
    check_order(order, profile)
