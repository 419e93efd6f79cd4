"""A real cluster with records, whose replication is so slow that moves can be observed, and `klamm reassign-partitions`
as a process."""

import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import trio

import klamm
from klamm import NewTopic
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.data.batches import batch
from tests.klamm.serve.processes import command, environment, refused
from tests.klamm.serve.test_kip_578_versions import exchange

SECONDS = 60
Target = tuple[str, int, Sequence[int]]
_PRODUCE_BY_NAME = 12
"""The last version of Produce that names topics; later ones have topic ids."""


class Ran(NamedTuple):
    """Exit code and output of a call of the tool."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def content(self) -> Any:
        """The JSON object that --json prints. There must be no output on stderr."""
        assert (self.stdout.count("\n"), self.stderr) == (1, "")
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Moving:
    """A cluster, wherever it runs, with a client and a folder for files."""

    servers: str
    admin: klamm.AdminClient
    folder: Path

    async def place(self, topic_name: str, *rows: Sequence[int]) -> None:
        wanted = NewTopic(topic_name, replica_assignments=dict(enumerate(rows)))
        (made,) = await self.admin.create_topics([wanted])
        made.raise_for_error()

    async def fill(self, topic_name: str, records: int, partition_index: int = 0) -> None:
        """Produce records with acks=1."""
        seen = await self.admin.metadata([topic_name])
        leader = seen.topics[0].partitions[partition_index].leader
        (address,) = [f"{one.host}:{one.port}" for one in seen.brokers if one.broker_id == leader]
        data = PartitionProduceData(index=partition_index, records=batch(records))
        body = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic_name, partition_data=[data])])
        answer = await exchange(address, produce.API, _PRODUCE_BY_NAME, body)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def file(self, *targets: Target) -> str:
        """A reassignment file. Each call replaces the file."""
        partitions = [{"topic": name, "partition": index, "replicas": list(to)} for name, index, to in targets]
        return self.written({"version": 1, "partitions": partitions})

    def written(self, content: object) -> str:
        path = self.folder / "file.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def command(self, *arguments: str, servers: str | None = None) -> list[str]:
        return command("reassign-partitions", "--bootstrap-server", servers or self.servers, *arguments)

    async def run(self, *arguments: str) -> Ran:
        _, _, _, _, *words = self.command(*arguments)
        return Ran(*await trio.to_thread.run_sync(refused, *words))

    async def with_file(self, file: str, *arguments: str) -> Ran:
        return await self.run("--reassignment-json-file", file, *arguments)

    async def state(self) -> object:
        """All that a move may change: replicas, leaders, moves in progress, configs of brokers."""
        seen = await self.admin.metadata()
        resources = [klamm.ConfigResource.broker(broker.broker_id) for broker in seen.brokers]
        configs = await self.admin.describe_configs(resources)
        return seen.topics, await self.admin.list_partition_reassignments(), configs

    @asynccontextmanager
    async def watching(self, file: str, servers: str | None = None) -> AsyncIterator["Watching"]:
        """A `--watch` that prints JSON, stopped when the block ends."""
        process = await trio.lowlevel.open_process(
            self.command("--watch", "--json", "--reassignment-json-file", file, servers=servers),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with trio.fail_after(SECONDS):
                async with process.stdout, process.stderr:
                    yield Watching(process, process.stdout)
        finally:
            process.kill()
            await process.wait()


class Watching:
    """The output of a `--watch`, report by report."""

    def __init__(self, process: trio.Process, stdout: trio.abc.ReceiveStream) -> None:
        self._process = process
        self._stdout = stdout
        self._read = b""

    async def statuses(self) -> list[str]:
        """The statuses of the next report that has a change; none when the watch has ended."""
        while b"\n" not in self._read:
            chunk = await self._stdout.receive_some()
            if not chunk:
                assert self._read == b""
                return []
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return [replica["status"] for replica in json.loads(line)["replicas"]]

    async def until(self, *wanted: str) -> list[list[str]]:
        """All reports before the first one with these statuses."""
        looks: list[list[str]] = []
        while (found := await self.statuses()) != [*wanted]:
            assert found, f"the watch ended without {wanted}: {looks}"
            looks.append(found)
        return looks

    async def ended(self) -> tuple[int, str]:
        """Exit code and stderr."""
        assert self._process.stderr is not None
        output = b"".join([chunk async for chunk in self._process.stderr])
        return await self._process.wait(), output.decode()


@asynccontextmanager
async def moving_cluster(
    folder: Path, brokers: int = 3, replication_rate: int = 1, **configs: object
) -> AsyncIterator[tuple[Moving, klamm.Cluster]]:
    """In the test's event loop; keyword arguments such as `broker_session_timeout_ms=1000` are configs."""
    given = {name.replace("_", "."): str(value) for name, value in configs.items()}
    cluster = klamm.Cluster(brokers=brokers, seed=7, replication_rate=replication_rate, configs=given)
    async with cluster, klamm.AdminClient(cluster.bootstrap_servers) as admin:
        yield Moving(cluster.bootstrap_servers, admin, folder), cluster
