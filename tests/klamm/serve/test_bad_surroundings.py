"""`klamm serve` on a machine with too few descriptors or ports, or with a clock that jumps."""

import json
import socket
import subprocess
import time
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import trio

import klamm
from tests.klamm.serve.processes import (
    FREE,
    SECONDS,
    addresses,
    command,
    create,
    create_if_served,
    environment,
    first_line,
    refused,
    serving,
    topics,
)
from tests.klamm.serve.volumes import limit_open_files
from tests.server.test_listener import can_connect, free_ports_in_a_row

SYNC_SECONDS = 0.01
"""A thread syncs the log for about this long; the test's clock must not jump meanwhile."""
SESSION_SECONDS = 20
"""Longer than a broker's session."""
DAY_MS = 24 * 3600 * 1000


def open_files(process_id: int) -> int:
    return len(list(Path(f"/proc/{process_id}/fd").iterdir()))


def test_64_open_files_are_too_few_for_many_brokers_and_the_line_says_how_many_are_needed(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    arguments = (*FREE, "--brokers", "40", "--controller-listener", "127.0.0.1:0", "--data-dir", str(data_dir))
    with serving(*arguments, before=limit_open_files(64)) as process:
        stdout, stderr = process.communicate(timeout=SECONDS)
    said = "41 listeners and one connection need 74 open files, and the system allows 64 (ulimit -n)"
    assert (process.returncode, stdout, stderr) == (2, "", f"klamm serve: {said}\n")
    assert not data_dir.exists()


def test_with_64_open_files_more_clients_than_that_disturb_neither_the_log_nor_those_who_ask(tmp_path: Path) -> None:
    """Each topic takes a new segment, and so a new file, also while clients hold all descriptors."""
    small = ("--set", "internal.metadata.log.segment.bytes=1")
    files = ("--data-dir", str(tmp_path / "data"), "--request-log", str(tmp_path / "requests"))
    with serving(*FREE, *small, *files, before=limit_open_files(64)) as process:
        brokers = addresses(first_line(process))
        assert create(brokers[0], "before") == 0
        at_rest = open_files(process.pid)
        with ExitStack() as crowd:
            for number in range(200):
                crowd.enter_context(socket.create_connection(brokers[number % 3], SECONDS))
            made = [name for name in (f"topic-{number}" for number in range(20)) if create_if_served(brokers[1], name)]
            assert open_files(process.pid) <= 64
        assert create(brokers[2], "after") == 0
        assert set(topics(brokers[0])) == {"before", *made, "after"}
        assert len(made) >= 10, "whoever asks comes before those who do not"
        while open_files(process.pid) > at_rest + 3:
            topics(brokers[0])  # The connections of the crowd are being closed.
        process.terminate()
        stdout, _ = process.communicate(timeout=SECONDS)
        assert (process.returncode, stdout) == (0, "")


def test_with_64_open_files_a_crowd_at_the_control_interface_leaves_some_for_the_log(tmp_path: Path) -> None:
    options = ("--control", "127.0.0.1:0", "--set", "internal.metadata.log.segment.bytes=1")
    with serving(*FREE, *options, "--data-dir", str(tmp_path / "data"), before=limit_open_files(64)) as process:
        brokers = addresses(first_line(process))
        control = klamm.ControlClient(first_line(process).strip().removeprefix("control="))
        port = int(control.url.rpartition(":")[2])
        with ExitStack() as crowd:
            for _ in range(100):
                crowd.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS))
            assert [create(brokers[0], f"topic-{number}") for number in range(20)] == [0] * 20
        assert len(topics(brokers[2])) == 20
        while not answers(control):
            pass  # The crowd is being closed.
        process.terminate()
        assert process.wait(SECONDS) == 0


def answers(control: klamm.ControlClient) -> bool:
    try:
        return len(control.brokers()) == 3
    except klamm.ControlError:
        return False


