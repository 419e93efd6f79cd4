"""Requests that are too large are refused before they are decoded; large ones are decided while others are served."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.broker.dispatch import BROKER_APIS
from klamm.controller.handlers.configs import describe_configs as describing
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs import describe_configs
from klamm.protocol.messages.partitions import alter_partition_reassignments as moving
from klamm.protocol.messages.partitions import elect_leaders
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata
from klamm.server.limits import MIB, ServerLimits
from klamm.server.request_limits import DEFAULT, limits_of
from tests.server.harness import Peer, create_topic, open_test_server, request_frame

LONG_NAME = "x" * 32_767


def elections(topic: str, partitions: int) -> elect_leaders.ElectLeadersRequest:
    wanted = elect_leaders.TopicPartitions(topic=topic, partitions=range(partitions))
    return elect_leaders.ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=1000)


async def is_closed_by(peer: Peer, frame: bytes) -> bool:
    await peer.send(frame)
    return await peer.receive() is None


async def test_a_request_of_too_many_entries_is_closed_before_it_is_decoded() -> None:
    async with open_test_server(large_in_threads=True) as running:
        frame = request_frame(elect_leaders.API, 2, 1, elections("t", DEFAULT.max_entries))
        assert await is_closed_by(running.connect_in_memory(), frame)
        assert f"more than {DEFAULT.max_entries} entries" in running.stderr.getvalue()
        assert await running.connect_in_memory().is_served()


async def test_a_request_without_batches_of_too_many_bytes_is_closed_before_it_is_decoded() -> None:
    async with open_test_server(large_in_threads=True) as running:
        frame = delete_topics.API.key.to_bytes(2, "big") + bytes(10 * MIB)
        assert await is_closed_by(running.connect_in_memory(), len(frame).to_bytes(4, "big") + frame)
        assert f"exceeds {10 * MIB}" in running.stderr.getvalue()


async def test_a_request_that_would_take_too_much_memory_is_closed_with_the_name_of_the_limit() -> None:
    async with open_test_server(large_in_threads=True, limits=ServerLimits(decoded_request_bytes=10_000)) as running:
        frame = request_frame(elect_leaders.API, 2, 1, elections("t", 1_000))
        assert await is_closed_by(running.connect_in_memory(), frame)
        assert "decoded_request_bytes" in running.stderr.getvalue()
        frame = request_frame(elect_leaders.API, 2, 1, elections("t", 100))
        assert not await is_closed_by(running.connect_in_memory(), frame)
        assert running.server.admission.held_bytes < 10_000, "what was decoded counts no longer"


async def test_an_answer_that_is_too_large_is_not_sent_and_its_request_changes_nothing() -> None:
    async with open_test_server(large_in_threads=True, limits=ServerLimits(answer_bytes=1_000)) as running:
        before = running.controller.log_end_offset
        topics = [create_topics.CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1) for n in range(50)]
        request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=1000)
        assert await is_closed_by(running.connect_in_memory(), request_frame(create_topics.API, 7, 1, request))
        assert "exceeds 1000" in running.stderr.getvalue()
        assert running.controller.log_end_offset == before


async def test_nothing_is_left_of_a_request_whose_answer_is_too_large() -> None:
    """Without a garbage collection: it would come after very many such requests."""
    async with open_test_server(large_in_threads=True, limits=ServerLimits(answer_bytes=1_000)) as running:
        frame = request_frame(elect_leaders.API, 2, 1, elections("t", 1_000))
        gc.collect()
        gc.disable()
        try:
            assert await is_closed_by(running.connect_in_memory(), frame)
            assert await running.connect_in_memory().is_served()
            left = [one for one in gc.get_objects() if isinstance(one, elect_leaders.PartitionResult)]
        finally:
            gc.enable()
        assert not left


async def test_a_long_name_of_very_many_partitions_comes_to_a_bounded_answer_and_line(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(large_in_threads=True, request_log=path) as running:
        frame = request_frame(elect_leaders.API, 2, 1, elections(LONG_NAME, 10_000))
        peer = running.connect_in_memory()
        await peer.send(frame)
        answer = await peer.receive()
        assert answer is not None
        assert len(answer) < 50 * len(frame)
        assert "bug" not in running.stderr.getvalue()
    assert path.stat().st_size < 300_000
    (line,) = map(json.loads, path.read_text().splitlines())
    assert {error["error_code"] for error in line["errors"]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_names_of_any_length_are_unknown_topics_and_no_errors_of_ours() -> None:
    async with open_test_server(large_in_threads=True) as running:
        peer = running.connect_in_memory()
        for name in (LONG_NAME, LONG_NAME[:-20], "ü" * 16_383):
            elected = await peer.ask(elect_leaders.API, 1, elections(name, 1))
            assert elected.replica_election_results[0].partition_result[0].error_code == 3
            wanted = moving.ReassignableTopic(
                name=name, partitions=[moving.ReassignablePartition(partition_index=0, replicas=[1])]
            )
            request = moving.AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=1000)
            moved = await peer.ask(moving.API, 0, request)
            assert moved.responses[0].partitions[0].error_code == 3
        assert "bug" not in running.stderr.getvalue()


async def test_very_many_topics_are_created_by_one_large_request() -> None:
    topics = [create_topics.CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1) for n in range(1_500)]
    async with open_test_server(large_in_threads=True) as running:
        request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=1000)
        peer = running.connect_in_memory()
        await peer.send(request_frame(create_topics.API, 7, 1, request))
        assert await peer.receive(10_000) is not None
        everything = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        assert len(everything.topics) == len(topics)
        assert not running.controller.is_deciding


async def test_configs_beyond_the_bytes_of_one_answer_are_refused_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "MAX_BYTES_PER_RESPONSE", 50_000)
    async with open_test_server(large_in_threads=True) as running:
        peer = running.connect_in_memory()
        await peer.ask(create_topics.API, 7, create_topic("t"))
        resources = [describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t")] * 100
        for resource in resources:
            resource.configuration_keys = None
        request = describe_configs.DescribeConfigsRequest(resources=resources)
        answer = await peer.ask(describe_configs.API, 4, request)
        codes = [result.error_code for result in answer.results]
        assert codes[0] == 0
        assert codes[-1] == ErrorCode.INVALID_REQUEST
        assert sum(len(config.name) for result in answer.results for config in result.configs) < 50_000


async def test_without_threads_no_time_passes_while_a_large_request_is_decided(autojump_clock: MockClock) -> None:
    """The clock jumps as soon as every task waits, also if one waits for a thread."""
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        started = trio.current_time()
        await peer.send(request_frame(elect_leaders.API, 2, 1, elections("t", 10_000)))
        assert await peer.receive() is not None
        assert trio.current_time() == started


@pytest.mark.parametrize(("partitions", "reason"), [(1_000, "decoded_request_bytes"), (DEFAULT.max_entries, "entries")])
async def test_without_threads_the_same_limits_hold(autojump_clock: MockClock, partitions: int, reason: str) -> None:
    async with open_test_server(limits=ServerLimits(decoded_request_bytes=10_000)) as running:
        frame = request_frame(elect_leaders.API, 2, 1, elections("t", partitions))
        assert await is_closed_by(running.connect_in_memory(), frame)
        assert reason in running.stderr.getvalue()


@pytest.mark.parametrize("api", BROKER_APIS, ids=lambda api: api.name)
def test_what_brokers_hold_is_read_on_the_event_loop_alone(api: Api[Any, Any]) -> None:
    assert not limits_of(api.key.to_bytes(2, "big")).of_metadata
