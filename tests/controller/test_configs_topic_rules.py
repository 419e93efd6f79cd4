"""The errors of CreateTopics about topic configs: the recorded messages, word for word."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.configs import (
    broker_configs,
    effective_topic_configs,
    topic_definitions,
    validate_topic_configs,
)
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError, ErrorCode

GOLDEN = Path(__file__).parent.parent / "golden" / "configs" / "topic_configs.jsonl"
RECORDED = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
TIERED = Settings(static_configs={"remote.log.storage.system.enable": "true"})


def message_of(refusal: ApiError | None) -> str | None:
    if refusal is None:
        return None
    assert refusal.code is ErrorCode.INVALID_CONFIG
    return refusal.message


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: json.dumps(recorded["configs"])[:80])
def test_configs_stand_or_fall_as_recorded(recorded: dict[str, Any]) -> None:
    pairs = [(name, value) for name, value in recorded["configs"]]
    assert message_of(validate_topic_configs(pairs)) == recorded["error_message"]
    assert recorded["error_code"] == (ErrorCode.INVALID_CONFIG if recorded["error_message"] else ErrorCode.NONE)


@pytest.mark.parametrize(
    "recorded",
    [recorded for recorded in RECORDED if recorded["described"]],
    ids=lambda recorded: json.dumps(recorded["configs"])[:80],
)
def test_configs_that_stand_are_described_as_recorded(recorded: dict[str, Any]) -> None:
    entries = effective_topic_configs(broker_configs({}), dict(recorded["configs"]))
    assert {entry.name: entry.value for entry in entries if entry.name in recorded["described"]} == recorded[
        "described"
    ]


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([("no.such.key", "1")], "Unknown topic config name: no.such.key"),
        ([("", "1")], "Unknown topic config name: "),
        ([("log.retention.ms", "1")], "Unknown topic config name: log.retention.ms"),
        ([("retention.ms", "soon")], "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
        ([("retention.ms", "")], "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        (
            [("min.insync.replicas", "0")],
            "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
        ),
        (
            [("preallocate", "maybe")],
            "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
        ),
        (
            [("compression.type", "zip")],
            (
                "Invalid value zip for configuration compression.type: "
                "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
            ),
        ),
        (
            [("cleanup.policy", "shred")],
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ([("retention.ms", None)], "Null value not supported for topic configs: retention.ms"),
        (
            [("retention.ms", None), ("segment.ms", None)],
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            [("min.cleanable.dirty.ratio", "1.5")],
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            [("remote.storage.enable", "true")],
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
        (
            [("leader.replication.throttled.replicas", "abc")],
            (
                "Invalid value [abc] for configuration leader.replication.throttled.replicas: "
                "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
                "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            ),
        ),
        (
            [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")],
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            [("segment.bytes", "10")],
            "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            [("compression.gzip.level", "0")],
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        ([("cleanup.policy", "compact,")], "Configuration 'cleanup.policy' values must not be empty."),
        # The first error decides: null, unknown, then Kafka's order of configs, then rules about several configs.
        (
            [("no.such", "1"), ("segment.bytes", "x"), ("flush.ms", None)],
            "Null value not supported for topic configs: flush.ms",
        ),
        ([("segment.bytes", "x"), ("no.such", "1")], "Unknown topic config name: no.such"),
        (
            [("cleanup.policy", "x"), ("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "5")],
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ([("retention.ms", "x"), ("retention.ms", "5")], None),
        ([("cleanup.policy", "")], None),
        ([("cleanup.policy", "delete,delete")], None),
        ([], None),
    ],
)
def test_messages_are_those_of_kafka(configs: list[tuple[str, str | None]], message: str | None) -> None:
    assert message_of(validate_topic_configs(configs)) == message


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, None),
        (
            {"cleanup.policy": "compact"},
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        ),
        ({"cleanup.policy": ""}, None),
        (
            {"local.retention.ms": "50", "retention.ms": "6"},
            (
                "Invalid value 50 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 6"
            ),
        ),
        (
            {"local.retention.ms": "-1", "retention.ms": "6"},
            (
                "Invalid value -1 for configuration local.retention.ms: "
                "Value must not be -1 as retention.ms value is set as 6."
            ),
        ),
        ({"local.retention.ms": "-1", "retention.ms": "-1"}, None),
        ({"local.retention.ms": "-2", "retention.ms": "6"}, None),
        ({"local.retention.ms": "50", "retention.ms": "-1"}, None),
        (
            {"local.retention.bytes": "50", "local.retention.ms": "7000000000"},
            (
                "Invalid value 7000000000 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 604800000"
            ),
        ),
        (
            {"local.retention.ms": "50", "retention.ms": "6", "local.retention.bytes": "50", "retention.bytes": "6"},
            (
                "Invalid value 50 for configuration local.retention.bytes: "
                "Value must not be more than retention.bytes property value: 6"
            ),
        ),
        ({"remote.log.copy.disable": "true"}, None),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "5"},
            (
                "When `remote.log.copy.disable` is set to true, the `local.retention.ms` and `retention.ms` must be "
                "set to the identical value because there will be no more logs copied to the remote storage."
            ),
        ),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "5", "retention.ms": "5"}, None),
        (
            {
                "remote.log.copy.disable": "true",
                "local.retention.bytes": "5",
                "retention.bytes": "6",
                "local.retention.ms": "5",
                "retention.ms": "6",
            },
            (
                "When `remote.log.copy.disable` is set to true, the `local.retention.bytes` and `retention.bytes` must "
                "be set to the identical value because there will be no more logs copied to the remote storage."
            ),
        ),
    ],
)
def test_tiered_topics_are_held_to_the_rules_of_kafka(configs: Mapping[str, str], message: str | None) -> None:
    """Recorded from LogConfig of Apache Kafka 4.3.0, with tiered storage switched on in the broker."""
    assert message_of(validate_topic_configs({"remote.storage.enable": "true", **configs}, {}, TIERED)) == message


def test_what_the_topic_leaves_out_counts_as_the_broker_has_it() -> None:
    settings = Settings(static_configs={"log.cleaner.max.compaction.lag.ms": "100"})
    configs = {"min.compaction.lag.ms": "200"}
    assert validate_topic_configs(configs) is None
    assert (
        message_of(validate_topic_configs(configs, {}, settings))
        == "conflict topic config setting min.compaction.lag.ms (200) > max.compaction.lag.ms (100)"
    )
    cluster_wide = {(4, ""): {"log.cleaner.max.compaction.lag.ms": "300"}}
    assert validate_topic_configs(configs, cluster_wide, settings) is None
    of_broker_1 = cluster_wide | {(4, "1"): {"log.cleaner.max.compaction.lag.ms": "150"}}
    assert validate_topic_configs(configs, of_broker_1, settings, broker_id=2) is None
    assert validate_topic_configs(configs, of_broker_1, settings, broker_id=1) is not None


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_a_refusal_of_the_longest_value_fits_into_a_string(character: str) -> None:
    longest = character * (32_767 // len(character.encode()))
    for configs in ({"retention.ms": longest}, {longest: "1"}, {longest: None}, {"cleanup.policy": longest}):
        message = message_of(validate_topic_configs(configs))
        assert message
        assert len(message.encode()) <= 32_767


@given(
    st.dictionaries(st.one_of(st.sampled_from(sorted(topic_definitions())), st.text(max_size=8)), st.text(max_size=8))
)
def test_any_configs_stand_or_are_refused_with_a_reason(configs: dict[str, str]) -> None:
    refusal = validate_topic_configs(configs)
    if configs.keys() - topic_definitions().keys():
        assert message_of(refusal) is not None
    elif refusal is None:
        alone = [validate_topic_configs({name: value}) for name, value in configs.items()]
        assert alone == [None] * len(configs)