@pytest.mark.parametrize("taken", [0, 2, 4])
def test_a_taken_port_among_those_of_the_brokers_is_named_and_nothing_is_left(tmp_path: Path, taken: int) -> None:
    first = free_ports_in_a_row(5)
    data_dir, request_log = tmp_path / "not" / "yet", tmp_path / "requests"
    with socket.create_server(("127.0.0.1", first + taken)):
        code, stdout, stderr = refused(
            *("serve", "--listen", f"127.0.0.1:{first}", "--brokers", "5"),
            *("--data-dir", str(data_dir), "--request-log", str(request_log)),
        )
    said = f"klamm serve: cannot listen on 127.0.0.1:{first + taken}: Address already in use\n"
    assert (code, stdout, stderr) == (2, "", said)
    assert list(tmp_path.iterdir()) == []
    assert not any(can_connect(first + number) for number in range(5))


def test_a_port_that_is_taken_when_a_broker_is_added_is_named_and_the_others_go_on() -> None:
    first = free_ports_in_a_row(3)
    with (
        socket.create_server(("127.0.0.1", first + 2)),
        klamm.ServerProcess("--listen", f"127.0.0.1:{first}", "--brokers", "2", control=True, warm=True) as server,
    ):
        with pytest.raises(klamm.ControlRefused, match=f"cannot listen on 127.0.0.1:{first + 2}: Address already"):
            server.add_broker()
        assert [broker.id for broker in server.brokers()] == [1, 2]
        assert create(("127.0.0.1", first), "made") == 0


class WallClock:
    """The machine's clock, which the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms = 0
        real_ns = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + self.ahead_ms * 1_000_000)
        monkeypatch.setattr(time, "time", lambda: real_ns() / 1e9 + self.ahead_ms / 1000)


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS, -60 * 365 * DAY_MS])
async def test_a_clock_that_jumps_fences_nobody_and_its_times_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, jump_ms: int
) -> None:
    """Sessions and all stored times use a clock that counts from the start and that no administrator sets. In memory,
    because the test's clock jumps while a thread syncs a log."""
    wall = WallClock(monkeypatch)
    requests = tmp_path / "requests"
    cluster = klamm.Cluster(request_log=requests, seed=7)
    async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics(["before"])
        wall.ahead_ms = jump_ms
        await trio.sleep(60)
        await admin.create_topics(["after"])
        brokers = (await admin.describe_cluster(include_fenced_brokers=True)).brokers
        assert [broker.fenced for broker in brokers] == [False] * 3
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    first, second = (datetime.fromisoformat(line["time"]) for line in lines if line["api"] == "CreateTopics")
    assert timedelta(seconds=60) <= second - first < timedelta(seconds=120)


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
async def test_a_clock_that_jumps_between_two_runs_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, jump_ms: int
) -> None:
    """Also the brokers of the former run, whose last heartbeats are then a day in the past or in the future."""
    wall = WallClock(monkeypatch)
    autojump_clock.autojump_threshold = SYNC_SECONDS
    for run in range(3):
        cluster = klamm.Cluster(data_dir=tmp_path, seed=7)
        async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
            before = await admin.metadata()
            assert [topic.topic_name for topic in before.topics] == [f"topic-{earlier}" for earlier in range(run)]
            assert len(before.brokers) == 3
            (made,) = await admin.create_topics([klamm.NewTopic(f"topic-{run}", 2, 3)])
            made.raise_for_error()
            await trio.sleep(SESSION_SECONDS)
            assert len((await admin.metadata()).brokers) == 3
        wall.ahead_ms += jump_ms


def test_a_ready_line_that_cannot_be_written_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        server = subprocess.Popen(
            command("serve", *FREE, "--stop-with-stdin"),
            stdin=subprocess.PIPE,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    try:
        assert server.stderr is not None
        output = server.stderr.readline()
        assert "the ready line could not be written" in output
        assert "No space left on device" in output
        server.communicate("", timeout=SECONDS)
    finally:
        server.kill()
    assert server.returncode == 0
