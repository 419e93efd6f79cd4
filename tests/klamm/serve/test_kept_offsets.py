"""Committed offsets in a data directory: an acknowledged commit is still there, however the process ended."""

import signal
import time
from pathlib import Path

import pytest

from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.offsets import offset_commit, offset_fetch
from tests.klamm.serve.processes import FREE, SECONDS, addresses, ask, first_line, serving
from tests.klamm.serve.test_records import Address, create

GROUP = "g"
UNSETTLED = (14, 15, 16)


def coordinator(broker: Address, brokers: tuple[Address, ...]) -> Address:
    """The coordinator's address, once there is a coordinator."""
    deadline = time.monotonic() + SECONDS
    while True:
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[GROUP])
        response = ask(broker, find_coordinator.API, 4, request)
        assert isinstance(response, find_coordinator.FindCoordinatorResponse)
        if not response.coordinators[0].error_code:
            return brokers[response.coordinators[0].node_id - 1]
        assert time.monotonic() < deadline, "there is never a coordinator"


def commit(address: Address, offset: int) -> int:
    """Commit an offset. Returns the error code."""
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [offset_commit.OffsetCommitRequestTopic(name="t", partitions=[partition])]
    request = offset_commit.OffsetCommitRequest(group_id=GROUP, topics=topics)
    response = ask(address, offset_commit.API, 9, request)
    assert isinstance(response, offset_commit.OffsetCommitResponse)
    return response.topics[0].partitions[0].error_code


def committed(address: Address) -> tuple[int, int]:
    """The error code of the group, and the committed offset."""
    topics = [offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    response = ask(address, offset_fetch.API, 9, offset_fetch.OffsetFetchRequest(groups=groups))
    assert isinstance(response, offset_fetch.OffsetFetchResponse)
    group = response.groups[0]
    return group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_acknowledged_commit_survives_the_process(tmp_path: Path, number: signal.Signals) -> None:
    for restarts in range(3):
        with serving(*FREE, "--data-dir", str(tmp_path)) as process:
            brokers = tuple(addresses(first_line(process)))
            if not restarts:
                create(brokers[0], "t", 1, 2, 3)
            address = coordinator(brokers[0], brokers)
            deadline = time.monotonic() + SECONDS
            while (found := committed(address))[0] in UNSETTLED:
                assert time.monotonic() < deadline, "the coordinator never loads"
            assert found == (0, 100 + restarts - 1 if restarts else -1)
            assert commit(address, 100 + restarts) == 0
            process.send_signal(number)
            process.wait(SECONDS)
    assert len(list(tmp_path.glob("__consumer_offsets-*/00000000000000000000.log"))) == 1
