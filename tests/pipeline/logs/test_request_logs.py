"""Request logs as rows: the same for any split into pieces, every line once, and invalid lines with the reason."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs import request_logs
from klamm.pipeline.logs.request_logs import cut_lines, find_request_files, read_lines

Row = dict[str, Any]


def line(number: int, **changed: Any) -> bytes:
    members = {
        "v": 1,
        "seq": number,
        "time": "2026-11-22T04:00:00.000+00:00",
        "cluster_id": "klamm",
        "broker_id": 1,
        "listener": "broker",
        "listener_name": "INTERNAL",
        "principal": "User:ANONYMOUS",
        "client_id": None,
        "client_software_name": "librdkafka",
        "client_software_version": "2.0",
        "api": "CreateTopics",
        "api_key": 19,
        "api_version": 7,
        "correlation_id": 3,
        "bytes_in": 100,
        "bytes_out": 50,
        "microseconds": 1234,
        "throttle_time_ms": 0,
        "log_end_offset": 17,
        "record_offsets": [17, 19],
        "errors": [{"topic_name": "t", "error_code": 36, "error_message": "exists"}],
        **changed,
    }
    return json.dumps({name: value for name, value in members.items() if value != "left out"}).encode() + b"\n"


def rows(path: Path, piece_bytes: int = 1 << 62) -> list[Row]:
    return [
        row
        for file in find_request_files([str(path)])
        for piece in cut_lines(file, 0, piece_bytes)
        for batch in read_lines([piece])
        for row in batch.to_pylist()
    ]


def problem_of(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    (row,) = rows(path)
    assert row["seq"] is None
    return str(row["problem"])


lines = st.lists(
    st.integers(0, 99).map(line)
    | st.binary(max_size=40).map(lambda junk: junk.replace(b"\n", b"\r") + b"\n")
    | st.sampled_from([b"\n", b"  \n", b"\r\n", b"{}\n", line(5)[:50] + b"\n", line(5, principal="x" * 300)]),
    max_size=12,
)


@given(lines, st.binary(max_size=30), st.integers(1, 700))
def test_the_rows_are_the_lines_in_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, given_lines: list[bytes], torn: bytes, piece_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "r.jsonl"
    path.write_bytes(b"".join(given_lines) + torn.replace(b"\n", b""))
    found = rows(path)
    assert rows(path, piece_bytes) == found
    places = [sum(map(len, given_lines[:n])) for n, text in enumerate(given_lines) if text.strip()]
    assert [row["line"] for row in found] == places
    texts = [text for text in given_lines if text.strip()]
    for row, text in zip(found, texts, strict=True):
        assert (row["problem"] is None) == (text.startswith(b'{"v": 1') and text.endswith(b"}\n"))
        assert row["problem"] is None or row["raw"] == text[:-1].decode("utf-8", "replace")


def test_a_line_is_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(line(7))
    (row,) = rows(path)
    reported = json.loads(line(7))
    same = reported.keys() & row.keys() - {"errors"}
    assert len(same) == 18
    assert {name: row[name] for name in same} == {name: reported[name] for name in same}
    assert row["timestamp"].isoformat() == "2026-11-22T04:00:00+00:00"
    assert (row["first_record_offset"], row["last_record_offset"]) == (17, 19)
    assert row["errors"] == [
        {
            **dict.fromkeys(("topic_id", "partition_index", "resource_type", "resource_name")),
            "topic_name": "t",
            "error_code": 36,
            "error_message": "exists",
        }
    ]
    assert (row["file"], row["line"], row["raw"], row["problem"]) == ("r.jsonl", 0, None, None)


def test_a_line_from_before_there_were_names_of_listeners_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(line(7, listener_name="left out") + line(8))
    assert [(row["seq"], row["listener_name"], row["problem"]) for row in rows(path)] == [
        (7, None, None), (8, "INTERNAL", None),
    ]  # fmt: skip


def test_a_clock_that_jumps_back_disturbs_no_order(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(line(1, time="2030-01-01T00:00:00+00:00") + line(2, time="1969-12-31T23:00:00-05:00"))
    assert [(row["seq"], row["timestamp"].year) for row in rows(path)] == [(1, 2030), (2, 1970)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (line(1)[:60] + b"\n", "JSONDecodeError"),
        (b"\xff\xfe\x00\n", "Error"),
        (b"[1, 2]\n", "a list, not an object"),
        (b'"v"\n', "a str, not an object"),
        (b'{"some": "alien"}\n', "KeyError: 'v'"),
        (b"[" * 100_000 + b"\n", "RecursionError"),
        (b'{"v": ' + b"9" * 5000 + b"}\n", "ValueError"),
        (line(1, v=2), "version 2, not 1"),
        (line(1, seq="1"), "seq is '1'"),
        (line(1, seq=True), "seq is True"),
        (line(1, seq=None), "seq is null"),
        (line(1, seq=1 << 63), "seq is 9223372036854775808"),
        (line(1, seq=1e999), "seq is inf"),
        (line(1, api_version=40_000), "api_version is 40000"),
        (line(1, api="left out"), "KeyError: 'api'"),
        (line(1, api=["CreateTopics"]), "api is ['CreateTopics']"),
        (line(1, client_id="\ud800"), "surrogates not allowed"),
        (line(1, time="yesterday"), "Invalid isoformat string"),
        (line(1, time="2026-11-22T04:00:00"), "has no zone"),
        (line(1, time="0001-01-01T00:00:00+14:00"), "OverflowError"),
        (line(1, time=5), "TypeError"),
        (line(1, record_offsets=7), "TypeError"),
        (line(1, record_offsets=[1]), "not enough values"),
        (line(1, record_offsets="ab"), "first_record_offset is 'a'"),
        (line(1, errors=None), "TypeError"),
        (line(1, errors="no list"), "an error is a str"),
        (line(1, errors=[{"error_code": "36"}]), "error_code is '36'"),
    ],
)
def test_a_line_that_is_none_says_why(tmp_path: Path, content: bytes, problem: str) -> None:
    assert problem in problem_of(tmp_path / "r.jsonl", content)


def test_a_line_without_end_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_logs, "MAX_LINE_BYTES", 10_000)
    monkeypatch.setattr(request_logs, "_BLOCK_BYTES", 1000)
    path = tmp_path / "r.jsonl"
    path.write_bytes(line(1) + b"x" * 100_000 + b"\n" + line(2))
    for piece_bytes in (1, 5000, 1 << 62):
        found = rows(path, piece_bytes)
        assert [row["seq"] for row in found] == [1, None, 2]
        assert "a line of 100001 bytes" in found[1]["problem"]


def test_the_rotated_files_come_first_and_keep_their_place(tmp_path: Path) -> None:
    log = tmp_path / "r.jsonl"
    for number, name in enumerate(["r.jsonl.10", "r.jsonl.2", "r.jsonl.1", "r.jsonl"]):
        (tmp_path / name).write_bytes(line(number))
    (tmp_path / "r.jsonl.new").write_bytes(b"")
    (tmp_path / "other.jsonl").write_bytes(line(9))
    assert [row["seq"] for row in rows(log)] == [0, 1, 2, 3]
    assert sorted(row["seq"] for row in rows(tmp_path)) == [0, 1, 2, 3, 9]
    found = find_request_files([str(log)])
    for name in ("r.jsonl.2", "r.jsonl.1", "r.jsonl"):  # rotated while they are read
        stem, _, place = name.rpartition(".")
        (tmp_path / name).rename(tmp_path / (f"{stem}.{int(place) + 1}" if place.isdigit() else f"{name}.1"))
    log.write_bytes(line(4))
    pieces = [piece for file in found for piece in cut_lines(file, 0, 1)]
    assert [row["seq"] for batch in read_lines(pieces) for row in batch.to_pylist()] == [0, 1, 2, 3]
    again = find_request_files([str(log)])
    assert {file.key for file in found} < {file.key for file in again}


def test_a_new_file_is_another_one_even_with_the_same_inode(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(line(1))
    (before,) = find_request_files([str(path)])
    path.write_bytes(line(2) + line(3))
    (after,) = find_request_files([str(path)])
    assert before.key != after.key
    with pytest.raises(PipelineError, match="rotated away"):
        list(cut_lines(before, 0, 100))


def test_a_file_that_grows_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    keys = set()
    content = line(1, principal="x" * 5000) + line(2)
    for size in (4095, 4096, 5000, len(content)):
        path.write_bytes(content[:size])
        keys |= {file.key for file in find_request_files([str(path)])}
    assert len(keys) == 1


def test_what_is_no_request_log_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"holds no request log \(\*\.jsonl\)"):
        find_request_files([str(tmp_path)])
    with pytest.raises(PipelineError, match=r"cannot read request log .*: No such file"):
        find_request_files([str(tmp_path / "missing.jsonl")])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert rows(tmp_path) == []
    (tmp_path / "r.jsonl").write_bytes(line(1))
    shutil.copyfile(tmp_path / "r.jsonl", tmp_path / "r.jsonl.copy")
    assert len(rows(tmp_path)) == 1
