"""Snapshots through `klamm serve`, `klamm.Cluster`, the control interface and the shell, and restarts from them."""

import json
import signal
import time
from pathlib import Path

import pytest
import trio

import klamm
from klamm import ClusterError, NewTopic, ServerProcess, TakenSnapshot
from klamm.controller.log.snapshot_files import list_snapshots
from tests.klamm.control.control_cluster import controlled_cluster
from tests.klamm.control.test_command import run
from tests.klamm.serve.processes import FREE, SECONDS, addresses, first_line, refused, serving

FOLDER = "__cluster_metadata-0"
TOPICS = [NewTopic("a", 3, 2, {"retention.ms": "5"}), NewTopic("b", 100, 3)]


def ends(data_dir: Path) -> list[int]:
    """The end offsets of the snapshots."""
    return [snapshot.end_offset for snapshot in list_snapshots(data_dir / FOLDER)]


async def create(bootstrap_servers: str, *topics: NewTopic) -> None:
    async with klamm.AdminClient(bootstrap_servers) as admin:
        for made in await admin.create_topics(topics):
            made.raise_for_error()


async def described(bootstrap_servers: str) -> object:
    async with klamm.AdminClient(bootstrap_servers) as admin:
        topics = await admin.describe_topic_partitions()
        configs = await admin.describe_configs([klamm.ConfigResource.topic("a")])
        return topics, [entry for one in configs for entry in one.configs.values()]


def test_a_stopped_server_answers_from_its_snapshot(tmp_path: Path) -> None:
    """The test removes the log before the offset of the snapshot, so the start has nothing else."""
    with ServerProcess("--data-dir", str(tmp_path), warm=True) as server:
        trio.run(create, server.bootstrap_servers, *TOPICS)
        before = trio.run(described, server.bootstrap_servers)
    (end_offset,) = ends(tmp_path)
    (log,) = (tmp_path / FOLDER).glob("*.log")
    log.unlink()
    with ServerProcess("--data-dir", str(tmp_path), warm=True) as server:
        assert trio.run(described, server.bootstrap_servers) == before
        trio.run(create, server.bootstrap_servers, NewTopic("c", 1, 1))
    assert ends(tmp_path)[0] == end_offset
    assert len(ends(tmp_path)) == 2


def test_a_killed_server_goes_on_from_snapshot_and_log(tmp_path: Path) -> None:
    with serving(*FREE, "--control", "127.0.0.1:0", "--data-dir", str(tmp_path)) as process:
        host, port = addresses(first_line(process))[0]
        assert process.stdout is not None
        control = klamm.ControlClient(process.stdout.readline().strip().removeprefix("control="))
        bootstrap_servers = f"{host}:{port}"
        trio.run(create, bootstrap_servers, TOPICS[0])
        taken = control.snapshot()
        trio.run(create, bootstrap_servers, TOPICS[1])
        before = trio.run(described, bootstrap_servers)
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
    assert ends(tmp_path) == [taken.end_offset]
    with ServerProcess("--data-dir", str(tmp_path), warm=True) as server:
        assert trio.run(described, server.bootstrap_servers) == before


def test_zero_takes_none_and_keeps_everything(tmp_path: Path) -> None:
    for _ in range(3):
        with ServerProcess("--data-dir", str(tmp_path), "--snapshot-records", "0", warm=True):
            pass
    assert ends(tmp_path) == []
    assert [path.name for path in (tmp_path / FOLDER).glob("*.log")] == [f"{0:020}.log"]


def test_after_so_many_records(tmp_path: Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path), "--snapshot-records", "50", warm=True) as server:
        trio.run(create, server.bootstrap_servers, TOPICS[1])
        deadline = time.monotonic() + SECONDS
        while not ends(tmp_path):
            assert time.monotonic() < deadline, "it never comes"


def test_a_damaged_snapshot_that_nothing_mends_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path), warm=True):
        pass
    (snapshot,) = list_snapshots(tmp_path / FOLDER)
    (log,) = (tmp_path / FOLDER).glob("*.log")
    log.unlink()
    snapshot.path.write_bytes(snapshot.path.read_bytes()[:-1])
    code, stdout, stderr = refused("serve", *FREE, "--data-dir", str(tmp_path))
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith(f"klamm serve: snapshot {snapshot.path} is damaged at byte ")


@pytest.mark.parametrize("number", ["-1", "x", "2147483648", "1_0"])
def test_a_number_of_records_that_is_none_is_refused(number: str) -> None:
    code, stdout, stderr = refused("serve", *FREE, f"--snapshot-records={number}")
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert "a whole number from 0 to 2147483647 is expected" in stderr


