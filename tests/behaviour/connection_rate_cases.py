"""Connections beyond rates and numbers: the cases recorded from a real cluster, and the client that plays them.

`python -m tests.behaviour.connection_rate_cases NAME=HOST:PORT…` plays them against any cluster, with one address for
each of LISTENERS, and prints the outcomes. Every case has source addresses of its own, all of 127.0.0.0/8.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.configs import alter_client_quotas, incremental_alter_configs
from klamm.protocol.messages.configs.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "connection-rates"
LISTENERS: Final = ("PLAINTEXT", "ONE", "TWO", "THREE", "FOUR", "FIVE")
"""All of them PLAINTEXT; the first is the one of the brokers."""
FORGOTTEN_SECONDS: Final = 12.5
"""Longer than the windows of a rate: 11 of one second."""
PATIENCE_SECONDS: Final = 2.5
SETTLE_SECONDS: Final = 0.7
"""Until a changed quota or config is in force."""
BROKER: Final = 4


@dataclass(frozen=True, slots=True)
class Quota:
    """Set the quota of an address, or of the default; None: remove it."""

    address: str | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class Config:
    """Set a dynamic config of broker 1, or of all brokers; None: remove it."""

    name: str
    value: str | None
    broker: str = "1"


@dataclass(frozen=True, slots=True)
class Connect:
    """Open connections from an address, one every `every_ms`. Each sends a request, and its outcome is noted."""

    address: str
    count: int = 1
    every_ms: int = 30
    listener: str = "ONE"
    keep: bool = False
    """Leave them open until `Close`, or the end of the case."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the oldest kept connections."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    seconds: float = FORGOTTEN_SECONDS


Step = Quota | Config | Connect | Close | Sleep
RATE, NUMBER = "max.connection.creation.rate", "max.connections"
PER_IP = "max.connections.per.ip"
CASES: Final[Mapping[str, Sequence[Step]]] = {
    "a burst beyond the quota of an address": (
        Quota("127.1.0.1", 2), Connect("127.1.0.1", 26), Connect("127.1.1.1", 26),
        Sleep(), Connect("127.1.0.1", 3), Quota("127.1.0.1", None),
    ),
    "a steady stream beyond the quota of an address": (
        Quota("127.1.0.2", 3), Connect("127.1.0.2", 75, every_ms=200), Quota("127.1.0.2", None),
    ),
    "the default quota, and an address with its own": (
        Quota(None, 1), Quota("127.1.0.4", 1000), Connect("127.1.0.3", 13), Connect("127.1.0.4", 13),
        Connect("127.1.1.3", 13), Quota("127.1.0.4", None), Connect("127.1.0.4", 3), Quota(None, None),
        Connect("127.1.0.3", 3),
    ),
    "a quota is raised": (
        Quota("127.1.0.5", 1), Connect("127.1.0.5", 13), Quota("127.1.0.5", 5), Connect("127.1.0.5", 45),
        Quota("127.1.0.5", None),
    ),
    "a quota is lowered": (
        Quota("127.1.0.6", 10), Connect("127.1.0.6", 30), Quota("127.1.0.6", 1), Connect("127.1.0.6", 3),
        Quota("127.1.0.6", None),
    ),
    "a quota is removed and set again": (
        Quota("127.1.0.7", 1), Connect("127.1.0.7", 12), Quota("127.1.0.7", None), Connect("127.1.0.7", 12),
        Quota("127.1.0.7", 1), Connect("127.1.0.7", 3), Quota("127.1.0.7", None),
    ),
    "a quota of an address counts on all listeners": (
        Quota("127.1.0.8", 1), Connect("127.1.0.8", 6), Connect("127.1.0.8", 6, listener="TWO"),
        Connect("127.1.0.8", 2, listener="PLAINTEXT"), Quota("127.1.0.8", None),
    ),
    "the rate of a listener": (
        Sleep(), Config(f"listener.name.one.{RATE}", "2"), Connect("127.1.0.9", 23),
        Connect("127.1.0.9", 5, listener="TWO"), Config(f"listener.name.one.{RATE}", None),
        Connect("127.1.0.9", 3),
    ),
    "connections that an address may not have do not count for its listener": (
        Sleep(), Config(f"listener.name.two.{RATE}", "2"), Quota("127.1.0.10", 1),
        Connect("127.1.0.10", 15, listener="TWO"), Connect("127.1.1.10", 12, listener="TWO"),
        Config(f"listener.name.two.{RATE}", None), Quota("127.1.0.10", None),
    ),
    "connections before a listener had a rate": (
        Sleep(), Connect("127.1.0.11", 15, listener="THREE"), Config(f"listener.name.three.{RATE}", "1"),
        Connect("127.1.0.11", 2, listener="THREE"), Config(f"listener.name.three.{RATE}", None),
    ),
    "the rate of a broker, which its own listener does not have": (
        Sleep(), Config(RATE, "3"), Connect("127.1.0.12", 32, listener="FOUR"),
        Connect("127.1.0.12", 3, listener="PLAINTEXT"), Config(RATE, None),
    ),
    "connections of the brokers' listener in the rate of a broker": (
        Sleep(), Config(RATE, "1"), Connect("127.1.0.13", 12, listener="PLAINTEXT"),
        Connect("127.1.0.13", 3, listener="FIVE"), Config(RATE, None),
    ),
    "the number of connections of an address": (
        Config(PER_IP, "2", broker=""), Connect("127.1.0.14", 4, keep=True), Close(),
        Connect("127.1.0.14", 2, keep=True), Connect("127.1.1.14", 3, listener="TWO", keep=True),
        Config(f"{PER_IP}.overrides", "127.1.2.14:3", broker=""), Connect("127.1.2.14", 4, keep=True),
        Config(PER_IP, None, broker=""), Config(f"{PER_IP}.overrides", None, broker=""),
        Connect("127.1.0.14", 3, keep=True),
    ),
    "the number of connections of a listener": (
        Config(f"listener.name.one.{NUMBER}", "2"), Connect("127.1.0.15", 3, keep=True),
        Connect("127.1.0.15", 3, listener="TWO", keep=True), Close(), Connect("127.1.0.15", 1, keep=True),
        Config(f"listener.name.one.{NUMBER}", None), Connect("127.1.0.15", 3, keep=True),
    ),
    "the number of connections of a broker": (
        Config(NUMBER, "4"), Connect("127.1.0.16", 6, keep=True), Connect("127.1.0.16", 2, listener="PLAINTEXT"),
        Close(2), Connect("127.1.0.16", 1, keep=True), Config(NUMBER, None), Connect("127.1.0.16", 3, keep=True),
    ),
}  # fmt: skip


