"""Plays the recorded scenarios about SASL, TLS, SCRAM credentials and delegation tokens, over real sockets.

A step may open a connection, with TLS or without, send a request, a bare token or bytes, or wait; what is late and what
is closed is compared. The format is that of tests/golden/security/README.md.
"""

import base64
import gzip
import hashlib
import json
import re
import ssl
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import trio

from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request, load_api
from klamm.server.server import Server
from tests.behaviour.comparison import Difference, Names, Rules, find_differences
from tests.behaviour.known_differences import KnownDifference
from tests.behaviour.player import KEYS_BY_NAME, MAX_FRAME_BYTES
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form
from tests.behaviour.scenarios import RECORDINGS, Step, expected_response
from tests.behaviour.scram_exchange import DIGESTS, ScramExchange

FILE = "security/authentication.jsonl.gz"
CERTS = RECORDINGS / "security" / "certs"
LATE_SECONDS, WATCHED_SECONDS, PEEKED_SECONDS, ANSWER_SECONDS = 0.35, 1.6, 1.0, 10.0
PATIENCE_SECONDS = 3.0
COMPARED = ("response", "closed", "alert", "late", "then", "more_frames", "no_answer")
READS = {"describe_user_scram_credentials", "describe_delegation_token"}


@cache
def security_scenarios() -> Mapping[str, tuple[Step, ...]]:
    """The steps of each scenario, by its name."""
    lines = gzip.decompress((RECORDINGS / FILE).read_bytes()).decode().splitlines()
    return {line["scenario"]: tuple(line["steps"]) for line in map(json.loads, lines)}


class Ended(Exception):
    """The server has closed the connection; `alert` is the name of TLS's alert, if there was one."""

    def __init__(self, alert: str = "") -> None:
        super().__init__(alert)
        self.alert = alert


@dataclass
class Talk:
    """One connection."""

    stream: trio.abc.Stream
    frames: FrameBuffer = field(default_factory=lambda: FrameBuffer(MAX_FRAME_BYTES))
    mechanism: str = ""
    exchange: ScramExchange | None = None

    async def send(self, data: bytes) -> None:
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError as error:
            raise _ended(error) from None

    async def some(self) -> bytes:
        try:
            chunk = bytes(await self.stream.receive_some(65_536))
        except trio.BrokenResourceError as error:
            raise _ended(error) from None
        if not chunk:
            raise Ended
        return chunk

    async def frame(self) -> bytes:
        while (found := self.frames.next_frame()) is None:
            self.frames.feed(await self.some())
        return found


def _ended(error: trio.BrokenResourceError) -> Ended:
    cause = error.__cause__
    reason = getattr(cause, "reason", None) or "" if isinstance(cause, ssl.SSLError) else ""
    return Ended(reason.split("ALERT_", 1)[1].lower() if "ALERT_" in reason else "")


