"""The JSON files of the tool: which are accepted; for every other file, one line and exit code 1 without a
traceback."""

import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.__main__ import main
from klamm.admin.partition_types import TopicPartition
from klamm.reassign.files import InvalidFile, Target, as_file, as_text, read_targets, read_topics

ONE: dict[str, Any] = {"topic": "orders", "partition": 0, "replicas": [1, 2]}


def written(folder: Path, content: Any) -> Path:
    path = folder / "moves.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InvalidFile) as raised:
        read_targets(path)
    text = str(raised.value)
    assert str(path) in text
    assert len(text.splitlines()) == 1
    return text.removeprefix(f"{path}: ")


def test_a_file_of_kafka_s_tool_is_taken_in_its_order(tmp_path: Path) -> None:
    other = {"topic": "a.b-c_D", "partition": 7, "replicas": [3], "log_dirs": ["/data/1"]}
    assert read_targets(written(tmp_path, {"version": 1, "partitions": [ONE, other]})) == (
        Target(TopicPartition("orders", 0), (1, 2), ("any", "any")),
        Target(TopicPartition("a.b-c_D", 7), (3,), ("/data/1",)),
    )


def test_version_1_is_meant_where_there_is_none(tmp_path: Path) -> None:
    assert len(read_targets(written(tmp_path, {"partitions": [ONE]}))) == 1
    assert read_topics(written(tmp_path, {"topics": [{"topic": "b"}, {"topic": "a"}]})) == ("b", "a")


def test_what_is_printed_can_be_read_again(tmp_path: Path) -> None:
    text = as_text(
        as_file({TopicPartition("b", 0): (2, 1), TopicPartition("a", 1): (1,), TopicPartition("a", 0): (3,)})
    )
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3],"log_dirs":["any"]},'
        '{"topic":"a","partition":1,"replicas":[1],"log_dirs":["any"]},'
        '{"topic":"b","partition":0,"replicas":[2,1],"log_dirs":["any","any"]}]}'
    )
    partitions = [target.partition for target in read_targets(written(tmp_path, text.encode()))]
    assert list(map(str, partitions)) == ["a-0", "a-1", "b-0"]


