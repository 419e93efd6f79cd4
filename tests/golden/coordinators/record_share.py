"""Records `share-own.jsonl.gz`: sends the scenarios of `share_requests.py` to a real cluster (README.md).

python -m tests.golden.coordinators.record_share HOST:PORT,HOST:PORT,HOST:PORT [SCENARIO...]

With SCENARIOs, the lines are printed. HOOK in the environment stops and starts nodes: `HOOK stop N`, `HOOK start N`.
"""

import gzip
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import trio

from klamm.protocol.errors import ProtocolError
from tests.behaviour.coordinator_player import (
    AFTER_SENDING_SECONDS,
    ASK_AGAIN_SECONDS,
    PATIENCE_SECONDS,
    CoordinatorPlayer,
    Step,
)
from tests.golden.coordinators.share_requests import scenarios

RUN = int(time.time())
"""In all names, so that the scenarios can be recorded again on the same cluster."""
TARGET = Path(__file__).parent / "share-own.jsonl.gz"


class RealCluster:
    """A cluster of Apache Kafka. The environment variable HOOK has the command that stops and starts a node."""

    def __init__(self, servers: str) -> None:
        self.bootstrap_servers = servers

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def stop_broker(self, node: int, how: str) -> None:
        await trio.run_process([*os.environ["HOOK"].split(), "kill" if how == "crash" else "stop", str(node)])

    async def start_broker(self, node: int) -> None:
        await trio.run_process([*os.environ["HOOK"].split(), "start", str(node)])


class Recorder(CoordinatorPlayer):
    """A player that takes each answer for the right one."""

    async def record(self, name: str, steps: list[Any]) -> list[Any]:
        """The steps with their answers; all names have the scenario's in them, so that one cluster has many."""
        recorded = []
        for plain in steps:
            step = _renamed(plain, name)
            if "action" in step:
                await self._act(step)
                recorded.append(plain)
                continue
            if step.get("disconnect"):
                await self._drop(step["conn"])
                recorded.append(plain)
                continue
            talk = self.latest[step["conn"]] if step.get("receive") else await self._send(step)
            if step.get("send"):
                await trio.sleep(AFTER_SENDING_SECONDS)
                recorded.append(plain)
                continue
            answer, waited_ms = await self._receive(talk)
            if step.get("receive"):
                print(f"{name}: {step['step']} after {waited_ms:.0f} ms", file=sys.stderr)
            if answer is None:
                recorded.append({**plain, "closed": True})
                continue
            give_up_at = trio.current_time() + PATIENCE_SECONDS
            while not self._has_reached(step.get("until", {}), answer) and trio.current_time() < give_up_at:
                await trio.sleep(ASK_AGAIN_SECONDS)
                answer, _ = await self._receive(await self._send(step))
            if step.get("poll"):
                await trio.sleep(0.5)
                answer, _ = await self._receive(await self._send(step))
            self.names.learn_topics(answer)
            bound = step.pop("binds", {})
            self.names.values.update({known: answer[field] for field, known in bound.items()})
            shown = {**plain, "response": {**self._named(answer, name, step), **bound}}
            shown.pop("binds", None)
            recorded.append(shown)
        for talk in self.talks.values():
            await talk.line.close()
        return recorded

    async def _act(self, step: Step) -> None:
        """A real broker knows of a topic after a while."""
        for _ in range(50):
            try:
                return await super()._act(step)
            except AssertionError:
                await trio.sleep(ASK_AGAIN_SECONDS)
        raise TimeoutError(step)

    def _named(self, answer: Any, name: str, step: Step) -> Any:
        """The answer with names in place of what differs between runs."""
        text = json.dumps(_own(answer, step, f"-{name}-{RUN}"))
        for known, value in self.names.values.items():
            if known.startswith("$id"):
                text = text.replace(str(value), known)
            elif known.startswith("$pid"):
                text = text.replace(f'"producer_id": {value},', f'"producer_id": "{known}",')
        return json.loads(text.replace(self.names.suffix, "~").replace(f"-{name}-{RUN}~", "~"))


def _own(answer: Any, step: Step, mark: str) -> Any:
    """The answer without what other scenarios have left, where a step compares its own things alone."""
    for path, rule in step.get("volatile", {}).items():
        if rule == "own":
            answer = {**answer, path: [one for one in answer[path] if mark in json.dumps(one)]}
    return answer


def _renamed(step: Step, name: str) -> Any:
    return json.loads(json.dumps(step).replace("~", f"-{name}-{RUN}~"))


async def main(servers: str, only: list[str]) -> None:
    lines = []
    for name, script in scenarios():
        if only and name not in only:
            continue
        print(name, file=sys.stderr)
        recorder = Recorder(RealCluster(servers))  # type: ignore[arg-type]
        try:
            steps = await recorder.record(name, script.steps)
        except (TimeoutError, ProtocolError, OSError, KeyError, ValueError) as error:
            print(f"{name}: {error!r}", file=sys.stderr)
            continue
        lines.append(json.dumps({"scenario": name, "about": script.about, "steps": steps}))
    if only:
        print("\n".join(lines))
        return
    with TARGET.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
        zipped.write("".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2:])
