"""The recorded scenarios of streams groups, as far as they go without a server: heartbeats, descriptions, topics, group
configs, time.

Requests and answers are those of a real coordinator of Apache Kafka 4.3 (tests/golden/streams/README.md).
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.groups_with_streams import Beat
from klamm.broker.groups.streams.checks import check_request
from klamm.broker.groups.streams.heartbeat import refused
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.delete_groups import DeletableGroupResult
from klamm.protocol.messages.groups.list_groups import ListGroupsResponse
from klamm.protocol.messages.streams import streams_group_describe, streams_group_heartbeat
from tests.behaviour.comparison import Difference
from tests.behaviour.coordinator_names import RunNames, differences
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form
from tests.broker.groups.streams_host import SETTINGS, StreamsShard

RECORDED = Path(__file__).parents[2] / "golden/streams/scenarios.jsonl.gz"
SCENARIOS = {
    scenario["scenario"]: scenario["steps"]
    for scenario in map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
}
OF_THE_HANDLER = frozenset({"internal topic of Kafka", "bad topic names", "group id empty"})
"""Steps that are decided before a coordinator is asked."""
GROUP_CONFIGS = {
    "streams.session.timeout.ms": "session_timeout_ms",
    "streams.heartbeat.interval.ms": "heartbeat_interval_ms",
    "streams.num.standby.replicas": "standby_replicas",
    "streams.initial.rebalance.delay.ms": "initial_rebalance_delay_ms",
    "streams.assignment.interval.ms": "assignment_interval_ms",
}
RECORDED_SETTINGS = replace(SETTINGS, session_timeout_ms=10_000, heartbeat_interval_ms=200, max_size=4)


class Player:
    """Plays the steps of a scenario on a shard, and compares the answers of groups."""

    def __init__(self) -> None:
        self.shard = StreamsShard(RECORDED_SETTINGS)
        self.names = RunNames()
        self.compared = 0

    def play(self, step: dict[str, Any]) -> list[Difference]:
        if "action" in step:
            self._act(step)
            return []
        play = getattr(self, f"_{step['api']}", None)
        if play is None or step["step"] in OF_THE_HANDLER:
            return []
        self.compared += 1
        return list(play(step))

    def _act(self, step: dict[str, Any]) -> None:
        if step["action"] == "sleep":
            self.shard.pass_time(step["ms"])
        elif step["action"] == "delete_topics":
            for name in self.names.resolve(step["topics"]):
                self.shard.remove(name)

    def _create_topics(self, step: dict[str, Any]) -> list[Difference]:
        for topic in self.names.resolve(step["request"])["topics"]:
            self.shard.create(topic["name"], topic["num_partitions"])
        return []

    def _create_partitions(self, step: dict[str, Any]) -> list[Difference]:
        for topic in self.names.resolve(step["request"])["topics"]:
            self.shard.grow(topic["name"], topic["count"])
        return []

    def _incremental_alter_configs(self, step: dict[str, Any]) -> list[Difference]:
        for resource, answer in zip(step["request"]["resources"], step["response"]["responses"], strict=True):
            for config in resource["configs"] if not answer["error_code"] else ():
                field = GROUP_CONFIGS[config["name"]]
                deleted = config["config_operation"] == 1
                value = getattr(RECORDED_SETTINGS, field) if deleted else int(config["value"])
                self.shard.configure(**{field: value})
        return []

    def _streams_group_heartbeat(self, step: dict[str, Any]) -> Iterator[Difference]:
        request = from_recorded_form(streams_group_heartbeat.API.request, self.names.resolve(step["request"]))
        beat = Beat(request, Client(step.get("client_id", "rec"), "/127.0.0.1", 0, lambda _: False))
        refusal = check_request(request)
        if refusal is not None:
            return self._compare(step, refused(refusal))
        missing = self.shard.state.missing_topics(beat, self.shard.now_ms)
        answer = self.shard.run(lambda waiter: self.shard.state.streams_heartbeat(beat, waiter, self.shard.now_ms))
        for topic in missing.values():
            if topic.replication_factor <= 3 and "no.such.config" not in topic.configs:
                self.shard.create(topic.name, topic.partitions)
        return self._compare(step, answer)

    def _streams_group_describe(self, step: dict[str, Any]) -> Iterator[Difference]:
        asked, recorded = self.names.resolve(step["request"]["group_ids"]), step["response"]["groups"]
        if "" in asked or not asked or recorded[0]["authorized_operations"] != -(2**31):
            return iter(())
        groups = [self.shard.describe(group_id) for group_id in asked]
        return self._compare(step, streams_group_describe.StreamsGroupDescribeResponse(groups=groups))

    def _list_groups(self, step: dict[str, Any]) -> Iterator[Difference]:
        asked = step["request"]
        states, types = asked["states_filter"], asked["types_filter"]
        answer = self.shard.run(lambda waiter: self.shard.state.list_groups(states, types, waiter))
        assert isinstance(answer, ListGroupsResponse)
        return self._compare(step, answer)

    def _delete_groups(self, step: dict[str, Any]) -> Iterator[Difference]:
        (group_id,), (recorded,) = self.names.resolve(step["request"]["groups_names"]), step["response"]["results"]
        answer = self.shard.run(lambda waiter: self.shard.state.delete(group_id, waiter))
        assert isinstance(answer, DeletableGroupResult)
        return differences(recorded, to_recorded_form(answer, step["version"]), {}, self.names)

    def _compare(self, step: dict[str, Any], answer: Message) -> Iterator[Difference]:
        ours = to_recorded_form(answer, step["version"])
        return differences(step["response"], ours, step.get("volatile") or {}, self.names)


PLAYED = sorted(SCENARIOS.keys() - {"streams-other-kinds"})
COMPARED_AT_LEAST = 300


@pytest.mark.parametrize("name", PLAYED)
def test_groups_answer_as_a_real_coordinator(name: str) -> None:
    player = Player()
    for step in SCENARIOS[name]:
        found = [
            difference
            for difference in player.play(step)
            # Why topics could not be created is known to the broker.
            if "Creation failed" not in str(difference)
        ]
        assert not found, (step["step"], found)


def test_no_recorded_step_is_lost() -> None:
    compared = 0
    for name in PLAYED:
        player = Player()
        for step in SCENARIOS[name]:
            player.play(step)
        compared += player.compared
    assert compared >= COMPARED_AT_LEAST
