"""The recorded scenarios of consumer groups, as far as they go without a server: heartbeats, descriptions, topics.

Requests and answers are those of a real coordinator of Apache Kafka 4.3 (tests/golden/coordinators/README.md).
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.broker.groups.consumer.outcome import GroupSettings, Outcome
from klamm.broker.groups.consumer.records import no_group
from klamm.protocol.messages.groups.consumer_group_describe import DescribedGroup
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.uuid import Uuid
from tests.broker.groups.consumer_host import ConsumerHost

SCENARIOS = {
    scenario["scenario"]: scenario["steps"]
    for scenario in map(
        json.loads,
        gzip.decompress(
            (Path(__file__).parents[2] / "golden/coordinators/consumer.jsonl.gz").read_bytes()
        ).splitlines(),
    )
}
SETTINGS = GroupSettings(session_timeout_ms=3_000, heartbeat_interval_ms=200, assignment_interval_ms=0, max_size=4)
GROUP_CONFIGS = {
    "consumer.heartbeat.interval.ms": "heartbeat_interval_ms",
    "consumer.session.timeout.ms": "session_timeout_ms",
    "consumer.assignment.interval.ms": "assignment_interval_ms",
}
GROUP_FIELDS = ("group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name", "error_message")
MEMBER_FIELDS = (
    *("member_id", "instance_id", "rack_id", "member_epoch", "client_id", "client_host"),
    *("subscribed_topic_regex", "member_type"),
)
PAUSE_MS = 100
"""Between two tries of a request that is repeated."""


class Player:
    """Plays the steps of a scenario on a host, and compares the answers of groups."""

    def __init__(self) -> None:
        self.host = ConsumerHost(SETTINGS)
        self.compared = 0

    def play(self, step: dict[str, Any]) -> None:
        name = step.get("action") or step["api"]
        if name == "sleep":
            self.host.sleep(step["ms"])
        elif name == "incremental_alter_configs":
            self._alter_configs(step)
        elif name in ("create_topics", "create_partitions", "delete_topics"):
            self._change_topics(step)
        elif name == "delete_groups":
            self._delete(step)
        elif name in ("consumer_group_heartbeat", "consumer_group_describe"):
            self._ask(step)

    def _alter_configs(self, step: dict[str, Any]) -> None:
        for resource, answer in zip(step["request"]["resources"], step["response"]["responses"], strict=True):
            for config in resource["configs"] if not answer["error_code"] else ():
                field = GROUP_CONFIGS.get(config["name"])
                if field is not None:
                    deleted = config["config_operation"] == 1
                    changed: dict[str, Any] = {field: getattr(SETTINGS, field) if deleted else int(config["value"])}
                    self.host.settings = replace(self.host.settings, **changed)

    def _delete(self, step: dict[str, Any]) -> None:
        """The server decides which groups may be deleted; here they are only removed."""
        for result in step["response"]["results"]:
            if not result["error_code"]:
                group_id = result["group_id"]
                self.host.settle(group_id, Outcome(records=no_group(self.host.groups[group_id])))

    def _change_topics(self, step: dict[str, Any]) -> None:
        request, topics = step["request"], self.host.topics
        for topic in request.get("topics", ()):
            if step["api"] == "create_topics":
                topics.create(topic["name"], len(topic["assignments"]))
            else:
                topics.grow(topic["name"], topic["count"])
        for name in request.get("topic_names", ()):
            topics.delete(name)
        self.host.topics_changed()

    def _ask(self, step: dict[str, Any]) -> None:
        until, volatile = step.get("until", {}), step.get("volatile", {})
        answer: Any = None
        for _ in range(80):
            answer = self._heartbeat(step) if "heartbeat" in step["api"] else self._describe(step)
            reached = all(
                answer[name] is not None if value == "$set" else answer[name] == value for name, value in until.items()
            )
            if reached:
                break
            self.host.sleep(PAUSE_MS)
        expected = self._named(step["response"] if "heartbeat" in step["api"] else step["response"]["groups"])
        for name in volatile:
            expected[name] = answer[name]
        assert _sorted(answer) == _sorted(expected), step["step"]
        self.compared += 1

    def _heartbeat(self, step: dict[str, Any]) -> dict[str, Any]:
        given = dict(self._named(step["request"]))
        given["rebalance_timeout_ms"] = given.pop("rebalance_timeout")
        if given["topic_partitions"] is not None:
            given["topic_partitions"] = [
                TopicPartitions(topic_id=self._id(each["topic_id"]), partitions=each["partitions"])
                for each in given["topic_partitions"]
            ]
        response = self.host.heartbeat(ConsumerGroupHeartbeatRequest(**given), step["version"])
        return self._shown(response)

    def _shown(self, response: ConsumerGroupHeartbeatResponse) -> dict[str, Any]:
        assignment = response.assignment
        return {
            "throttle_time": response.throttle_time_ms,
            "error_code": int(response.error_code),
            "error_message": response.error_message,
            "member_id": response.member_id,
            "member_epoch": response.member_epoch,
            "heartbeat_interval": response.heartbeat_interval_ms,
            "assignment": assignment
            if assignment is None
            else {"topic_partitions": _partitions(assignment.topic_partitions)},
        }

    def _describe(self, step: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._shown_group(self.host.describe(group_id), step) for group_id in step["request"]["group_ids"]]

    def _shown_group(self, group: DescribedGroup, step: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {name: getattr(group, name) for name in GROUP_FIELDS}
        shown["error_code"] = int(group.error_code)
        shown["members"] = []
        for member in group.members:
            one: dict[str, Any] = {name: getattr(member, name) for name in MEMBER_FIELDS}
            one["subscribed_topic_names"] = list(member.subscribed_topic_names)
            for which in ("assignment", "target_assignment"):
                one[which] = {"topic_partitions": _partitions(getattr(member, which).topic_partitions)}
            if step["version"] == 0:
                del one["member_type"]
            shown["members"].append(one)
        # The server adds authorized operations.
        shown["authorized_operations"] = step["response"]["groups"][0]["authorized_operations"]
        return shown

    def _named(self, value: Any) -> Any:
        """The value, with topic names in place of this run's topic ids."""
        if isinstance(value, dict):
            return {key: self._named(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._named(each) for each in value]
        if isinstance(value, str) and value.startswith("$id:"):
            return str(self._id(value))
        return value

    def _id(self, name: str) -> Uuid:
        if not name.startswith("$id:"):
            return Uuid.from_text(name)
        topic = self.host.topics.named(name.removeprefix("$id:"))
        assert topic is not None
        return topic.topic_id


def _partitions(topics: Any) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": str(topic.topic_id),
            "partitions": list(topic.partitions),
            **({"topic_name": topic.topic_name} if hasattr(topic, "topic_name") else {}),
        }
        for topic in topics
    ]


def _sorted(value: Any) -> Any:
    """The value with sorted arrays of objects: Kafka's order is that of hash maps."""
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


PLAYED = {
    "consumer-alone": 11,
    "consumer-two": 20,
    "consumer-invalid": 34,
    "consumer-epochs": 18,
    "consumer-static": 19,
    "consumer-assignors": 10,
    "consumer-subscriptions": 12,
    "consumer-regex": 12,
    "consumer-session": 9,
    "consumer-rebalance-timeout": 7,
    "consumer-configs": 6,
    "consumer-assignment-interval": 6,
}
"""How many answers are compared."""


@pytest.mark.parametrize("name", PLAYED)
def test_groups_answer_as_a_real_coordinator(name: str) -> None:
    player = Player()
    for step in SCENARIOS[name]:
        player.play(step)
    assert player.compared == PLAYED[name]
