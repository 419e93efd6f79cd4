"""Alterations of configs with the answers of a real broker and controller, and the records that they wrote."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from klamm.protocol.fields import Message
from klamm.protocol.messages.configs import alter_configs, incremental_alter_configs
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord
from tests.controller.handlers.cluster import DrivenCluster

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "configs"
RECORDED = [json.loads(line) for line in (GOLDEN / "alterations.jsonl").read_text(encoding="utf-8").splitlines()]
VALUES = [json.loads(line) for line in (GOLDEN / "broker_values.jsonl").read_text(encoding="utf-8").splitlines()]
CONTROLLERS_LISTENER = None
# The recorded node 1 was broker and controller in one.
NODE_OF_CONTROLLER = {"1": "3000"}


def recorded_cluster() -> DrivenCluster:
    cluster = DrivenCluster(2, profile="kafka", racks=("r1", "r2"))
    for name in ("t1", "t2"):
        assert cluster.create(name).error_code == 0
    return cluster


def request_of(step: Mapping[str, Any]) -> Message:
    if step["replace"]:
        return alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in edits],
                )
                for kind, name, edits in step["resources"]
            ],
            validate_only=step["validate_only"],
        )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in edits
                ],
            )
            for kind, name, edits in step["resources"]
        ],
        validate_only=step["validate_only"],
    )


def shown(record: Message) -> list[Any]:
    if isinstance(record, ClearElrRecord):
        return ["ClearElrRecord", record.topic_name]
    assert isinstance(record, ConfigRecord)
    return [record.resource_type, record.resource_name, record.name, record.value]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["about"])
def test_answers_and_records_are_the_recorded_ones(recorded: dict[str, Any]) -> None:
    cluster = recorded_cluster()
    for step in recorded["steps"]:
        with cluster.writing() as written:
            answer = cluster.ask(request_of(step), broker_id=step["asked"])
        results = [[r.resource_type, r.resource_name, r.error_code, r.error_message] for r in answer.responses]
        wanted = step["results"]
        if step["asked"] is CONTROLLERS_LISTENER:
            results, wanted = sorted(results, key=repr), sorted(wanted, key=repr)
        assert results == wanted, step
        assert [shown(record) for record in written] == step["records"], step
    assert cluster.replayed_facts()


def test_brokers_take_and_refuse_the_values_that_a_real_one_did() -> None:
    cluster = recorded_cluster()
    wrong = []
    for name, key, operation, value, code, message in VALUES:
        step = {"replace": False, "validate_only": True, "resources": [[4, name, [[key, operation, value]]]]}
        [result] = cluster.ask(request_of(step)).responses
        if [result.error_code, result.error_message] != [code, message]:
            wrong.append((name, key, operation, value, message, result.error_message))
    assert wrong == []
