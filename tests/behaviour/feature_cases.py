"""Feature levels that are raised and lowered: the cases recorded from real clusters, and the client that plays them.

`python -m tests.behaviour.feature_cases LOG HOST:PORT` plays the cases of a log against a broker with such a log, and
prints the outcomes.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.messages.cluster import api_versions, update_features
from klamm.protocol.messages.cluster.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.messages.configs import describe_configs, incremental_alter_configs
from klamm.protocol.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "features"
UP, SAFE, UNSAFE = 1, 2, 3
BROKER: Final = 4
MIN_ISR: Final = "min.insync.replicas"
METADATA, ELR = "metadata.version", "eligible.leader.replicas.version"
GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
TRANSACTION, KRAFT = "transaction.version", "kraft.version"
LOGS: Final = {"newest": 30, "oldest": 7}
"""The level of metadata.version in the new log of each recorded cluster. The quorum of `newest` is dynamic."""


@dataclass(frozen=True, slots=True)
class Update:
    """One request, with (feature, level, upgrade type) for each update."""

    updates: tuple[tuple[str, int, int], ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class MinIsr:
    """Set the minimum ISR of broker 1, or of all brokers; None: remove it."""

    value: str | None
    broker: str = ""


Step = Update | MinIsr


def _tried(*updates: tuple[str, int, int]) -> Update:
    return Update(updates, validate_only=True)


def _done(*updates: tuple[str, int, int]) -> Update:
    return Update(updates)


def _of_newest() -> Iterator[Step]:
    for level in (31, *range(30, 20, -1), 8, 7, 6):
        for kind in (UP, SAFE, UNSAFE):
            yield _tried((METADATA, level, kind))
    yield _tried((ELR, 0, UP))
    yield _tried((ELR, 0, UNSAFE))
    yield MinIsr("2", broker="1")
    yield MinIsr(None)
    yield MinIsr("2")
    yield _done((ELR, 0, SAFE))
    yield _tried((ELR, 0, SAFE))
    yield _tried((ELR, 1, SAFE))
    yield MinIsr("1", broker="1")
    yield MinIsr(None)
    yield _done((ELR, 1, UP))
    yield MinIsr("1", broker="1")
    yield MinIsr(None)
    yield _done((ELR, 0, UNSAFE))
    yield MinIsr("1", broker="1")
    yield _done((ELR, 1, UP), (GROUP, 0, SAFE))
    yield _done((ELR, 0, SAFE), (METADATA, 29, SAFE))
    for name, highest in ((GROUP, 1), (SHARE, 1), (STREAMS, 1), (TRANSACTION, 2), (KRAFT, 1)):
        yield _tried((name, highest + 1, UP))
        for level in range(highest, -1, -1):
            for kind in (UP, SAFE, UNSAFE):
                yield _tried((name, level, kind))
    yield _done((TRANSACTION, 1, SAFE))
    yield _done((TRANSACTION, 0, UNSAFE), (SHARE, 0, SAFE), (STREAMS, 0, SAFE))
    yield _done((TRANSACTION, 2, UP), (GROUP, 1, UP), (SHARE, 1, UP), (STREAMS, 1, UP))
    yield _tried((METADATA, 24, UNSAFE), (ELR, 0, SAFE))


def _of_oldest() -> Iterator[Step]:
    for name, level in ((ELR, 1), (GROUP, 1), (SHARE, 1), (STREAMS, 1), (TRANSACTION, 1), (TRANSACTION, 2), (KRAFT, 1)):
        yield _tried((name, level, UP))
        yield _tried((METADATA, 30, UP), (name, level, UP))
    yield MinIsr("1", broker="1")
    for level in range(8, 31):
        yield _done((METADATA, level, UP))
        yield _tried((METADATA, level - 1, SAFE))
        yield _tried((METADATA, level - 1, UNSAFE))
        yield _tried((ELR, 1, UP))
        yield _tried((KRAFT, 1, UP))
        yield _tried((TRANSACTION, 2, UP))
        yield _tried((GROUP, 1, UP))
    yield _done((ELR, 1, UP))
    yield _tried((METADATA, 29, SAFE))
    yield _tried((METADATA, 22, SAFE), (ELR, 0, SAFE))
    yield MinIsr("1", broker="1")
    yield _done((ELR, 0, SAFE))
    yield MinIsr("1", broker="1")
    yield _done((METADATA, 29, UNSAFE))


CASES: Final = {"newest": tuple(_of_newest()), "oldest": tuple(_of_oldest())}


async def played(steps: tuple[Step, ...], host: str, port: int) -> list[dict[str, Any]]:
    """For each step its answer, the finalized levels after it, and where the minimum ISR is set."""
    stream = await trio.open_tcp_stream(host, port)
    outcomes = []
    for step in steps:
        outcome = await _updated(stream, step) if isinstance(step, Update) else await _altered(stream, step)
        if isinstance(step, MinIsr) or not step.validate_only:
            await trio.sleep(0.3)  # until the broker has seen it
            outcome |= {"levels": await _levels(stream), MIN_ISR: await _min_isr(stream)}
        outcomes.append(outcome)
    await trio.aclose_forcefully(stream)
    return outcomes


async def _updated(stream: trio.abc.Stream, step: Update) -> dict[str, Any]:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in step.updates
    ]
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates, validate_only=step.validate_only)
    answer = await _asked(stream, update_features.API, request, 2)
    return {"code": answer.error_code, "message": answer.error_message}


async def _altered(stream: trio.abc.Stream, step: MinIsr) -> dict[str, Any]:
    config = AlterableConfig(name=MIN_ISR, config_operation=int(step.value is None), value=step.value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=step.broker, configs=[config])
    answer = await _asked(
        stream, incremental_alter_configs.API, IncrementalAlterConfigsRequest(resources=[resource]), 1
    )
    return {"code": answer.responses[0].error_code, "message": answer.responses[0].error_message}


async def _levels(stream: trio.abc.Stream) -> dict[str, int]:
    request = api_versions.ApiVersionsRequest(client_software_name="cases", client_software_version="1")
    answer = await _asked(stream, api_versions.API, request, 3)
    return {one.name: one.max_version_level for one in answer.finalized_features}


async def _min_isr(stream: trio.abc.Stream) -> dict[str, str | None]:
    """The value, by resource, and where it is set."""
    found: dict[str, str | None] = {}
    for broker in ("", "1"):
        wanted = DescribeConfigsResource(resource_type=BROKER, resource_name=broker, configuration_keys=[MIN_ISR])
        answer = await _asked(stream, describe_configs.API, DescribeConfigsRequest(resources=[wanted]), 4)
        for one in answer.results[0].configs:
            found[broker or "all"] = f"{one.value} from source {one.config_source}"
    return found


async def _asked(stream: trio.abc.Stream, api: Any, request: Any, version: int) -> Any:
    await stream.send_all(encode_frame(encode_request(api, version, 1, "cases", request)))
    frames = FrameBuffer(1 << 20)
    while (frame := frames.next_frame()) is None:
        frames.feed(bytes(await stream.receive_some()))
    return decode_response(api, version, frame)[1]


if __name__ == "__main__":
    log, address = sys.argv[1:]
    at, _, number = address.rpartition(":")
    for line in trio.run(played, CASES[log], at, int(number)):
        print(json.dumps(line))
