"""A long run of commits into a data directory: its files stay small, and a `kill -9` at any moment, so also during a
compaction, loses nothing that was acknowledged."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Timer

import pytest

from klamm.protocol.messages.offsets import offset_commit, offset_fetch
from klamm.protocol.messages.topics import create_topics
from tests.klamm.serve.processes import FREE, SECONDS, addresses, ask, first_line, serving
from tests.klamm.serve.test_kept_offsets import GROUP, UNSETTLED, coordinator
from tests.klamm.serve.test_records import Address

PARTITIONS = 32
METADATA = "m" * 4_000
COMMIT_BYTES = PARTITIONS * (len(METADATA) + 100)
"""What one commit adds to the partition, 131 kB: its live records afterwards, too."""
MOST_BYTES = 3 * COMMIT_BYTES + 2 * 1024 * 1024
"""As `klamm.broker.kept_partitions` says."""
LIVES = 3
FEWEST_COMMITS, MOST_COMMITS = 40, 60
"""Of one life, so that three have several compactions."""
LONGEST_COMMITS_SECONDS = 0.05
"""The time in which the process is then killed: that of a few commits."""


def create(address: Address) -> None:
    topic = create_topics.CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    response = ask(address, create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
    assert isinstance(response, create_topics.CreateTopicsResponse)
    assert response.topics[0].error_code == 0


def commit(address: Address, offset: int) -> list[int]:
    """Commit an offset for each partition. Returns the error codes."""
    partitions = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=METADATA
        )
        for index in range(PARTITIONS)
    ]
    topics = [offset_commit.OffsetCommitRequestTopic(name="t", partitions=partitions)]
    response = ask(address, offset_commit.API, 9, offset_commit.OffsetCommitRequest(group_id=GROUP, topics=topics))
    assert isinstance(response, offset_commit.OffsetCommitResponse)
    return [one.error_code for one in response.topics[0].partitions]


def committed(address: Address) -> list[int]:
    """The committed offset of each partition, when the coordinator has loaded."""
    topics = [offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=list(range(PARTITIONS)))]
    request = offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    )
    deadline = time.monotonic() + SECONDS
    while True:
        response = ask(address, offset_fetch.API, 9, request)
        assert isinstance(response, offset_fetch.OffsetFetchResponse)
        (group,) = response.groups
        if group.error_code not in UNSETTLED:
            return [one.committed_offset for one in group.topics[0].partitions]
        assert time.monotonic() < deadline, "the coordinator never loads"


def segments(data_dir: Path) -> Sequence[Path]:
    return sorted(data_dir.glob("__consumer_offsets-*/*.log"))


def kept_bytes(data_dir: Path) -> int:
    """The bytes of all segments. One that is deleted meanwhile does not count."""
    sizes = 0
    for path in segments(data_dir):
        with suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return sizes


@pytest.mark.parametrize("seed", range(3))
def test_files_stay_small_and_no_commit_is_lost_by_a_kill(tmp_path: Path, seed: int) -> None:
    """The commit on its way when the process ends may be there, as a whole: its records are one batch."""
    chance, acknowledged, sizes = Random(seed), -1, [0]
    for life in range(LIVES):
        with serving(*FREE, "--data-dir", str(tmp_path)) as process:
            brokers = tuple(addresses(first_line(process)))
            if not life:
                create(brokers[0])
            address = coordinator(brokers[0], brokers)
            found = committed(address)
            assert found in ([acknowledged] * PARTITIONS, [acknowledged + 1] * PARTITIONS)
            acknowledged, codes = found[0], [0] * PARTITIONS
            last = acknowledged + chance.randint(FEWEST_COMMITS, MOST_COMMITS)
            killer = Timer(chance.uniform(0, LONGEST_COMMITS_SECONDS), process.kill)
            with suppress(OSError, AssertionError):  # the process is killed
                while codes == [0] * PARTITIONS:
                    codes = commit(address, acknowledged + 1)
                    acknowledged += 1
                    if acknowledged == last:
                        killer.start()
                    sizes.append(kept_bytes(tmp_path))
            killer.join()
            process.wait(SECONDS)
            assert codes == [0] * PARTITIONS
    assert max(sizes) < MOST_BYTES
    assert acknowledged * COMMIT_BYTES > 5 * MOST_BYTES, "there were compactions"
    assert segments(tmp_path)[0].name != "00000000000000000000.log"
