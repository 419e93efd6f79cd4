"""Records through `klamm serve` and `klamm.Cluster`: the options that limit them, and what is left of them after a
restart."""

import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio

import klamm
from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.broker.log_end_offsets import CHECKPOINT, load_log_end_offsets
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import list_offsets, produce
from klamm.protocol.messages.topics import create_topics
from tests.broker.data.batches import batch
from tests.klamm.serve.processes import FREE, SECONDS, Process, addresses, ask, first_line, refused, serving

BATCH = batch(10, value=bytes(100))
LARGE_BATCH = batch(10, value=bytes(1_000))
ONE_BROKER = (*FREE, "--brokers", "1")
Address = tuple[str, int]


def create(address: Address, name: str, *replicas: int) -> None:
    assignments = [create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
    topic = create_topics.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    response = ask(address, create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
    assert isinstance(response, create_topics.CreateTopicsResponse)
    assert response.topics[0].error_code == 0


def write(address: Address, name: str, acks: int = -1, records: bytes = BATCH) -> tuple[int, int]:
    """Write ten records. Returns the error code and the base offset."""
    data = [produce.PartitionProduceData(index=0, records=records)]
    topics = [produce.TopicProduceData(name=name, partition_data=data)]
    request = produce.ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)
    response = ask(address, produce.API, 12, request)
    assert isinstance(response, produce.ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def offset_at(address: Address, name: str, timestamp_ms: int) -> int:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    topics = [list_offsets.ListOffsetsTopic(name=name, partitions=[partition])]
    response = ask(address, list_offsets.API, 7, list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics))
    assert isinstance(response, list_offsets.ListOffsetsResponse)
    return response.topics[0].partitions[0].offset


def ends(address: Address, name: str) -> tuple[int, int]:
    """The log start offset and the high watermark."""
    return offset_at(address, name, -2), offset_at(address, name, -1)


def wait_for_checkpoint(data_dir: Path, log_end_offset: int) -> None:
    """Wait until the process has written its checkpoint of log end offsets, which it does periodically."""
    deadline = time.monotonic() + SECONDS
    while list(load_log_end_offsets(data_dir).values()) != [log_end_offset]:
        assert time.monotonic() < deadline, "it is never written down"


def end(process: Process, number: signal.Signals, data_dir: Path, log_end_offset: int) -> None:
    if number == signal.SIGKILL:
        wait_for_checkpoint(data_dir, log_end_offset)
    process.send_signal(number)
    process.wait(SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart_partitions_begin_empty_where_they_ended(tmp_path: Path, number: signal.Signals) -> None:
    starts = 3 if number == signal.SIGTERM else 2  # after SIGKILL each takes seconds, until the next checkpoint
    for restarts in range(starts):
        with serving(*FREE, "--data-dir", str(tmp_path)) as process:
            (broker, *_) = addresses(first_line(process))
            if not restarts:
                create(broker, "t", 1, 2, 3)
            end_offset = 10 * restarts
            assert ends(broker, "t") == (end_offset, end_offset)
            assert write(broker, "t") == (0, end_offset)
            assert ends(broker, "t") == (end_offset, end_offset + 10)
            if restarts < starts - 1:
                end(process, number, tmp_path, end_offset + 10)


def test_no_offset_is_given_twice_when_the_process_is_killed_at_once(tmp_path: Path) -> None:
    end_offset = 0
    for restarts in range(3):
        with serving(*ONE_BROKER, "--data-dir", str(tmp_path)) as process:
            (broker,) = addresses(first_line(process))
            if not restarts:
                create(broker, "t", 1)
            error_code, offset = write(broker, "t")
            process.kill()
            process.wait(SECONDS)
        assert error_code == 0
        assert offset >= end_offset
        end_offset = offset + 10


@pytest.mark.parametrize("text", ["", "0\n1\n", "1\n0\n", "0\n1\nsomething else here\n"])
def test_a_damaged_checkpoint_is_one_line_and_exit_code_2_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    with serving(*ONE_BROKER, "--data-dir", str(tmp_path)) as process:
        (broker,) = addresses(first_line(process))
        create(broker, "t", 1)
        write(broker, "t")
        end(process, signal.SIGTERM, tmp_path, 10)
    (tmp_path / CHECKPOINT).write_text(text)
    code, stdout, stderr = refused("serve", *ONE_BROKER, "--data-dir", str(tmp_path))
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr.startswith(f"klamm serve: {tmp_path / CHECKPOINT} ")
    assert "without" in stderr
    assert (tmp_path / CHECKPOINT).read_text() == text
    (tmp_path / CHECKPOINT).unlink()
    with serving(*ONE_BROKER, "--data-dir", str(tmp_path)) as process:
        assert ends(addresses(first_line(process))[0], "t") == (0, 0), "as the line says"


def test_without_room_records_are_refused_and_none_go() -> None:
    with serving(*ONE_BROKER, "--data-memory-bytes", str(1 << 20), "--data-file-bytes", "0") as process:
        (broker,) = addresses(first_line(process))
        create(broker, "t", 1)
        accepted = 0
        while (answer := write(broker, "t", records=LARGE_BATCH))[0] == 0:
            assert answer == (0, 10 * accepted)
            accepted += 1
        assert answer == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert accepted == (1 << 20) // (len(LARGE_BATCH) + ENTRY_BYTES)
        assert write(broker, "t", records=LARGE_BATCH) == answer
        assert ends(broker, "t") == (0, 10 * accepted)
        process.terminate()
        _, stderr = process.communicate(timeout=SECONDS)
    assert stderr.count("Produce is refused until there is room for records") == 1
    assert "--data-file-bytes allows 0 bytes" in stderr


def unnamed_files(process_id: int, folder: Path) -> list[Path]:
    """The open files of a process that were in this folder and have no name."""
    found = []
    for link in Path(f"/proc/{process_id}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, such as a folder that was synced
            target = str(link.readlink())
            if target.startswith(str(folder)) and target.endswith("(deleted)"):
                found.append(link)
    return found


@pytest.mark.parametrize("has_data_dir", [False, True])
def test_records_beyond_the_memory_are_in_a_file_that_goes_with_its_process(tmp_path: Path, has_data_dir: bool) -> None:
    folder = tmp_path / "data" if has_data_dir else tmp_path
    options = ("--data-dir", str(folder)) if has_data_dir else ()
    with serving(*ONE_BROKER, "--data-memory-bytes", str(1 << 20), *options, more={"TMPDIR": str(tmp_path)}) as process:
        (broker,) = addresses(first_line(process))
        create(broker, "t", 1)
        for index in range(300):
            assert write(broker, "t", acks=1, records=LARGE_BATCH) == (0, 10 * index)
        assert ends(broker, "t") == (0, 3_000)
        held = unnamed_files(process.pid, folder)
        assert [link.readlink().parent for link in held] == [folder]
        assert held[0].stat().st_size > 300 * len(LARGE_BATCH) - (2 << 20)
        names = {path.name for path in folder.iterdir()}
        process.kill()
        process.wait(SECONDS)
    assert {path.name for path in folder.iterdir()} == names
    assert not any("record" in name for name in names)


def test_followers_fetch_as_fast_as_they_may() -> None:
    with serving(*FREE, "--brokers", "2", "--replication-rate", "1") as process:
        broker, _ = addresses(first_line(process))
        create(broker, "t", 1, 2)
        assert write(broker, "t") == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert ends(broker, "t")[1] < 10


async def test_a_cluster_in_the_test_takes_the_same_bounds() -> None:
    async with klamm.Cluster(
        brokers=2, replication_rate=1, data_memory_bytes=1 << 20, data_file_bytes=2 * len(LARGE_BATCH)
    ) as cluster:
        host, port = cluster.bootstrap_servers.split(",")[0].rsplit(":", 1)
        broker = host, int(port)

        def use() -> None:
            create(broker, "t", 1, 2)
            accepted = 0
            while write(broker, "t", acks=1, records=LARGE_BATCH)[0] == 0:
                accepted += 1
            assert accepted == (1 << 20) // (len(LARGE_BATCH) + ENTRY_BYTES) + 2
            assert offset_at(broker, "t", -2) == 0
            assert offset_at(broker, "t", -1) < 10 * accepted, "the follower is slow"

        await trio.to_thread.run_sync(use)


@pytest.mark.parametrize("name", ["replication_rate", "data_memory_bytes", "data_file_bytes"])
@pytest.mark.parametrize("value", [-1, 2**40 + 1, 1.5, "1", True])
def test_bounds_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(klamm.ClusterError, match=f"{name} "):
        klamm.Cluster(**{name: value})  # type: ignore[arg-type]
