"""The recorded scenarios of groups and offsets (tests/golden/coordinators), as far as their APIs are served."""

import gzip
import json
from functools import cache
from itertools import takewhile

from tests.behaviour.coordinator_player import Step, is_served
from tests.behaviour.scenarios import RECORDINGS

FILES = (
    "coordinators/groups.jsonl.gz",
    "coordinators/consumer.jsonl.gz",
    "coordinators/transactions.jsonl.gz",
    "coordinators/share.jsonl.gz",
    "coordinators/share-own.jsonl.gz",
)
STREAMS_FILES = ("streams/scenarios.jsonl.gz",)


@cache
def coordinator_scenarios(files: tuple[str, ...] = FILES) -> dict[str, list[Step]]:
    """By name: the steps up to the first that needs an API that is not served."""
    lines = [
        json.loads(line)
        for name in files
        for line in gzip.decompress((RECORDINGS / name).read_bytes()).decode().splitlines()
    ]
    return {line["scenario"]: list(takewhile(is_served, line["steps"])) for line in lines}
