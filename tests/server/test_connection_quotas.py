"""Quotas of connections: rates of nodes, listeners and addresses, and the number per address. Time is the test's
clock; connections are real."""

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.settings import Settings
from klamm.protocol.messages.configs import alter_client_quotas, incremental_alter_configs
from klamm.protocol.messages.configs.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.server import connection_quotas
from klamm.server.connection_quotas import ConnectionQuotas
from tests.server.harness import Peer, RunningServer, open_test_server

LOOPBACK = "127.0.0.1"
BROKER = 4


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.005)


async def set_rate(peer: Peer, address: str | None, rate: float) -> None:
    entity = [EntityData(entity_type="ip", entity_name=address)]
    ops = [OpData(key="connection_creation_rate", value=rate, remove=False)]
    answer = await peer.ask(
        alter_client_quotas.API, 1, AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])
    )
    assert answer.entries[0].error_code == 0


async def set_config(peer: Peer, name: str, value: str, resource: str = "1") -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    wanted = AlterConfigsResource(resource_type=BROKER, resource_name=resource, configs=[config])
    answer = await peer.ask(
        incremental_alter_configs.API, 1, IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)
    )
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


async def accepted_after(running: RunningServer, count: int, broker_id: int = 1) -> list[float]:
    """When each of so many connections, made at once, is served; negative: when it was closed instead."""
    times: list[float] = []
    started = trio.current_time()

    async def connect() -> None:
        peer = await running.connect(broker_id)
        try:
            served = await peer.is_served()
        except (AssertionError, trio.BrokenResourceError):
            served = False
        passed = trio.current_time() - started
        times.append(passed if served else -passed)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(connect)
    return sorted(times)


async def test_connections_beyond_the_quota_of_an_address_are_closed_after_the_throttle_time(clock: MockClock) -> None:
    """Ten windows of the rate, and the connection that sets the quota came before it."""
    async with open_test_server() as running:
        await set_rate(await running.connect(), LOOPBACK, 2)
        times = await accepted_after(running, 24)
        assert sum(time >= 0 for time in times) == 20
        late = [-time for time in times if time < 0]
        assert late == [pytest.approx(0.5, abs=0.1)] * 4, "not read for the time in which the rate falls to its bound"
        await trio.sleep(12)
        assert (await accepted_after(running, 1))[0] >= 0


async def test_a_closed_connection_is_closed_after_a_window_at_the_latest(clock: MockClock) -> None:
    settings = Settings(seed=1, static_configs={"quota.window.num": "2", "quota.window.size.seconds": "1"})
    async with open_test_server(settings=settings) as running:
        await set_rate(await running.connect(), None, 1)
        times = [(await accepted_after(running, 1))[0] for _ in range(2)]
        assert times[0] >= 0
        assert -1.2 < times[1] <= -0.9


