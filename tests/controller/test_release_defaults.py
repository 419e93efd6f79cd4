"""Configs have the defaults of the release as which brokers act, with Kafka's source for defaults."""

import csv
from pathlib import Path

import pytest

import klamm.controller.config_definitions
from klamm.controller.config_definitions.release_defaults import release_defaults
from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.config_definitions.values import typed_value
from klamm.controller.configs import (
    ConfigSource,
    broker_configs,
    effective_broker_configs,
    effective_topic_configs,
    record_rules,
)
from klamm.controller.releases import RELEASES, Emulation
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.controller.handlers.cluster import DrivenCluster

TABLE = Path(klamm.controller.config_definitions.__file__).with_name("release_defaults.tsv")


def settings(name: str, **configs: str) -> Settings:
    return Settings(emulation=Emulation(RELEASES[name]), static_configs=configs)


def test_every_default_is_a_value_of_its_config_and_of_known_releases() -> None:
    with TABLE.open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    seen = set()
    for row in rows:
        definition = broker_definitions()[row["name"]]
        assert not isinstance(typed_value(definition, row["default"]), ApiError), row
        assert row["default"] != definition.default
        for release in row["releases"].split():
            assert release in RELEASES
            assert (row["name"], release) not in seen
            seen.add((row["name"], release))
    assert release_defaults("4.3") == {}


@pytest.mark.parametrize(
    ("release", "name", "value"),
    [
        ("2.1", "message.max.bytes", "1000012"),
        ("2.8", "message.max.bytes", "1048588"),
        ("2.1", "group.max.session.timeout.ms", "300000"),
        ("2.4", "group.max.session.timeout.ms", "1800000"),
        ("3.9", "group.coordinator.rebalance.protocols", "classic"),
        ("4.0", "group.coordinator.rebalance.protocols", "classic,consumer"),
        ("4.1", "group.coordinator.append.linger.ms", "5"),
        ("3.9", "metric.reporters", ""),
        ("4.2", "num.recovery.threads.per.data.dir", "2"),
    ],
)
def test_defaults_of_releases(release: str, name: str, value: str) -> None:
    inherited = broker_configs({}, settings(release), 1)
    (entry,) = [one for one in effective_broker_configs(inherited) if one.name == name]
    assert (entry.value, entry.source) == (value, ConfigSource.DEFAULT)
    assert [(one.name, one.source) for one in entry.synonyms] == [(name, ConfigSource.DEFAULT)]
    assert settings(release).static_text(name) == value or release in ("2.4", "2.8", "4.2")


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


def test_topics_inherit_them() -> None:
    old = settings("2.4")
    entries = {one.name: one for one in effective_topic_configs(broker_configs({}, old, 1), {})}
    assert (entries["max.message.bytes"].value, entries["max.message.bytes"].source) == (
        "1000012",
        ConfigSource.DEFAULT,
    )
    rules = record_rules({}, old, "t", 1)
    assert (rules.max_message_bytes, rules.timestamp_after_max_ms) == (1000012, 2**63 - 1)
    newest = record_rules({}, Settings(), "t", 1)
    assert (newest.max_message_bytes, newest.timestamp_after_max_ms) == (1048588, 3_600_000)


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
