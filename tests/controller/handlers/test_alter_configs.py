"""AlterConfigs, IncrementalAlterConfigs and ListConfigResources, in cases that the recording lacks. Recorded answers
are compared word for word in test_recorded_alterations."""

from collections.abc import Callable

import pytest

from klamm.controller.configs import max_broker_partitions, max_partitions, under_replicated_topic_creation_enabled
from klamm.controller.handlers.configs import alterations
from klamm.controller.transitions import config_changes
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.topics import RemoveTopicRecord
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.config_requests import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    CONTROLLER,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    TOPIC,
    described,
    edit,
    incremental,
    listed,
    replacing,
    set_configs,
)

Start = Callable[..., DrivenCluster]
NO_LIMIT = 2**63 - 1
DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5
LIMITS = ("max.broker.partitions", "max.partitions")
UNDER_REPLICATED = "enable.under.replicated.topic.creation"
CONFIG_OF_NOBODY = "no.such.config"


def test_a_request_changes_all_that_it_may_and_nothing_of_what_it_may_not(cluster: DrivenCluster) -> None:
    cluster.create("good")
    cluster.create("bad")
    request = incremental(
        [
            ((TOPIC, "good"), [("flush.ms", SET, "5"), ("retention.ms", SET, "6")]),
            ((TOPIC, "bad"), [("flush.ms", SET, "5"), ("retention.ms", SET, "soon")]),
            ((TOPIC, "unknown"), [("flush.ms", SET, "5")]),
            ((GROUP, "g"), [("consumer.session.timeout.ms", SET, "50000")]),
        ]
    )
    with cluster.writing() as written:
        answer = cluster.ask(request)
    assert [result.error_code for result in answer.responses] == [0, 40, 3, 0]
    assert [(record.resource_name, record.name) for record in written if isinstance(record, ConfigRecord)] == [
        ("good", "flush.ms"),
        ("good", "retention.ms"),
        ("g", "consumer.session.timeout.ms"),
    ]
    assert cluster.image.config(TOPIC, "bad") == {}


@pytest.mark.parametrize("broker_id", [1, CONTROLLER])
def test_validate_only_writes_nothing_and_answers_the_same(cluster: DrivenCluster, broker_id: int | None) -> None:
    cluster.create("t")
    resources = [((TOPIC, "t"), [("flush.ms", SET, "5")]), ((TOPIC, "nope"), [("flush.ms", SET, "x")])]
    with cluster.writing() as written:
        checked = cluster.ask(incremental(resources, validate_only=True), broker_id=broker_id)
        replaced = cluster.ask(replacing([((TOPIC, "t"), {"flush.ms": "5"})], validate_only=True), broker_id=broker_id)
    assert not written
    assert [result.error_code for result in replaced.responses] == [0]
    assert checked.responses == cluster.ask(incremental(resources), broker_id=broker_id).responses
    assert cluster.image.config(TOPIC, "t") == {"flush.ms": "5"}


def test_a_deleted_topic_takes_its_configs_along(cluster: DrivenCluster) -> None:
    cluster.create("t")
    set_configs(cluster, (TOPIC, "t"), {"flush.ms": "5"})
    with cluster.writing() as written:
        cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
    assert [type(record) for record in written] == [RemoveTopicRecord]
    assert cluster.image.config(TOPIC, "t") == {}
    cluster.create("t")
    assert described(cluster, (TOPIC, "t"), "flush.ms")["flush.ms"][1] == DEFAULT


def test_a_new_minimum_isr_clears_eligible_leader_replicas_of_that_topic_or_of_all(cluster: DrivenCluster) -> None:
    names = ("one", "other", "third")
    for name in names:
        cluster.create_at(name, [1, 2])
        set_configs(cluster, (TOPIC, name), {"min.insync.replicas": "2"})
    cluster.lose(2)

    def eligible() -> list[tuple[int, ...]]:
        return [cluster.partitions(name)[0].eligible_leader_replicas for name in names]

    assert eligible() == [(2,), (2,), (2,)]
    set_configs(cluster, (TOPIC, "one"), {"min.insync.replicas": "1"})
    assert eligible() == [(), (2,), (2,)]
    set_configs(cluster, (TOPIC, "one"), {"min.insync.replicas": "1"})
    assert eligible() == [(), (2,), (2,)]
    set_configs(cluster, (BROKER, ""), {"min.insync.replicas": "1"})
    assert eligible() == [(), (), ()]


