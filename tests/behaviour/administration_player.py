"""Plays the recorded scenarios about throttling, features, voters and telemetry: several connections, and time.

Other than in `player.py`, throttle times are compared, a step may wait, and answers that come late are told apart from
those that come at once. What a step says is in tests/golden/security/README.md.
"""

import base64
import gzip
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import trio

from klamm.protocol.api import Api, Listener
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request, load_api
from klamm.server.server import Server
from tests.behaviour.comparison import Difference, Names, Rules, find_differences
from tests.behaviour.known_differences import KnownDifference
from tests.behaviour.player import KEYS_BY_NAME, Line
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form
from tests.behaviour.scenarios import RECORDINGS, Step, expected_response, served_api

FILE = "security/administration.jsonl.gz"
PATIENCE_SECONDS = 3.0
ASK_AGAIN_SECONDS = 0.05
QUIET_SECONDS = 0.25
RUN = "1"
"""Stands for `<run>`, which differed in each recording."""


@cache
def administration_scenarios() -> Mapping[str, tuple[Step, ...]]:
    """The steps of each scenario, by its name."""
    lines = gzip.decompress((RECORDINGS / FILE).read_bytes()).decode().splitlines()
    return {line["scenario"]: tuple(line["steps"]) for line in map(json.loads, lines)}


def can_be_played(steps: tuple[Step, ...]) -> bool:
    """Whether all APIs of a scenario are served; those on a closed connection need not be."""
    return all("key" not in step or "closed" in step or _api(step) is not None for step in steps)


def _listener(step: Step) -> Listener:
    return "controller" if step.get("conn") == "CONTROLLER" else "broker"


def _api(step: Step) -> Api[Any, Any] | None:
    return served_api(step["key"], _listener(step)) or (load_api(step["key"]) if step.get("unlisted") else None)


@dataclass
class AdministrationPlayer:
    """One pass through one scenario."""

    cluster: Server
    names: Names = field(default_factory=Names)
    lines: dict[str, Line] = field(default_factory=dict)
    saved: dict[str, str] = field(default_factory=dict)

    async def play(self, scenario: str) -> set[KnownDifference]:
        """Every difference of every step."""
        found = set()
        for step in administration_scenarios()[scenario]:
            for difference in await self._step(step):
                found.add(KnownDifference.of(scenario, step["step"], difference))
        for line in self.lines.values():
            await line.close()
        return found

    async def _step(self, step: Step) -> list[Difference]:
        if "sleep" in step:
            await trio.sleep(step["sleep"])
        elif "connect" in step:
            self.lines[step["conn"]] = await Line.open(self._address(step["connect"]))
        elif "send" in step:
            return await self._send(step)
        else:
            return await self._ask(step)
        return []

    def _address(self, listener: str) -> str:
        address = self.cluster.controller_bootstrap_servers if listener == "CONTROLLER" else None
        return address or self.cluster.bootstrap_servers

    async def _send(self, step: Step) -> list[Difference]:
        """Send bytes on a new connection; all that comes within a moment is the answer."""
        line, frames, end = await Line.open(self._address(step["listener"])), [], "open"
        for chunk in step["send"]:
            await line.send(bytes.fromhex(chunk))
        with trio.move_on_after(QUIET_SECONDS):
            while (frame := await line.receive()) is not None:
                frames.append(frame)
            end = "closed"
        await line.close()
        recorded = step["outcome"]
        differences = find_differences(
            {"end": recorded["end"], "frames": recorded["frames"]},
            {"end": end, "frames": len(frames)},
            Rules(),
            self.names,
        )
        pairs = zip(step["decode"], recorded.get("responses", ()), frames, strict=False)
        for index, ((name, version), response, frame) in enumerate(pairs):
            api = load_api(KEYS_BY_NAME[name])
            assert api is not None
            ours = to_recorded_form(decode_response(api, version, frame)[1], version)
            differences += find_differences(
                self._meant(response["body"]), ours, _rules(step), self.names, f"responses[{index}]"
            )
        return differences

    async def _ask(self, step: Step) -> list[Difference]:
        """Send a request, and, if it is to be repeated until the answer is the recorded one, send it again."""
        api = _api(step) or load_api(step["key"])
        assert api is not None
        give_up_at = trio.current_time() + (PATIENCE_SECONDS if step.get("poll") else 0)
        while True:
            differences = await self._ask_once(step, api)
            if not differences or trio.current_time() >= give_up_at:
                return differences
            await trio.sleep(ASK_AGAIN_SECONDS)

    async def _ask_once(self, step: Step, api: Api[Any, Any]) -> list[Difference]:
        where, version = step.get("conn", "PLAINTEXT"), step["version"]
        if where not in self.lines:
            self.lines[where] = await Line.open(self._address(where))
        line = self.lines[where]
        request = from_recorded_form(api.request, self._meant(step["request"]))
        client_id = step.get("client_id", "security").replace("<run>", RUN)
        started = trio.current_time()
        await line.send(encode_frame(encode_request(api, version, 1, client_id, request)))
        frame = await line.receive()
        took = trio.current_time() - started
        if frame is None:
            await self.lines.pop(where).close()
            return [] if step.get("closed") else [Difference("", "answered", "closed")]
        if step.get("closed"):
            return [Difference("", "closed", "answered")]
        ours = to_recorded_form(decode_response(api, version, frame)[1], version)
        for name, path in step.get("save", {}).items():
            self.saved.setdefault(name, _at(ours, path))
        recorded = self._meant(expected_response(api, step["response"], _listener(step)))
        differences = find_differences(recorded, ours, _rules(step), self.names)
        late = "timed" in step and took > step["timed"]
        if late != step.get("late", False):
            differences.append(Difference("late", str(not late), str(late)))
        return differences

    def _meant(self, value: Any) -> Any:
        """A recorded value, with what this run has in the places of names."""
        if isinstance(value, Mapping):
            if value.keys() == {"var"}:
                return self.saved[value["var"]]
            return {key.replace("k_raft_", "kraft_"): self._meant(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._meant(inner) for inner in value]
        return self._named(value) if isinstance(value, str) else value

    def _named(self, text: str) -> str:
        for name, saved in self.saved.items():
            if f"<{name} in base64>" in text:
                encoded = base64.urlsafe_b64encode(uuid.UUID(saved).bytes).decode().rstrip("=")
                text = text.replace(f"<{name} in base64>", encoded)
        return text.replace("<run>", RUN)


def _at(value: Any, path: str) -> Any:
    for name in path.replace("[", ".").replace("]", "").split("."):
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def _rules(step: Step) -> Rules:
    return Rules(step.get("volatile", {}), step.get("ordered", ()), compares_throttle_time=True)
