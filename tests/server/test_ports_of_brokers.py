"""The ports on which brokers listen and which they advertise, also of brokers that are added later."""

import pytest

from klamm.server.addresses import Address
from klamm.server.listener import PortTaken
from klamm.server.listeners import Listener, ListenerPlan
from klamm.server.node_listeners import open_node
from tests.server.harness import LOOPBACK, RunningServer, open_test_server
from tests.server.test_listener import free_ports_in_a_row


def registered(running: RunningServer) -> list[tuple[str, int]]:
    """The end points that Metadata has for each broker, by id."""
    brokers = running.controller.image.brokers
    return [(brokers[one].end_points[0].host, brokers[one].end_points[0].port) for one in sorted(brokers)]


async def test_a_broker_that_is_added_has_the_next_port_where_ports_were_asked_for() -> None:
    first = free_ports_in_a_row(4)
    async with open_test_server(brokers=2, listen=Address(LOOPBACK.host, first)) as running:
        assert [await running.server.add_broker() for _ in range(2)] == [3, 4]
        assert registered(running) == [(LOOPBACK.host, first + place) for place in range(4)]


async def test_a_broker_that_is_added_has_any_port_where_none_was_asked_for() -> None:
    async with open_test_server() as running:
        for _ in range(3):
            await running.server.add_broker()
        assert len({port for _, port in registered(running)} - {0}) == 4


async def test_advertised_ports_count_up_whatever_the_brokers_listen_on() -> None:
    async with open_test_server(brokers=2, advertised=Address("kafka.internal", 19092)) as running:
        await running.server.add_broker()
        assert registered(running) == [("kafka.internal", 19092 + place) for place in range(3)]
        assert running.server.bootstrap_servers == "kafka.internal:19092,kafka.internal:19093,kafka.internal:19094"


async def test_without_an_advertised_port_brokers_tell_their_own() -> None:
    async with open_test_server(brokers=2, advertised=Address("kafka.internal", 0)) as running:
        await running.server.add_broker()
        own = [listener.address.port for listener in running.listeners]
        assert registered(running)[:2] == [("kafka.internal", port) for port in own]
        assert registered(running)[2][0] == "kafka.internal"
        assert registered(running)[2][1] not in {0, *own}


async def test_no_broker_is_added_that_would_be_advertised_beyond_the_last_port() -> None:
    async with open_test_server(advertised=Address("kafka.internal", 65534)) as running:
        assert await running.server.add_broker() == 2
        with pytest.raises(PortTaken, match="broker 3 would be advertised on a port beyond 65535"):
            await running.server.add_broker()
        assert registered(running) == [("kafka.internal", 65534), ("kafka.internal", 65535)]


async def test_the_advertised_address_of_a_broker_is_that_of_its_main_listener() -> None:
    """That is the cluster's main listener, at any position in the broker's list; without it, the broker's first one."""
    free = Address("127.0.0.1", 0)
    inside, outside = Listener("INSIDE", free, free, "inter-broker"), Listener("OUTSIDE", free, free)
    controller = Listener("CONTROLLER", free, free, "controller")
    plan = ListenerPlan([inside, outside], controller, of_single={2: [inside]})
    nodes = [open_node(plan.of_broker(broker_id, ())) for broker_id in (1, 2)]
    async with open_test_server(brokers=2, plan=plan, broker_listeners=nodes) as running:
        assert running.server.advertised(1) == nodes[0].addresses["OUTSIDE"] != nodes[0].addresses["INSIDE"]
        assert running.server.advertised(2) == nodes[1].addresses["INSIDE"]
        assert running.server.bootstrap_servers == str(nodes[0].addresses["OUTSIDE"])
        assert running.server.listeners == {
            "INSIDE": ",".join(str(node.addresses["INSIDE"]) for node in nodes),
        }
