"""The worst request of every API and version at 1, 10 and 100 MB: how long another client waits, and peak memory.

The worst shape of an API is found with its newest version at 1 MB. A size means the largest request of that shape that
is not above it: where an API's limit of entries allows fewer bytes, the request has as many entries as are served.
Each request is repeated, and the smallest of the longest waits counts, because other processes add to a wait.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import klamm
from klamm.broker.dispatch import APIS
from klamm.protocol.api import Api, Listener
from klamm.protocol.codec.requests import encode_request, measure_request
from klamm.protocol.messages.topics import create_topics
from klamm.server.request_limits import limits_of
from tools.attack.campaign import Address, Attempt, Cost, address_of, exchange, resident_bytes, try_frame
from tools.attack.worst_requests import KNOWN_TOPIC, Shape, shapes, worst_request

MB: Final = 1_000_000
SIZES: Final = (1 * MB, 10 * MB, 100 * MB)
REPEATED: Final = 3
ALL_ENTRIES: Final = 1 << 30
ATTEMPTS: Final = 4
ROOM_FOR_NAMES: Final = 0.99
"""Later names have more digits, so a request is larger than the first elements suggest."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The worst request of one API, version and size."""

    size: int
    cost: Cost
    peak_bytes: int
    """Resident memory at its highest, above that of the start."""


class Target:
    """A new server of one broker, with a topic."""

    def __init__(self, server: klamm.ServerProcess) -> None:
        self.process_id = server.process_id
        self.broker = address_of(server.bootstrap_servers)
        self.controller = address_of(server.controller_bootstrap_servers)
        topic = create_topics.CreatableTopic(name=KNOWN_TOPIC, num_partitions=1, replication_factor=1)
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        exchange(self.broker, encode_request(create_topics.API, 7, 1, "attack", request))
        self.start_bytes = resident_bytes(self.process_id)

    def address(self, listener: Listener) -> Address:
        return self.broker if listener == "broker" else self.controller

    def measure(self, attempt: Attempt, frame: bytes, repeated: int) -> Measured:
        """Send the request so many times."""
        Path(f"/proc/{self.process_id}/clear_refs").write_text("5")  # the peak begins anew
        costs = [
            try_frame(self.address(attempt.listener), self.broker, attempt, frame, self.process_id, self.start_bytes)
            for _ in range(repeated)
        ]
        peak = resident_bytes(self.process_id, "VmHWM") - self.start_bytes
        return Measured(attempt.about_bytes, min(costs, key=lambda cost: cost.longest_wait), peak)


def measure_every_api(
    *, only: Sequence[str] = (), newest: bool = False, sizes: Sequence[int] = SIZES, options: Sequence[str] = ()
) -> Iterator[list[Measured]]:
    """For each API, or those of `only`, and each of its versions, or the newest one: one result for each size."""
    for api in APIS:
        if only and api.name not in only:
            continue
        with _target(options) as target:
            shape = _worst_shape(target, api)
            for version in (api.kept_versions[-1],) if newest else api.kept_versions:
                known = shapes(api, version)
                yield [
                    _at_most(target, api, version, shape if shape in known else known[0], size)
                    for size in (sizes if shape.path else sizes[:1])
                ]


@contextmanager
def _target(options: Sequence[str]) -> Iterator[Target]:
    with klamm.ServerProcess("--brokers", "1", "--controller-listener", "127.0.0.1:0", *options) as server:
        yield Target(server)


def _worst_shape(target: Target, api: Api[Any, Any]) -> Shape:
    version = api.versions[-1]
    return max(
        shapes(api, version), key=lambda shape: _at_most(target, api, version, shape, SIZES[0], 1).cost.longest_wait
    )


def _at_most(
    target: Target, api: Api[Any, Any], version: int, shape: Shape, size: int, repeated: int = REPEATED
) -> Measured:
    listener: Listener = "broker" if "broker" in api.listeners else "controller"
    frame = _largest(api, version, shape, size)
    return target.measure(Attempt(api, version, shape, size, listener), frame, repeated)


def _largest(api: Api[Any, Any], version: int, shape: Shape, size: int) -> bytes:
    about = size
    frame = worst_request(api, version, shape, min(size, MB))
    limits = limits_of(frame)
    if limits.max_bytes is not None and size > limits.max_bytes:
        return frame + bytes(size - len(frame))  # refused by its size, whatever it contains
    for _ in range(ATTEMPTS):
        frame = worst_request(api, version, shape, about)
        _, measured = measure_request(frame, None, ALL_ENTRIES)
        share = min(size / len(frame), limits.max_entries / max(1, measured.entries))
        if share >= 1:
            break
        about = int(about * share * ROOM_FOR_NAMES)
    return frame


def lines(rows: Iterator[list[Measured]]) -> Iterator[str]:
    """The table, line by line, as Markdown."""
    heads = ("API and version", "Filled", "Asked for", "Request", "Answer", "Takes, s", "Others wait, ms", "Peak, MiB")
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        for one in row:
            cost, attempt = one.cost, one.cost.attempt
            cells = (
                f"{attempt.api.name} v{attempt.version}",
                str(attempt.shape),
                f"{one.size // MB} MB",
                f"{cost.bytes_in:,}",
                f"{cost.bytes_out:,}" if cost.bytes_out else "closed",
                f"{cost.seconds:.2f}",
                f"{cost.longest_wait * 1000:.1f}",
                f"{one.peak_bytes / 2**20:.0f}",
            )
            yield f"| {' | '.join(cells)} |"
