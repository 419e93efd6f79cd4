"""Simulated brokers start and stop by the real protocol, and their listeners open and close with them."""

import pathlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from klamm.broker.simulated_broker import BrokerError
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.log import SegmentLog
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.settings import Settings
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.uuid import Uuid
from tests.registrations import REGISTERED_FEATURES
from tests.server.harness import (
    START_MS,
    RunningServer,
    create_topic,
    make_memory_log,
    open_test_server,
)

SESSION_SECONDS = 9


def broker(running: RunningServer, broker_id: int) -> BrokerState:
    return running.controller.image.brokers[broker_id]


async def accepts(running: RunningServer, broker_id: int) -> bool:
    try:
        peer = await running.connect(broker_id)
    except OSError:
        return False
    return await peer.is_served()


async def test_brokers_register_as_real_ones_do_and_take_racks_in_turn() -> None:
    async with open_test_server(brokers=4, racks=("a", "b", "c")) as running:
        brokers = running.controller.image.brokers
        assert {broker_id: state.rack for broker_id, state in brokers.items()} == {1: "a", 2: "b", 3: "c", 4: "a"}
        assert all(state.live and state.features == REGISTERED_FEATURES for state in brokers.values())
        assert all(len(state.log_dirs) == 1 for state in brokers.values())
        assert (
            len({state.incarnation_id for state in brokers.values()} | {s.log_dirs[0] for s in brokers.values()}) == 8
        )
        ports = [state.end_points[0].port for state in brokers.values()]
        assert running.server.bootstrap_servers == ",".join(f"127.0.0.1:{port}" for port in ports)
        assert all([await accepts(running, broker_id) for broker_id in brokers])


async def test_without_racks_brokers_have_none() -> None:
    async with open_test_server(brokers=2) as running:
        assert [state.rack for state in running.controller.image.brokers.values()] == [None, None]


async def test_one_seed_makes_one_log() -> None:
    logs = []
    for _ in range(2):
        log = make_memory_log()
        async with open_test_server(brokers=3, log=log, settings=Settings(seed=7)) as running:
            brokers = running.controller.image.brokers.values()
            logs.append(
                [(state.broker_id, state.broker_epoch, state.incarnation_id, state.log_dirs) for state in brokers]
            )
    assert logs[0] == logs[1]


async def test_heartbeats_keep_every_session_alive(autojump_clock: MockClock) -> None:
    async with open_test_server(brokers=3) as running:
        end_offset = running.log.end_offset
        await trio.sleep(10 * SESSION_SECONDS)
        assert all(state.live for state in running.controller.image.brokers.values())
        assert running.log.end_offset == end_offset, "heartbeats write nothing"


async def test_short_sessions_are_kept_alive_by_as_many_heartbeats(autojump_clock: MockClock) -> None:
    """A test that sets short sessions need not know the interval of heartbeats, which is two seconds."""
    settings = Settings(seed=1, static_configs={"broker.session.timeout.ms": "1000"})
    async with open_test_server(brokers=3, settings=settings) as running:
        end_offset = running.log.end_offset
        for _ in range(100):
            await trio.sleep(0.1)
            assert all(state.live for state in running.controller.image.brokers.values())
        assert running.log.end_offset == end_offset


@pytest.mark.parametrize(("session_ms", "interval_ms", "beats_in_ten_seconds"), [(1000, 2000, 40), (9000, 500, 20)])
async def test_heartbeats_come_as_often_as_sessions_need_or_more_often_if_asked_to(
    autojump_clock: MockClock, session_ms: int, interval_ms: int, beats_in_ten_seconds: int
) -> None:
    beats = []

    class Counting(Controller):
        def submit(self, call: Call) -> Answer:
            beats.append(call.api is broker_heartbeat.API)
            return super().submit(call)

    configs = {"broker.session.timeout.ms": str(session_ms), "broker.heartbeat.interval.ms": str(interval_ms)}
    settings = Settings(seed=1, static_configs=configs)
    async with open_test_server(settings=settings, controller_class=Counting):
        beats.clear()
        await trio.sleep(10)
    assert abs(sum(beats) - beats_in_ten_seconds) <= 1