# Configs that Kafka lacks


@pytest.mark.parametrize("name", [*LIMITS, UNDER_REPLICATED])
def test_our_configs_count_on_every_level_at_once(start: Start, name: str) -> None:
    static, of_broker, of_all, of_one = ("true", "false", "true", "false") if name == UNDER_REPLICATED else "4567"
    default = "false" if name == UNDER_REPLICATED else str(NO_LIMIT)
    cluster = start(configs={name: static}, broker_configs={1: {name: of_broker}})

    def seen(broker_id: int | None, *levels: tuple[str, int]) -> None:
        """The first synonym in DescribeConfigs is the effective value."""
        in_force = {
            "max.broker.partitions": max_broker_partitions,
            "max.partitions": max_partitions,
            UNDER_REPLICATED: under_replicated_topic_creation_enabled,
        }[name]
        value = in_force(cluster.image.configs, cluster.settings, broker_id)
        assert str(value).lower() == levels[0][0]
        requested = (BROKER, "3000" if broker_id is None else str(broker_id))
        shown, source, synonyms = described(cluster, requested, name, broker_id=broker_id)[name]
        assert (shown, source) == levels[0]
        assert synonyms == [(name, text, level) for text, level in (*levels, (default, DEFAULT))]

    seen(1, (of_broker, STATIC))
    seen(2, (static, STATIC))
    seen(CONTROLLER, (static, STATIC))
    set_configs(cluster, (BROKER, ""), {name: of_all}, broker_id=2)
    seen(1, (of_all, DYNAMIC_DEFAULT), (of_broker, STATIC))
    seen(CONTROLLER, (of_all, DYNAMIC_DEFAULT), (static, STATIC))
    set_configs(cluster, (BROKER, "1"), {name: of_one})
    seen(1, (of_one, DYNAMIC_BROKER), (of_all, DYNAMIC_DEFAULT), (of_broker, STATIC))
    seen(2, (of_all, DYNAMIC_DEFAULT), (static, STATIC))
    cluster.restart()
    seen(1, (of_one, DYNAMIC_BROKER), (of_all, DYNAMIC_DEFAULT), (of_broker, STATIC))
    assert edit(cluster, (BROKER, "1"), (name, DELETE, None)) == (0, None)
    assert edit(cluster, (BROKER, ""), (name, DELETE, None)) == (0, None)
    seen(1, (of_broker, STATIC))


@pytest.mark.parametrize("broker_id", [1, CONTROLLER])
@pytest.mark.parametrize("resource_name", ["", "1"])
@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("max.partitions", "0", "Value must be at least 1"),
        ("max.broker.partitions", "-1", "Value must be at least 1"),
        ("max.partitions", str(2**63), "Not a number of type LONG"),
        ("max.broker.partitions", "many", "Not a number of type LONG"),
        ("max.broker.partitions", "", "Not a number of type LONG"),
        (UNDER_REPLICATED, "yes", "Expected value to be either true or false"),
    ],
)
def test_bad_values_of_our_configs_are_refused_wherever_they_arrive(
    cluster: DrivenCluster, broker_id: int | None, resource_name: str, name: str, value: str, fault: str
) -> None:
    refusal = (ErrorCode.INVALID_REQUEST, f"Invalid value {value} for configuration {name}: {fault}")
    assert edit(cluster, (BROKER, resource_name), (name, SET, value), broker_id=broker_id) == refusal
    assert name not in cluster.image.config(BROKER, resource_name)


