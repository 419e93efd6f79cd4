"""Brokers have the configs of the release as which they act: its names, types, defaults and ranges."""

import csv
from pathlib import Path

import pytest

import klamm.controller.config_definitions
from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.release_defaults import release_defaults
from klamm.controller.config_definitions.table import (
    ConfigType,
    broker_definitions,
    created_topic_definitions,
    group_definitions,
    topic_definitions,
)
from klamm.controller.config_definitions.values import typed_value
from klamm.controller.configs import (
    BrokerConfigs,
    ConfigSource,
    broker_configs,
    down_conversion_enabled,
    effective_broker_configs,
    effective_group_configs,
    effective_topic_configs,
    group_values,
    record_rules,
    resource_types,
    topic_config_list,
    validate_broker_configs,
    validate_topic_configs,
)
from klamm.controller.releases import RELEASES, Emulation
from klamm.controller.settings import Settings, SettingsError
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.controller.handlers.cluster import DrivenCluster

TABLE = Path(klamm.controller.config_definitions.__file__).with_name("release_configs.tsv")
NO_LIMIT = 2**63 - 1
ASSIGNORS = "org.apache.kafka.coordinator.group.assignor"


def settings(name: str, **configs: str) -> Settings:
    return Settings(emulation=Emulation(RELEASES[name]), static_configs=configs)


def test_every_row_is_about_known_releases_and_no_two_about_the_same() -> None:
    with TABLE.open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    seen = set()
    order = list(RELEASES)
    for row in rows:
        first, _, last = row["releases"].partition("-")
        span = order[order.index(first) : order.index(last or first) + 1]
        assert span
        assert NEWEST not in span
        for release in span:
            key = (row["scope"], row["name"], release)
            assert key not in seen, key
            seen.add(key)


@pytest.mark.parametrize("release", RELEASES)
def test_every_default_is_a_value_of_its_config(release: str) -> None:
    for table in (broker_definitions(release), topic_definitions(release), group_definitions(release)):
        for name, definition in table.items():
            assert definition.name == name
            if definition.default is not None and definition.type is not ConfigType.PASSWORD:
                value = typed_value(definition, definition.default)
                assert not isinstance(value, ApiError) or name == "process.roles", (release, name, value)


# The ConfigDefs in the jars have so many configs that are not internal; three more are Klamm's own.
NUMBERS = {
    "2.1": (184, 25, 0), "2.4": (192, 26, 0), "2.8": (218, 26, 0), "3.0": (232, 26, 0), "3.3": (248, 26, 0),
    "3.6": (270, 31, 0), "3.9": (314, 36, 0), "4.0": (289, 33, 6), "4.1": (316, 33, 10), "4.2": (320, 33, 11),
    "4.3": (340, 33, 17),
}  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_the_numbers_of_configs_are_those_of_the_jars(release: str) -> None:
    brokers, topics, groups = NUMBERS[release]
    assert sum(not one.is_own for one in broker_definitions(release).values()) == brokers
    assert (len(topic_definitions(release)), len(group_definitions(release))) == (topics, groups)
    assert list(broker_definitions(release)) == sorted(broker_definitions(release))


