"""The request log: the content of a line, the numbers of lines, and that the log never delays a request."""

import io
import json
import os
from pathlib import Path
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.authorizer import ANONYMOUS
from klamm.controller.client import Client
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.server.event_log import EventLog
from klamm.server.request_log import MAX_WAITING_LINES, RequestLine, RequestLog, RequestLogError
from tests.server.harness import START_MS, create_topic, create_topic_frame, open_test_server

MEMBERS = [
    "v", "seq", "time", "cluster_id", "broker_id", "listener", "listener_name", "principal", "client_id",
    "client_software_name", "client_software_version", "api", "api_key", "api_version", "correlation_id", "bytes_in",
    "bytes_out", "microseconds", "throttle_time_ms", "log_end_offset", "record_offsets", "errors", "faults",
]  # fmt: skip


def make_line(correlation_id: int = 0, **members: Any) -> RequestLine:
    return RequestLine(**{
        "arrived_ms": START_MS,
        "broker_id": 1,
        "listener": "broker",
        "principal": "User:ANONYMOUS",
        "client_id": "peer",
        "client_software_name": None,
        "client_software_version": None,
        "api": "Metadata",
        "api_key": 3,
        "api_version": 12,
        "correlation_id": correlation_id,
        "bytes_in": 30,
        "bytes_out": 100,
        "throttle_time_ms": 0,
        "log_end_offset": 7,
        "record_offsets": None,
        "errors": [],
        "started": 1.0,
        "durable_at": 7,
        **members,
    })  # fmt: skip


def open_log(path: Path, stderr: io.StringIO | None = None, **bounds: Any) -> RequestLog:
    return RequestLog(path, "cluster", EventLog("console", stderr or io.StringIO()), **bounds)


def write_lines(path: Path, count: int, **bounds: int) -> None:
    log = open_log(path, io.StringIO(), **bounds)
    for number in range(count):
        log.append(make_line(number))
        log.release(7, 1.5)
        log.flush()
    log.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_line_tells_a_request_from_both_ends(tmp_path: Path, autojump_clock: MockClock) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        before = running.log.end_offset
        peer = running.connect_in_memory()
        software = api_versions.ApiVersionsRequest(client_software_name="tester", client_software_version="1.2")
        await peer.ask(api_versions.API, 3, software)
        await trio.sleep(1.25)
        await peer.send(create_topic_frame(42, "orders", 2))
        answer = await peer.receive()
        assert answer is not None
        after = running.log.end_offset
    first, second = read_lines(path)
    assert list(first) == MEMBERS
    assert (first["api"], first["client_software_name"], first["record_offsets"]) == ("ApiVersions", "tester", None)
    assert second == {
        "v": 1,
        "seq": 1,
        "time": "2023-11-14T22:13:21.250+00:00",
        "cluster_id": running.log.cluster_id,
        "broker_id": 1,
        "listener": "broker",
        "listener_name": None,
        "principal": "User:ANONYMOUS",
        "client_id": "peer",
        "client_software_name": "tester",
        "client_software_version": "1.2",
        "api": "CreateTopics",
        "api_key": 19,
        "api_version": 7,
        "correlation_id": 42,
        "bytes_in": len(create_topic_frame(42, "orders", 2)),
        "bytes_out": len(answer) + 4,
        "microseconds": second["microseconds"],
        "throttle_time_ms": 0,
        "log_end_offset": before,
        "record_offsets": [before, after - 1],
        "errors": [],
        "faults": None,
    }
    assert second["microseconds"] == 0, "on the test's clock nothing takes time"


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_a_line_says_who_asked(tmp_path: Path, listener: Literal["broker", "controller"]) -> None:
    """The principal and the listener of the connection; also in the line of a request that was refused because of its
    version."""
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        broker_id = 1 if listener == "broker" else None
        for principal in ("User:alice", ANONYMOUS):
            peer = running.connect_in_memory(Client(listener, broker_id, "10.0.0.2", principal, listener_name="IN"))
            await peer.ask(create_topics.API, 7, create_topic("t"))
            await peer.send(bytes.fromhex("0000001300120063000000070003726177000278027900ffffffff"))
            assert await peer.receive() is not None
    lines = read_lines(path)
    assert [(line["listener"], line["listener_name"], line["principal"]) for line in lines] == [
        (listener, "IN", principal) for principal in ("User:alice", "User:alice", "User:ANONYMOUS", "User:ANONYMOUS")
    ]