async def test_a_program_takes_snapshots_of_its_cluster(tmp_path: Path) -> None:
    async with klamm.Cluster(data_dir=tmp_path, snapshot_records=0) as cluster:
        await create(cluster.bootstrap_servers, *TOPICS)
        before = await described(cluster.bootstrap_servers)
        first = last = await cluster.snapshot()
        assert isinstance(first, TakenSnapshot)
        assert ends(tmp_path) == [first.end_offset]
        assert await cluster.snapshot() == first
        for number in range(3):
            await create(cluster.bootstrap_servers, NewTopic(f"more-{number}", 1, 1))
            before = await described(cluster.bootstrap_servers)
            last = await cluster.snapshot()
        assert len(ends(tmp_path)) == 4, "nothing is dropped"
        assert (tmp_path / FOLDER / f"{0:020}.log").exists()
    assert ends(tmp_path)[-1] == last.end_offset, "none is taken at the end"
    async with klamm.Cluster(data_dir=tmp_path) as cluster:
        assert await described(cluster.bootstrap_servers) == before


async def test_a_cluster_in_memory_has_snapshots_too() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        await create(cluster.bootstrap_servers, NewTopic("one", 1, 1))
        first = await cluster.snapshot()
        assert isinstance(first, TakenSnapshot)
        assert first.records > 0
        assert await cluster.snapshot() == first


@pytest.mark.parametrize("number", [-1, 2**31, True, "9"])
def test_a_program_is_told_which_numbers_there_are(number: int) -> None:
    with pytest.raises(ClusterError, match=r"snapshot_records .*: a whole number from 0 to 2147483647 is expected"):
        klamm.Cluster(snapshot_records=number)


def test_a_shell_has_a_snapshot_taken(tmp_path: Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path), control=True, warm=True) as server:
        code, stdout, stderr = run("--url", server.control_url, "snapshot")
        (end_offset,) = ends(tmp_path)
        records = server.snapshot().records
        said = f"snapshot of {records} records, up to offset {end_offset}\n"
        assert (code, stdout, stderr) == (0, said, "")
        code, stdout, _ = run("--url", server.control_url, "snapshot", "--json")
        assert json.loads(stdout) == {"end_offset": end_offset, "records": records}
    with ServerProcess(control=True, warm=True) as server:
        taken = server.snapshot()
        said = f"snapshot of {taken.records} records, up to offset {taken.end_offset}\n"
        assert run("--url", server.control_url, "snapshot") == (0, said, "")


async def test_the_route_takes_no_members_and_no_other_method() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        assert (await cluster.ask("POST", "/snapshot", {"x": 1}))[0] == 400
        assert (await cluster.ask("GET", "/snapshot"))[0] == 405
        described = (await cluster.ask("GET", "/openapi.json"))[1]["paths"]["/snapshot"]["post"]
        assert set(described["responses"]) == {"200", "400", "401", "403", "413", "500", "503", "507"}


async def test_one_that_cannot_be_written_is_told_and_the_cluster_goes_on(tmp_path: Path) -> None:
    async with klamm.Cluster(brokers=1, data_dir=tmp_path) as cluster:
        await create(cluster.bootstrap_servers, NewTopic("a", 1, 1))
        taken = await cluster.snapshot()
        in_the_way = tmp_path / FOLDER / f"{taken.end_offset + 2:020}-0000000001.checkpoint"
        in_the_way.mkdir()
        await create(cluster.bootstrap_servers, NewTopic("b", 1, 1))
        with pytest.raises(ClusterError, match=f"cannot write {in_the_way}"):
            await cluster.snapshot()
        await create(cluster.bootstrap_servers, NewTopic("c", 1, 1))
        assert (await cluster.snapshot()).end_offset == taken.end_offset + 4


@pytest.mark.parametrize(("options", "kept"), [((), False), (("--keep-history",), True), (("--request-log",), True)])
def test_history_is_kept_if_it_is_asked_for_or_a_request_log_names_its_offsets(
    options: tuple[str, ...], kept: bool, tmp_path: Path
) -> None:
    data, log = tmp_path / "data", tmp_path / "requests.jsonl"
    given = (*options, str(log)) if "--request-log" in options else options
    with ServerProcess("--data-dir", str(data), *given, control=True, warm=True) as server:
        for topic in TOPICS[:3]:
            trio.run(create, server.bootstrap_servers, topic)
            server.snapshot()
    assert ((data / FOLDER) / f"{0:020}.log").exists() is kept