async def test_a_broker_that_shuts_down_gives_up_its_leaderships_first() -> None:
    async with open_test_server(brokers=3) as running:
        peer = await running.connect(2)
        request = create_topic("spread", 12)
        request.topics[0].replication_factor = 2
        await peer.ask(create_topics.API, 7, request)
        gone = await running.connect(1)
        assert await gone.is_served()
        await running.server.stop_broker(1)
        assert broker(running, 1).fenced
        assert not await accepts(running, 1)
        assert await gone.receive() is None
        seen = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        assert {member.node_id for member in seen.brokers} == {2, 3}
        leaders = {partition.leader_id for topic in seen.topics for partition in topic.partitions}
        assert leaders == {2, 3}
        assert all(1 not in partition.isr_nodes for topic in seen.topics for partition in topic.partitions)


async def test_a_crashed_broker_hangs_up_at_once_and_is_fenced_when_its_session_ends(mock_clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        gone = await running.connect(1)
        assert await gone.is_served()
        await running.server.stop_broker(1, mode="crash")
        assert not await accepts(running, 1)
        assert await gone.receive() is None
        assert broker(running, 1).live
        await pass_time(mock_clock, SESSION_SECONDS - 2)
        assert broker(running, 1).live
        await pass_time(mock_clock, 4)
        assert broker(running, 1).fenced
        assert broker(running, 2).live


async def pass_time(clock: MockClock, seconds: float) -> None:
    """Pass time in a test with sockets; the autojump clock does not wait for sockets."""
    for _ in range(round(seconds * 10)):
        clock.jump(0.1)
        await trio.testing.wait_all_tasks_blocked()


async def test_a_broker_comes_back_on_its_port_as_a_new_incarnation(autojump_clock: MockClock) -> None:
    """Without a delay: a broker from outside would have to wait for the end of its former incarnation's session."""
    async with open_test_server(brokers=2) as running:
        before = broker(running, 1)
        await running.server.stop_broker(1)
        stopped_at = trio.current_time()
        await running.server.start_broker(1)
        assert trio.current_time() < stopped_at + SESSION_SECONDS / 2
        after = broker(running, 1)
        assert after.live
        assert after.end_points == before.end_points
        assert (after.rack, after.log_dirs) == (before.rack, before.log_dirs)
        assert after.incarnation_id != before.incarnation_id
        assert after.broker_epoch > before.broker_epoch
        assert await accepts(running, 1)


async def test_a_crashed_broker_comes_back_when_the_session_of_its_former_self_is_over(mock_clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        before = broker(running, 1)
        await running.server.stop_broker(1, mode="crash")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.server.start_broker, 1)
            await pass_time(mock_clock, SESSION_SECONDS - 2)
            assert broker(running, 1) == before
            await pass_time(mock_clock, 4)
        assert broker(running, 1).live
        assert broker(running, 1).incarnation_id != before.incarnation_id
        assert await accepts(running, 1)


async def test_a_broker_names_its_last_epoch_only_if_its_last_life_ended_in_a_controlled_shutdown(
    autojump_clock: MockClock,
) -> None:
    """Otherwise the controller would assume that the broker has all records, although it may have lost some
    (KIP-966)."""
    named: list[int] = []

    class Noting(Controller):
        def submit(self, call: Call) -> Answer:
            if isinstance(call.request, broker_registration.BrokerRegistrationRequest):
                named.append(call.request.previous_broker_epoch)
            return super().submit(call)

    async with open_test_server(controller_class=Noting) as running:
        assert named.pop() == -1
        for mode in ("shutdown", "crash", "shutdown"):
            epoch = broker(running, 1).broker_epoch
            if mode == "crash":
                await running.server.stop_broker(1, mode="crash")
            else:
                await running.server.stop_broker(1)
            await running.server.start_broker(1)
            assert set(named) == {-1 if mode == "crash" else epoch}
            named.clear()


async def test_a_broker_whose_process_ended_amid_its_shutdown_names_the_epoch_of_that_life() -> None:
    """Its leaders had begun to move, and no acknowledged record is lost."""
    named: dict[int, int] = {}

    class Noting(Controller):
        def submit(self, call: Call) -> Answer:
            if isinstance(call.request, broker_registration.BrokerRegistrationRequest):
                named[call.request.broker_id] = call.request.previous_broker_epoch
            return super().submit(call)

    log = make_memory_log()
    async with open_test_server(brokers=2, log=log) as running:
        await (await running.connect(1)).ask(create_topics.API, 7, create_topic("t", 4))
        peer, known = await running.connect_to_controller(), broker(running, 2)
        beat = broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=2, broker_epoch=known.broker_epoch, current_metadata_offset=0, want_shut_down=True
        )
        assert not (await peer.ask(broker_heartbeat.API, 1, beat)).should_shut_down
        assert broker(running, 2).in_controlled_shutdown
    async with open_test_server(brokers=2, log=log, controller_class=Noting) as running:
        assert named[2] == known.broker_epoch
        assert broker(running, 2).live


