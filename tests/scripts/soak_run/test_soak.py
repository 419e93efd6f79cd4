"""scripts/soak in short, through the same code, and that it tells what grows from what comes back."""

import asyncio
import dataclasses
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from klamm.cluster.server_process import ServerProcess
from klamm.protocol.messages.partitions import alter_partition_reassignments
from klamm.protocol.messages.topics import create_topics
from klamm.server.limits import MIB
from tools.soak_run.conversation import Ask, Conversation
from tools.soak_run.libraries import make_aiokafka_consumer, stop_aiokafka_consumer
from tools.soak_run.sampling import ALLOWED_LOG_BYTES, Sample, growth, leaks, sparkline, take_sample

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 300
FOUND_SECONDS = 60
"""Long before metadata that is kept as long as aiokafka would is out of date."""
REST = Sample(
    seconds=1.0,
    requests=1_000,
    resident_bytes=80 * MIB,
    descriptors=16,
    threads=3,
    log_bytes=MIB,
    snapshots=0,
)


def samples(resident_mib: list[float]) -> list[Sample]:
    """One for each 1,000 requests."""
    return [
        dataclasses.replace(REST, requests=1_000 * number, resident_bytes=int(mib * MIB))
        for number, mib in enumerate(resident_mib, 1)
    ]


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--brokers", "3", control=True) as process:
        yield process


@pytest.fixture
def talk(server: ServerProcess) -> Iterator[Conversation]:
    host, _, port = server.bootstrap_servers.partition(",")[0].rpartition(":")
    with Conversation((host, int(port)), "soak") as conversation:
        yield conversation


def soak(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`scripts/soak`, with its files in `folder`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "tools.soak_run", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def test_a_short_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    done = soak(tmp_path, "--minutes", "0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "soak: nothing is left behind" in done.stdout
    assert "bug" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_answer_ends_the_soak_and_its_request_log_is_kept(tmp_path: Path) -> None:
    done = soak(tmp_path, "--minutes", "0.2", "--", "--set", "delete.topic.enable=false")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DeleteTopics: error 73" in done.stderr
    (folder,) = tmp_path.iterdir()
    assert f"soak: what was asked is kept in {folder}\n" in done.stderr
    assert '"api":"DeleteTopics"' in (folder / "requests.jsonl").read_text()


def create(topic_name: str, replicas: list[int]) -> Ask:
    """One partition on these brokers; the first one leads."""
    assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    topic = create_topics.CreatableTopic(
        name=topic_name, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    return create_topics.API, create_topics.CreateTopicsRequest(topics=[topic])


def move(topic_name: str, replicas: list[int]) -> Ask:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = alter_partition_reassignments.ReassignableTopic(name=topic_name, partitions=[partition])
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])
    return alter_partition_reassignments.API, request


async def begun_consumer(servers: str, partition: TopicPartition) -> AIOKafkaConsumer:
    """The soak's own, which has found where the partition begins, and so knows its leader."""
    consumer = make_aiokafka_consumer(servers)
    await consumer.start()
    consumer.assign([partition])
    await consumer.position(partition)
    return consumer


def test_the_soaks_aiokafka_finds_the_beginning_at_another_leader(server: ServerProcess, talk: Conversation) -> None:
    """The leader that it knows is there, and leads no longer: metadata from before a broker's restart says the same."""
    talk.ask(*create("moved", [2]))

    async def begin_again() -> int:
        partition = TopicPartition("moved", 0)
        consumer = await begun_consumer(server.bootstrap_servers, partition)
        try:
            talk.ask(*move("moved", [3]))
            async with asyncio.timeout(FOUND_SECONDS):
                await consumer.seek_to_beginning(partition)
            return int(await consumer.position(partition))
        finally:
            await stop_aiokafka_consumer(consumer)

    assert asyncio.run(begin_again()) == 0


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # one that was connecting at the end; seldom
def test_the_soaks_aiokafka_is_stopped_while_it_waits_to_ask_again(server: ServerProcess, talk: Conversation) -> None:
    talk.ask(*create("crashed", [3]))

    async def stop_without_leader() -> None:
        partition = TopicPartition("crashed", 0)
        consumer = await begun_consumer(server.bootstrap_servers, partition)
        server.stop_broker(3, "crash")
        # It asks every tenth of a second, and waits in between: two and a half times, so that this ends in the middle.
        assert await consumer.getmany(timeout_ms=250) == {}
        await stop_aiokafka_consumer(consumer)

    asyncio.run(stop_without_leader())
    gc.collect()


def test_what_grows_only_at_first_is_no_leak() -> None:
    assert leaks(samples([70, 80, 90, 95, *[96.0] * 8]), REST, REST) == []


def test_memory_that_goes_up_and_down_is_no_leak() -> None:
    assert leaks(samples([90, 100] * 10), REST, REST) == []


def test_memory_that_grows_is_told_with_the_requests_that_it_took() -> None:
    (reported,) = leaks(samples([70.0 + 2 * number for number in range(20)]), REST, REST)
    assert reported == "memory grew by 18.0 MiB over the second half, 9,000 requests; 8.0 MiB are allowed"


def test_in_a_long_run_what_is_allowed_follows_the_requests() -> None:
    long = [dataclasses.replace(sample, requests=sample.requests * 1_000) for sample in samples([70.0, 90.0] * 20)]
    grown = [
        dataclasses.replace(sample, resident_bytes=sample.resident_bytes + 10 * sample.requests) for sample in long
    ]
    assert leaks(long, REST, REST) == []
    assert len(leaks(grown, REST, REST)) == 1


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (dataclasses.replace(REST, descriptors=18), "2 descriptors are left open"),
        (dataclasses.replace(REST, threads=4), "1 threads are left"),
        (dataclasses.replace(REST, log_bytes=ALLOWED_LOG_BYTES + MIB), "the metadata log has 65 MiB; 64 are allowed"),
    ],
)
def test_what_did_not_come_back_is_told(last: Sample, told: str) -> None:
    assert leaks(samples([80.0] * 8), REST, last) == [told]


def test_growth_is_of_the_second_half_alone() -> None:
    assert growth(samples([10, 20, 30, 40, 50, 50, 50, 50]), lambda sample: sample.resident_bytes) == 0
    assert growth(samples([50, 50, 50, 50, 10, 20, 30, 40]), lambda sample: sample.resident_bytes / MIB) == (
        pytest.approx(30)
    )


def test_bars_go_from_the_lowest_to_the_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5]) == "▁▁"
    assert len(sparkline(list(range(1000)), 40)) == 40
    assert sparkline([]) == ""


def test_a_sample_is_of_a_process_and_of_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(bytes(1000))
    (folder / "00000000000000000010-0000000001.checkpoint").write_bytes(bytes(24))
    sample = take_sample(os.getpid(), tmp_path, 1.5, 7)
    with (tmp_path / "open").open("w"):
        more = take_sample(os.getpid(), tmp_path, 1.5, 7)
    assert (sample.log_bytes, sample.snapshots, sample.seconds, sample.requests) == (1024, 1, 1.5, 7)
    assert more.descriptors == sample.descriptors + 1
    assert sample.threads >= 1
    assert sample.resident_bytes > MIB
