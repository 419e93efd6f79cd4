"""Plays a recorded scenario of the coordinators against a cluster, over real sockets, and says where answers differ.

One scenario has several connections, because some requests wait for others. Times are those of the cluster's clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from klamm.broker.dispatch import SERVED
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.server.server import Server
from tests.behaviour.comparison import NOTHING, Difference
from tests.behaviour.coordinator_names import RunNames, differences
from tests.behaviour.known_differences import KnownDifference
from tests.behaviour.player import Line
from tests.behaviour.recorded_batches import with_batches, with_bytes
from tests.behaviour.recorded_form import from_recorded_form, to_recorded_form

PATIENCE_SECONDS = 8.0
ASK_AGAIN_SECONDS = 0.06
AFTER_SENDING_SECONDS = 0.1
BETWEEN_PARALLEL_SECONDS = 0.04
UNSETTLED = (14, 15, 16)
"""The coordinator is loading, is not available, is another one."""
KEYS_ABOUT_TIME = frozenset({0, 26, 66})
"""Produce, EndTxn and ListTransactions. Time passes between two requests of a real client."""
KEYS_WITH_RECORDS = frozenset({1, 78})
"""Fetch and ShareFetch."""
NOBODY = -1
KEYS = {served.api.name: served.api for served in SERVED.tables["broker"].values()}

Step = Mapping[str, Any]


def is_served(step: Step) -> bool:
    """Whether the APIs of a step are served."""
    return all(one.get("key") is None or one["key"] in SERVED.tables["broker"] for one in step.get("parallel", [step]))


@dataclass
class _Talk:
    """One connection, and the requests on it that are not answered."""

    line: Line
    waiting: list[tuple[Api[Any, Any], int, float]] = field(default_factory=list)


@dataclass
class CoordinatorPlayer:
    """One pass through one scenario."""

    cluster: Server
    names: RunNames = field(default_factory=RunNames)
    talks: dict[tuple[str, int], _Talk] = field(default_factory=dict)
    latest: dict[str, _Talk] = field(default_factory=dict)
    coordinators: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    """The broker that was stopped last under each name."""

    def __post_init__(self) -> None:
        self._addresses = self.cluster.bootstrap_servers.split(",")  # while every broker is up

    async def play(self, name: str, steps: list[Step]) -> set[KnownDifference]:
        """Every difference of every step."""
        found: set[KnownDifference] = set()
        for step in steps:
            give_up_at = trio.current_time() + (PATIENCE_SECONDS if step.get("poll") else 0)
            differing = await self._step(step)
            while differing and trio.current_time() < give_up_at:
                await trio.sleep(ASK_AGAIN_SECONDS)
                differing = await self._step(step)
            found |= {KnownDifference.of(name, step["step"], difference) for difference in differing}
        await self._hang_up()
        return found

    async def _hang_up(self) -> None:
        for talk in self.talks.values():
            await talk.line.close()
        self.talks.clear()

    async def _drop(self, name: str) -> None:
        """Close the connections of one name."""
        for at in [at for at in self.talks if at[0] == name]:
            await self.talks.pop(at).line.close()

    async def _step(self, step: Step) -> list[Difference]:
        if "action" in step:
            await self._act(step)
            return []
        if "parallel" in step:
            return await self._parallel(step["parallel"])
        if step.get("disconnect"):
            await self._drop(step["conn"])
            return []
        if "silent_ms" in step:
            return await self._listen(step)
        if step.get("receive"):
            return self._compared([(step, *await self._receive(self.latest[step["conn"]]))])
        talk = await self._send(step)
        if step.get("send"):
            await trio.sleep(AFTER_SENDING_SECONDS)
            return []
        answer, waited_ms = await self._receive(talk)
        give_up_at = trio.current_time() + PATIENCE_SECONDS
        while not self._has_reached(step.get("until", {}), answer) and trio.current_time() < give_up_at:
            await trio.sleep(ASK_AGAIN_SECONDS)
            answer, waited_ms = await self._receive(await self._send(step))
        return self._compared([(step, answer, waited_ms)])

    async def _parallel(self, steps: list[Step]) -> list[Difference]:
        talks = []
        for one in steps:
            talks.append(await self._send(one))
            await trio.sleep(BETWEEN_PARALLEL_SECONDS)
        return self._compared([(one, *await self._receive(talk)) for one, talk in zip(steps, talks, strict=True)])

    async def _listen(self, step: Step) -> list[Difference]:
        talk = self.latest[step["conn"]]
        with trio.move_on_after(step["silent_ms"] / 1000):
            answer, waited_ms = await self._receive(talk)
            del answer, waited_ms
            return [Difference("silent", "true", "false")]
        return []

    def _compared(self, exchanges: list[tuple[Step, Any, float]]) -> list[Difference]:
        names = self.names.copy()
        for step, answer, _ in exchanges:
            names.learn_topics(answer)
            for key in ("member_id", "leader") if isinstance(answer, Mapping) else ():
                if isinstance(recorded := (step.get("response") or {}).get(key), str):
                    names.fits(recorded, answer.get(key))
        found: list[Difference] = []
        for step, answer, waited_ms in exchanges:
            if answer is None or "response" not in step:
                found += [Difference("", "closed", "answered")] if answer is not None else []
                found += [Difference("", "answered", "closed")] if "response" in step else []
                continue
            found += differences(step["response"], answer, step.get("volatile") or {}, names)
            low, high = step.get("within", (0, float("inf")))
            if not low <= waited_ms <= high:
                found.append(Difference("within", f"{low}..{high} ms", f"{waited_ms:.0f} ms"))
        if not found:
            self.names = names
        return found

    def _has_reached(self, until: Mapping[str, Any], answer: Any) -> bool:
        for path, wanted in until.items():
            value = answer
            for key in path.split("."):
                if isinstance(value, list) and int(key) >= len(value):
                    return False
                value = value[int(key)] if isinstance(value, list) else value[key]
            if value is None if wanted == "$set" else value != self.names.resolve(wanted):
                return False
        return True

    async def _send(self, step: Step) -> _Talk:
        node = await self._node(step.get("at", 1))
        if step["key"] in KEYS_ABOUT_TIME:
            await trio.sleep(0.001)
        name = step.get("conn", "main")
        if (name, node) not in self.talks:
            self.talks[name, node] = _Talk(await Line.open(self._addresses[node - 1]))
        talk = self.latest[name] = self.talks[name, node]
        api = SERVED.tables["broker"][step["key"]].api
        request = from_recorded_form(
            api.request, with_bytes(self.names.resolve(step["request"]), self.cluster.now_ms())
        )
        talk.waiting.append((api, step["version"], trio.current_time()))
        client_id = step.get("client_id", "rec")
        await talk.line.send(encode_frame(encode_request(api, step["version"], len(talk.waiting), client_id, request)))
        return talk

    async def _receive(self, talk: _Talk) -> tuple[Any, float]:
        """The answer in the form of the recording, and how long it took (ms). None: the connection was closed."""
        api, version, sent_at = talk.waiting[0]
        frame = await talk.line.receive()
        talk.waiting.pop(0)
        waited_ms = (trio.current_time() - sent_at) * 1000
        if frame is None:
            self.talks = {at: other for at, other in self.talks.items() if other is not talk}
            await talk.line.close()
            return None, waited_ms
        answer = to_recorded_form(decode_response(api, version, frame)[1], version)
        return with_batches(answer) if api.key in KEYS_WITH_RECORDS else answer, waited_ms

    async def _ask(self, name: str, version: int, request: Mapping[str, Any], node: int) -> Any:
        step = {"key": KEYS[name].key, "version": version, "request": request, "at": node, "conn": "player"}
        answer, _ = await self._receive(await self._send(step))
        return answer

    async def _node(self, at: int | str) -> int:
        if isinstance(at, int):
            return at
        kind, _, name = at.partition(":")
        if kind == "other":
            coordinator = await self._node(name)
            return min(node for node in await self._live() if node != coordinator)
        if kind == "leader":
            return await self._leader(name)
        if kind == "back":
            return self.stopped[name]
        if kind == "share":
            return await self._share_coordinator(name)
        while at not in self.coordinators:
            node = await self._serving_coordinator(kind, name)
            if node in await self._live():
                self.coordinators[at] = node
            else:
                await trio.sleep(ASK_AGAIN_SECONDS)
        return self.coordinators[at]

    async def _live(self) -> set[int]:
        answer = await self._ask("Metadata", 4, {"topics": [], "allow_auto_topic_creation": False}, 1)
        return {broker["node_id"] for broker in answer["brokers"]}

    async def _serving_coordinator(self, kind: str, name: str) -> int:
        """The coordinator of a transactional id or a group, or -1 as long as it does not serve."""
        request: dict[str, Any] = {"key_type": 1 if kind == "txn" else 0, "coordinator_keys": [name]}
        node = int((await self._ask("FindCoordinator", 4, request, 1))["coordinators"][0]["node_id"])
        if node < 0:
            return NOBODY
        if kind == "txn":
            request = {"transactional_ids": [name]}
            answer = (await self._ask("DescribeTransactions", 0, request, node))["transaction_states"][0]
        else:
            request = {"group_id": name, "generation_id": 0, "member_id": "none"}
            answer = await self._ask("Heartbeat", 4, request, node)
        return NOBODY if answer["error_code"] in UNSETTLED else node

    async def _share_coordinator(self, key: str) -> int:
        request = {"key_type": 2, "coordinator_keys": [self.names.resolve(key)]}
        return int((await self._ask("FindCoordinator", 6, request, 1))["coordinators"][0]["node_id"])

    async def _leader(self, place: str) -> int:
        topic, _, partition = self.names.resolve(place).rpartition("/")
        request = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        found = (await self._ask("Metadata", 12, request, 1))["topics"][0]["partitions"]
        return int(next(one["leader_id"] for one in found if one["partition_index"] == int(partition)))

    async def _act(self, step: Step) -> None:
        match step["action"]:
            case "sleep":
                await trio.sleep(step["ms"] / 1000)
            case "pick":
                await self._pick(step["spec"])
            case "stop" | "kill" | "start":
                await self._change_broker(step["action"], step["node"])
            case "wait_brokers":
                await self._until(lambda live: len(live) == step["count"])
            case "wait_in_sync":
                await self._wait_until_in_sync()
            case _:
                await self._wait_for_topics(step)

    async def _pick(self, spec: str) -> None:
        """Find a suffix with which the coordinator is not node 1, which answers the player."""
        while await self._node(spec) == 1:
            self.names.suffix += "x"
            self.coordinators.clear()

    async def _change_broker(self, action: str, spec: str) -> None:
        if action == "start":
            await self.cluster.start_broker(self.stopped[spec])
        else:
            node = self.stopped[spec] = await self._node(spec)
            await self.cluster.stop_broker(node, "crash" if action == "kill" else "shutdown")
            await self._hang_up()
            await self._until(lambda live: node not in live)
        await self._hang_up()
        self.coordinators.clear()

    async def _until(self, is_so: Callable[[set[int]], bool]) -> None:
        """Wait for what the set of live brokers has to be."""
        while True:
            if is_so(await self._live()):
                return
            await trio.sleep(ASK_AGAIN_SECONDS)

    async def _wait_until_in_sync(self) -> None:
        behind = True
        while behind:
            await trio.sleep(ASK_AGAIN_SECONDS)
            answer = await self._ask("Metadata", 9, {"topics": None, "allow_auto_topic_creation": False}, 1)
            partitions = [partition for topic in answer["topics"] for partition in topic["partitions"]]
            behind = any(set(one["isr_nodes"]) != set(one["replica_nodes"]) for one in partitions)

    async def _wait_for_topics(self, step: Step) -> None:
        expected = 0 if step["action"] == "wait_topics" else 3
        if step["action"] == "delete_topics":
            await self._ask("DeleteTopics", 5, {"topic_names": step["topics"], "timeout": 10_000}, 1)
            self.coordinators.clear()
        request = {"topics": [{"name": name} for name in step["topics"]], "allow_auto_topic_creation": False}
        for node in (1, 2, 3):
            answer = await self._ask("Metadata", 12, request, node)
            assert [topic["error_code"] for topic in answer["topics"]] == [expected] * len(step["topics"]), NOTHING
        await trio.sleep(0.4)