async def test_the_default_applies_to_addresses_without_a_quota(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        await set_rate(peer, None, 1)
        await set_rate(peer, "10.0.0.1", 1000)
        assert sum(time >= 0 for time in await accepted_after(running, 12)) == 10
        await set_rate(peer, LOOPBACK, 1000)
        assert (await accepted_after(running, 1))[0] >= 0


async def test_above_the_rate_of_a_broker_connections_are_accepted_later(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        peer = await running.connect(2)
        await set_config(peer, "max.connection.creation.rate", "2", resource="2")
        times = await accepted_after(running, 22, broker_id=2)
        assert all(time >= 0 for time in times), "none is closed"
        assert sum(time < 0.1 for time in times) == 19, "the connection that set the rate counts, too"
        assert times[19:] == [pytest.approx(0.5, abs=0.1), pytest.approx(1, abs=0.1), pytest.approx(2, abs=0.1)]
        assert await (await running.connect(1)).is_served()


async def test_the_rate_of_a_listener_is_its_own(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        await set_config(peer, "listener.name.plaintext.max.connection.creation.rate", "1")
        assert sum(time < 0.1 for time in await accepted_after(running, 12)) == 9


async def test_an_address_has_a_number_of_connections(clock: MockClock) -> None:
    async with open_test_server() as running:
        first = await running.connect()
        await set_config(first, "max.connections.per.ip", "2", resource="")
        second, third = await running.connect(), await running.connect()
        assert await second.is_served()
        assert await third.receive() is None
        await second.aclose()
        await trio.sleep(0.1)
        assert (await accepted_after(running, 1))[0] >= 0
        await set_config(first, "max.connections.per.ip.overrides", f"{LOOPBACK}:100", resource="")
        for _ in range(5):
            assert await (await running.connect()).is_served()


def quotas_of(running: RunningServer, listeners: tuple[str, ...] = ("PLAINTEXT",)) -> ConnectionQuotas:
    return ConnectionQuotas(running.controller, 1, listeners)


async def test_the_listener_of_the_brokers_has_the_rate_for_itself_if_there_are_others(clock: MockClock) -> None:
    """As in Kafka: the rate of the node is that of each listener without one of its own, and the sum for the others."""
    async with open_test_server() as running:
        await set_config(await running.connect(), "max.connection.creation.rate", "1")
        alone, among = quotas_of(running), quotas_of(running, listeners=("PLAINTEXT", "OTHER", "THIRD"))
        for name in ("PLAINTEXT", "OTHER"):
            assert [among.accept_delay_ms(name, 0) for _ in range(10)] == [0] * 10
        assert among.accept_delay_ms("PLAINTEXT", 0) == 1000
        assert among.accept_delay_ms("THIRD", 0) == 1000, "OTHER has used the sum"
        await set_config(running.peers[0], "listener.name.plaintext.max.connection.creation.rate", "1000")
        assert [alone.accept_delay_ms("PLAINTEXT", 0) for _ in range(11)] == [0] * 10 + [1000]
        assert among.accept_delay_ms("PLAINTEXT", 0) == 0, "the rate of the node is none of its own any more"


async def test_connections_before_a_rate_was_set_count_and_those_that_are_not_served_do_not(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        quotas = quotas_of(running)
        for _ in range(10):
            quotas.count_accepted("PLAINTEXT", 0)
        await set_config(peer, "max.connection.creation.rate", "1")
        assert quotas.has_rate("PLAINTEXT")
        assert quotas.accept_delay_ms("PLAINTEXT", 0) == 1000
        quotas.count_accepted("PLAINTEXT", 0, -1)
        assert quotas.accept_delay_ms("PLAINTEXT", 0) == 1000
        await set_config(peer, "listener.name.plaintext.max.connection.creation.rate", "1000")
        await set_config(peer, "max.connection.creation.rate", "2147483647")
        assert quotas.accept_delay_ms("PLAINTEXT", 0) == 0


async def test_above_a_number_connections_wait_until_another_ends_or_the_number_is_higher(clock: MockClock) -> None:
    async with open_test_server() as running:
        first = await running.connect()
        await set_config(first, "max.connections", "2")
        second, third, fourth = [await running.connect() for _ in range(3)]
        assert await second.is_served()
        with pytest.raises(trio.TooSlowError):
            await third.is_served()
        await second.aclose()
        third_answer = await third.receive()
        assert third_answer is not None
        await set_config(first, "max.connections", "3")
        assert await fourth.is_served()


async def test_a_number_is_that_of_a_listener_or_the_sum_of_those_that_are_not_protected(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        quotas = quotas_of(running, listeners=("PLAINTEXT", "OTHER", "THIRD"))
        assert not quotas.has_number("OTHER")
        await set_config(peer, "max.connections", "2")
        assert quotas.has_number("OTHER")
        for _ in range(2):
            assert quotas.has_slot("THIRD")
            assert quotas.enter(LOOPBACK, "OTHER")
        assert not quotas.has_slot("OTHER")
        assert not quotas.has_slot("THIRD"), "the sum"
        for _ in range(2):
            assert quotas.has_slot("PLAINTEXT"), "its own number, not the sum"
            assert quotas.enter(LOOPBACK, "PLAINTEXT")
        assert not quotas.has_slot("PLAINTEXT")
        quotas.leave(LOOPBACK, "PLAINTEXT")
        assert quotas.has_slot("PLAINTEXT")
        await set_config(peer, "max.connections", "2147483647")
        await set_config(peer, "listener.name.other.max.connections", "3")
        assert (quotas.has_number("OTHER"), quotas.has_number("THIRD")) == (True, False)
        assert quotas.has_slot("OTHER")
        assert quotas.enter(LOOPBACK, "OTHER")
        assert not quotas.has_slot("OTHER")


async def test_without_limits_nothing_is_counted(clock: MockClock) -> None:
    async with open_test_server() as running:
        quotas = quotas_of(running)
        assert quotas.accept_delay_ms("PLAINTEXT", 0) is None
        assert quotas.close_delay_ms(LOOPBACK, 0) == 0
        assert len(quotas._of_addresses) == 0


async def test_connections_that_wait_to_be_closed_are_bounded(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_quotas, "MAX_DELAYED_CLOSES", 1)
    async with open_test_server() as running:
        quotas = quotas_of(running)
        assert quotas.may_close_later()
        assert not quotas.may_close_later()
        quotas.closed()
        assert quotas.may_close_later()
