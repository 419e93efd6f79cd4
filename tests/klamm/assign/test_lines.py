"""`klamm assign`, line by line: recorded answers of Kafka, the members of a line, and lines that are no requests."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assign.lines import answer
from klamm.assign.request import MAX_LINE_BYTES, decode_line
from klamm.assignment import Algorithm, CannotPlaceReason, ClusterView, JavaRandom, PlacementSpec, place
from klamm.console.line_filter import answer_lines

GOLDEN = Path(__file__).parents[2] / "golden" / "placement"
REASON_OF = {
    "org.apache.kafka.common.errors.InvalidPartitionsException": "INVALID_PARTITIONS",
    "org.apache.kafka.common.errors.InvalidReplicationFactorException": "INVALID_REPLICATION_FACTOR",
    "org.apache.kafka.server.common.AdminOperationException": "MIXED_RACKS",
}
REASONS = {reason.value for reason in CannotPlaceReason} | {"INVALID_REQUEST"}
THREE = [[1, "a"], [2, "b"], [3, "c"]]


def answers_to(text: bytes) -> list[Any]:
    """The output for a whole input, line by line."""
    written: list[str] = []
    answer_lines(BytesIO(text), lambda _, line: answer(line), written.append, MAX_LINE_BYTES)
    *lines, rest = "".join(written).split("\n")
    assert rest == ""
    return [json.loads(line) for line in lines]


def ask(line: object) -> Any:
    """The answer to one JSON value."""
    (answered,) = answers_to(json.dumps(line).encode())
    return answered


def refusal(line: object) -> str:
    """The error text for a malformed line."""
    error = ask(line)["error"]
    assert error["reason"] == "INVALID_REQUEST"
    return str(error["message"])


def asked(**members: object) -> dict[str, object]:
    """A valid line, with changed members; `...` removes one."""
    line = {"brokers": THREE, "partitions": 4, "rf": 2, **members}
    return {name: value for name, value in line.items() if value is not ...}


def as_answered(recorded: dict[str, Any]) -> Any:
    if "error" in recorded:
        error = recorded["error"]
        return {"error": {"reason": REASON_OF[error["class"]], "message": error["message"]}}
    return {"assignment": recorded["assignment"]}


def as_answered_to_a_call(recorded: dict[str, Any]) -> Any:
    if "error" in recorded:
        return as_answered(recorded)
    first = recorded["spec"]["startPartition"]
    return {"assignment": {str(first + at): row for at, row in enumerate(recorded["replicas"])}}


@pytest.mark.parametrize(("name", "cases"), [("admin_utils.jsonl", 400), ("admin_utils-seeded.jsonl", 24)])
def test_what_admin_utils_was_asked_is_answered_as_it_did(name: str, cases: int) -> None:
    text = (GOLDEN / name).read_bytes()
    recorded = [json.loads(line) for line in text.splitlines()]
    assert len(recorded) == cases
    assert answers_to(text) == [as_answered(case) for case in recorded]


def test_calls_are_answered_as_the_striped_placer_did_on_one_random_source() -> None:
    text = (GOLDEN / "striped.jsonl").read_bytes()
    cases = [json.loads(line) for line in text.splitlines()]
    assert len(cases) == 60
    for case, answered in zip(cases, answers_to(text), strict=True):
        assert answered == {"results": [as_answered_to_a_call(call) for call in case["calls"]]}


def test_calls_are_asked_in_the_documented_members_alone() -> None:
    brokers = [[1, "r1", False], [2, "r2", False], [3, "r3", True]]
    calls = [{"startPartition": 5, "numPartitions": 2, "numReplicas": 3}, {"numPartitions": 1, "numReplicas": 4}]
    answered = ask({"brokers": brokers, "algorithm": "striped", "seed": 3, "calls": calls})
    (placed, refused) = answered["results"]
    assert sorted(placed["assignment"]) == ["5", "6"]
    assert refused["error"]["reason"] == "INVALID_REPLICATION_FACTOR"
    as_recorded = {"usableBrokers": brokers, "seed": 3, "calls": [{"spec": call} for call in calls]}
    assert ask(as_recorded) == answered


def test_each_call_counts_what_the_calls_before_it_placed() -> None:
    call = {"numPartitions": 2, "numReplicas": 3}
    answered = ask({"brokers": THREE, "maxBrokerPartitions": 3, "calls": [call, call, {**call, "numPartitions": 1}]})
    assert ["assignment" in result for result in answered["results"]] == [True, False, True]
    answered = ask({"brokers": THREE, "clusterPartitions": 1, "maxPartitions": 4, "calls": [call, call]})
    assert ["assignment" in result for result in answered["results"]] == [True, False]


def test_placeholders_of_one_call_take_no_room_from_the_next() -> None:
    call = {"numPartitions": 2, "numReplicas": 4}
    line = {"brokers": THREE, "underReplicated": True, "maxBrokerPartitions": 4, "calls": [call, call, call]}
    assert ["assignment" in result for result in ask(line)["results"]] == [True, True, False]


def test_one_striped_placement_is_the_first_of_the_calls() -> None:
    called = ask({"brokers": THREE, "seed": 9, "calls": [{"numPartitions": 4, "numReplicas": 2}]})
    assert ask(asked(algorithm="striped", seed=9)) == called["results"][0]


@given(
    st.integers(0, 40_000),
    st.integers(1, 3),
    st.integers(-3, 2**31 - 50_000),
    st.sampled_from(list(Algorithm)),
)
@example(16_384, 2, 0, Algorithm.ROUND_ROBIN).via("a whole piece of rows and nothing behind it")
def test_the_text_is_the_placement(partitions: int, rf: int, start: int, algorithm: Algorithm) -> None:
    (text,) = "".join(answer(json.dumps(asked(
        partitions=partitions, rf=rf, startPartitionId=start, algorithm=algorithm.value, seed=partitions
    )).encode())).splitlines()  # fmt: skip
    spec = PlacementSpec(
        partitions=partitions, replication_factor=rf, algorithm=algorithm, first_partition=max(start, 0)
    )
    if partitions == 0 and algorithm is Algorithm.ROUND_ROBIN:
        assert '"reason":"INVALID_PARTITIONS"' in text
        return
    view = ClusterView(np.array([1, 2, 3]), ("a", "b", "c"))
    rows = place(view, spec, JavaRandom(partitions)).tolist()
    expected = {"assignment": {str(max(start, 0) + at): row for at, row in enumerate(rows)}}
    assert text == json.dumps(expected, separators=(",", ":"))


@pytest.mark.parametrize(("members", "assignment"), [
    ({"fixedStartIndex": 0}, {"0": [1, 2], "1": [2, 3], "2": [3, 1], "3": [1, 3]}),
    ({"fixedStartIndex": 0, "startPartitionId": -5}, {"0": [1, 2], "1": [2, 3], "2": [3, 1], "3": [1, 3]}),
    ({"fixedStartIndex": 0, "startPartitionId": 2, "partitions": 1}, {"2": [3, 1]}),
    ({"fixedStartIndex": 0, "live": [3, 1]}, {"0": [1, 3], "1": [3, 1], "2": [1, 3], "3": [3, 1]}),
    ({"fixedStartIndex": 0, "brokers": [[1, "a"], [2, "b", True], [3, "c"]]},
     {"0": [1, 3], "1": [3, 1], "2": [1, 3], "3": [3, 1]}),
    ({"fixedStartIndex": 0, "brokers": [[1, "a", True], [2, "b"], [3, "c"]], "live": [1, 2], "partitions": 1},
     {"0": [1, 2]}),
    ({"rf": 3, "live": [2], "underReplicated": True, "partitions": 2}, {"0": [2, -1, -2], "1": [2, -1, -2]}),
    ({"counts": {"1": 9, "3": 10}, "maxBrokerPartitions": 10, "partitions": 1}, {"0": [1, 2]}),
    ({"fixedStartIndex": 0, "counts": None, "live": None, "seed": None, "calls": None, "algorithm": None,
      "maxPartitions": None, "underReplicated": None}, {"0": [1, 2], "1": [2, 3], "2": [3, 1], "3": [1, 3]}),
])  # fmt: skip
def test_every_member_has_its_say(members: dict[str, object], assignment: dict[str, list[int]]) -> None:
    answered = ask(asked(**members))
    if "maxBrokerPartitions" in members:  # The placer chooses the leader.
        answered["assignment"] = {name: sorted(row) for name, row in answered["assignment"].items()}
    assert answered == {"assignment": assignment}


@pytest.mark.parametrize(("members", "reason"), [
    ({"partitions": 0, "rf": 0}, "INVALID_PARTITIONS"),
    ({"rf": 4}, "INVALID_REPLICATION_FACTOR"),
    ({"brokers": []}, "INVALID_REPLICATION_FACTOR"),
    ({"brokers": [[1, "a"], [2, None]]}, "MIXED_RACKS"),
    ({"clusterPartitions": 7, "maxPartitions": 10}, "POLICY_VIOLATION"),
    ({"maxBrokerPartitions": 2}, "POLICY_VIOLATION"),
    ({"rf": 3, "live": [1], "underReplicated": True, "minInsyncReplicas": 2}, "INVALID_REPLICATION_FACTOR"),
    ({"partitions": 2**31 - 1}, "INVALID_PARTITIONS"),
])  # fmt: skip
def test_a_placement_that_cannot_be_has_its_reason(members: dict[str, object], reason: str) -> None:
    assert ask(asked(**members))["error"]["reason"] == reason


def test_the_seed_is_java_s_and_0_without_one() -> None:
    brokers = [[broker_id, None] for broker_id in range(1000)]
    answers = {json.dumps(ask(asked(brokers=brokers, seed=seed))) for seed in range(-20, 20)}
    assert len(answers) == 40
    assert ask(asked(brokers=brokers)) == ask(asked(brokers=brokers, seed=0, fixedStartIndex=-7))


@pytest.mark.parametrize(("line", "said"), [
    ([], "the line is a list of 0; a JSON object is expected"),
    ("x" * 100, f'the line is "{"x" * 40}…"; a JSON object'),
    (None, "the line is null; a JSON object is expected"),
    (asked(rf=None), "rf is null; a whole number"),
    ({}, "brokers is missing; a list of [id, rack] or [id, rack, fenced] is expected"),
    (asked(partitions=...), "partitions is missing; a whole number from -2147483648 to 2147483647 is expected"),
    (asked(rf=True), "rf is true; a whole number"),
    (asked(rf=2.0), "rf is 2.0; a whole number"),
    (asked(rf="2"), 'rf is "2"; a whole number'),
    (asked(partitions=2**31), "partitions is 2147483648; a whole number from"),
    (asked(partitions=10**900), "partitions is 1000000000000000000000000000000000000000; a whole number"),
    (asked(brokers={"1": "a"}), "brokers is an object of 1; a list of"),
    (asked(brokers=[[1, "a"], [2]]), "brokers[1] is a list of 1; [id, rack] or"),
    (asked(brokers=[[1, "a"], 2]), "brokers[1] is 2; [id, rack] or"),
    (asked(brokers=[[-1, "a"]]), "brokers[0][0] is -1; a whole number from 0 to 2147483647"),
    (asked(brokers=[[True, "a"]]), "brokers[0][0] is true"),
    (asked(brokers=[[1, 5]]), "brokers[0][1] is 5; a rack's name, or null, is expected"),
    (asked(brokers=[[1, "a", 0]]), "brokers[0][2] is 0; true or false is expected"),
    (asked(brokers=[[1, "a"], [1, "b"]]), "1 broker id given more than once: 1"),
    (asked(brokers=[0] * 100_001), "100001 brokers, more than 100000"),
    (asked(counts=[1]), "counts is a list of 1; an object"),
    (asked(counts={"1": -1}), 'counts["1"] is -1; a whole number from 0 to 9223372036854775807'),
    (asked(counts={"1": 2**63}), 'counts["1"] is 9223372036854775808'),
    (asked(counts={"01": 1}), 'counts names "01", which is not among the brokers'),
    (asked(counts={"4": 1}), 'counts names "4", which is not among the brokers'),
    (asked(maxBrokerPartitions=0), "maxBrokerPartitions is 0; a whole number from 1 to 9223372036854775807"),
    (asked(maxPartitions=-1), "maxPartitions is -1; a whole number from 1"),
    (asked(clusterPartitions=-1), "clusterPartitions is -1; a whole number from 0"),
    (asked(live=1), "live is 1; a list of broker ids is expected"),
    (asked(live=[1, "2"]), 'live[1] is "2"; a whole number'),
    (asked(live=[1, 9]), "live[1] is 9, which is not among the brokers"),
    (asked(minInsyncReplicas=0), "minInsyncReplicas is 0; a whole number from 1"),
    (asked(underReplicated=1), "underReplicated is 1; true or false is expected"),
    (asked(algorithm="stripes"), 'algorithm is "stripes"; "round-robin" or "striped" is expected'),
    (asked(algorithm=["striped"]), "algorithm is a list of 1"),
    (asked(seed=2**63), "seed is 9223372036854775808; a whole number from -9223372036854775808"),
    (asked(calls={}), "calls is an object of 0; a list of objects is expected"),
    (asked(calls=[1]), "calls[0] is 1; an object with numPartitions and numReplicas is expected"),
    (asked(calls=[{"spec": 1}]), "calls[0] is 1; an object"),
    (asked(calls=[{"numReplicas": 1}]), "calls[0].numPartitions is missing"),
    (asked(calls=[{"numPartition": 1}]), 'calls[0]: unknown member "numPartition"; did you mean \'numPartitions\'?'),
    (asked(maxBrokerPartition=3), 'unknown member "maxBrokerPartition"; did you mean \'maxBrokerPartitions\'?'),
    (asked(max_broker_partitions=3), 'unknown member "max_broker_partitions"; did you mean \'maxBrokerPartitions\'?'),
    (asked(**{f"x{number}": 1 for number in range(101)}), "101 unknown members; at most 100 are ignored"),
])  # fmt: skip
def test_a_wrong_member_is_named_with_what_it_should_be(line: object, said: str) -> None:
    assert said in refusal(line)


@pytest.mark.parametrize(("text", "said"), [
    (b"", "the line is empty; a JSON object is expected"),
    (b" \t\r", "the line is empty"),
    (b"{", "the line is not JSON: "),
    (b'{"brokers":[]} {}', "the line is not JSON: Extra data at character 16"),
    (b"\xff{}", "the line is not UTF-8: invalid start byte at byte 1"),
    (b'{"rf":NaN}', "the line is not JSON: NaN is no JSON number"),
    (b'{"rf":-Infinity}', "-Infinity is no JSON number"),
    (b'{"rf":' + b"9" * 5000 + b"}", "a number of 5000 digits: up to 1000 are read"),
    (b'{"rf":1,"rf":2}', 'the member "rf" is given twice'),
    (b'{"counts":{"1":1,"1":1}}', 'the member "1" is given twice'),
    (b"[" * 100_000, "the line is nested too deeply"),
    (b'{"a":' * 100_000, "the line is nested too deeply"),
    (b'{"rf":1e400}', "brokers is missing"),
    (b"{\0}", "the line is not JSON"),
    (json.dumps(asked(live=[[[[]]]])).encode("utf-16"), "the line is not UTF-8"),
])  # fmt: skip
def test_a_line_that_is_no_request_is_told_why(text: bytes, said: str) -> None:
    (answered,) = answers_to(text + b"\n")
    assert answered["error"]["reason"] == "INVALID_REQUEST"
    assert said in answered["error"]["message"]


def test_other_people_s_remarks_are_left_alone() -> None:
    assert ask(asked(note="x", id=7, comment={}, **{"n" * 1000: 1})) == ask(asked())


def test_a_byte_order_mark_and_windows_line_ends_are_no_obstacle() -> None:
    line = json.dumps(asked()).encode()
    assert answers_to(b"\xef\xbb\xbf" + line + b"\r\n" + line) == [ask(asked())] * 2


def test_a_rack_may_be_any_java_string() -> None:
    racks = ["\ud800", "", "\x00", "𐐷", "ü\n"]
    answered = ask({"brokers": list(enumerate(racks)), "partitions": 5, "rf": 5})
    assert [sorted(row) for row in answered["assignment"].values()] == [[0, 1, 2, 3, 4]] * 5


def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_answered() -> None:
    sound = json.dumps(asked()).encode()
    longest = sound + b" " * (MAX_LINE_BYTES - len(sound))
    first, second, third, last = answers_to(b"\n".join((longest, longest + b" ", longest * 2, sound)))
    assert first == last == ask(asked())
    assert second == third
    assert second["error"]["message"] == "the line has more than 67108864 bytes"


def test_a_line_is_read_once_the_one_before_is_answered() -> None:
    written: list[str] = []

    class Conversation(BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            assert len(written) == self.tell() // len(line)
            return super().readline(size)

    line = json.dumps(asked()).encode() + b"\n"
    answer_lines(Conversation(line * 3), lambda _, given: answer(given), written.append, MAX_LINE_BYTES)
    assert len(written) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
NUMBERS = st.integers(-2, 12) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, 2**63, 10**30])
BROKERS = st.lists(
    st.tuples(st.integers(-1, 9), st.none() | st.sampled_from(["a", "b", "", "\ud800"])).map(list)
    | st.tuples(st.integers(0, 99), st.none() | st.text(max_size=2), st.booleans()).map(list),
    max_size=6,
)
CALL = st.dictionaries(st.sampled_from(["startPartition", "numPartitions", "numReplicas", "spec"]), NUMBERS | JSON)
NUMBER_MEMBERS = (
    "fixedStartIndex", "startPartitionId", "maxBrokerPartitions", "maxPartitions", "clusterPartitions",
    "minInsyncReplicas", "seed",
)  # fmt: skip
LINES = st.fixed_dictionaries(
    {"brokers": BROKERS | JSON, "partitions": NUMBERS | JSON, "rf": NUMBERS},
    optional={
        "algorithm": st.sampled_from(["round-robin", "striped"]) | JSON,
        "counts": st.dictionaries(st.integers(-1, 9).map(str) | st.text(max_size=2), NUMBERS) | JSON,
        "live": st.lists(NUMBERS, max_size=4) | JSON,
        "underReplicated": st.booleans() | JSON,
        "calls": st.lists(CALL | JSON, max_size=3) | JSON,
        "max": JSON,
        **dict.fromkeys(NUMBER_MEMBERS, NUMBERS | JSON),
    },
)  # fmt: skip


def assert_is_an_answer(answered: Any) -> None:
    ((kind, content),) = answered.items()
    if kind == "results":
        for result in content:
            assert "results" not in result
            assert_is_an_answer(result)
    elif kind == "error":
        assert content["reason"] in REASONS
        assert content["message"]
        assert len(content["message"]) < 1000
    else:
        assert kind == "assignment"
        first = next(iter(content), "0")
        assert list(content) == [str(int(first) + at) for at in range(len(content))]
        assert all(len(set(row)) == len(row) for row in content.values())


@given(LINES)
def test_any_request_gets_one_answer(line: dict[str, object]) -> None:
    assert_is_an_answer(ask(line))


@given(JSON)
def test_any_json_gets_one_answer(value: object) -> None:
    assert_is_an_answer(ask(value))


@given(st.lists(st.binary() | LINES.map(lambda line: json.dumps(line).encode()), max_size=5))
def test_any_bytes_get_one_answer_for_each_line(pieces: list[bytes]) -> None:
    text = b"\n".join(pieces)
    lines = text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
    answered = answers_to(text)
    assert len(answered) == lines
    for line in answered:
        assert_is_an_answer(line)


@given(st.data())
def test_a_cut_line_gets_one_answer(data: st.DataObject) -> None:
    whole = json.dumps(data.draw(LINES)).encode()
    assert_is_an_answer(answers_to(whole[: data.draw(st.integers(1, len(whole)))])[0])


def test_a_request_reads_as_the_view_and_the_specs_that_it_says() -> None:
    line = asked(counts={"2": 5}, maxBrokerPartitions=9, maxPartitions=8, clusterPartitions=3, live=[2, 3], seed=-4,
                 minInsyncReplicas=2, underReplicated=True, fixedStartIndex=1, startPartitionId=6)  # fmt: skip
    request = decode_line(json.dumps(line).encode())
    view = request.view
    assert view.broker_ids.tolist() == [1, 2, 3]
    assert view.racks == ("a", "b", "c")
    assert view.fenced.tolist() == [True, False, False]
    assert view.replica_counts.tolist() == [0, 5, 0]
    assert (view.replica_limit, view.partition_limit, view.partition_count) == (9, 8, 3)
    assert (request.seed, request.has_calls) == (-4, False)
    assert request.specs == (
        PlacementSpec(
            partitions=4,
            replication_factor=2,
            first_partition=6,
            start_index=1,
            under_replicated=True,
            min_insync_replicas=2,
        ),
    )