async def test_lines_name_what_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        peer = running.connect_in_memory()
        request = create_topic("fine")
        request.topics = [
            *request.topics,
            create_topics.CreatableTopic(name="no/slash", num_partitions=1, replication_factor=1),
        ]
        await peer.ask(create_topics.API, 7, request)
        requested = metadata.MetadataRequestTopic(name="nowhere")
        await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=[requested], allow_auto_topic_creation=False))
    created, described = read_lines(path)
    (refusal,) = created["errors"]
    assert (refusal["topic_name"], refusal["error_code"]) == ("no/slash", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert "no/slash" in refusal["error_message"]
    assert refusal["partition_index"] is None
    assert [(error["topic_name"], error["error_code"]) for error in described["errors"]] == [("nowhere", 3)]


async def test_the_refusal_of_an_unknown_api_version_has_a_line_and_closed_requests_have_none(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        peer = running.connect_in_memory()
        await peer.send(bytes.fromhex("0000001300120063000000070003726177000278027900ffffffff"))
        assert await peer.receive() is not None
        assert await peer.receive() is None
    (line,) = read_lines(path)
    assert (line["api"], line["api_version"], line["client_id"]) == ("ApiVersions", 99, None)
    assert [(error["topic_name"], error["error_code"]) for error in line["errors"]] == [(None, 35)]


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    write_lines(path, 3)
    write_lines(path, 2)
    assert [line["seq"] for line in read_lines(path)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("torn", [b'{"v":1,"seq":3,"ti', b"{", b"\0\0\0\0"])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "requests.jsonl"
    write_lines(path, 3)
    with path.open("ab") as file:
        file.write(torn)
    write_lines(path, 1)
    assert [line["seq"] for line in read_lines(path)] == [0, 1, 2, 3]


@pytest.mark.parametrize("torn", [b"", b'{"v":1,"seq":0,', b'{"', b"\0\0"])
def test_a_file_that_holds_no_whole_line_yet_begins_anew(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(torn)
    write_lines(path, 1)
    assert [line["seq"] for line in read_lines(path)] == [0]


def test_a_last_line_of_any_length_is_found(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    log = open_log(path)
    error = {"topic_name": "x" * 249, "topic_id": None, "partition_index": 1, "resource_type": None,
             "resource_name": None, "error_code": 3, "error_message": None}  # fmt: skip
    for errors in ([], [error] * 3000):
        log.append(make_line(errors=errors))
    log.release(7, 1.0)
    log.close()
    write_lines(path, 1)
    assert [line["seq"] for line in read_lines(path)] == [0, 1, 2]


@pytest.mark.parametrize("content", [b"my diary", b"dear diary\nmy diary\n", b'{"no":"seq"}\n', b"[]\n", b"1\nx"])
def test_a_file_of_others_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "diary.txt"
    path.write_bytes(content)
    with pytest.raises(RequestLogError, match=r"diary\.txt is no request log"):
        open_log(path)
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestLogError, match=r"request log .*missing"):
        open_log(tmp_path / "missing" / "requests.jsonl")
    with pytest.raises(RequestLogError, match=str(tmp_path)):
        open_log(tmp_path)


def test_a_file_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    log = open_log(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(RequestLogError, match="in use"):
            open_log(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "nothing stays open"
    log.close()
    open_log(path).close()


def test_files_are_rotated_by_size_and_only_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    write_lines(path, 1)
    line_bytes = path.stat().st_size
    write_lines(path, 9, max_file_bytes=2 * line_bytes, old_files=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"requests.jsonl{end}" for end in ("", ".1", ".2")]
    kept = [read_lines(tmp_path / f"requests.jsonl{end}") for end in (".2", ".1", "")]
    assert [[line["seq"] for line in lines] for lines in kept] == [[4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize("lines_in_a_file", [0.5, 1, 1.5, 2.5])
def test_no_file_is_empty_and_none_is_too_large_but_by_one_line(tmp_path: Path, lines_in_a_file: float) -> None:
    """Lines are written one by one here. A line above the size limit of a file gets a file of its own."""
    path = tmp_path / "requests.jsonl"
    write_lines(path, 1)
    line_bytes = path.stat().st_size
    path.unlink()
    for _ in range(2):  # An existing file is continued.
        log = open_log(path, max_file_bytes=round(lines_in_a_file * line_bytes), old_files=9)
        for number in range(4):
            log.append(make_line(number))
            log.release(7, 1.0)
            log.flush()
        log.close()
    in_a_file = max(1, int(lines_in_a_file))
    newest_first = sorted(tmp_path.iterdir(), key=lambda file: int(file.suffix[1:]) if file.suffix != ".jsonl" else 0)
    written = [[line["seq"] for line in read_lines(file)] for file in reversed(newest_first)]
    assert written == [list(range(8))[first : first + in_a_file] for first in range(0, 8, in_a_file)]


def test_numbers_go_on_when_the_newest_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    write_lines(path, 3)
    path.rename(tmp_path / "requests.jsonl.1")
    write_lines(path, 1)
    assert [line["seq"] for line in read_lines(path)] == [3]


def test_lines_wait_for_the_disk_and_count_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    log = open_log(path)
    log.append(make_line(1, durable_at=5, started=1.0))
    log.append(make_line(2, durable_at=6, started=1.5))
    log.flush()
    assert path.read_bytes() == b""
    log.release(5, 2.0)
    log.flush()
    assert [line["correlation_id"] for line in read_lines(path)] == [1]
    log.release(6, 2.25)
    log.close()
    assert [line["microseconds"] for line in read_lines(path)] == [1_000_000, 750_000]


def test_many_lines_are_written_without_waiting_for_a_tick(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    log = open_log(path)
    for number in range(MAX_WAITING_LINES):
        log.append(make_line(number))
    log.release(7, 1.0)
    assert len(read_lines(path)) == MAX_WAITING_LINES
    log.close()


def test_a_full_disk_costs_lines_and_one_warning_and_leaves_no_half_line(tmp_path: Path) -> None:
    """The limit on file sizes has the effect of a full disk: a write fails after a part of its bytes."""
    import resource
    import signal

    path, stderr = tmp_path / "requests.jsonl", io.StringIO()
    log = open_log(path, stderr)
    log.append(make_line(0))
    log.release(7, 1.0)
    log.flush()
    size = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2, limits[1]))
    try:
        for number in (1, 2):
            log.append(make_line(number))
            log.release(7, 1.0)
            log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, former)
    assert path.stat().st_size == size
    assert stderr.getvalue().count("cannot be written") == 1
    log.append(make_line(3))
    log.release(7, 1.0)
    log.close()
    assert [(line["seq"], line["correlation_id"]) for line in read_lines(path)] == [(0, 0), (3, 3)]


async def test_a_server_goes_on_when_its_request_log_is_gone(tmp_path: Path, autojump_clock: MockClock) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:
        peer = running.connect_in_memory()
        assert await peer.is_served()
        os.truncate(path, 0)
        path.unlink()
        await trio.sleep(1)
        assert await peer.is_served()


def test_the_file_may_be_read_by_others_and_written_by_its_owner_alone(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        write_lines(tmp_path / "requests.jsonl", 1)
    finally:
        os.umask(umask)
    assert (tmp_path / "requests.jsonl").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_software_that_was_refused_is_not_remembered(tmp_path: Path, is_accepted: bool) -> None:
    path = tmp_path / "requests.jsonl"
    name = "librdkafka" if is_accepted else "no name at all!"
    async with open_test_server(request_log=path) as running:
        peer = running.connect_in_memory()
        requested = api_versions.ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
        assert ((await peer.ask(api_versions.API, 3, requested)).error_code == 0) is is_accepted
        await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
    *_, line = read_lines(path)
    known = (line["client_software_name"], line["client_software_version"])
    assert known == ((name, "1.0") if is_accepted else (None, None))


def test_lines_that_the_system_takes_in_pieces_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("klamm.server.request_log.os.write", lambda file, data: write(file, data[:100]))
        write_lines(tmp_path / "requests.jsonl", 3)
    assert [line["seq"] for line in read_lines(tmp_path / "requests.jsonl")] == [0, 1, 2]
