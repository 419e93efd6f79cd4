"""Effective configs compared with the complete lists of a real cluster, and the precedence of levels."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.configs import (
    BrokerConfigs,
    ConfigEntry,
    ConfigSource,
    broker_configs,
    broker_definitions,
    effective_broker_configs,
    effective_client_metrics_configs,
    effective_cluster_configs,
    effective_group_configs,
    effective_topic_configs,
    min_insync_replicas,
    record_rules,
    topic_config_list,
    unclean_leader_election_enabled,
)
from klamm.controller.settings import Settings
from klamm.protocol.codec.messages import encode_message
from klamm.protocol.messages.topics.create_topics import CreatableTopicResult, CreateTopicsResponse

GOLDEN = Path(__file__).parent.parent / "golden"
FACTS = GOLDEN / "behaviour" / "facts"
DESCRIBED = [json.loads(line) for line in (GOLDEN / "configs" / "described.jsonl").read_text("utf-8").splitlines()]

# The recorded cluster: the configs of all its nodes, and the additional ones of node 1.
STATIC = {
    "num.partitions": "3",
    "default.replication.factor": "2",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "leader.imbalance.check.interval.seconds": "3600",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
NODE_1 = {
    "node.id": "1",
    "broker.id": "1",
    "broker.rack": "r1",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@127.0.0.1:38093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listeners": "PLAINTEXT://127.0.0.1:38092,CONTROLLER://127.0.0.1:38093",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:38092",
    "log.dirs": "$dir",
}
# A fresh cluster with eligible leader replicas has this set from the start.
DYNAMIC = {(4, ""): {"min.insync.replicas": "1"}}
CLUSTER = BrokerConfigs(
    dynamic_default=tuple(DYNAMIC[4, ""].items()), static=tuple(STATIC.items()) + tuple(NODE_1.items())
)


def facts(name: str) -> list[dict[str, Any]]:
    configs: list[dict[str, Any]] = json.loads((FACTS / f"{name}.json").read_text(encoding="utf-8"))["configs"]
    return configs


def shown(entries: Iterable[ConfigEntry]) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "value": entry.value,
            "read_only": entry.read_only,
            "config_source": entry.source,
            "is_sensitive": entry.sensitive,
            "synonyms": [synonym._asdict() for synonym in entry.synonyms],
            "config_type": entry.config_type,
        }
        for entry in entries
    ]


def test_the_configs_of_a_topic_are_those_of_kafka() -> None:
    assert shown(effective_topic_configs(CLUSTER, {})) == facts("topic_configs")


def test_the_configs_of_a_broker_are_those_of_kafka_and_three_of_ours() -> None:
    ours = {config["name"]: config for config in shown(effective_broker_configs(CLUSTER))}
    own = {name for name, definition in broker_definitions().items() if definition.is_own}
    assert own == {"enable.under.replicated.topic.creation", "max.broker.partitions", "max.partitions"}
    for name in own:
        assert ours.pop(name)["config_source"] == ConfigSource.DEFAULT
    recorded = {config["name"]: config for config in facts("broker_configs")}
    # The recording replaced the machine's directory by `$dir`, also here, where the value is the table's default.
    for places in (ours["log.dir"], recorded["log.dir"]):
        places["value"] = places["synonyms"][0]["value"] = "$dir"
    assert ours == recorded


def test_the_cluster_wide_defaults_are_those_of_kafka() -> None:
    assert shown(effective_cluster_configs(CLUSTER)) == facts("cluster_default_configs")


def test_the_configs_of_a_group_are_those_of_kafka() -> None:
    assert shown(effective_group_configs(CLUSTER, {})) == facts("group_configs")


def test_the_configs_of_client_metrics_are_those_of_kafka() -> None:
    assert shown(effective_client_metrics_configs({})) == facts("client_metrics_configs")


@pytest.mark.parametrize("recorded", DESCRIBED, ids=lambda recorded: recorded["about"])
def test_created_topics_tell_their_configs_as_recorded(recorded: dict[str, Any]) -> None:
    dynamic = {(kind, name): configs for kind, name, configs in recorded["dynamic_configs"]}
    settings = Settings(static_configs=recorded["static_configs"])
    ours = topic_config_list(broker_configs(dynamic, settings, broker_id=1), {"segment.bytes": " 2000000 "})
    assert [
        {
            "name": config.name,
            "value": config.value,
            "read_only": config.read_only,
            "config_source": config.config_source,
            "is_sensitive": config.is_sensitive,
        }
        for config in ours
    ] == recorded["created_topic_configs"]


def test_a_topic_that_sets_nothing_shares_its_list_until_a_broker_config_changes() -> None:
    settings = Settings()
    first = topic_config_list(broker_configs(DYNAMIC, settings), {})
    assert topic_config_list(broker_configs(DYNAMIC, settings), {}) is first
    changed = topic_config_list(broker_configs({(4, ""): {"log.retention.ms": "7"}}, settings), {})
    assert {config.name: config.value for config in changed}["retention.ms"] == "7"
    assert {config.name: config.value for config in first}["retention.ms"] == "604800000"


def test_the_shared_list_has_the_bytes_of_its_messages_whatever_was_encoded_before() -> None:
    dynamic = {(4, ""): {"log.retention.ms": "7", "sasl.jaas.config": "secret"}}
    for configs in (broker_configs({}, Settings()), broker_configs(dynamic, Settings())) * 2:
        shared = topic_config_list(configs, {})
        alone = [CreatableTopicResult(name="t", configs=tuple(shared))] * 2
        for version in (5, 7):
            together = [CreatableTopicResult(name="t", configs=shared)] * 2
            answers = [CreateTopicsResponse(topics=topics) for topics in (together, alone)]
            first, second = (encode_message(answer, version, flexible=True) for answer in answers)
            assert first == second
            assert len(tuple(shared)) > 30


LEVELS = ("table", "static", "static of the broker", "cluster-wide", "broker", "topic")


@given(st.sets(st.sampled_from(LEVELS[1:])), st.permutations(range(1, 100)))
def test_the_strongest_level_counts(set_levels: set[str], numbers: list[int]) -> None:
    value = dict(zip(LEVELS, numbers, strict=False))
    name = "min.insync.replicas"

    def where(level: str) -> dict[str, str]:
        return {name: str(value[level])} if level in set_levels else {}

    settings = Settings(static_configs=where("static"), broker_static_configs={1: where("static of the broker")})
    dynamic = {(4, ""): where("cluster-wide"), (4, "1"): where("broker"), (2, "t"): where("topic")}

    def expected(*levels: str) -> int:
        return next((value[level] for level in reversed(levels) if level in set_levels), 1)

    assert min_insync_replicas(dynamic, settings, "t", broker_id=1) == expected(*LEVELS)
    assert min_insync_replicas(dynamic, settings, "t") == expected("static", "cluster-wide", "topic")
    assert min_insync_replicas(dynamic, settings, None) == expected("static", "cluster-wide")
    assert min_insync_replicas(dynamic, settings, "other", broker_id=2) == expected("static", "cluster-wide")


@given(
    st.dictionaries(st.sampled_from(["log.retention.ms", "no.such"]), st.just("5")),
    st.dictionaries(st.sampled_from(["log.retention.ms", "min.insync.replicas", "ssl.key.password"]), st.just("6")),
    st.dictionaries(st.sampled_from(["log.retention.hours", "log.retention.minutes", "num.partitions"]), st.just("7")),
)
def test_every_broker_entry_follows_from_its_synonyms(
    own: dict[str, str], default: dict[str, str], static: dict[str, str]
) -> None:
    configs = broker_configs({(4, "1"): own, (4, ""): default}, Settings(static_configs=static), 1)
    entries = effective_broker_configs(configs)
    assert {entry.name for entry in entries} == broker_definitions().keys() | own.keys() | default.keys()
    for entry in entries:
        sources = [synonym.source for synonym in entry.synonyms]
        assert sources == sorted(sources)
        assert entry.source == (sources[0] if sources else ConfigSource.DEFAULT)
        assert not entry.synonyms or entry.synonyms[0].name == entry.name
        assert not entry.sensitive or (entry.value is None and not any(said.value for said in entry.synonyms))


def test_a_topic_value_that_the_log_should_not_hold_counts_as_unset() -> None:
    dynamic = {
        (2, "t"): {"min.insync.replicas": "many", "unclean.leader.election.enable": "perhaps"},
        (4, ""): {"min.insync.replicas": "2", "unclean.leader.election.enable": "never"},
    }
    assert min_insync_replicas(dynamic, Settings(), "t") == 2
    assert unclean_leader_election_enabled(dynamic, Settings(), "t") is False
    shown_value = {
        entry.name: entry.value for entry in effective_topic_configs(broker_configs(dynamic), dynamic[2, "t"])
    }
    assert shown_value["min.insync.replicas"] == "many"


def test_unclean_elections_are_switched_at_every_level() -> None:
    name = "unclean.leader.election.enable"
    static = Settings(static_configs={name: "TRUE"})
    assert unclean_leader_election_enabled({}, Settings(), "t") is False
    assert unclean_leader_election_enabled({}, static, "t") is True
    assert unclean_leader_election_enabled({(4, ""): {name: "false"}}, static, "t") is False
    assert unclean_leader_election_enabled({(4, ""): {name: "false"}, (2, "t"): {name: " true"}}, static, "t") is True


def test_a_config_for_one_listener_is_shown_as_what_it_is_for_all() -> None:
    name, of_mechanism = "listener.name.external.num.network.threads", "listener.name.external.plain.sasl.jaas.config"
    unknown = "listener.name.external.no.such"
    configs = broker_configs(
        {(4, "1"): {name: " 4 ", of_mechanism: "hush", unknown: "hush"}, (4, ""): {"num.network.threads": "5"}},
        Settings(static_configs={"num.network.threads": "6"}),
        broker_id=1,
    )
    shown_by_name = {entry.name: entry for entry in effective_broker_configs(configs)}
    entry = shown_by_name[name]
    assert (entry.value, entry.config_type.name, entry.read_only, entry.sensitive) == ("4", "INT", True, False)
    assert [(said.name, said.value, said.source) for said in entry.synonyms] == [
        (name, " 4 ", ConfigSource.DYNAMIC_BROKER),
        ("num.network.threads", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("num.network.threads", "6", ConfigSource.STATIC_BROKER),
        ("num.network.threads", "3", ConfigSource.DEFAULT),
    ]
    assert (shown_by_name[of_mechanism].value, shown_by_name[of_mechanism].config_type.name) == (None, "PASSWORD")
    assert (shown_by_name[unknown].value, shown_by_name[unknown].config_type.name) == (None, "UNKNOWN")


def test_rules_for_records_are_kept_once_for_topics_that_differ_in_nothing_that_decides() -> None:
    """Otherwise configs that clients set and remove again would fill the cache."""
    own = {"max.message.bytes": "5000", "cleanup.policy": "compact", "min.insync.replicas": "2"}
    configs = {
        (2, "a"): {"retention.ms": "7"} | own,
        (2, "b"): own | {"leader.replication.throttled.replicas": "0:1," * 5000},
        (2, "c"): own | {"message.timestamp.type": "LogAppendTime"},
        (2, "d"): own | {"message.timestamp.before.max.ms": "9"},
        (2, "e"): own | {"message.timestamp.after.max.ms": "9"},
    }
    first, second, *others = (record_rules(configs, Settings(), name) for _, name in configs)
    assert first is second
    assert (first.max_message_bytes, first.is_compacted, first.deletes_records) == (5000, True, False)
    assert (first.min_insync_replicas, first.log_append_time) == (2, False)
    assert len({first, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    ("policies", "is_compacted", "deletes_records"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ("delete,compact", True, True),
        ("", False, False),
    ],
)
def test_records_need_keys_or_may_be_deleted_as_each_cleanup_policy_says(
    policies: str, is_compacted: bool, deletes_records: bool
) -> None:
    rules = record_rules({(2, "t"): {"cleanup.policy": policies}}, Settings(), "t")
    assert (rules.is_compacted, rules.deletes_records) == (is_compacted, deletes_records)
