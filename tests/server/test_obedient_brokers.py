"""Simulated brokers stop when the controller says so, whatever caused it, and can be started and stopped as before."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration, unregister_broker
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.uuid import Uuid
from tests.registrations import REGISTERED_FEATURES
from tests.server.harness import RunningServer, open_test_server
from tests.server.test_brokers import SESSION_SECONDS, accepts, broker


@asynccontextmanager
async def ended_by_unregistration(running: RunningServer) -> AsyncIterator[None]:
    """Another client unregisters broker 2 while it is up."""
    peer = await running.connect(1)
    request = unregister_broker.UnregisterBrokerRequest(broker_id=2)
    assert (await peer.ask(unregister_broker.API, 0, request)).error_code == 0
    yield


@asynccontextmanager
async def ended_by_a_shutdown_from_outside(running: RunningServer) -> AsyncIterator[None]:
    """Another client requests a controlled shutdown in its name, while it leads a partition."""
    peer = await running.connect(1)
    assignments = [create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[2])]
    topic = create_topics.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    created = await peer.ask(create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    assert created.topics[0].error_code == 0
    await ask_for_the_shutdown_of_broker_2(running)
    assert broker(running, 2).in_controlled_shutdown
    yield


@asynccontextmanager
async def ended_by_another_process_with_its_id(running: RunningServer) -> AsyncIterator[None]:
    """It was unregistered, and another process registered before its next heartbeat. The other process then stops."""
    async with ended_by_unregistration(running):
        peer = await running.connect_to_controller()
        registration = broker_registration.BrokerRegistrationRequest(
            broker_id=2,
            cluster_id=running.log.cluster_id,
            incarnation_id=Uuid(b"incarnation-----"),
            listeners=[broker_registration.Listener(name="PLAINTEXT", host="10.0.0.1", port=9092)],
            features=[
                broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in REGISTERED_FEATURES
            ],
            log_dirs=[Uuid(b"directory-------")],
        )
        assert (await peer.ask(broker_registration.API, 4, registration)).error_code == 0
        yield


async def ask_for_the_shutdown_of_broker_2(running: RunningServer) -> None:
    peer = await running.connect_to_controller()
    request = broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=broker(running, 2).broker_epoch,
        current_metadata_offset=running.log.end_offset,
        want_shut_down=True,
    )
    assert (await peer.ask(broker_heartbeat.API, 1, request)).error_code == 0


@pytest.mark.parametrize(
    "ended", [ended_by_unregistration, ended_by_a_shutdown_from_outside, ended_by_another_process_with_its_id]
)
@pytest.mark.parametrize("then", ["start", "remove", "stop at once", "remove at once"])
async def test_a_broker_obeys_what_the_controller_tells_it_and_can_be_changed_as_before(
    autojump_clock: MockClock, ended: Callable[[RunningServer], AbstractAsyncContextManager[None]], then: str
) -> None:
    async with open_test_server(brokers=2) as running, ended(running):
        server = running.server
        if then == "remove at once":
            await server.remove_broker(2)
            assert 2 not in server.brokers.by_id
            return
        if then == "stop at once":
            await server.stop_broker(2)
        else:
            await trio.sleep(SESSION_SECONDS)
            assert "a broker was shut down or unregistered by a client" in running.stderr.getvalue()
        assert not server.brokers.by_id[2].is_up
        assert not await accepts(running, 2)
        if then == "remove":
            await server.remove_broker(2)
            assert 2 not in server.brokers.by_id
            assert 2 not in running.controller.image.brokers
            return
        await server.start_broker(2)
        assert broker(running, 2).live
        assert await accepts(running, 2)
        await server.stop_broker(2)
        assert not broker(running, 2).live


async def test_a_broker_that_leads_nothing_is_back_after_a_shutdown_from_outside(autojump_clock: MockClock) -> None:
    """The controller has fenced it already. Its next heartbeat makes it live again."""
    async with open_test_server(brokers=2) as running:
        await ask_for_the_shutdown_of_broker_2(running)
        assert not broker(running, 2).live
        await trio.sleep(SESSION_SECONDS)
        assert broker(running, 2).live
        assert await accepts(running, 2)
