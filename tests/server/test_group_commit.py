"""Answers and the disk: no answer leaves before it is durable, requests share syncs, and a failing disk stops the
server."""

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.log import LogError
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from klamm.server.flusher import Flusher
from klamm.server.limits import ServerLimits
from tests.controller.log.logs import append_records
from tests.server.harness import (
    ANSWER_SECONDS,
    START_MS,
    Peer,
    api_versions_frame,
    correlation_ids,
    create_topic,
    create_topic_frame,
    open_test_server,
    settled,
)
from tests.server.held_servers import held_server
from tests.server.slow_disks import make_slow_log

RECORDS = [TopicRecord(name="t", topic_id=Uuid(bytes(range(16))))]


async def has_answer(peer: Peer) -> bool:
    """Whether an answer arrives while the disk is held."""
    with trio.move_on_after(0.05) as patience:
        await peer.stream.receive_some(1)
    return not patience.cancelled_caught


async def test_no_answer_leaves_before_its_records_are_durable() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        peer = running.connect_in_memory()
        log.disk.hold()
        await peer.send(create_topic_frame(1, "waits"))
        await settled(lambda: "waits" in running.controller.image.topics_by_name)
        assert not await has_answer(peer)
        log.disk.release()
        assert await peer.receive() is not None
        assert log.durable_offset == log.end_offset


async def test_a_read_waits_for_what_it_saw() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        writer, reader = running.connect_in_memory(), running.connect_in_memory()
        log.disk.hold()
        await writer.send(create_topic_frame(1, "seen"))
        await settled(lambda: len(log.disk.begun) > 0 and "seen" in running.controller.image.topics_by_name)
        await reader.send(api_versions_frame(1))
        assert not await has_answer(reader)
        log.disk.release()
        assert await reader.receive() is not None


async def test_pipelined_requests_share_a_sync() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        peer = running.connect_in_memory()
        log.disk.hold()
        log.disk.begun.clear()
        await peer.send(b"".join(create_topic_frame(number, f"topic-{number}") for number in range(50)))
        await settled(lambda: "topic-49" in running.controller.image.topics_by_name)
        log.disk.release()
        answers = [await peer.receive() for _ in range(50)]
        assert correlation_ids([answer for answer in answers if answer]) == list(range(50))
        assert len(log.disk.begun) <= 2


async def test_requests_that_come_while_a_sync_runs_share_the_next_one() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        peers = [running.connect_in_memory() for _ in range(20)]
        log.disk.hold()
        log.disk.begun.clear()
        await peers[0].send(create_topic_frame(0, "topic-0"))
        await settled(lambda: len(log.disk.begun) == 1)
        for number, peer in enumerate(peers[1:], 1):
            await peer.send(create_topic_frame(number, f"topic-{number}"))
            await settled(lambda number=number: f"topic-{number}" in running.controller.image.topics_by_name)  # type: ignore[misc]
        log.disk.release()
        for peer in peers:
            assert await peer.receive() is not None
        assert len(log.disk.begun) == 2


async def test_a_connection_is_read_on_while_its_answers_wait_but_not_without_end() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        peer = running.connect_in_memory()
        log.disk.hold()
        for number in range(200):  # Each frame is a chunk of its own.
            await peer.send(create_topic_frame(number, f"topic-{number}"))
        await settled(lambda: len(running.controller.image.topics_by_name) >= 64)
        await trio.testing.wait_all_tasks_blocked()
        assert len(running.controller.image.topics_by_name) == 64
        log.disk.release()
        answers = [await peer.receive() for _ in range(200)]
        assert correlation_ids([answer for answer in answers if answer]) == list(range(200))


async def test_a_broken_request_behind_waiting_answers_lets_them_leave_first() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        peer = running.connect_in_memory()
        log.disk.hold()
        await peer.send(create_topic_frame(1, "first") + b"\xff\xff\xff\xff")
        await settled(lambda: "first" in running.controller.image.topics_by_name)
        assert not await has_answer(peer)
        log.disk.release()
        assert await peer.receive() is not None
        assert await peer.receive() is None