async def test_a_heartbeat_is_sent_at_the_moment_when_it_is_due_also_amid_a_long_request(
    mock_clock: MockClock,
) -> None:
    async with open_test_server(brokers=2) as running:
        brokers = running.server.brokers
        for one in brokers.by_id.values():
            due = one.next_heartbeat_at
            running.server._lives.beat(due - 0.001)
            assert one.next_heartbeat_at == due
            running.server._lives.beat(due)
            assert one.next_heartbeat_at > due
        running.controller._deciding = object()  # type: ignore[assignment]
        due = brokers.by_id[1].next_heartbeat_at
        running.server._lives.beat(due)
        assert brokers.by_id[1].next_heartbeat_at > due, "it changes no metadata, and its session must not expire"
        running.controller._deciding = None


async def test_the_controller_s_own_listener_is_told_if_there_is_one() -> None:
    async with open_test_server() as running:
        assert running.server.controller_bootstrap_servers == f"127.0.0.1:{running.controller_port}"


async def test_brokers_are_added_with_the_next_id_and_rack() -> None:
    async with open_test_server(brokers=2, racks=("a", "b", "c")) as running:
        assert await running.server.add_broker() == 3
        assert await running.server.add_broker(rack="z") == 4
        assert (broker(running, 3).rack, broker(running, 4).rack) == ("c", "z")
        assert broker(running, 4).live
        host, port = running.server.bootstrap_servers.split(",")[3].split(":")
        async with await trio.open_tcp_stream(host, int(port)):
            pass


async def test_a_removed_broker_is_forgotten_and_its_id_not_used_again_while_others_are_above() -> None:
    async with open_test_server(brokers=3) as running:
        await running.server.remove_broker(2)
        assert set(running.controller.image.brokers) == {1, 3}
        assert len(running.server.bootstrap_servers.split(",")) == 2
        assert not await accepts(running, 2)
        await running.server.stop_broker(3)
        await running.server.remove_broker(3)
        assert set(running.controller.image.brokers) == {1}


