"""The fields of each event of a server beside its name: those by which an operator finds the cause."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.protocol.messages.brokers import unregister_broker
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.topics import create_topics
from klamm.server.limits import ServerLimits
from tests.broker.data.batches import batch
from tests.broker.test_simulated_broker import GUARDED_SETTINGS, Suspicious
from tests.server.harness import RunningServer, api_versions_frame, create_topic, open_test_server, request_frame
from tests.server.test_connection import BuggyController
from tests.server.test_limits import connect_to_a_client_that_never_reads

Go = Callable[[RunningServer], Awaitable[None]]


@dataclass(frozen=True)
class Event:
    """What the test does, and a pattern of the event that follows."""

    go: Go
    told: str
    server: dict[str, Any] = field(default_factory=dict)


async def a_broker_is_unregistered_by_others(running: RunningServer) -> None:
    peer = await running.connect(1)
    await peer.ask(unregister_broker.API, 0, unregister_broker.UnregisterBrokerRequest(broker_id=2))
    await trio.sleep(3)


async def a_broker_loses_its_rights(running: RunningServer) -> None:
    assert isinstance(running.controller, Suspicious)
    running.controller.suspects = True
    await trio.sleep(3)


async def a_client_reads_nothing(running: RunningServer) -> None:
    peer = connect_to_a_client_that_never_reads(running)
    await peer.send(api_versions_frame(1))
    await trio.sleep(70)


async def there_is_one_client_too_many(running: RunningServer) -> None:
    first = running.connect_in_memory()
    await first.send(api_versions_frame(1)[:7])
    await trio.testing.wait_all_tasks_blocked()
    assert await running.connect_in_memory().receive() is None


async def bytes_are_no_request(running: RunningServer) -> None:
    peer = running.connect_in_memory()
    await peer.send(b"\xff\xff\xff\xff")
    assert await peer.receive() is None


async def a_batch_is_refused_without_acks(running: RunningServer) -> None:
    peer = running.connect_in_memory()
    await peer.ask(create_topics.API, 7, create_topic("t"))
    data = [produce.PartitionProduceData(index=7, records=batch(1))]
    topics = [produce.TopicProduceData(name="t", partition_data=data)]
    await peer.send(request_frame(produce.API, 9, 1, produce.ProduceRequest(acks=0, topic_data=topics)))
    assert await peer.receive() is None


async def a_handler_has_a_bug(running: RunningServer) -> None:
    request = unregister_broker.UnregisterBrokerRequest(broker_id=9)
    await running.connect_in_memory().ask(unregister_broker.API, 0, request)


EVENTS = [
    Event(a_broker_is_unregistered_by_others, "a broker was shut down or unregistered by a client +broker_id=2\n"),
    Event(
        a_broker_loses_its_rights,
        "heartbeat refused +broker_id=1 error=CLUSTER_AUTHORIZATION_FAILED\n",
        {"controller_class": Suspicious, "settings": GUARDED_SETTINGS},
    ),
    Event(a_client_reads_nothing, r"stalled connection closed +held_bytes=(\d+) held_bytes_of_all=\1\n"),
    Event(
        there_is_one_client_too_many,
        "connection refused: there are too many limit=1\n",
        {"limits": ServerLimits(max_connections=1)},
    ),
    Event(
        bytes_are_no_request,
        "connection closed: this is no request reason='.*frame of -1 bytes",
    ),
    Event(
        a_batch_is_refused_without_acks,
        "connection closed: no answer can be given reason='Produce without acks: UNKNOWN_TOPIC_OR_PARTITION for "
        "partition 7 of a topic'",
    ),
    Event(
        a_handler_has_a_bug,
        "bug: UnregisterBroker failed +api_version=0 broker_id=1 client_id=peer listener=broker "
        r"request=['\"]?\{'brokerId': 9\}",
        {"controller_class": BuggyController, "has_bugs": True},
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.go.__name__)
async def test_an_event_tells_its_cause(event: Event, autojump_clock: MockClock) -> None:
    async with open_test_server(brokers=2, **event.server) as running:
        await event.go(running)
        reported = running.stderr.getvalue()
    assert re.search(event.told, reported), reported


async def test_a_request_log_that_cannot_be_written_is_named(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(request_log=path) as running:

        def fail(_file: int, _data: bytes) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("klamm.server.request_log.os.write", fail)
            assert await running.connect_in_memory().is_served()
            await trio.sleep(1)
        reported = running.stderr.getvalue()
    assert f"path={path} reason='[Errno 28] No space left on device'" in reported
    assert reported.count("the request log cannot be written") == 1