@dataclass(slots=True)
class Player:
    """Plays cases against the broker with these addresses."""

    addresses: Mapping[str, tuple[str, int]]
    _kept: list[trio.abc.Stream] = field(default_factory=list)

    async def played(self, steps: Sequence[Step]) -> list[list[list[Any]]]:
        """For each Connect, how its connections fared: `served`, `closed` or `waits`, and after how many ms."""
        outcomes = []
        for step in steps:
            if isinstance(step, Connect):
                outcomes.append(await self._connected(step))
            elif isinstance(step, Sleep):
                await trio.sleep(step.seconds)
            elif isinstance(step, Close):
                for stream in self._kept[: step.count]:
                    await trio.aclose_forcefully(stream)
                del self._kept[: step.count]
                await trio.sleep(SETTLE_SECONDS)
            else:
                await self._changed(step)
        for stream in self._kept:
            await trio.aclose_forcefully(stream)
        self._kept.clear()
        return outcomes

    async def _connected(self, step: Connect) -> list[list[Any]]:
        outcomes: list[list[Any]] = [[] for _ in range(step.count)]
        async with trio.open_nursery() as nursery:
            for outcome in outcomes:
                nursery.start_soon(self._one, step, outcome)
                await trio.sleep(step.every_ms / 1000)
        return outcomes

    async def _one(self, step: Connect, outcome: list[Any]) -> None:
        began = trio.current_time()
        stream = await trio.open_tcp_stream(*self.addresses[step.listener], local_address=step.address)
        how = "waits"
        with trio.move_on_after(PATIENCE_SECONDS):
            how = "served" if await _is_served(stream) else "closed"
        outcome += [how, round((trio.current_time() - began) * 1000)]
        if step.keep and how == "served":
            self._kept.append(stream)
        else:
            await trio.aclose_forcefully(stream)

    async def _changed(self, step: Quota | Config) -> None:
        stream = await trio.open_tcp_stream(*self.addresses["PLAINTEXT"])
        if isinstance(step, Quota):
            op = OpData(key="connection_creation_rate", value=step.rate or 0.0, remove=step.rate is None)
            entry = EntryData(entity=[EntityData(entity_type="ip", entity_name=step.address)], ops=[op])
            answer = await _asked(stream, alter_client_quotas.API, AlterClientQuotasRequest(entries=[entry]))
            assert not answer.entries[0].error_code, answer
        else:
            config = AlterableConfig(name=step.name, config_operation=int(step.value is None), value=step.value)
            resource = AlterConfigsResource(resource_type=BROKER, resource_name=step.broker, configs=[config])
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            answer = await _asked(stream, incremental_alter_configs.API, request)
            assert not answer.responses[0].error_code, answer
        await trio.aclose_forcefully(stream)
        await trio.sleep(SETTLE_SECONDS)


async def _is_served(stream: trio.abc.Stream) -> bool:
    try:
        return not (await _asked(stream, api_versions.API, api_versions.ApiVersionsRequest(), version=0)).error_code
    except trio.BrokenResourceError:
        return False


async def _asked(stream: trio.abc.Stream, api: Any, request: Any, version: int = 1) -> Any:
    """The response. Raises BrokenResourceError if there is none."""
    await stream.send_all(encode_frame(encode_request(api, version, 1, "rates", request)))
    frames = FrameBuffer(1 << 20)
    while (frame := frames.next_frame()) is None:
        if not (chunk := await stream.receive_some()):
            raise trio.BrokenResourceError
        frames.feed(bytes(chunk))
    return decode_response(api, version, frame)[1]


async def _record(addresses: Mapping[str, tuple[str, int]]) -> None:
    for name, steps in CASES.items():
        print(json.dumps({"case": name, "outcomes": await Player(addresses).played(steps)}), flush=True)


if __name__ == "__main__":
    pairs = [(name, *at.rsplit(":", 1)) for name, _, at in (one.partition("=") for one in sys.argv[1:])]
    trio.run(_record, {name: (host, int(port)) for name, host, port in pairs})