@dataclass
class SecurityPlayer:
    """One pass through one scenario."""

    cluster: Server
    talks: dict[str, Talk] = field(default_factory=dict)
    saved: dict[str, Any] = field(default_factory=dict)

    async def play(self, scenario: str) -> set[KnownDifference]:
        """Every difference of every step."""
        found = set()
        try:
            for step in security_scenarios()[scenario]:
                for difference in await self._step(step):
                    found.add(KnownDifference.of(scenario, step["step"], difference))
        finally:
            for talk in self.talks.values():
                await trio.aclose_forcefully(talk.stream)
        return found

    async def _step(self, step: Step) -> list[Difference]:
        if "sleep" in step:
            await trio.sleep(step["sleep"])
            return []
        give_up_at = trio.current_time() + (PATIENCE_SECONDS if step.get("poll", step.get("api") in READS) else 0)
        while True:
            recorded, ours = await self._outcome(step)
            differences = find_differences(recorded, ours, _rules(step), Names())
            if not differences or trio.current_time() >= give_up_at:
                return differences
            await trio.sleep(0.1)

    async def _outcome(self, step: Step) -> tuple[Any, Any]:
        if "connect" in step:
            return step["outcome"], await self._connect(step)
        if "send" in step:
            return step["outcome"], await self._send(step)
        if "token" in step:
            return step["outcome"], await self._timed(step, self._give_token)
        return {name: step[name] for name in COMPARED if name in step}, await self._timed(step, self._ask)

    async def _drop(self, name: str) -> None:
        if name in self.talks:
            await trio.aclose_forcefully(self.talks.pop(name).stream)

    async def _open(self, listener: str) -> trio.SocketStream:
        controller = self.cluster.controller_bootstrap_servers
        address = controller if listener == "CONTROLLER" else self.cluster.addresses_of(1)[listener]
        host, _, port = str(address).rpartition(":")
        return await trio.open_tcp_stream(host, int(port))

    async def _connect(self, step: Step) -> dict[str, Any]:
        name = step["conn"]
        await self._drop(name)
        stream: trio.abc.Stream = await self._open(step["connect"])
        connected: bool | str = True
        began = trio.current_time()
        if "tls" in step:
            host = step["tls"].get("hostname", "localhost")
            secure = trio.SSLStream(stream, _context(step["tls"]), server_hostname=host)
            try:
                await secure.do_handshake()
            except trio.BrokenResourceError as error:
                late = {"late": True} if trio.current_time() - began > LATE_SECONDS else {}
                await trio.aclose_forcefully(stream)
                return {"refused": _ended(error).alert or "closed", **late}
            stream, connected = secure, str(secure.version())
        talk = self.talks[name] = Talk(stream)
        outcome: dict[str, Any] = {"connected": connected}
        if step.get("peek"):
            outcome["then"] = "open"
            with trio.move_on_after(PEEKED_SECONDS):
                try:
                    await talk.some()
                except Ended as ended:
                    outcome["then"] = ended.alert or "closed"
        return outcome

    async def _send(self, step: Step) -> dict[str, Any]:
        """Send bytes on a new connection, and collect all that comes."""
        talk, received, end = Talk(await self._open(step["listener"])), b"", "open"
        began = trio.current_time()
        with trio.move_on_after(WATCHED_SECONDS):
            try:
                for chunk in step["send"]:
                    await talk.send(bytes.fromhex(chunk))
                while True:
                    received += await talk.some()
            except Ended:
                end = "closed late" if trio.current_time() - began > LATE_SECONDS else "closed"
        await trio.aclose_forcefully(talk.stream)
        if not step.get("frames"):
            return {"end": end, "received": received.hex()}
        talk.frames.feed(received)
        frames = []
        while (frame := talk.frames.next_frame()) is not None:
            frames.append(frame)
        responses = []
        for (api_name, version), frame in zip(step["decode"], frames, strict=False):
            correlation_id, body = decode_response(_api(KEYS_BY_NAME[api_name]), version, frame)
            responses.append(
                {"correlation_id": correlation_id, "body": to_recorded_form(body, version), "trailing": ""}
            )
        return {"end": end, "frames": len(frames), "responses": responses}

    async def _timed(self, step: Step, ask: Any) -> dict[str, Any]:
        """The outcome of a request or a token: an answer or the end of the connection, and what follows."""
        name = step.get("conn", "PLAINTEXT")
        began = trio.current_time()
        try:
            if name not in self.talks and name != "PLAINTEXT":
                raise Ended
            if name not in self.talks:
                self.talks[name] = Talk(await self._open(name))
            with trio.fail_after(ANSWER_SECONDS):
                outcome: dict[str, Any] = await ask(step, self.talks[name])
            is_sasl = "token" in step or step["api"].startswith("sasl_")
        except Ended as ended:
            await self._drop(name)
            outcome, is_sasl = {"closed": True, **({"alert": ended.alert} if ended.alert else {})}, True
        if is_sasl and trio.current_time() - began > LATE_SECONDS:
            outcome["late"] = True
        if step.get("watch") and name in self.talks:
            outcome["then"] = await self._watch(name)
        return outcome

    async def _watch(self, name: str) -> str:
        began = trio.current_time()
        with trio.move_on_after(WATCHED_SECONDS):
            try:
                while True:
                    await self.talks[name].frame()
            except Ended:
                await self._drop(name)
                return "closed late" if trio.current_time() - began > LATE_SECONDS else "closed"
        return "open"

    async def _ask(self, step: Step, talk: Talk) -> dict[str, Any]:
        api, version = _api(step["key"]), step["version"]
        asked = self._meant(step["request"], talk)
        if step["api"] == "sasl_handshake":
            talk.mechanism = step["request"]["mechanism"]
        request = from_recorded_form(api.request, asked)
        await talk.send(encode_frame(encode_request(api, version, 1, "security", request)))
        ours = to_recorded_form(decode_response(api, version, await talk.frame())[1], version)
        if step["api"] == "sasl_authenticate":
            ours["auth_bytes"] = {"text": _shown(bytes.fromhex(ours["auth_bytes"]["hex"]), talk)}
        now_ms = self.cluster.now_ms()
        for name, path in step.get("save", {}).items():
            self.saved[name] = ours[path]
        ours = self._hidden(_relative(ours, now_ms) if step["api"].endswith("_delegation_token") else ours)
        if "response" not in step:
            return {"response": ours}
        # The APIs of ApiVersions responses are compared with what is served here.
        step_response = expected_response(api, step["response"], "broker")
        return {"response": step["response"] if not find_differences(
            step_response, ours, _rules_of_response(step), Names()) else ours}  # fmt: skip

    async def _give_token(self, step: Step, talk: Talk) -> dict[str, Any]:
        await talk.send(encode_frame(self._bytes(step["token"], talk)))
        return {"received": {"text": _shown(await talk.frame(), talk)}}

    def _meant(self, value: Any, talk: Talk) -> Any:
        """A recorded request with this run's values in the places of names."""
        if isinstance(value, list):
            return [self._meant(inner, talk) for inner in value]
        if not isinstance(value, Mapping):
            return value
        if "scram" in value or value.keys() == {"text"}:
            return {"hex": self._bytes(value, talk).hex()}
        if value.keys() == {"var"}:
            return self.saved[value["var"]]
        if value.keys() == {"zeros"}:
            return {"hex": "00" * value["zeros"]}
        if value.keys() == {"repeat", "times"}:
            return value["repeat"] * value["times"]
        if value.keys() == {"salted"}:
            of = value["salted"]
            salt = bytes.fromhex(of["salt"])
            digest = DIGESTS[of["mechanism"]]
            return {"hex": hashlib.pbkdf2_hmac(digest, of["password"].encode(), salt, of["iterations"]).hex()}
        return {key: self._meant(inner, talk) for key, inner in value.items()}

    def _bytes(self, value: Mapping[str, Any], talk: Talk) -> bytes:
        if value.get("scram") == "first":
            text = re.sub(r"<(\w+)>", lambda name: str(self.saved[name[1]]), value["text"]).encode()
            talk.exchange = ScramExchange(text, value.get("mechanism") or talk.mechanism)
            return text
        if value.get("scram") == "final":
            assert talk.exchange is not None
            password = value["password"]
            if isinstance(password, Mapping):
                password = base64.b64encode(bytes.fromhex(self.saved[password["var"]]["hex"])).decode()
            bent = {key: inner for key, inner in value.items() if key not in ("scram", "password")}
            return talk.exchange.final(password, **bent)
        return value["text"].encode() if "text" in value else bytes.fromhex(value["hex"])

    def _hidden(self, value: Any) -> Any:
        """An answer with names in the places of saved values."""
        if isinstance(value, list):
            return [self._hidden(inner) for inner in value]
        for name, saved in self.saved.items():
            if value == saved and value:
                return {"var": name}
        return {key: self._hidden(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


def _api(key: int) -> Any:
    api = load_api(key)
    assert api is not None
    return api


def _shown(token: bytes, talk: Talk) -> str:
    return talk.exchange.shown(token) if talk.exchange is not None and token[:2] in (b"r=", b"v=") else token.decode()


def _context(tls: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = "hostname" in tls
    context.load_verify_locations(CERTS / "ca.crt")
    if "cert" in tls:
        context.load_cert_chain(CERTS / f"{tls['cert']}.pem")
    if tls.get("max") == "TLSv1_1":
        context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():  # a recorded client speaks TLS 1.1, of which Python warns
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion[tls.get("min", "MINIMUM_SUPPORTED")]
        context.maximum_version = ssl.TLSVersion[tls.get("max", "MAXIMUM_SUPPORTED")]
    return context


def _relative(value: Any, now_ms: int) -> Any:
    """Times of tokens as distances, as in the recording."""
    if isinstance(value, list):
        return [_relative(inner, now_ms) for inner in value]
    if not isinstance(value, Mapping):
        return value
    issued, shown = value.get("issue_timestamp", 0), dict[str, Any]()
    for key, inner in value.items():
        if key in ("expiry_timestamp", "max_timestamp") and inner > 0:
            shown[key] = {"after_issue": inner - issued} if issued > 0 else {"from_now": inner - now_ms}
        elif key == "issue_timestamp" and inner > 0:
            shown[key] = "now" if abs(inner - now_ms) < 3_000 else "past"
        else:
            shown[key] = _relative(inner, now_ms)
    return shown


def _rules_of_response(step: Step) -> Rules:
    return Rules(step.get("volatile", {}), step.get("ordered", ()))


def _rules(step: Step) -> Rules:
    volatile = {f"response.{path}": rule for path, rule in step.get("volatile", {}).items()}
    return Rules(volatile, [f"response.{path}" for path in step.get("ordered", ())])
