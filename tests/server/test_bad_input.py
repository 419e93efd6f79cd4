"""Bytes that break the protocol: the server closes the connection without an answer, and other connections are not
affected (golden/behaviour, Connections)."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.client import Client
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    correlation_ids,
    create_topic_frame,
    garbage,
    metadata_frame,
    open_test_server,
)

BROKEN = {
    "garbage": garbage(1, 1000),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tls greeting": bytes.fromhex("16030102000100"),
    "size -1": bytes.fromhex("ffffffff"),
    "size -2^31": bytes.fromhex("80000000"),
    "size 0": bytes.fromhex("00000000"),
    "size 1": bytes.fromhex("0000000100"),
    "size above the maximum": bytes.fromhex("06400001"),
    "an unknown key": bytes.fromhex("0000000d03e70000000000070003726177"),
    "a negative key": bytes.fromhex("0000000dffff0000000000070003726177"),
    "a version too high": bytes.fromhex("0000001300030063000000070003726177000100000000"),
    "a negative version": bytes.fromhex("000000110003ffff00000007000372617700000000"),
    "a removed version": bytes.fromhex("000000160013000100000007000372617700000000000003e800"),
    "a header cut short": bytes.fromhex("000000080003000100000007"),
    "a body cut short": bytes.fromhex("0000000f000300010000000700037261770000"),
    "an array longer than the frame": bytes.fromhex("00000011000300010000000700037261777fffffff"),
    "a varint without an end": bytes.fromhex("000000140003000900000007000372617700ffffffffffff"),
    "an API of the controller": bytes.fromhex(
        "0000004e003e00040000000700037261770000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000"
    ),
}
HARMLESS = {
    "bytes after the body": bytes.fromhex("00000018000300010000000700037261770000000067617262616765"),
    "a null client id": bytes.fromhex("0000000e0003000100000007ffff00000000"),
    "an unknown tag": bytes.fromhex("00000018000300090000000700037261770001000000010703616263"),
    "an array of -2": bytes.fromhex("0000001100030001000000070003726177fffffffe"),
    "a client id that is no UTF-8": bytes.fromhex("0000001000030001000000070002fffe00000000"),
    "a topic name that is no UTF-8": bytes.fromhex("0000001500030001000000070003726177000000010002fffe"),
}


async def ask_throughout(peer: Peer, asked: list[int], scope: trio.CancelScope) -> None:
    """A client with valid requests, which runs while others send invalid bytes."""
    with scope:
        while True:
            assert await peer.is_served()
            asked.append(1)


async def closes_after(running: RunningServer, data: bytes) -> list[bytes]:
    """The answer to `data` on a new connection before it is closed, while another connection is served."""
    good, bad = await running.connect(), await running.connect()
    requested: list[int] = []
    scope = trio.CancelScope()
    answers = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_throughout, good, requested, scope)
        await bad.send(data)
        while (frame := await bad.receive()) is not None:
            answers.append(frame)
        enough = len(requested) + 3
        while len(requested) < enough:
            await trio.lowlevel.checkpoint()
        scope.cancel()
    return answers


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_request_closes_its_connection_and_no_other(data: bytes) -> None:
    async with open_test_server() as running:
        assert await closes_after(running, data) == []
        assert "bug" not in running.stderr.getvalue()


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
async def test_requests_before_a_broken_one_are_answered_and_those_after_it_are_not(data: bytes) -> None:
    async with open_test_server() as running:
        before = create_topic_frame(1, "before") + metadata_frame(2)
        answers = await closes_after(running, before + data + create_topic_frame(3, "after"))
        assert correlation_ids(answers) == [1, 2]
        assert list(running.controller.image.topics_by_name) == ["before"]


@pytest.mark.parametrize("data", HARMLESS.values(), ids=HARMLESS.keys())
async def test_what_kafka_takes_is_answered_and_the_connection_goes_on(data: bytes) -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        await peer.send(data)
        answer = await peer.receive()
        assert answer is not None
        assert correlation_ids([answer]) == [7]
        assert await peer.is_served()


@pytest.mark.parametrize("data", [b"", b"\0\0", bytes.fromhex("06400000"), api_versions_frame(1)[:9]])
async def test_an_incomplete_frame_is_waited_for(data: bytes, autojump_clock: trio.testing.MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send(data)
        with trio.move_on_after(300) as patience:
            await peer.stream.receive_some()
        assert patience.cancelled_caught


@given(data=st.binary(max_size=300), well_sized=st.booleans())
async def test_any_bytes_lead_to_an_answer_or_an_end_and_to_no_bug(data: bytes, well_sized: bool) -> None:
    async with open_test_server() as running:
        peer, other = running.connect_in_memory(), running.connect_in_memory()
        await peer.send((len(data).to_bytes(4, "big") if well_sized else b"") + data)
        await trio.testing.wait_all_tasks_blocked()
        assert await other.is_served()
        assert "bug" not in running.stderr.getvalue()


def recorded_steps() -> Iterator[dict[str, Any]]:
    """The recorded exchanges of raw bytes with APIs that exist here."""
    path = Path(__file__).parents[1] / "golden" / "behaviour" / "scenarios.jsonl.gz"
    for line in gzip.decompress(path.read_bytes()).splitlines():
        scenario = json.loads(line)
        for step in scenario["steps"]:
            if "send" in step and not step["step"].startswith(NOT_SERVED):
                yield {**step, "id": f"{scenario['scenario']}: {step['step']}"}


NOT_SERVED = ("GetTelemetrySubscriptions", "delegation token")
RECORDED = list(recorded_steps())


@pytest.mark.parametrize("step", RECORDED, ids=[step["id"] for step in RECORDED])
async def test_raw_bytes_are_answered_and_closed_upon_as_apache_kafka_does(
    step: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    async with open_test_server() as running:
        client = Client("controller") if step.get("listener") == "controller" else Client("broker", 1)
        peer = running.connect_in_memory(client)
        for chunk in step["send"]:
            await peer.send(bytes.fromhex(chunk))
        frames, end = 0, "open"
        with trio.move_on_after(1.5):  # as long as the recorder waited
            while await peer.receive() is not None:
                frames += 1
            end = "closed"
        assert (frames, end) == (step["outcome"]["frames"], step["outcome"]["end"])