def test_a_limit_can_be_as_large_as_a_long_and_as_small_as_one(cluster: DrivenCluster) -> None:
    for name in LIMITS:
        for value in (str(2**63 - 1), "1", " 7 ", "+8"):
            assert edit(cluster, (BROKER, ""), (name, SET, value)) == (0, None)


# Bounds


def test_a_request_that_names_too_much_is_refused_as_a_whole(cluster: DrivenCluster) -> None:
    cluster.create("t")
    most = alterations.MAX_ENTRIES_PER_REQUEST
    edits = [(f"config.{number}", DELETE, None) for number in range(most)]
    answer = cluster.ask(incremental([((TOPIC, "t"), edits), ((BROKER, "1"), [("max.partitions", SET, "5")])]))
    text = f"{most + 3} resources and configs are more than the {most} that a request may name."
    assert [(result.error_code, result.error_message) for result in answer.responses] == [
        (ErrorCode.POLICY_VIOLATION, text)
    ] * 2
    assert not cluster.image.config(BROKER, "1")
    assert edit(cluster, (TOPIC, "t"), *edits[:-1]) == (0, None)


def test_a_request_that_would_write_too_many_records_is_refused_as_kafka_refuses_it(cluster: DrivenCluster) -> None:
    edits = [(f"config.{number}", DELETE, None) for number in range(alterations.MAX_RECORDS_PER_REQUEST + 1)]
    with cluster.writing() as written:
        answer = cluster.ask(incremental([((BROKER, "1"), edits), ((BROKER, "abc"), []), ((TOPIC, "nope"), [])]))
    too_many = "Unable to perform excessively large batch operation."
    assert [(result.error_code, result.error_message) for result in answer.responses] == [
        (ErrorCode.POLICY_VIOLATION, too_many),
        (ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: abc"),
        (ErrorCode.POLICY_VIOLATION, too_many),
    ]
    assert not written
    assert edit(cluster, (BROKER, "1"), *edits[:-1]) == (0, None)


@pytest.mark.parametrize("topics", [1, 2])
def test_the_records_that_clear_eligible_replicas_count_to_what_one_request_writes(
    cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    """A new minimum ISR takes two records for each topic: the config, and the record that clears eligible replicas."""
    names = [f"t{number}" for number in range(topics)]
    for name in names:
        cluster.create_at(name, [1, 2])
    records = 2 * topics
    for most, code in ((records - 1, ErrorCode.POLICY_VIOLATION), (records, ErrorCode.NONE)):
        monkeypatch.setattr(alterations, "MAX_RECORDS_PER_REQUEST", most)
        with cluster.writing() as written:
            answer = cluster.ask(incremental([((TOPIC, name), [("min.insync.replicas", SET, "2")]) for name in names]))
        assert {result.error_code for result in answer.responses} == {code}
        assert len(written) == (records if code == ErrorCode.NONE else 0)


def test_a_resource_has_a_bounded_number_of_configs(cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_changes, "MAX_CONFIGS_PER_RESOURCE", 2)
    assert edit(cluster, (BROKER, "1"), ("a", SET, "1"), ("b", SET, "1")) == (0, None)
    code, message = edit(cluster, (BROKER, "1"), ("c", SET, "1"))
    assert (code, message) == (ErrorCode.POLICY_VIOLATION, "A resource has at most 2 configs.")
    assert edit(cluster, (BROKER, "1"), ("a", DELETE, None), ("c", SET, "1")) == (0, None)
    monkeypatch.setattr(config_changes, "MAX_CONFIGS_PER_RESOURCE", 1)
    assert edit(cluster, (BROKER, "1"), ("b", SET, "2")) == (0, None), "what is there already stays and may change"


def test_the_resources_with_configs_are_bounded_and_topics_do_not_count(
    cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        cluster.create(name)
        set_configs(cluster, (TOPIC, name), {"flush.ms": "5"})
    monkeypatch.setattr(config_changes, "MAX_RESOURCES", 2)  # the cluster-wide default is one
    set_configs(cluster, (GROUP, "first"), {"consumer.session.timeout.ms": "50000"})
    code, _ = edit(cluster, (GROUP, "second"), ("consumer.session.timeout.ms", SET, "50000"))
    assert code == ErrorCode.POLICY_VIOLATION
    assert edit(cluster, (GROUP, "first"), ("consumer.heartbeat.interval.ms", SET, "5001")) == (0, None)
    cluster.create("d")
    set_configs(cluster, (TOPIC, "d"), {"flush.ms": "6"})


def test_no_value_grows_beyond_what_a_record_holds(cluster: DrivenCluster) -> None:
    cluster.create("t")
    name = "follower.replication.throttled.replicas"
    set_configs(cluster, (TOPIC, "t"), {name: ",".join(f"{number:05}:1" for number in range(4095))})
    refusal = (
        ErrorCode.INVALID_CONFIG,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    )
    assert edit(cluster, (TOPIC, "t"), (name, APPEND, "00001:22")) == refusal
    assert edit(cluster, (TOPIC, "t"), (name, APPEND, "1:2")) == (0, None)


# ListConfigResources


def test_resources_are_listed_by_type_and_fenced_brokers_among_them(cluster: DrivenCluster) -> None:
    cluster.create("t")
    set_configs(cluster, (GROUP, "g"), {"consumer.session.timeout.ms": "50000"})
    set_configs(cluster, (CLIENT_METRICS, "m2"), {"interval.ms": "500"})
    set_configs(cluster, (CLIENT_METRICS, "m1"), {"interval.ms": "500"})
    cluster.lose(3)
    brokers = [(BROKER, "1"), (BROKER, "2"), (BROKER, "3")]
    loggers = [(LOGGER, name) for _, name in brokers]
    subscriptions = [(CLIENT_METRICS, "m1"), (CLIENT_METRICS, "m2")]
    everything = [(GROUP, "g"), *subscriptions, *loggers, *brokers, (TOPIC, "t")]
    assert listed(cluster) == (0, everything)
    assert listed(cluster, TOPIC, GROUP, TOPIC) == (0, [(GROUP, "g"), (TOPIC, "t")])
    assert listed(cluster, version=0) == (0, subscriptions)
    for unknown in (0, 1, 3, 77, -1):
        assert listed(cluster, TOPIC, unknown) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_a_group_is_listed_while_it_has_a_config(cluster: DrivenCluster) -> None:
    set_configs(cluster, (GROUP, "g"), {"consumer.session.timeout.ms": "50000"})
    assert listed(cluster, GROUP) == (0, [(GROUP, "g")])
    assert edit(cluster, (GROUP, "g"), ("consumer.session.timeout.ms", DELETE, None)) == (0, None)
    assert listed(cluster, GROUP) == (0, [])


# Other cases


@pytest.mark.parametrize("name", ["", " ", "ключ", "a\0b", "\N{SNOWMAN}" * 10_000, CONFIG_OF_NOBODY, "x" * 32_767])
@pytest.mark.parametrize("broker_id", [1, CONTROLLER])
def test_odd_names_and_values_go_through_the_log_or_are_refused(
    cluster: DrivenCluster, name: str, broker_id: int | None
) -> None:
    value = name[:5] + "\n=,\\"
    assert edit(cluster, (BROKER, "1"), (name, SET, value), broker_id=broker_id) == (0, None)
    assert cluster.image.config(BROKER, "1") == {name: value}
    cluster.create("t")
    for resource in ((TOPIC, "t"), (GROUP, "g"), (CLIENT_METRICS, "m")):
        code, message = edit(cluster, resource, (name, SET, value), broker_id=broker_id)
        assert code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
        assert message is not None
    cluster.restart()
    assert cluster.image.config(BROKER, "1") == {name: value}


def test_an_operation_that_does_not_exist_is_refused_for_that_resource(cluster: DrivenCluster) -> None:
    cluster.create("t")
    for broker_id in (1, CONTROLLER):
        for resource in ((TOPIC, "t"), (GROUP, "g"), (CLIENT_METRICS, "m"), (BROKER, ""), (BROKER, "1")):
            answer = edit(cluster, resource, ("flush.ms", 4, "5"), broker_id=broker_id)
            assert answer == (ErrorCode.INVALID_REQUEST, "Unknown operations type 4")


def test_what_a_broker_cannot_use_does_not_keep_it_from_taking_other_configs(cluster: DrivenCluster) -> None:
    unusable = {"background.threads": "many", "node.id": "7", "ssl.key.password": "x", "no.such": "y"}
    set_configs(cluster, (BROKER, "1"), unusable, broker_id=CONTROLLER)
    set_configs(cluster, (BROKER, ""), {"listeners": "x"}, broker_id=CONTROLLER)
    for name in ("1", ""):
        assert edit(cluster, (BROKER, name), ("log.retention.ms", SET, "5")) == (0, None)
    code, _ = edit(cluster, (BROKER, "1"), ("background.threads", SET, "many"))
    assert code == ErrorCode.INVALID_REQUEST
    assert described(cluster, (BROKER, "1"), "background.threads")["background.threads"][:2] == ("10", DEFAULT)
    answer = cluster.ask(replacing([((BROKER, "1"), {"background.threads": "11"})]))
    assert [result.error_code for result in answer.responses] == [0]
    assert cluster.image.config(BROKER, "1") == {"background.threads": "11"}


def test_a_broker_does_not_say_that_it_listens_where_it_does_not(cluster: DrivenCluster) -> None:
    present, _, _ = described(cluster, (BROKER, "1"), "listeners")["listeners"]
    assert present is not None
    assert edit(cluster, (BROKER, "1"), ("listeners", SET, present)) == (0, None)
    refusal = edit(cluster, (BROKER, "1"), ("listeners", SET, "PLAINTEXT://127.0.0.1:1"))
    assert refusal == (ErrorCode.INVALID_REQUEST, "The server's own options decide where this broker listens.")
    elsewhere = edit(cluster, (BROKER, "1"), ("listeners", SET, "EXTRA://127.0.0.1:1"))
    assert elsewhere[0] == ErrorCode.INVALID_REQUEST


def test_a_password_for_a_listener_is_kept_and_never_told(cluster: DrivenCluster) -> None:
    name = "listener.name.plaintext.ssl.key.password"
    set_configs(cluster, (BROKER, "1"), {name: "hush-hush", "listener.name.plaintext.max.connections": "7"})
    reported = described(cluster, (BROKER, "1"))
    assert reported[name] == (None, DYNAMIC_BROKER, [(name, None, DYNAMIC_BROKER)])
    assert reported["listener.name.plaintext.max.connections"] == (
        "7",
        DYNAMIC_BROKER,
        [("listener.name.plaintext.max.connections", "7", DYNAMIC_BROKER), ("max.connections", "2147483647", DEFAULT)],
    )


def test_the_resources_with_configs_are_bounded_where_no_topic_has_any(
    cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_changes, "MAX_RESOURCES", 2)  # the cluster-wide default is one
    codes = [
        edit(cluster, (GROUP, name), ("consumer.session.timeout.ms", SET, "50000"))[0]
        for name in ("first", "second", "first")
    ]
    assert codes == [0, ErrorCode.POLICY_VIOLATION, 0]


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("1", 0, None),
        ("3000", 0, None),
        ("0", ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 0 found."),
        ("9", ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 9 found."),
        ("-1", ErrorCode.INVALID_REQUEST, "Invalid negative broker ID."),
        ("one", ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."),
    ],
)
def test_configs_are_set_on_nodes_that_there_are_and_the_controller_is_one(
    cluster: DrivenCluster, name: str, code: int, text: str | None
) -> None:
    assert edit(cluster, (BROKER, name), ("log.cleaner.threads", SET, "2"), broker_id=CONTROLLER) == (code, text)
