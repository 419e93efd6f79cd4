"""Record batches that take long to read: a thread reads them while others are served, and what it takes is bounded."""

from typing import Any

import pytest
import trio

from klamm.broker.data import records as reading
from klamm.broker.data.codecs import GZIP, ZSTD, pack
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.topics import create_topics
from tests.broker.data.batches import batch, record
from tests.controller.handlers.cluster import START_MS
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server, request_frame

ALL = -1
MIB = 1 << 20
MANY = 31_000
"""More records than are read at once."""


def produce_request(*records: bytes) -> produce.ProduceRequest:
    partitions = [produce.PartitionProduceData(index=index, records=data) for index, data in enumerate(records)]
    topic = produce.TopicProduceData(name="t", partition_data=partitions)
    return produce.ProduceRequest(acks=ALL, timeout_ms=1000, topic_data=[topic])


async def topic_of(running: RunningServer, partitions: int = 3) -> Peer:
    peer = running.connect_in_memory()
    await peer.ask(create_topics.API, 7, create_topic("t", partitions))
    return peer


async def write(peer: Peer, *records: bytes) -> list[Any]:
    answer = await peer.ask(produce.API, 9, produce_request(*records))
    return list(answer.responses[0].partition_responses)


def packed(codec: int, size: int, **fields: Any) -> bytes:
    payload = pack(codec, record(value=bytes(size), **fields))
    return batch(1, timestamp_ms=START_MS, attributes=codec, payload=payload)


LARGE: dict[str, bytes] = {
    "many records": batch(MANY, timestamp_ms=START_MS),
    "many packed records": batch(MANY, timestamp_ms=START_MS, attributes=GZIP),
    "many bytes": packed(ZSTD, 3 * MIB),
}


@pytest.mark.parametrize("large_in_threads", [True, False])
@pytest.mark.parametrize("name", LARGE)
async def test_a_large_batch_is_read_and_written(name: str, large_in_threads: bool) -> None:
    data = LARGE[name]
    async with open_test_server(large_in_threads=large_in_threads) as running:
        peer = await topic_of(running)
        answers = await write(peer, data, batch(2, timestamp_ms=START_MS), data)
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0)] * 3
        (again, *_) = await write(peer, data)
        assert again.base_offset == int.from_bytes(data[57:61], "big")
        wanted = fetch.FetchTopic(
            topic="t", partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=8 * MIB)]
        )
        found = await peer.ask(fetch.API, 11, fetch.FetchRequest(topics=[wanted], max_bytes=8 * MIB))
        assert bytes(found.responses[0].partitions[0].records)[21:].startswith(data[21:])


@pytest.mark.parametrize("large_in_threads", [True, False])
async def test_faults_of_a_large_batch_are_found(large_in_threads: bool) -> None:
    """Also those that need a look at single records."""
    late = [record(place, timestamp_delta=10**9 if place in (7, MANY - 1) else 0) for place in range(MANY)]
    async with open_test_server(large_in_threads=large_in_threads) as running:
        peer = await topic_of(running)
        zeros = batch(1, attributes=GZIP, payload=pack(GZIP, bytes(3 * MIB)))
        answers = await write(peer, batch(late, timestamp_ms=START_MS), zeros)
        assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD]
        assert [error.batch_index for error in answers[0].record_errors] == [7, MANY - 1]


@pytest.mark.parametrize("large_in_threads", [True, False])
@pytest.mark.parametrize("codec", [GZIP, ZSTD])
async def test_a_batch_that_would_be_too_large_uncompressed_is_refused(codec: int, large_in_threads: bool) -> None:
    bomb = packed(codec, reading.MOST_UNPACKED_BYTES)
    async with open_test_server(large_in_threads=large_in_threads) as running:
        peer = await topic_of(running)
        refused, written, _ = await write(peer, bomb, batch(timestamp_ms=START_MS), bomb)
        assert (refused.error_code, refused.error_message) == (ErrorCode.MESSAGE_TOO_LARGE, None)
        assert written.error_code == 0


async def test_one_request_has_a_limit_for_all_of_its_batches() -> None:
    large = packed(ZSTD, reading.MOST_UNPACKED_BYTES - MIB)
    async with open_test_server(large_in_threads=True) as running:
        peer = await topic_of(running)
        codes = [answer.error_code for answer in await write(peer, large, large, large)]
        assert codes == [0, 0, ErrorCode.MESSAGE_TOO_LARGE]


async def test_others_are_served_while_a_batch_is_read() -> None:
    """The answers of one connection keep their order, those of others do not wait."""
    rows = [record(place) for place in range(250_000)]
    rows[-1] = record(len(rows) - 1, timestamp_delta=10**9)  # so that each one is looked at
    many = batch(rows, timestamp_ms=START_MS, attributes=GZIP)
    done: list[str] = []
    async with open_test_server(large_in_threads=True) as running:
        slow, quick = await topic_of(running), running.connect_in_memory()
        await slow.send(request_frame(produce.API, 9, 1, produce_request(many)))
        await slow.send(request_frame(produce.API, 9, 2, produce_request(batch(timestamp_ms=START_MS))))

        async def wait_for_both() -> None:
            for _ in range(2):
                frame = await slow.receive()
                assert frame is not None
                done.append(f"slow {int.from_bytes(frame[:4], 'big')}")

        async def write_few() -> None:
            await trio.sleep(0.01)
            for _ in range(5):
                (answer,) = await write(quick, batch(timestamp_ms=START_MS))
                assert answer.error_code == 0
            done.append("quick")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_both)
            nursery.start_soon(write_few)
    assert done == ["quick", "slow 1", "slow 2"]
