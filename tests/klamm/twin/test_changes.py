"""The files with changes: what each step is decoded to, and what is refused, in one line that names the place."""

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.admin.partition_types import TopicPartition
from klamm.twin.changes import (
    AddPartitions,
    CreateTopic,
    Decommission,
    ElectPreferredLeaders,
    InvalidChanges,
    LoseBroker,
    LoseRack,
    Reassign,
    ReturnBroker,
    SetConfigs,
    read_changes,
)

PLAN = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 1]}]}


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_every_step_is_decoded(tmp_path: Path) -> None:
    written(tmp_path / "plan.json", PLAN)
    steps = [
        {"reassign": "plan.json"},
        {"create-topic": {"name": "a"}},
        {"create-topic": {"name": "b", "partitions": 2, "replication-factor": 3, "configs": {"x": True, "y": 7}}},
        {"add-partitions": {"topic": "a", "to": 5}},
        {"set-configs": {"configs": {"max.partitions": 9, "gone": None}}},
        {"set-configs": {"configs": {"k": "v"}, "broker": 2}},
        {"set-configs": {"configs": {"k": "v"}, "topic": "a"}},
        {"lose-broker": 0},
        {"lose-rack": "r"},
        {"return-broker": 1},
        {"decommission": 4},
        {"elect-preferred-leaders": "all"},
    ]
    assert list(read_changes(written(tmp_path / "changes.json", {"steps": steps}))) == [
        Reassign({TopicPartition("t", 0): (3, 1)}),
        CreateTopic("a"),
        CreateTopic("b", 2, 3, {"x": "true", "y": "7"}),
        AddPartitions("a", 5),
        SetConfigs({"max.partitions": "9", "gone": None}),
        SetConfigs({"k": "v"}, broker_id=2),
        SetConfigs({"k": "v"}, topic="a"),
        LoseBroker(0),
        LoseRack("r"),
        ReturnBroker(1),
        Decommission(4),
        ElectPreferredLeaders(),
    ]


def test_a_suggestion_that_moves_nothing_is_one_step(tmp_path: Path) -> None:
    empty = {"version": 1, "partitions": list[int]()}
    assert list(read_changes(written(tmp_path / "plan.json", empty))) == [Reassign({})]


def test_a_file_of_kafkas_tool_is_one_step(tmp_path: Path) -> None:
    assert list(read_changes(written(tmp_path / "plan.json", PLAN))) == [Reassign({TopicPartition("t", 0): (3, 1)})]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "begin with `steps:`, and write the list under it"),
        ("steps", "an object is expected"),
        ({}, "steps is a list with at least one step"),
        ({"steps": []}, "steps is a list with at least one step"),
        ({"step": []}, "unknown member 'step' (known: steps); did you mean 'steps'"),
        ({"steps": ["lose-rack"]}, "step 1: an object with one member is expected"),
        ({"steps": [{"lose-rack": "a", "lose-broker": 1}]}, "step 1: an object with one member is expected"),
        ({"steps": [{"lose-rack": "a"}, {"lose-brokr": 1}]}, "step 2: there is no step 'lose-brokr'"),
        ({"steps": [{"lose-rack": ""}]}, "step 1: lose-rack: a name is expected"),
        ({"steps": [{"lose-broker": -1}]}, "lose-broker: a whole number from 0"),
        ({"steps": [{"lose-broker": True}]}, "lose-broker: a whole number from 0"),
        ({"steps": [{"lose-broker": 2**31}]}, "lose-broker: a whole number from 0"),
        ({"steps": [{"create-topic": {"partitions": 1}}]}, "create-topic: name: a name is expected"),
        ({"steps": [{"create-topic": {"name": "a", "partition": 1}}]}, "did you mean 'partitions'"),
        ({"steps": [{"create-topic": {"name": "a", "configs": {"x": []}}}]}, "configs: x: a text, a number"),
        ({"steps": [{"create-topic": {"name": "a", "configs": {"x": None}}}]}, "configs: x: a text, a number"),
        (
            {"steps": [{"create-topic": {"replicas": 3}}]},
            "unknown member 'replicas' (known: configs, name, partitions, ",
        ),
        ({"steps": [{"create-topic": {"replicas": 3}}]}, "replication-factor); did you mean 'replication-factor'?"),
        ({"steps": [{"lose-broker": "2"}]}, "lose-broker: a number is expected: write 2 without quotes"),
        ({"steps": [{"lose-rack": 2}]}, "lose-rack: a name is expected: write it in quotes, as '2'"),
        ({"steps": [{"add-partitions": {"topic": "a", "to": 0}}]}, "to: a whole number from 1"),
        ({"steps": [{"set-configs": {"configs": {}}}]}, "configs: an object with configs is expected"),
        ({"steps": [{"set-configs": {"configs": {"a": 1}, "broker": 1, "topic": "t"}}]}, "of a broker or of a topic"),
        ({"steps": [{"elect-preferred-leaders": "some"}]}, "all is expected"),
        ({"steps": [{"reassign": "missing.json"}]}, "missing.json"),
        ({"steps": [{"reassign": 7}]}, "the path of a reassignment file is expected"),
        ({"version": 1, "partitions": {}}, "partitions"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(InvalidChanges) as refused:
        read_changes(written(tmp_path / "changes.json", content))
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for name in ("missing.json", "bad.json"):
        with pytest.raises(InvalidChanges, match=name):
            read_changes(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("bad.json", '{"steps":\n  [}', ":2:4: no JSON: Expecting value"),
        ("bad.yaml", "steps:\n  - [a\n", ":3:1: no YAML: expected ',' or ']', but got '<stream end>'"),
        (
            "changes.txt",
            "steps:\n",
            ": the file is neither JSON (1:1: no JSON: Expecting value) nor (by its name) YAML",
        ),
    ],
)
def test_broken_text_is_refused_with_its_line_and_column(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidChanges) as refused:
        read_changes(tmp_path / name)
    assert str(refused.value) == f"the changes {tmp_path / name}{reason}"


def test_a_reassignment_file_may_be_yaml(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("version: 1\npartitions:\n  - {topic: t, partition: 0, replicas: [3, 1]}\n")
    assert list(read_changes(tmp_path / "plan.yaml")) == [Reassign({TopicPartition("t", 0): (3, 1)})]
    (tmp_path / "plan.yaml").write_text("version: 1\npartitions:\n  - {topic: t, partition: 0}\n")
    with pytest.raises(InvalidChanges, match="replicas is missing"):
        read_changes(tmp_path / "plan.yaml")
