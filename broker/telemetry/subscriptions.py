"""The client metrics subscriptions: resources with the configs `metrics`, `interval.ms` and `match`.

Patterns are matched by the engine of the group coordinators, which takes linear time, so that no pattern can stall the
server. What it does not compile matches no client.
"""

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from klamm.controller.config_definitions.table import client_metrics_definitions
from klamm.controller.config_definitions.values import typed_value
from klamm.controller.configs import ResourceType
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

if TYPE_CHECKING:  # most clusters have no subscription with a pattern
    from klamm.broker.groups.regex import Program

DEFAULT_INTERVAL_MS: Final = 300_000
ALL_METRICS: Final = "*"
MAX_MATCHED_CHARACTERS: Final = 1000
"""Longer names of clients match no pattern."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What one client shall push."""

    subscription_id: int
    push_interval_ms: int
    metrics: tuple[str, ...]
    """Prefixes of the names of metrics; `*` for all, nothing for none."""
    version: int
    """Of the subscriptions that it was made of."""


@dataclass(frozen=True, slots=True)
class _Subscription:
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: "Mapping[str, Program | None]"
    """By the property of clients; None matches no client."""

    def fits(self, client: Mapping[str, str]) -> bool:
        return all(_matches(pattern, client.get(name, "")) for name, pattern in self.patterns.items())


class Subscriptions:
    """All subscriptions of the cluster. They follow the metadata log."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with each change."""
        self._each: dict[str, _Subscription] | None = None  # None: not read since the last change

    def follow(self, delta: Delta) -> None:
        """Note that subscriptions changed, if a batch says so."""
        if delta.configs and any(resource_type == ResourceType.CLIENT_METRICS for resource_type, _, _ in delta.configs):
            self.version += 1
            self._each = None

    def of_client(self, image: MetadataImage, client_instance_id: Uuid, client: Mapping[str, str]) -> Subscribed:
        """What a client shall push, by its properties, such as `client_id`."""
        if self._each is None:
            self._each = {
                name: _decoded(configs)
                for (resource_type, name), configs in image.configs.items()
                if resource_type == ResourceType.CLIENT_METRICS
            }
        fitting = [one for one in self._each.values() if one.fits(client)]
        interval_ms = min([DEFAULT_INTERVAL_MS, *(one.interval_ms for one in fitting)])
        metrics = tuple(dict.fromkeys(metric for one in fitting for metric in one.metrics))
        if ALL_METRICS in metrics:
            metrics = (ALL_METRICS,)
        subscription_id = _subscription_id(metrics, interval_ms, client_instance_id)
        return Subscribed(subscription_id, interval_ms, metrics, self.version)


def _decoded(configs: Mapping[str, str]) -> _Subscription:
    values = {}
    for name, definition in client_metrics_definitions().items():
        values[name] = typed_value(definition, configs.get(name, definition.default or ""))
    metrics, interval_ms, match = values["metrics"], values["interval.ms"], values["match"]
    return _Subscription(
        metrics if isinstance(metrics, tuple) else (),
        interval_ms if isinstance(interval_ms, int) else DEFAULT_INTERVAL_MS,
        dict(map(_pattern, match if isinstance(match, tuple) else ())),
    )


def _pattern(text: str) -> "tuple[str, Program | None]":
    from klamm.broker.groups.regex import InvalidRegex, compile_regex

    name, _, pattern = text.partition("=")
    try:
        return name.strip(), compile_regex(pattern.strip())
    except InvalidRegex:
        return name.strip(), None


def _matches(pattern: "Program | None", text: str) -> bool:
    return pattern is not None and text.isascii() and len(text) <= MAX_MATCHED_CHARACTERS and pattern.fullmatch(text)


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, client_instance_id: Uuid) -> int:
    """The same for the same content and client, and signed, as in Kafka."""
    code = zlib.crc32(f"[{', '.join(metrics)}]{interval_ms}".encode())
    data = bytes(client_instance_id)
    for at in range(0, len(data), 4):
        code ^= int.from_bytes(data[at : at + 4], "big")
    return code - (1 << 32) if code >= 1 << 31 else code
