"""The answers of a real Apache Kafka 4.3 with its StandardAuthorizer to requesters with and without rights, compared
with Klamm's. tests/golden/authorizer/README.md describes the format. Steps of APIs that are not served are skipped;
they are played as soon as the API is served."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.dispatch import APIS
from klamm.controller.dispatch import is_readable
from klamm.protocol.codec.requests import encode_request, read_request
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.behaviour.comparison import Names, Rules, find_differences
from tests.behaviour.player import KEYS_BY_NAME
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form
from tests.controller.handlers.guarded_cluster import GuardedCluster

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "authorizer" / "scenarios.jsonl.gz"
SCENARIOS = {
    line["scenario"]: line["steps"]
    for line in map(json.loads, gzip.decompress(GOLDEN.read_bytes()).decode().splitlines())
}
BY_KEY = {api.key: api for api in APIS}
# This number may only grow: the steps that were played when it was last changed.
STEPS_PLAYED_AT_LEAST = 352
ORDERED = {"create_acls": ("results",), "delete_acls": ("filter_results",)}
# Klamm's controller is a node of its own, with its own address.
OF_THE_CONTROLLER = {"brokers": "any"}
WHOLE_REQUEST_FAILED = {
    *("resource type 1", "pattern type 1", "pattern type 2", "operation 1", "permission 1"),
    *("good and bad ones", "which fault is told"),
}
"""CreateAcls with ANY or MATCH in an entry: Kafka fails the whole request (-1), Klamm refuses the entry."""


def served(step: Mapping[str, Any]) -> bool:
    return "action" in step or KEYS_BY_NAME[step["api"]] in BY_KEY


def comparable(api: str, form: Any) -> Any:
    """Of the configs of a created topic the recording has only whether there are any."""
    if api == "create_topics":
        topics = [{**topic, "configs": ["shown"]} if topic.get("configs") else topic for topic in form["topics"]]
        return {**form, "topics": topics}
    return form


def clear(cluster: GuardedCluster) -> None:
    cluster.revoke_all()
    cluster.ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in cluster.image.topics_by_name], timeout_ms=1)
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_answers_to_those_who_may_and_may_not_are_the_recorded_ones(scenario: str) -> None:
    cluster = GuardedCluster(
        1, racks=("r1",), profile="kafka", configs={"num.partitions": "1", "default.replication.factor": "1"}
    )
    names = Names()
    for step in filter(served, SCENARIOS[scenario]):
        where = f"{scenario}: {step['step']}"
        if step.get("action") == "clear":
            clear(cluster)
            continue
        api, version = BY_KEY[KEYS_BY_NAME[step["api"]]], step["version"]
        request = from_recorded_form(api.request, names.resolve(step["request"]))
        if step.get("closed"):
            _, _, read = read_request(encode_request(api, version, 1, "test", request))
            assert not is_readable(api, read), where
            continue
        if scenario == "create-acls" and step["step"] in WHOLE_REQUEST_FAILED:
            assert {result["error_code"] for result in step["response"]["results"]} == {-1}, where
            continue
        to_controller = step.get("listener") == "controller"
        with cluster.asking(step["principal"]):
            response = cluster.ask(request, version=version, broker_id=None if to_controller else 1)
        rules = Rules(OF_THE_CONTROLLER if to_controller else {}, ORDERED.get(step["api"], ()))
        ours = comparable(step["api"], to_recorded_form(response, version))
        assert find_differences(step["response"], ours, rules, names) == [], where


def test_no_recorded_step_is_lost() -> None:
    assert sum(served(step) for steps in SCENARIOS.values() for step in steps) >= STEPS_PLAYED_AT_LEAST
