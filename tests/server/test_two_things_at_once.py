"""Two events in one round of the scheduler on the same connection: each request is answered once, in order."""

from trio.testing import MockClock, wait_all_tasks_blocked

from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.topics import create_topics
from tests.server.harness import (
    RunningServer,
    api_versions_frame,
    correlation_ids,
    create_topic,
    create_topic_frame,
    open_test_server,
    request_frame,
    settled,
)
from tests.server.slow_disks import make_slow_log

WAIT_MS = 1_000


def waiting_fetch(correlation_id: int) -> bytes:
    partitions = [fetch.FetchPartition(partition_max_bytes=1_000)]
    request = fetch.FetchRequest(
        max_wait_ms=WAIT_MS, min_bytes=1, topics=[fetch.FetchTopic(topic="t", partitions=partitions)]
    )
    return request_frame(fetch.API, 12, correlation_id, request)


def end(running: RunningServer) -> None:
    (connection,) = running.server.admission.connections
    connection.drain()


async def test_a_request_that_arrives_as_its_connection_is_drained_is_answered(mock_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        assert await peer.is_served()
        await wait_all_tasks_blocked()
        await peer.send(create_topic_frame(1, "late") + api_versions_frame(2))
        end(running)  # The bytes have woken the connection, which has not read them yet.
        assert correlation_ids([await peer.receive() or b"", await peer.receive() or b""]) == [1, 2]
        assert await peer.receive() is None
        assert "late" in running.controller.image.topics_by_name


async def test_a_connection_that_is_drained_reads_nothing_more(mock_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        assert await peer.is_served()
        await wait_all_tasks_blocked()
        end(running)
        await peer.send(create_topic_frame(1, "late"))
        assert await peer.receive() is None
        assert not running.controller.image.topics_by_name


async def test_answers_that_wait_for_the_disk_leave_once_while_a_later_request_waits_for_records(
    mock_clock: MockClock,
) -> None:
    """In one chunk or in two; only one task sends the answers of a connection."""
    for chunks in ([create_topic_frame(1, "a"), waiting_fetch(2)], [create_topic_frame(1, "b") + waiting_fetch(2)]):
        log = make_slow_log()
        async with open_test_server(log=log) as running:
            peer = running.connect_in_memory()
            await peer.ask(create_topics.API, 7, create_topic("t", 1))
            log.disk.hold()
            for chunk in chunks:
                await peer.send(chunk)
                await wait_all_tasks_blocked()
            log.disk.release()
            answers = [await peer.receive()]
            await settled(lambda: log.durable_offset == log.end_offset)  # noqa: B023 - called in this round
            mock_clock.jump(WAIT_MS / 1000)
            await peer.send(api_versions_frame(3))
            answers += [await peer.receive(), await peer.receive()]
            assert correlation_ids([answer or b"" for answer in answers]) == [1, 2, 3]