@pytest.mark.parametrize(("content", "said"), [
    (b"", "the file is empty; a JSON object is expected"),
    (b"\xff", "the file is not UTF-8: invalid start byte at byte 1"),
    (b"{", "the file is not JSON: Expecting property name enclosed in double quotes at character 2"),
    (b"[" * 100_000, "the file is nested too deeply"),
    (b'{"version":NaN}', "the file is not JSON: NaN is no JSON number"),
    (b'{"version":1,"version":1}', 'the member "version" is given twice'),
    ([], "the file is a list of 0; a JSON object is expected"),
    ({}, "partitions is missing; a list of partitions is expected"),
    ({"version": 2, "partitions": [ONE]}, "version is 2; 1 is expected"),
    ({"version": "1", "partitions": [ONE]}, 'version is "1"; 1 is expected'),
    ({"version": True, "partitions": [ONE]}, "version is true; 1 is expected"),
    ({"version": 1, "partition": [ONE]},
        ('unknown member "partition" (known: partitions, version)' "; did you mean 'partitions'?")),
    ({"version": 1, "partitions": []}, "partitions is an empty list; there is nothing to do"),
    ({"version": 1, "partitions": ONE}, "partitions is an object of 3; a list is expected"),
    ({"partitions": [1]}, "partitions[0] is 1; a JSON object is expected"),
    ({"partitions": [ONE, ONE]}, "partition orders-0 is given twice"),
    ({"partitions": [ONE | {"replica": 1}]},
        ('partitions[0]: unknown member "replica" (known: log_dirs, partition, replicas, topic)'
        "; did you mean 'replicas'?")),
    ({"partitions": [{"topic": "a", "partition": 0}]},
        "partitions[0].replicas is missing; a list of broker ids is expected"),
    ({"partitions": [ONE | {"replicas": []}]},
        "partitions[0].replicas is an empty list; orders-0 needs at least one broker"),
    ({"partitions": [ONE | {"replicas": [1, 2, 1]}]}, "partitions[0].replicas: broker 1 is given twice"),
    ({"partitions": [ONE | {"replicas": [1, -1]}]},
        "partitions[0].replicas[1] is -1; a whole number from 0 to 2147483647 is expected"),
    ({"partitions": [ONE | {"replicas": [True]}]},
        "partitions[0].replicas[0] is true; a whole number from 0 to 2147483647 is expected"),
    ({"partitions": [ONE | {"partition": "0"}]},
        'partitions[0].partition is "0"; a whole number from 0 to 2147483647 is expected'),
    ({"partitions": [ONE | {"partition": 2**31}]},
        "partitions[0].partition is 2147483648; a whole number from 0 to 2147483647 is expected"),
    ({"partitions": [ONE | {"topic": ""}]},
        'partitions[0].topic is ""; a topic\'s name (up to 249 of a-z A-Z 0-9 . _ -) is expected'),
    ({"partitions": [ONE | {"topic": "a" * 250}]},
        f'partitions[0].topic is "{"a" * 40}…"; a topic\'s name (up to 249 of a-z A-Z 0-9 . _ -) is expected'),
    ({"partitions": [ONE | {"log_dirs": ["any"]}]}, "partitions[0] has 2 replicas but 1 log_dirs"),
    ({"partitions": [ONE | {"log_dirs": ["any", 2]}]}, 'partitions[0].log_dirs[1] is 2; a path, or "any", is expected'),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(content: Any, said: str, tmp_path: Path) -> None:
    assert refusal(written(tmp_path, content)) == said


@pytest.mark.parametrize(("content", "said"), [
    ({"version": 1, "topics": []}, "topics is an empty list; there is nothing to do"),
    ({"version": 1, "topics": [{"topic": "a"}, {"topic": "a"}]}, "topic a is given twice"),
    ({"version": 1, "topics": ["a"]}, 'topics[0] is "a"; a JSON object is expected'),
    ({"version": 1, "partitions": [ONE]}, 'unknown member "partitions" (known: topics, version)'),
    ({"version": 3, "topics": [{"topic": "a"}]}, "version is 3; 1 is expected"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_of_topics_is_said(content: Any, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InvalidFile) as raised:
        read_topics(path)
    assert str(raised.value) == f"{path}: {said}"


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json") == "No such file or directory"
    assert refusal(tmp_path) == "Is a directory"


NAMES = ("version", "partitions", "topics", "topic", "partition", "replicas", "log_dirs")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**31)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["orders"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner),
    max_leaves=20,
)
NEARLY_ROWS = st.fixed_dictionaries(
    {"topic": st.just("orders") | VALUES, "partition": st.integers(0, 3) | VALUES, "replicas": st.just([1]) | VALUES},
    optional={"log_dirs": st.just(["any"]) | VALUES},
)
NEARLY_FILES = st.fixed_dictionaries(
    {"version": st.just(1) | VALUES, "partitions": st.lists(NEARLY_ROWS, max_size=3) | VALUES}
)


@given(content=st.one_of(VALUES, NEARLY_FILES).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
@example(content=b'{"partitions":[{"topic":"\\ud800","partition":0,"replicas":[1]}]}')
@example(content=b'{"version":1' + b"0" * 5000 + b"}")
def test_any_file_is_one_line_and_exit_code_1(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also a valid file ends in one line, because no cluster listens at the given address."""
    path = written(tmp_path_factory.getbasetemp(), content)
    reported = StringIO()
    with redirect_stderr(reported):
        requested = ["--bootstrap-server", "127.0.0.1:1", "--execute", "--reassignment-json-file", str(path)]
        assert main(["reassign-partitions", *requested]) == 1
    assert reported.getvalue().startswith("klamm reassign-partitions: ")
    assert reported.getvalue().endswith("\n")
    assert len(reported.getvalue().splitlines()) == 1