@pytest.mark.parametrize(
    ("release", "name", "value"),
    [
        ("2.1", "message.max.bytes", "1000012"),
        ("2.8", "message.max.bytes", "1048588"),
        ("2.1", "group.max.session.timeout.ms", "300000"),
        ("2.4", "group.max.session.timeout.ms", "1800000"),
        ("2.4", "ssl.enabled.protocols", "TLSv1.2,TLSv1.1,TLSv1"),
        ("2.8", "ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
        ("3.3", "remote.log.manager.thread.pool.size", None),
        ("3.6", "remote.log.manager.thread.pool.size", "10"),
        ("3.9", "group.coordinator.rebalance.protocols", "classic"),
        ("4.0", "group.coordinator.rebalance.protocols", "classic,consumer"),
        (
            "3.9",
            "group.consumer.assignors",
            f"{ASSIGNORS}.UniformAssignor,{ASSIGNORS}.RangeAssignor",
        ),
        ("4.1", "group.coordinator.append.linger.ms", "5"),
        ("3.9", "metric.reporters", ""),
        ("3.9", "zookeeper.session.timeout.ms", "18000"),
        ("2.4", "zookeeper.session.timeout.ms", "6000"),
        ("4.0", "zookeeper.session.timeout.ms", None),
        ("4.2", "num.recovery.threads.per.data.dir", "2"),
        ("4.2", "cordoned.log.dirs", None),
        ("4.3", "cordoned.log.dirs", ""),
        ("2.1", "max.partitions", str(NO_LIMIT)),
    ],
)
def test_defaults_of_releases(release: str, name: str, value: str | None) -> None:
    """None: the release does not have the config."""
    entries = {one.name: one for one in effective_broker_configs(broker_configs({}, settings(release), 1))}
    if value is None:
        assert name not in entries
        return
    entry = entries[name]
    assert (entry.value, entry.source) == (value, ConfigSource.DEFAULT)
    assert [(one.name, one.source) for one in entry.synonyms] == [(name, ConfigSource.DEFAULT)]


@pytest.mark.parametrize(
    ("release", "name", "value"),
    [
        ("3.9", "log.message.timestamp.after.max.ms", str(NO_LIMIT)),
        ("2.1", "log.message.timestamp.after.max.ms", str(NO_LIMIT)),
        ("4.0", "log.message.timestamp.after.max.ms", "3600000"),
        ("3.3", "producer.id.expiration.ms", "604800000"),
        ("3.6", "producer.id.expiration.ms", "86400000"),
        ("2.4", "replica.lag.time.max.ms", "10000"),
        ("4.2", "share.coordinator.append.linger.ms", "-1"),
    ],
)
def test_brokers_behave_by_the_defaults_of_their_release(release: str, name: str, value: str) -> None:
    assert settings(release).static_text(name) == value


def test_a_release_may_have_another_type_range_and_way_of_update() -> None:
    assert broker_definitions("4.1")["log.dirs"].type is ConfigType.STRING
    assert broker_definitions("4.2")["log.dirs"].type is ConfigType.LIST
    assert not broker_definitions("3.9")["advertised.listeners"].read_only
    assert broker_definitions("4.0")["advertised.listeners"].read_only
    assert validate_topic_configs({"segment.bytes": "14"}, release="4.0") is None
    for release, text in (("4.0", "13"), ("4.1", "1048575")):
        refusal = validate_topic_configs({"segment.bytes": text}, release=release)
        assert refusal is not None, release


def test_newest_release_is_the_table_itself() -> None:
    assert release_defaults("4.3") == {}
    assert broker_configs({}, settings("4.3"), 1) == BrokerConfigs()


def test_a_config_that_is_set_is_stronger() -> None:
    given = settings("2.1", **{"message.max.bytes": "77", "replica.lag.time.max.ms": "5"})
    inherited = broker_configs({(4, ""): {"message.max.bytes": "78"}}, given, 1)
    entries = {one.name: one for one in effective_broker_configs(inherited)}
    lag = entries["replica.lag.time.max.ms"]
    assert [(one.value, one.source) for one in lag.synonyms] == [
        ("5", ConfigSource.STATIC_BROKER), ("10000", ConfigSource.DEFAULT)
    ]  # fmt: skip
    assert [one.value for one in entries["message.max.bytes"].synonyms] == ["78", "77", "1000012"]
    assert given.static_int("replica.lag.time.max.ms") == 5


def test_to_a_release_the_names_of_later_releases_are_unknown() -> None:
    inherited = broker_configs({(4, "1"): {"cordoned.log.dirs": "/a"}}, settings("4.2"), 1)
    entry = next(one for one in effective_broker_configs(inherited) if one.name == "cordoned.log.dirs")
    assert (entry.value, entry.sensitive, entry.read_only, entry.config_type) == (None, True, True, ConfigType.UNKNOWN)
    refusal = validate_topic_configs({"compression.gzip.level": "3"}, release="3.3")
    assert refusal == ApiError(ErrorCode.INVALID_CONFIG, "Unknown topic config name: compression.gzip.level")
    assert validate_topic_configs({"compression.gzip.level": "3"}, release="3.9") is None
    assert validate_broker_configs({"cordoned.log.dirs": "/a"}, BrokerConfigs(), for_one_broker=True) is not None
    old = BrokerConfigs(release="3.9")
    assert validate_broker_configs({"cordoned.log.dirs": "/a"}, old, for_one_broker=True) is None


def test_names_that_4_0_removed_are_known_before() -> None:
    removed = {"message.downconversion.enable": "false", "message.format.version": "2.8.1"}
    assert validate_topic_configs(removed, release="3.9") is None
    assert validate_topic_configs(removed, release="4.0") is not None
    refusal = validate_topic_configs({"message.format.version": "7.7"}, release="3.9")
    assert refusal is not None
    assert refusal.message == (
        "Invalid value 7.7 for configuration message.format.version: Version 7.7 is not a valid version"
    )
    assert validate_topic_configs({"message.format.version": "0.10.0"}, release="2.1") is None
    assert validate_topic_configs({"message.format.version": "2.2"}, release="2.1") is not None
    old = BrokerConfigs(release="3.9")
    for name, text, code in (
        ("zookeeper.connect", "a", ErrorCode.INVALID_REQUEST),
        ("log.message.downconversion.enable", "perhaps", ErrorCode.INVALID_REQUEST),
        ("log.message.downconversion.enable", "false", None),
    ):
        refused = validate_broker_configs({name: text}, old, for_one_broker=True)
        assert (refused and refused.code) == code, (name, text)


def test_topics_inherit_the_defaults() -> None:
    old = settings("2.4")
    inherited = broker_configs({}, old, 1)
    entries = {one.name: one for one in effective_topic_configs(inherited, {})}
    assert (entries["max.message.bytes"].value, entries["max.message.bytes"].source) == (
        "1000012",
        ConfigSource.DEFAULT,
    )
    assert list(entries) == list(topic_definitions("2.4"))
    own = {one.name: one for one in effective_topic_configs(inherited, {"message.downconversion.enable": "false"})}
    assert own["message.downconversion.enable"].value == "false"
    assert [one.name for one in own["message.downconversion.enable"].synonyms] == [
        "message.downconversion.enable",
        "log.message.downconversion.enable",
    ]
    rules = record_rules({}, old, "t", 1)
    assert (rules.max_message_bytes, rules.timestamp_after_max_ms) == (1000012, NO_LIMIT)
    newest = record_rules({}, Settings(), "t", 1)
    assert (newest.max_message_bytes, newest.timestamp_after_max_ms) == (1048588, 3_600_000)


def test_answers_of_create_topics_list_internal_configs_in_3_0_and_3_3() -> None:
    for release, number in (("2.8", 26), ("3.0", 29), ("3.3", 29), ("3.6", 31)):
        listed = [one.name for one in topic_config_list(broker_configs({}, settings(release), 1), {})]
        assert listed == sorted(created_topic_definitions(release))
        assert len(listed) == number


def test_the_former_config_of_timestamps_bounds_both_sides() -> None:
    configs = {(2, "t"): {"message.timestamp.difference.max.ms": "7"}}
    rules = record_rules(configs, settings("3.3"), "t", 1)
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (7, 7)
    configs[2, "t"]["message.timestamp.before.max.ms"] = "5"
    rules = record_rules(configs, settings("3.6"), "t", 1)
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (5, 7)
    rules = record_rules({(2, "t"): {"message.timestamp.after.max.ms": "4"}}, settings("3.6"), "t", 1)
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (NO_LIMIT, 4)
    of_all = {(4, ""): {"log.message.timestamp.difference.max.ms": "9"}}
    assert record_rules(of_all, settings("3.9"), "t", 1).timestamp_after_max_ms == 9
    assert record_rules(configs, settings("4.0"), "t", 1).timestamp_after_max_ms == 3_600_000
    mixed = Settings(emulation=Emulation(by_listener={"OLD": RELEASES["2.8"]}))
    former = {(2, "t"): {"message.timestamp.difference.max.ms": "7"}}
    assert record_rules(former, mixed, "t", 1).timestamp_before_max_ms == 7


def test_down_conversion_is_allowed_unless_a_config_forbids_it() -> None:
    configs = {(2, "t"): {"message.downconversion.enable": "false"}}
    assert not down_conversion_enabled(configs, settings("3.9"), "t", 1)
    assert down_conversion_enabled(configs, settings("3.9"), "other", 1)
    assert down_conversion_enabled(configs, settings("4.0"), "t", 1)
    of_broker = {(4, "1"): {"log.message.downconversion.enable": "false"}}
    assert not down_conversion_enabled(of_broker, settings("2.1"), "t", 1)
    assert down_conversion_enabled(of_broker, settings("2.1"), "t", 2)


def test_former_configs_of_the_start_are_inherited_by_topics() -> None:
    name, down = "log.message.timestamp.difference.max.ms", "log.message.downconversion.enable"
    given = Settings(
        emulation=Emulation(RELEASES["3.9"]),
        static_configs={name: "9"},
        broker_static_configs={2: {name: "8", down: "false"}},
    )
    rules = [record_rules({}, given, "t", broker_id) for broker_id in (1, 2)]
    assert [(one.timestamp_before_max_ms, one.timestamp_after_max_ms) for one in rules] == [(9, 9), (8, 8)]
    assert [down_conversion_enabled({}, given, "t", broker_id) for broker_id in (1, 2)] == [True, False]
    dynamic = {(4, ""): {name: "7", down: "true"}}
    assert record_rules(dynamic, given, "t", 2).timestamp_after_max_ms == 7
    assert down_conversion_enabled(dynamic, given, "t", 2)
    shown = {one.name: one for one in effective_broker_configs(broker_configs({}, given, 2))}
    assert (shown[name].value, shown[name].source) == ("8", ConfigSource.STATIC_BROKER)
    of_topic = {one.name: one for one in effective_topic_configs(broker_configs({}, given, 2), {})}
    assert of_topic["message.downconversion.enable"].value == "false"
    for newest in ("4.0", "4.3"):
        with pytest.raises(SettingsError, match="no broker config"):
            settings(newest, **{down: "false"})


def test_groups_have_the_configs_of_the_release_and_behave_by_all() -> None:
    of_4_0 = broker_configs({}, settings("4.0"), 1)
    shown = {one.name: one.value for one in effective_group_configs(of_4_0, {})}
    assert "streams.num.standby.replicas" not in shown
    for release, of_broker in (("4.2", "50000"), ("4.3", "50000")):
        given = settings(release, **{"group.consumer.session.timeout.ms": of_broker})
        entries = {one.name: one for one in effective_group_configs(broker_configs({}, given, 1), {})}
        entry = entries["consumer.session.timeout.ms"]
        assert entry.value == of_broker
        first = ("group.consumer.session.timeout.ms", ConfigSource.STATIC_BROKER)
        expected = ("consumer.session.timeout.ms", ConfigSource.DEFAULT) if release == "4.2" else first
        assert (entry.synonyms[0].name, entry.synonyms[0].source) == expected
    values = group_values(of_4_0, {"consumer.session.timeout.ms": " 46000 "})
    assert values["streams.num.standby.replicas"] == "0"
    assert values["consumer.session.timeout.ms"] == "46000"
    assert values["share.partition.max.record.locks"] == "200"
    assert group_values(BrokerConfigs(), {})["share.partition.max.record.locks"] == "2000"


def test_types_of_resources_came_with_releases() -> None:
    assert resource_types("2.1") == {2, 4}
    assert resource_types("2.4") == resource_types("3.6") == {2, 4, 8}
    assert resource_types("3.9") == {2, 4, 8, 16}
    assert resource_types("4.0") == resource_types("4.3") == {2, 4, 8, 16, 32}


@pytest.mark.parametrize(
    ("release", "code"), [("3.9", ErrorCode.UNSUPPORTED_VERSION), ("4.0", ErrorCode.INVALID_REQUEST)]
)
def test_consumer_groups_are_off_until_4_0(release: str, code: ErrorCode) -> None:
    cluster = DrivenCluster(1, emulation=Emulation(RELEASES[release]))
    answer = cluster.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="", member_epoch=5), version=0)
    assert answer.error_code == code
    if release == "3.9":
        (group,) = cluster.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), version=0).groups
        assert group.error_code == code