async def test_a_client_that_leaves_while_its_answer_waits_disturbs_nobody() -> None:
    log = make_slow_log()
    async with open_test_server(log=log) as running:
        leaving, staying = running.connect_in_memory(), running.connect_in_memory()
        log.disk.hold()
        await leaving.send(create_topic_frame(1, "left"))
        await settled(lambda: "left" in running.controller.image.topics_by_name)
        await leaving.aclose()
        log.disk.release()
        await staying.ask(create_topics.API, 7, create_topic("stays"))
        await settled(lambda: len(running.server.admission.connections) == 1)


@pytest.mark.parametrize("fails_on", ["append", "sync"])
async def test_a_failing_disk_ends_the_server_and_no_answer_leaves(fails_on: str) -> None:
    log = make_slow_log()
    with pytest.RaisesGroup(pytest.RaisesExc(LogError), flatten_subgroups=True):
        async with open_test_server(log=log) as running:
            peer = await running.connect()
            assert await peer.is_served()
            if fails_on == "append":
                log.close()
            log.disk.fails = True
            await peer.send(create_topic_frame(1, "lost"))
            assert await peer.receive() is None
            await trio.sleep_forever()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_stopping_waits_for_answers_on_their_way(*, is_cancelled: bool) -> None:
    """Also if the task that runs the server is cancelled, as by Ctrl-C."""
    log = make_slow_log()
    answers = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with open_test_server(log=log) as running:
                peer = await running.connect()
                running.peers.clear()  # The connection outlives the server here.
                log.disk.hold()
                await peer.send(create_topic_frame(1, "in-flight"))
                await settled(lambda: "in-flight" in running.controller.image.topics_by_name)

                @nursery.start_soon
                async def receive() -> None:
                    answers.append(await peer.receive())
                    answers.append(await peer.receive())

                @nursery.start_soon
                async def let_the_disk_work_again() -> None:
                    await settled(lambda: not running.listeners[0].is_open)
                    log.disk.release()

                if is_cancelled:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()

        assert log.durable_offset == log.end_offset
    await peer.aclose()
    assert answers[0] is not None
    assert answers[1] is None


async def test_waiting_for_an_offset_that_is_durable_does_not_wait() -> None:
    log = make_slow_log()
    flusher = Flusher(log)
    log.sync()
    log.disk.hold()
    with trio.fail_after(5):
        await flusher.wait_durable(log.end_offset)
    assert flusher.is_durable(log.end_offset)
    assert not flusher.is_durable(log.end_offset + 1)


async def test_whoever_waits_for_an_offset_need_not_say_that_something_was_appended() -> None:
    log = make_slow_log()
    flusher = Flusher(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.flush_forever)
        append_records(log, RECORDS, START_MS)
        with trio.fail_after(ANSWER_SECONDS):
            await flusher.wait_all_durable()
        assert log.durable_offset == log.end_offset
        nursery.cancel_scope.cancel()


async def test_what_is_appended_while_a_sync_runs_is_synced_although_nobody_waits_for_it() -> None:
    log = make_slow_log()
    flusher = Flusher(log)
    log.disk.hold()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.flush_forever)
        for _ in range(2):
            append_records(log, RECORDS, START_MS)
            flusher.notice()
            await settled(lambda: log.disk.is_syncing)
        log.disk.release()
        await settled(lambda: log.durable_offset == log.end_offset)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("more_bytes", [-1, 0, 1])
async def test_a_connection_is_read_on_while_fewer_bytes_wait_than_may(mock_clock: MockClock, more_bytes: int) -> None:
    """The answer to the first request waits for the disk. Its size is either the limit of waiting bytes or just below
    it."""
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send(create_topic_frame(1, "first"))
        answer = await peer.receive()
        assert answer is not None
    limits = ServerLimits(connection_pending_bytes=len(answer) + more_bytes, shutdown_seconds=60)
    log = make_slow_log()
    async with held_server(mock_clock, log=log, brokers=1, limits=limits) as held:
        held.disk.hold()
        names = ("first", "other")
        await held.ask(*((create_topics.API, 7, create_topic(name)) for name in names))
        assert list(held.running.controller.image.topics_by_name) == ["first", "other"][: 1 + (more_bytes > 0)]