async def test_a_broker_added_again_under_its_id_takes_its_replicas_back(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    async with open_test_server(brokers=2) as running:
        on_both = create_topic("orders")
        on_both.topics[0].replication_factor = 2
        assert not (await (await running.connect()).ask(create_topics.API, 7, on_both)).topics[0].error_code
        await running.server.remove_broker(2)
        image = running.controller.image
        topic = image.topics_by_name["orders"]
        assert image.partitions.read(topic.row, 0).isr == (1,)
        assert await running.server.add_broker() == 2
        await trio.sleep(SESSION_SECONDS)
        assert sorted(image.partitions.read(topic.row, 0).isr) == [1, 2]


@pytest.mark.parametrize(("change", "reason"), [
    ("stop_broker", "broker 2 is down already"), ("start_broker", "broker 1 is up already")
])  # fmt: skip
async def test_what_is_so_already_is_refused(change: str, reason: str) -> None:
    async with open_test_server(brokers=2) as running:
        await running.server.stop_broker(2)
        with pytest.raises(BrokerError, match=reason):
            await getattr(running.server, change)(2 if change == "stop_broker" else 1)
        with pytest.raises(BrokerError, match="there is no simulated broker 9"):
            await getattr(running.server, change)(9)


async def test_two_changes_of_one_broker_at_once_are_refused(mock_clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        await running.server.stop_broker(1, mode="crash")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.server.start_broker, 1)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(BrokerError, match="is being started or stopped"):
                await running.server.start_broker(1)
            nursery.cancel_scope.cancel()
        assert not running.listeners[0].is_open


async def test_brokers_from_outside_join_through_the_controller_listener() -> None:
    async with open_test_server(brokers=1) as running:
        peer = await running.connect_to_controller()
        registration = broker_registration.BrokerRegistrationRequest(
            broker_id=50,
            cluster_id=running.log.cluster_id,
            incarnation_id=Uuid(b"incarnation-----"),
            listeners=[broker_registration.Listener(name="PLAINTEXT", host="10.0.0.1", port=9092)],
            features=[
                broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in REGISTERED_FEATURES
            ],
            log_dirs=[Uuid(b"directory-------")],
        )
        registered = await peer.ask(broker_registration.API, 4, registration)
        assert registered.error_code == 0
        beat = broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=50, broker_epoch=registered.broker_epoch, current_metadata_offset=running.log.end_offset
        )
        beaten = await peer.ask(broker_heartbeat.API, 2, beat)
        assert (beaten.error_code, beaten.is_fenced) == (0, False)
        assert broker(running, 50).live
        assert await running.server.add_broker() == 51


@asynccontextmanager
async def open_on_disk(path: pathlib.Path, **arguments: object) -> AsyncIterator[RunningServer]:
    log = SegmentLog.open(
        path, new_cluster_id="cluster", new_directory_id=Uuid(range(16)), timestamp_ms=START_MS, warn=print
    )
    try:
        async with open_test_server(log=log, **arguments) as running:  # type: ignore[arg-type]
            yield running
    finally:
        log.close()


async def test_after_a_restart_brokers_go_on_as_themselves(tmp_path: pathlib.Path) -> None:
    """Their ports change here, so each registers again as the same incarnation and keeps its epoch."""
    async with open_on_disk(tmp_path, brokers=3, racks=("a", "b")) as running:
        before = dict(running.controller.image.brokers)
        await running.server.stop_broker(3)
    async with open_on_disk(tmp_path, brokers=3, racks=("a", "b")) as running:
        after = dict(running.controller.image.brokers)
        assert all(state.live for state in after.values())
        for broker_id in (1, 2):
            assert after[broker_id].broker_epoch == before[broker_id].broker_epoch
            assert after[broker_id].incarnation_id == before[broker_id].incarnation_id
            assert after[broker_id].end_points[0].port == running.listeners[broker_id - 1].address.port
        assert after[3].incarnation_id != before[3].incarnation_id, "a broker that was shut down is started anew"
        assert {broker_id: state.log_dirs for broker_id, state in after.items()} == {
            broker_id: state.log_dirs for broker_id, state in before.items()
        }


async def test_brokers_that_a_restart_leaves_out_are_fenced_when_their_time_is_over(
    tmp_path: pathlib.Path, mock_clock: MockClock
) -> None:
    async with open_on_disk(tmp_path, brokers=2):
        pass
    async with open_on_disk(tmp_path, brokers=1) as running:
        assert broker(running, 2).live
        await pass_time(mock_clock, SESSION_SECONDS + 1)
        assert broker(running, 2).fenced
        assert broker(running, 1).live
        with pytest.raises(BrokerError, match=r"^there is no simulated broker 2, though the metadata has .*--brokers$"):
            await running.server.start_broker(2)
