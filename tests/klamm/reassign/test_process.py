"""`klamm reassign-partitions` as a process: its output on stdout and stderr, exit codes, pipes, signals, imported
modules."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import klamm
from klamm.admin.partition_types import TopicPartition
from tests.klamm.admin.scripted_cluster import Partition, ScriptedCluster
from tests.klamm.serve.processes import command, environment

MOVES = {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [2, 1]}]}
TABLE = (
    "Topic      Partition  Broker  Status\na          0          2       {}\na          0          1       In sync\n"
)


@pytest.fixture
def moves(tmp_path: Path) -> str:
    path = tmp_path / "moves.json"
    path.write_text(json.dumps(MOVES))
    return str(path)


def a_cluster(lag: int = 0) -> ScriptedCluster:
    return ScriptedCluster(partitions={TopicPartition("a", 0): Partition(1, (1, 2), {1: 100, 2: 100 - lag})})


def asked(cluster: ScriptedCluster | None, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    servers = "127.0.0.1:1" if cluster is None else cluster.bootstrap_servers
    return command("reassign-partitions", "--bootstrap-server", servers, *arguments, flags=flags)


async def run(cluster: ScriptedCluster | None, *arguments: str, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    return await run_process(asked(cluster, *arguments, flags=flags))


async def run_command(*arguments: str) -> tuple[int, str, str]:
    """The same, for a cluster that the arguments have."""
    return await run_process(command("reassign-partitions", *arguments))


async def run_process(words: list[str]) -> tuple[int, str, str]:
    with trio.fail_after(30):
        done = await trio.run_process(
            words,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environment(),
        )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_progress_prints_the_table_once(moves: str, nursery: trio.Nursery) -> None:
    cluster = await a_cluster(7).start(nursery)
    printed = await run(cluster, "--progress", "--reassignment-json-file", moves)
    assert printed == (0, TABLE.format("Behind: 7 messages behind"), "")


async def test_every_action_prints_one_object_with_json(moves: str, tmp_path: Path, nursery: trio.Nursery) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"a"}],"version":1}')
    cluster = await a_cluster().start(nursery)
    members = {}
    for action in ("--execute", "--verify", "--progress", "--watch", "--cancel"):
        code, out, err = await run(cluster, action, "--reassignment-json-file", moves, "--json")
        assert (code, err, out.count("\n")) == (0, "", 1), action
        members[action] = set(json.loads(out))
    code, out, _ = await run(cluster, "--list", "--json")
    members["--list"] = set(json.loads(out))
    generate = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2", "--json")
    code, out, _ = await run(cluster, *generate)
    members["--generate"] = set(json.loads(out))
    assert members == {
        "--execute": {"current", "throttle", "started", "refused"},
        "--verify": {"partitions", "in_progress", "cleared"},
        "--progress": {"replicas", "in_sync"},
        "--watch": {"replicas", "in_sync"},
        "--cancel": {"cancelled", "refused", "cleared"},
        "--list": {"reassignments"},
        "--generate": {"current", "proposed"},
    }


async def test_what_execute_has_started_can_be_watched_in_the_same_call(moves: str, nursery: trio.Nursery) -> None:
    cluster = await a_cluster().start(nursery)
    code, out, err = await run(cluster, "--execute", "--watch", "--reassignment-json-file", moves)
    assert (code, err) == (0, "")
    started, shown, *table = out.splitlines(keepends=True)[5:]
    assert started == "Successfully started partition reassignment for a-0\n"
    assert shown == "2 of 2 replicas in sync, 0 messages behind\n"
    assert "".join(table) == TABLE.format("In sync")


async def test_a_refusal_is_told_on_stderr_and_is_exit_code_1(moves: str, nursery: trio.Nursery) -> None:
    cluster = a_cluster()
    cluster.refusals[TopicPartition("a", 0)] = 39
    await cluster.start(nursery)
    code, out, err = await run(cluster, "--execute", "--reassignment-json-file", moves, "--watch", "--json")
    assert (code, out.count("\n")) == (1, 1), "there is nothing to watch"
    assert err == (
        "klamm reassign-partitions: 1 of 1 partition was refused: a-0: INVALID_REPLICA_ASSIGNMENT (39): no\n"
    )


async def test_a_server_that_is_not_there_is_one_line(moves: str) -> None:
    code, out, err = await run(None, "--execute", "--reassignment-json-file", moves)
    assert (code, out) == (1, "")
    assert err == ("klamm reassign-partitions: cannot connect to 127.0.0.1:1: Connection refused\n")


async def test_a_file_is_read_before_anybody_is_asked(tmp_path: Path) -> None:
    code, _, err = await run(None, "--execute", "--reassignment-json-file", str(tmp_path / "none"))
    assert (code, err) == (1, f"klamm reassign-partitions: {tmp_path}/none: No such file or directory\n")


async def test_an_interrupt_ends_a_watch_with_one_line(moves: str, nursery: trio.Nursery) -> None:
    cluster = await a_cluster(5).start(nursery)
    async with watching(cluster, moves) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert await process.stdout.receive_some() == b"1 of 2 replicas in sync, 5 messages behind\n"
        process.send_signal(signal.SIGINT)
        reported = await process.stderr.receive_some()
        assert (await process.wait(), reported) == (
            130,
            b"klamm reassign-partitions: interrupted; reassignments that have started continue\n",
        )


async def test_a_reader_who_has_enough_ends_a_watch_quietly(moves: str, nursery: trio.Nursery) -> None:
    partition = Partition(1, (1, 2), {1: 100, 2: 50})
    cluster = await ScriptedCluster(partitions={TopicPartition("a", 0): partition}).start(nursery)
    async with watching(cluster, moves) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdout.receive_some()
        await process.stdout.aclose()
        partition.ends[2] = 60
        assert (await process.wait(), await process.stderr.receive_some()) == (0, b"")


async def test_a_terminal_gets_the_live_table(moves: str, nursery: trio.Nursery) -> None:
    cluster = await a_cluster().start(nursery)
    ours, theirs = pty.openpty()
    try:
        arguments = asked(cluster, "--watch", "--reassignment-json-file", moves)
        with trio.fail_after(30):
            done = await trio.run_process(
                arguments, stdout=theirs, check=False, env=environment({"TERM": "xterm", "COLUMNS": "100"})
            )
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert "━" * 24 in shown
    assert "2 of 2 replicas in sync" in shown


async def test_neither_rich_nor_numpy_is_imported_before_it_is_needed(moves: str, nursery: trio.Nursery) -> None:
    cluster = await a_cluster().start(nursery)
    _, _, err = await run(cluster, "--progress", "--reassignment-json-file", moves, flags=("-X", "importtime"))
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in err.splitlines() if "|" in line}
    assert {"trio", "construct"} <= imported
    assert imported & {"rich", "numpy", "structlog", "typer"} == set()


@asynccontextmanager
async def watching(cluster: ScriptedCluster, moves: str) -> AsyncIterator[trio.Process]:
    """A `--watch` with pipes, stopped when the block ends."""
    process = await trio.lowlevel.open_process(
        asked(cluster, "--watch", "--reassignment-json-file", moves),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        with trio.fail_after(30):
            yield process
    finally:
        process.kill()
        await process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                await stream.aclose()


async def test_a_secured_cluster_is_reached_with_the_properties_of_kafkas_clients(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    async with klamm.Cluster(brokers=1, security="sasl_ssl", users={"alice": "secret"}) as cluster:
        given = cluster.client_config("java", "alice")
        properties.write_text("".join(f"{name}={value}\n" for name, value in given.items()) + "acks=all\n")
        arguments = ("--bootstrap-server", cluster.bootstrap_servers, "--list", "--command-config", str(properties))
        code, out, err = await run_command(*arguments)
        warning = f"warning: {properties}: these client settings have no effect in Klamm: acks"
        assert (code, out) == (0, "No partition reassignments found.\n")
        assert err == f"klamm reassign-partitions: {warning}\n"

        properties.write_text(properties.read_text().replace('"secret"', '"wrong"'))
        code, out, err = await run_command(*arguments)
        assert (code, out) == (1, "")
        assert "PLAIN is refused: Authentication failed: Invalid username or password" in err
        assert "wrong" not in err

    properties.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={module} word;\n")
    code, out, err = await run_command(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"klamm reassign-partitions: {properties}: ")
    assert err.count("\n") == 1
