"""The recorded scenarios, and how much of each can be played: as far as the APIs it uses are served, and no farther.

What is served is asked of `klamm.broker.dispatch`, so that an API added there brings its recordings along. The
format of the recording stands in tests/golden/behaviour/README.md. Nothing is sent from here.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from klamm.broker.dispatch import SERVED
from klamm.protocol.api import Api, Listener
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import metadata

RECORDINGS = Path(__file__).parent.parent / "golden"
FILES = ("behaviour/scenarios.jsonl.gz", "behaviour/probes.jsonl.gz", "security/scenarios.jsonl.gz")
LIST_REASSIGNMENTS_KEY = 46
# Their steps do not build on each other: one that cannot be played is left out, and the next ones are played.
SEPARATE_STEPS = frozenset({"controller-listener", "switched-off"})
_KEYS_OF_ACTIONS = {
    "wait_brokers": metadata.API.key,
    "wait_in_sync": metadata.API.key,
    "wait_reassigned": LIST_REASSIGNMENTS_KEY,
}

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps in order; state carries over from step to step."""

    name: str
    about: str
    steps: tuple[Step, ...]

    def playable_steps(self) -> tuple[Step, ...]:
        """The steps up to the first that needs what is not served, since those behind it may build on it."""
        if self.name in SEPARATE_STEPS:
            return tuple(filter(is_playable, self.steps))
        return tuple(takewhile(is_playable, self.steps))


@cache
def recorded_scenarios() -> tuple[Scenario, ...]:
    """All of them, in the order of the recordings."""
    lines = [
        json.loads(line)
        for file_name in FILES
        for line in gzip.decompress((RECORDINGS / file_name).read_bytes()).decode().splitlines()
    ]
    return tuple(Scenario(line["scenario"], line["about"], tuple(line["steps"])) for line in lines)


def played_scenarios() -> Iterator[Scenario]:
    """Those of which at least one step can be played."""
    return (scenario for scenario in recorded_scenarios() if scenario.playable_steps())


def listener_of(step: Step) -> Listener:
    """The kind of listener that a step goes to; recordings about security name the connection instead."""
    return "controller" if "controller" in (step.get("listener"), step.get("conn", "").lower()) else "broker"


def served_api(key: int, listener: Listener) -> Api[Any, Any] | None:
    """The API of this key, if a listener of this kind serves it."""
    served = SERVED.tables[listener].get(key)
    return served.api if served else None


def is_playable(step: Step) -> bool:
    """Whether the API that a step uses is served. Bare bytes may be sent to anybody; they are judged by what comes."""
    key = step.get("key", _KEYS_OF_ACTIONS.get(step.get("action", "")))
    return key is None or served_api(key, listener_of(step)) is not None


def is_read(step: Step) -> bool:
    """Whether a step changes nothing, so that it may be repeated until the cluster shows what is expected."""
    if "poll" in step:
        return bool(step["poll"])
    name: str = step["api"]
    return name in ("metadata", "api_versions") or name.startswith(("describe_", "list_"))


def expected_response(api: Api[Any, Any], response: Mapping[str, Any], listener: Listener) -> Mapping[str, Any]:
    """The recorded response, less the APIs that are not served yet in an answer to ApiVersions."""
    if api is not api_versions.API:
        return response
    keys = SERVED.tables[listener].keys()
    return {**response, "api_keys": [entry for entry in response["api_keys"] if entry["api_key"] in keys]}
