"""Plays a recorded scenario against a running cluster, over real sockets, and says where the answers differ.

Changes are sent once. Reads are repeated for a while, on the cluster's own clock, until they show what was recorded.
Whether a difference is known, and what may be played at all, is decided elsewhere.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import trio

from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request, load_api
from klamm.protocol.errors import ProtocolError
from klamm.protocol.messages.index import MODULES
from klamm.protocol.messages.topics import metadata
from klamm.server.server import Server
from tests.behaviour.comparison import NOTHING, Difference, Names, Rules, find_differences, shown
from tests.behaviour.known_differences import KnownDifference
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form
from tests.behaviour.scenarios import (
    LIST_REASSIGNMENTS_KEY,
    Scenario,
    Step,
    expected_response,
    is_read,
    listener_of,
    served_api,
)

PATIENCE_SECONDS = 3.0
# A broker that died is missed when its session is over, nine seconds after its last heartbeat.
PATIENCE_WITH_BROKERS_SECONDS = 20.0
ASK_AGAIN_SECONDS = 0.05
# Whether a connection stays open can only be seen by waiting; on a clock that jumps this costs nothing.
QUIET_SECONDS = 0.25
BETWEEN_CHUNKS_SECONDS = 0.01
MAX_FRAME_BYTES = 1 << 26
CLIENT_ID = "behaviour"
KEYS_BY_NAME = {module.rpartition(".")[2]: key for key, module in MODULES.items()}


class Line:
    """One connection, with frames going in and out."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._frames = FrameBuffer(MAX_FRAME_BYTES)
        self._correlation_id = 0

    @classmethod
    async def open(cls, address: str) -> "Line":
        host, _, port = address.rpartition(":")
        return cls(await trio.open_tcp_stream(host, int(port)))

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)

    async def send(self, data: bytes) -> None:
        with suppress(trio.BrokenResourceError):
            await self._stream.send_all(data)

    async def receive(self) -> bytes | None:
        """The next frame; None when the other side has closed."""
        while (frame := self._frames.next_frame()) is None:
            try:
                chunk = await self._stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self._frames.feed(chunk)
        return frame

    async def ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        """The response; None if the connection was closed instead."""
        self._correlation_id += 1
        await self.send(encode_frame(encode_request(api, version, self._correlation_id, CLIENT_ID, request)))
        frame = await self.receive()
        return None if frame is None else decode_response(api, version, frame)[1]


