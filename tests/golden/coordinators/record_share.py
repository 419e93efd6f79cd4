"""Records `share-own.jsonl.gz`: sends the scenarios of `share_requests.py` to a real cluster (README.md).

python -m tests.golden.coordinators.record_share HOST:PORT,HOST:PORT,HOST:PORT [SCENARIO...]
"""

import gzip
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio

from tests.behaviour.coordinator_names import SUFFIX
from tests.behaviour.coordinator_player import ASK_AGAIN_SECONDS, PATIENCE_SECONDS, CoordinatorPlayer, Step
from tests.golden.coordinators.share_requests import scenarios

RUN = int(time.time())
"""In all names, so that the scenarios can be recorded again on the same cluster."""
TARGET = Path(__file__).parent / "share-own.jsonl.gz"


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
            answer, _ = await self._receive(await self._send(step))
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
            shown = {**plain, "response": {**self._named(answer, name), **bound}}
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

    def _named(self, answer: Any, name: str) -> Any:
        """The answer with names in place of what differs between runs."""
        text = json.dumps(answer)
        for known, value in self.names.values.items():
            if known.startswith("$id"):
                text = text.replace(str(value), known)
            elif known.startswith("$pid"):
                text = text.replace(f'"producer_id": {value},', f'"producer_id": "{known}",')
        return json.loads(text.replace(SUFFIX, "~").replace(f"-{name}-{RUN}~", "~"))


def _renamed(step: Step, name: str) -> Any:
    return json.loads(json.dumps(step).replace("~", f"-{name}-{RUN}~"))


async def main(servers: str, only: list[str]) -> None:
    lines = []
    for name, script in scenarios():
        if only and name not in only:
            continue
        print(name, file=sys.stderr)
        cluster = SimpleNamespace(bootstrap_servers=servers, now_ms=lambda: time.time_ns() // 1_000_000)
        recorder = Recorder(cluster)  # type: ignore[arg-type]
        steps = await recorder.record(name, script.steps)
        lines.append(json.dumps({"scenario": name, "about": script.about, "steps": steps}))
    if only:
        print("\n".join(lines))
        return
    with TARGET.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
        zipped.write("".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2:])
