"""The comparison can fail: every kind of difference is seen, and every rule of the recording lets through its own."""

import uuid
from typing import Any

import pytest

from tests.behaviour.comparison import NOTHING, Difference, Names, Rules, find_differences, shown
from tests.behaviour.known_differences import KnownDifference
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form
from tests.behaviour.scenarios import played_scenarios, served_api

PARTITIONS = [{"partition_index": 0, "isr_nodes": [1, 2]}, {"partition_index": 1, "isr_nodes": [2]}]


def compare(recorded: Any, ours: Any, rules: Rules | None = None) -> list[str]:
    differences = find_differences(recorded, ours, rules or Rules(), Names())
    return [f"{found.path}: {found.recorded} / {found.ours}" for found in differences]


@pytest.mark.parametrize(
    ("recorded", "ours", "expected"),
    [
        ({"error_code": 0}, {"error_code": 3}, ["error_code: 0 / 3"]),
        ({"error_code": 0}, {}, [f"error_code: 0 / {NOTHING}"]),
        ({}, {"error_code": 0}, [f"error_code: {NOTHING} / 0"]),
        ({"message": None}, {"message": ""}, ['message: null / ""']),
        ({"flag": True}, {"flag": 1}, ["flag: true / 1"]),
        ({"port": 1, "throttle_time": 0}, {"port": 2, "throttle_time": 9}, []),
        ({"replica_nodes": [1, 2]}, {"replica_nodes": [2, 1]}, ["replica_nodes: [1,2] / [2,1]"]),
        ({"isr_nodes": [1, 2]}, {"isr_nodes": [2, 1]}, []),
        ({"isr_nodes": [1, 2]}, {"isr_nodes": [2]}, ["isr_nodes: [1,2] / [2]"]),
        ({"offline_replicas": []}, {"offline_replicas": [1]}, ["offline_replicas: [] / [1]"]),
        ({"partitions": PARTITIONS}, {"partitions": PARTITIONS[::-1]}, []),
        ({"partitions": PARTITIONS}, {"partitions": []}, [f"partitions: {shown(PARTITIONS)} / []"]),
        (
            {"partitions": PARTITIONS},
            {"partitions": PARTITIONS[:1]},
            [f'partitions[1]: {{"partition_index":1,"isr_nodes":[2]}} / {NOTHING}'],
        ),
        (
            {"topics": []},
            {"topics": [{"name": "x", "port": 5}]},
            [f'topics[x]: {NOTHING} / {{"name":"x"}}'],
        ),
        (
            {"topics": [{"name": "x", "code": 1}, {"name": "x", "code": 2}]},
            {"topics": [{"name": "x", "code": 2}, {"name": "x", "code": 3}]},
            ["topics[x].code: 1 / 3"],
        ),
        (
            {"synonyms": [{"name": "a"}, {"name": "b"}]},
            {"synonyms": [{"name": "b"}, {"name": "a"}]},
            [
                'synonyms[0].name: "a" / "b"',
                'synonyms[1].name: "b" / "a"',
            ],
        ),
    ],
)
def test_differences_are_seen_where_they_are(recorded: Any, ours: Any, expected: list[str]) -> None:
    assert compare(recorded, ours) == expected


@pytest.mark.parametrize(
    ("rule", "recorded", "alike", "unlike"),
    [
        ("any", [1], "whatever", None),
        ("nonneg", 2, 0, -1),
        ("positive", 2, 1, 0),
        ("positive", 0, 0, -1),
        ("sorted", [3, 1], [1, 3], [1, 2]),
        ("distinct", [1, 2], [3, 1], [1, 1]),
        ("distinct", [1, 2], [2, 1], [1, 2, 3]),
        ("subset", [1], [2, 1], [2]),
        ("subset", [{"api_key": 3, "max": 1}], [{"api_key": 3, "max": 1}, {"api_key": 4}], [{"api_key": 3, "max": 2}]),
    ],
)
def test_volatile_paths_are_held_to_their_rule(rule: str, recorded: Any, alike: Any, unlike: Any) -> None:
    rules = Rules({"topics[].field": rule})
    expected = {"topics": [{"field": recorded}]}
    assert compare(expected, {"topics": [{"field": alike}]}, rules) == []
    if unlike is not None:
        assert len(compare(expected, {"topics": [{"field": unlike}]}, rules)) == 1


def test_an_array_with_an_order_is_compared_in_order() -> None:
    assert compare({"partitions": PARTITIONS}, {"partitions": PARTITIONS[::-1]}, Rules(ordered=("partitions",))) != []


def test_ids_are_bound_at_first_sight_and_held_to_it() -> None:
    names = Names()
    recorded = {"topics": [{"name": "a", "topic_id": "$id:a"}, {"name": "b", "topic_id": "$id:b"}]}
    ours = {"topics": [{"name": "b", "topic_id": "2"}, {"name": "a", "topic_id": "1"}]}
    assert find_differences(recorded, ours, Rules(), names) == []
    assert names.resolve({"topics": [{"topic_id": "$id:b"}]}) == {"topics": [{"topic_id": "2"}]}
    assert find_differences("$id:a", "2", Rules(), names) == [Difference("", "$id:a", '"2"')]
    assert find_differences("$id:c", "1", Rules(), names) == [Difference("", "$id:c", '"1"')], "another topic's id"
    assert find_differences("$id:c", None, Rules(), names) == [Difference("", "$id:c", "null")]


def test_a_row_of_the_table_names_its_difference() -> None:
    row = KnownDifference.of("s", "a step", Difference("topics[x|y].code", shown("a|b"), "1"))
    assert str(row) == '| s | a step | topics[x\\|y].code | "a\\|b" | 1 | (why) |'


def test_every_recorded_request_is_a_message_of_ours_and_back() -> None:
    for scenario in played_scenarios():
        for step in scenario.playable_steps():
            api = served_api(step["key"], "broker") if "key" in step else None
            if api is not None and not any(odd in str(step["request"]) for odd in ("$", str(uuid.UUID(int=0)))):
                request = from_recorded_form(api.request, step["request"])
                assert (
                    find_differences(
                        to_recorded_form(request, step["version"]), dict(step["request"]), Rules(), Names()
                    )
                    == []
                ), (scenario.name, step["step"])