@dataclass
class Player:
    """One pass through one scenario."""

    cluster: Server
    names: Names = field(default_factory=Names)
    lines: dict[str, Line] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node, address in enumerate(self.cluster.bootstrap_servers.split(","), 1):
            self.addresses[str(node)] = address
        if self.cluster.controller_bootstrap_servers is not None:
            self.addresses["controller"] = self.cluster.controller_bootstrap_servers

    async def play(self, scenario: Scenario) -> set[KnownDifference]:
        """Every difference of every playable step."""
        found = set()
        for step in scenario.playable_steps():
            for difference in await self._step(step):
                found.add(KnownDifference.of(scenario.name, step["step"], difference))
        for line in self.lines.values():
            await line.close()
        return found

    async def _step(self, step: Step) -> list[Difference]:
        if "action" in step:
            return await self._act(step)
        if "send" in step:
            return await self._exchange_bytes(step)
        return await self._exchange(step)

    async def _exchange(self, step: Step) -> list[Difference]:
        """Send a request; a read again and again until its answer is the recorded one."""
        listener = listener_of(step)
        api = served_api(step["key"], listener)
        assert api is not None, "only playable steps are played"
        request = from_recorded_form(api.request, self.names.resolve(step["request"]))
        # Where the recorded cluster closed the connection, a closed one is what is expected.
        expected = None if step.get("closed") else expected_response(api, step["response"], listener)
        where = "controller" if listener == "controller" else str(step.get("node", 1))
        give_up_at = trio.current_time() + (PATIENCE_SECONDS if is_read(step) else 0)
        while True:
            answer = await self._ask(where, api, step["version"], request)
            if answer is None or expected is None:
                return [] if answer is expected else [Difference("", _told(expected), _told(answer))]
            names = self.names.copy()
            ours = to_recorded_form(answer, step["version"])
            differences = find_differences(expected, ours, _rules(step), names)
            if not differences or trio.current_time() >= give_up_at:
                self.names = names
                return differences
            await trio.sleep(ASK_AGAIN_SECONDS)

    async def _ask(self, where: str, api: Api[Any, Any], version: int, request: Any) -> Any:
        if where not in self.lines:
            self.lines[where] = await Line.open(self.addresses[where])
        answer = await self.lines[where].ask(api, version, request)
        if answer is None:
            await self.lines.pop(where).close()
        return answer

    async def _exchange_bytes(self, step: Step) -> list[Difference]:
        """Send chunks on a new connection and watch what comes and whether it stays open."""
        line = await Line.open(self.addresses["controller" if listener_of(step) == "controller" else "1"])
        for chunk in step["send"]:
            await line.send(bytes.fromhex(chunk))
            await trio.sleep(BETWEEN_CHUNKS_SECONDS)
        frames, end = [], "open"
        with trio.move_on_after(QUIET_SECONDS):
            while (frame := await line.receive()) is not None:
                frames.append(frame)
            end = "closed"
        await line.close()
        recorded = step["outcome"]
        counts = {"end": end, "frames": len(frames)}
        differences = find_differences({name: recorded[name] for name in counts}, counts, Rules(), self.names)
        if "hex" in recorded:
            came = [frame.hex() for frame in frames]
            differences += find_differences(recorded["hex"], came, Rules(), self.names, "hex")
        for index, (kind, response) in enumerate(
            zip(step.get("decode", ()), recorded.get("responses", ()), strict=False)
        ):
            path = f"responses[{index}]"
            if index >= len(frames):
                differences.append(Difference(path, shown(response), NOTHING))
            else:
                differences += self._compare_frame(step, kind, response, frames[index], path)
        return differences

    def _compare_frame(
        self, step: Step, kind: tuple[str, int], response: Mapping[str, Any], frame: bytes, path: str
    ) -> list[Difference]:
        name, version = kind
        api = load_api(KEYS_BY_NAME[name])
        assert api is not None
        try:
            correlation_id, body = decode_response(api, version, frame)
        except ProtocolError as error:
            return [Difference(path, f"{name} v{version}", str(error))]
        expected = {
            "correlation_id": response["correlation_id"],
            **expected_response(api, response["body"], listener_of(step)),
        }
        ours = {"correlation_id": correlation_id, **to_recorded_form(body, version)}
        return find_differences(expected, ours, _rules(step), self.names, path)

    async def _act(self, step: Step) -> list[Difference]:
        match step["action"]:
            case "stop":
                await self.cluster.stop_broker(step["node"], step.get("mode", "shutdown"))
                if str(step["node"]) in self.lines:
                    await self.lines.pop(str(step["node"])).close()
                return []
            case "start":
                await self.cluster.start_broker(step["node"])
                return []
            case "wait_brokers":
                return [difference for node in step["nodes"] for difference in await self._wait_brokers(node, step)]
            case "wait_in_sync":
                return await self._wait(1, metadata.API, _all_in_sync)
            case "wait_reassigned":
                api = served_api(LIST_REASSIGNMENTS_KEY, "broker")
                assert api is not None, "only playable steps are played"
                return await self._wait(1, api, lambda listed: not listed.topics)
            case other:
                raise ValueError(f"no action is called {other}")

    async def _wait_brokers(self, node: int, step: Step) -> list[Difference]:
        alive = sorted(step["nodes"])
        return await self._wait(
            node, metadata.API, lambda seen: sorted(broker.node_id for broker in seen.brokers) == alive
        )

    async def _wait(self, node: int, api: Api[Any, Any], reached: Callable[[Any], bool]) -> list[Difference]:
        give_up_at = trio.current_time() + PATIENCE_WITH_BROKERS_SECONDS
        while trio.current_time() < give_up_at:
            answer = await self._ask(str(node), api, api.latest_stable, _of_everything(api))
            if answer is not None and reached(answer):
                return []
            await trio.sleep(ASK_AGAIN_SECONDS)
        return [Difference("", f"seen by {node}", f"not within {PATIENCE_WITH_BROKERS_SECONDS:.0f} s")]


def _told(answer: Any) -> str:
    return "closed" if answer is None else "answered"


def _of_everything(api: Api[Any, Any]) -> Any:
    return api.request(topics=None)


def _all_in_sync(seen: Any) -> bool:
    return all(
        sorted(partition.isr_nodes) == sorted(partition.replica_nodes)
        for topic in seen.topics
        for partition in topic.partitions
    )


def _rules(step: Step) -> Rules:
    return Rules(step.get("volatile", {}), step.get("ordered", ()))
