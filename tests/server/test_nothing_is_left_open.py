"""A failed start leaves nothing open: no file, no port, no broker. So it can be tried again, and succeeds once the
cause is gone."""

import io
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.broker.log_dirs.directories import directory_id
from klamm.broker.simulated_broker import BrokerError
from klamm.protocol.messages.brokers import broker_registration
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, Feature
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.listener import PortTaken, open_listeners
from klamm.server.listeners import Listener
from klamm.server.node_listeners import open_node
from klamm.server.request_log import RequestLog, RequestLogError
from tests.registrations import REGISTERED_FEATURES
from tests.server.harness import RunningServer, open_test_server

TIMES = 3


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def request_log_in(folder: Path, content: bytes) -> Callable[[], object]:
    path = folder / "requests.jsonl"
    path.write_bytes(content)
    return lambda: RequestLog(path, "cluster", EventLog("console", io.StringIO()))


def a_request_log_of_others(folder: Path, _port: int) -> Callable[[], object]:
    return request_log_in(folder, b"my diary\n")


def a_request_log_without_numbers(folder: Path, _port: int) -> Callable[[], object]:
    return request_log_in(folder, b'{"v":1}\n')


def a_rotated_log_of_others(folder: Path, _port: int) -> Callable[[], object]:
    """A rotated file: the line numbers continue from the file before it."""
    (folder / "requests.jsonl.1").write_bytes(b"my diary\n")
    return request_log_in(folder, b"")


def a_taken_port(_folder: Path, port: int) -> Callable[[], object]:
    return lambda: open_listeners(Address("127.0.0.1", port), 1)


def the_second_of_two_ports(_folder: Path, port: int) -> Callable[[], object]:
    return lambda: open_listeners(Address("127.0.0.1", port - 1), 2)


def the_second_listener_of_a_node(_folder: Path, port: int) -> Callable[[], object]:
    free, taken = Address("127.0.0.1", 0), Address("127.0.0.1", port)
    return lambda: open_node([Listener("ONE", free, free), Listener("TWO", taken, taken)])


FAILURES = [
    a_request_log_of_others,
    a_request_log_without_numbers,
    a_rotated_log_of_others,
    a_taken_port,
    the_second_of_two_ports,
    the_second_listener_of_a_node,
]


@pytest.mark.parametrize("failure", FAILURES)
async def test_what_cannot_be_opened_leaves_no_file_open(
    failure: Callable[[Path, int], Callable[[], object]], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        attempt = failure(tmp_path, taken.getsockname()[1])
        before = open_files()
        said = set()
        for _ in range(TIMES):
            with pytest.raises((RequestLogError, PortTaken)) as refused:
                attempt()
            said.add(str(refused.value))
        assert open_files() == before
        assert len(said) == 1, "the same each time, not that it is in use"


async def take_the_disk_of(running: RunningServer, owner: int, broker_id: int) -> None:
    """Broker `owner`, of another process, registers with the log directory that a simulated broker would have."""
    peer = await running.connect_to_controller()
    cluster_id = running.controller.identity.cluster_id
    request = BrokerRegistrationRequest(
        broker_id=owner,
        cluster_id=cluster_id,
        incarnation_id=directory_id("", owner, 0),
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, lowest, highest in REGISTERED_FEATURES
        ],
        log_dirs=[directory_id(cluster_id, broker_id, 0)],
    )
    answer = await peer.ask(broker_registration.API, 4, request)
    assert answer.error_code == 0


async def test_a_broker_that_cannot_join_leaves_neither_a_port_nor_itself() -> None:
    async with open_test_server() as running:
        await take_the_disk_of(running, owner=2, broker_id=3)
        before = open_files()
        for _ in range(TIMES):
            with pytest.raises(BrokerError, match="broker 3 cannot register: INVALID_REGISTRATION"):
                await running.server.add_broker()
            assert open_files() == before
            with pytest.raises(BrokerError, match="there is no simulated broker 3"):
                await running.server.stop_broker(3)
            assert set(running.server.brokers.data.down) == set()
        await take_the_disk_of(running, owner=3, broker_id=9)
        assert await running.server.add_broker() == 4
        assert (await running.connect(1)).stream is not None


async def test_a_broker_whose_port_was_taken_meanwhile_can_be_started_once_it_is_free() -> None:
    async with open_test_server(brokers=2) as running:
        await running.server.stop_broker(2)
        listener = running.listeners[1]
        listener.close()
        before = open_files()
        with socket.create_server(("127.0.0.1", listener.address.port)):
            for _ in range(TIMES):
                with pytest.raises(PortTaken):
                    await running.server.start_broker(2)
                assert open_files() == before + 1, "the port that is taken here"
                assert set(running.server.brokers.data.down) == {2}
        await running.server.start_broker(2)
        assert await (await running.connect(2)).is_served()
        assert set(running.server.brokers.data.down) == set()


async def test_a_broker_that_is_refused_can_be_started_once_it_is_not() -> None:
    async with open_test_server(brokers=2) as running:
        await running.server.stop_broker(2)
        await running.server._lives.unregister(running.server.brokers.find(2))
        await take_the_disk_of(running, owner=7, broker_id=2)
        for _ in range(TIMES):
            with pytest.raises(BrokerError, match="cannot register: INVALID_REGISTRATION"):
                await running.server.start_broker(2)
            assert not running.listeners[1].is_open
            assert set(running.server.brokers.data.down) == {2}
