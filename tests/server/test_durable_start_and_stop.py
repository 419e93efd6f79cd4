"""What else waits for the disk: a start, the stored end offsets of logs, the request log, and the steps of a stop."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from klamm.controller.core import Answer, Call, Controller
from klamm.controller.metadata.partition import LogKey
from klamm.controller.settings import Settings
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest
from klamm.server.limits import ServerLimits
from tests.server.harness import RunningServer, open_test_server, settled
from tests.server.held_servers import held_server
from tests.server.slow_disks import SlowMemoryLog, make_slow_log, open_slow_log
from tests.server.test_durability import LOOK, creation, deletion, produced, topic_t


async def test_a_server_is_not_there_before_its_brokers_are_durable(mock_clock: MockClock) -> None:
    """They register and are unfenced. Each of the two waits for a sync."""
    log, not_durable = make_slow_log(), list[int]()

    async def serve() -> None:
        async with open_test_server(log=log, brokers=2):
            not_durable.append(log.end_offset - log.durable_offset)
            log.disk.release()

    log.disk.hold()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        for syncs in (1, 2):
            await settled(lambda syncs=syncs: len(log.disk.begun) == syncs)  # type: ignore[misc]
            await wait_all_tasks_blocked()
            assert not_durable == []
            log.disk.let_one()
        await settled(lambda: not_durable == [0])


async def test_a_crash_of_a_broker_waits_for_nothing(mock_clock: MockClock) -> None:
    """It changes nothing in the log and shows nothing of the log."""
    async with held_server(mock_clock, log=make_slow_log()) as held:
        held.disk.hold()
        await held.ask(creation("new"))
        await held.call(lambda: held.running.server.stop_broker(2, mode="crash"))
        assert [one.what for one in held.left] == ["returned"]


async def test_an_answer_that_is_not_durable_when_the_time_for_a_stop_is_over_is_not_given(
    mock_clock: MockClock,
) -> None:
    async with held_server(mock_clock, log=make_slow_log(), limits=ServerLimits(shutdown_seconds=1.0)) as held:
        held.disk.hold()
        await held.ask(creation("new"), LOOK)
        await held.call(held.running.server.drain)
        await held.pass_time(2)
        assert [one.what for one in held.left] == ["returned"]


async def test_a_connection_whose_answers_wait_for_the_disk_is_not_idle(mock_clock: MockClock) -> None:
    limits = ServerLimits(connections_max_idle_ms=1_000, unread_answer_seconds=1.0, held_bytes=0)
    async with held_server(mock_clock, log=make_slow_log(), limits=limits) as held:
        held.disk.hold()
        await held.ask(creation("new"), LOOK)
        await held.pass_time(0.8)
        await held.let_one_sync_through()
        assert len(held.left) == 2


async def test_a_line_of_the_request_log_is_written_when_its_answer_is_durable(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    path = tmp_path / "requests.jsonl"

    def apis() -> list[str]:
        return [json.loads(line)["api"] for line in path.read_text().splitlines()]

    async with held_server(mock_clock, log=make_slow_log(), request_log=path) as held:
        await held.ask(LOOK)
        await held.pass_time(1)
        held.disk.hold()
        await held.ask(creation("new"))
        await held.ask(deletion("new"))
        await held.ask(LOOK)
        await held.pass_time(1)
        assert apis() == ["Metadata"]
        await held.let_one_sync_through()
        assert apis() == ["Metadata", "CreateTopics"], "the sync began before the others"
        await held.let_one_sync_through()
        assert apis() == ["Metadata", "CreateTopics", "DeleteTopics", "Metadata"]


async def test_an_answer_that_sees_nothing_new_is_free_to_leave_at_once(mock_clock: MockClock, tmp_path: Path) -> None:
    """Its line in the request log says so, however late the line is written."""
    path = tmp_path / "requests.jsonl"
    async with held_server(mock_clock, log=make_slow_log(), request_log=path) as held:
        await held.ask(LOOK)
        await held.pass_time(1)
    assert [json.loads(line)["microseconds"] for line in path.read_text().splitlines()] == [0]


class Kept:
    """Stores end offsets of logs, and up to where the metadata log was durable at that time."""

    def __init__(self, log: SlowMemoryLog) -> None:
        self.log = log
        self.not_durable: list[int] = []
        """For each call, the number of records that were not durable."""

    is_long = False

    def append(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
        self.not_durable.append(self.log.end_offset - self.log.durable_offset)

    replace = append


async def test_ends_of_logs_are_kept_when_the_metadata_they_go_by_is_durable(mock_clock: MockClock) -> None:
    log = make_slow_log()
    kept = Kept(log)
    async with held_server(mock_clock, log=log, log_end_offsets=kept) as held:
        await topic_t(held)
        held.disk.hold()
        await held.ask(creation("new"))
        await held.ask(produced(1))
        await held.pass_time(30)
        assert kept.not_durable == []
        await held.let_one_sync_through()
        await held.pass_time(1)
        assert kept.not_durable[:1] == [0]


def change_unnoticed(running: RunningServer) -> None:
    """Append a record at the last moment, without a signal to the flusher."""
    for api, version, request in (creation("last"), produced(1)):
        running.controller.submit(Call(api, version, request, broker_id=1, client_id="last"))


async def test_a_stop_syncs_the_log_and_then_keeps_the_ends_of_logs(mock_clock: MockClock) -> None:
    log = make_slow_log()
    kept = Kept(log)
    async with held_server(mock_clock, log=log, log_end_offsets=kept) as held:
        await topic_t(held)
        await held.pass_time(1)
        kept.not_durable.clear()
        change_unnoticed(held.running)
        assert log.durable_offset < log.end_offset
    assert kept.not_durable == [0]


async def test_a_stop_syncs_the_log_and_then_takes_a_snapshot(mock_clock: MockClock, tmp_path: Path) -> None:
    log = open_slow_log(tmp_path)
    settings = Settings(seed=1, snapshot_records=1)
    async with held_server(mock_clock, log=log, settings=settings) as held:
        await topic_t(held)
        change_unnoticed(held.running)
        end_offset = log.end_offset
        assert log.durable_offset < end_offset
    assert log.snapshot is not None
    assert log.snapshot.end_offset == end_offset
    assert held.running.stderr.getvalue() == "", "none was tried before"
    log.close()


class NotingHeartbeats(Controller):
    """Stores which brokers send heartbeats that do not request the shutdown."""

    def __init__(self, *args: Any, **arguments: Any) -> None:
        self.ordinary: list[int] = []
        super().__init__(*args, **arguments)

    def submit(self, call: Call) -> Answer:
        request = call.request
        if isinstance(request, BrokerHeartbeatRequest) and not request.want_shut_down:
            self.ordinary.append(request.broker_id)
        return super().submit(call)


async def test_a_broker_that_is_shutting_down_sends_no_ordinary_heartbeats(mock_clock: MockClock) -> None:
    """Not even while the record of its shutdown waits for the disk."""
    log = make_slow_log()
    async with open_test_server(log=log, brokers=2, controller_class=NotingHeartbeats) as running:
        assert isinstance(running.controller, NotingHeartbeats)
        async with trio.open_nursery() as nursery:
            log.disk.hold()
            nursery.start_soon(running.server.stop_broker, 2)
            await wait_all_tasks_blocked()
            running.controller.ordinary.clear()
            for _ in range(100):
                mock_clock.jump(ServerLimits().tick_seconds)
                await wait_all_tasks_blocked()
            assert set(running.controller.ordinary) == {1}
            log.disk.release()
            while running.server.brokers.find(2).is_up:
                mock_clock.jump(ServerLimits().tick_seconds)
                await trio.lowlevel.checkpoint()
