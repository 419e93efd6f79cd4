"""Validates dynamic configs of groups and of client metrics subscriptions, with Kafka's messages.

Groups: unknown names first, then each value, then the bounds that the brokers' static configs set. Client metrics
(KIP-714): the same, with other bounds, and patterns. This module does not decide which clients a pattern matches.
"""

import re
import warnings
from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.controller.config_definitions.definition_order import CLIENT_METRICS_ORDER, GROUP_ORDER
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.table import client_metrics_definitions, group_definitions
from klamm.controller.config_definitions.values import (
    ConfigValue,
    invalid_config,
    invalid_request,
    typed_value,
    typed_values,
)
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError

_OFFSET_RESET: Final = "share.auto.offset.reset"
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?"
    r"(?:(?P<seconds>[+-]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_MAX_UNIT_DIGITS: Final = 19
_MIN_INTERVAL_MS: Final = 100
_MAX_INTERVAL_MS: Final = 3_600_000
_MATCHED: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
# What only Java's patterns have is replaced by some character, because only the form is validated.
_JAVA_ONLY: Final = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|[hHvVRXGzZQEekK])|\(\?<(?=[A-Za-z])", re.DOTALL)


class _Bounds(NamedTuple):
    """The brokers' configs that bound a config of groups."""

    name: str
    least: str | None
    most: str


def _bounds_of(family: str, what: str) -> _Bounds:
    return _Bounds(f"{family}.{what}", f"group.{family}.min.{what}", f"group.{family}.max.{what}")


# In the order of Kafka's checks.
_BOUNDS: Final = (
    _bounds_of("consumer", "heartbeat.interval.ms"),
    _bounds_of("consumer", "session.timeout.ms"),
    _bounds_of("consumer", "assignment.interval.ms"),
    _bounds_of("share", "heartbeat.interval.ms"),
    _bounds_of("share", "session.timeout.ms"),
    _bounds_of("share", "record.lock.duration.ms"),
    _bounds_of("share", "delivery.count.limit"),
    _bounds_of("share", "partition.max.record.locks"),
    _bounds_of("share", "assignment.interval.ms"),
    _bounds_of("streams", "heartbeat.interval.ms"),
    _bounds_of("streams", "session.timeout.ms"),
    _Bounds("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
    _bounds_of("streams", "assignment.interval.ms"),
)


def validate_group_configs(
    group_id: str,
    configs: Mapping[str, str],
    settings: Settings,
    broker_id: int | None = None,
    release: str = NEWEST,
) -> ApiError | None:
    """INVALID_CONFIG, or None if a group may have all of `configs`; INVALID_REQUEST for a group without a name.
    `release`: the one whose configs there are."""
    if not group_id:
        return invalid_request("Default group resources are not allowed.")
    definitions = group_definitions(release)
    unknown = next((name for name in in_hash_order(configs) if name not in definitions), None)
    if unknown is not None:
        return invalid_config(f"Unknown group config name: {unknown}")
    typed: dict[str, ConfigValue] = {}
    for name in sorted(configs, key=GROUP_ORDER.index):
        value = typed_value(definitions[name], configs[name])
        value = _validated_offset_reset(value) if name == _OFFSET_RESET else value
        if isinstance(value, ApiError):
            return value
        typed[name] = value
    return _validate_bounds(typed, settings, broker_id)


def _validated_offset_reset(text: ConfigValue | ApiError) -> ConfigValue | ApiError:
    if not isinstance(text, str) or text in ("earliest", "latest"):
        return text
    if duration_of_reset(text) is not None:
        return text
    return invalid_config(
        f"Invalid value {text} for configuration {_OFFSET_RESET}: Invalid value `{text}` for configuration "
        f"{_OFFSET_RESET}. The value must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )


def duration_of_reset(text: str) -> int | None:
    """The nanoseconds of a `share.auto.offset.reset` by duration; None: it is none, or not one that Java can parse as a
    java.time.Duration that is not negative."""
    match = _DURATION.fullmatch(text.removeprefix(_BY_DURATION)) if text.startswith(_BY_DURATION) else None
    if match is None or (match["time"] or "").upper() == "T":
        return None
    given = {unit: match[unit] for unit in _SECONDS if match[unit] is not None}
    if not given or any(len(digits.lstrip("+-")) > _MAX_UNIT_DIGITS for digits in given.values()):
        return None
    seconds = sum(int(digits) * _SECONDS[unit] for unit, digits in given.items())
    fraction = int((match["fraction"] or "").ljust(9, "0") or 0)
    nanoseconds = seconds * 10**9 + (-fraction if (match["seconds"] or "").startswith("-") else fraction)
    signed = -nanoseconds if match["sign"] == "-" else nanoseconds
    return signed if abs(seconds) < 2**63 and signed >= 0 else None


def _validate_bounds(typed: Mapping[str, ConfigValue], settings: Settings, broker_id: int | None) -> ApiError | None:
    for name, least, most in _BOUNDS:
        value = typed.get(name)
        if not isinstance(value, int):
            continue
        if least and value < settings.static_int(least, broker_id):
            return invalid_config(f"{name} must be greater than or equal to {least}")
        if value > settings.static_int(most, broker_id):
            return invalid_config(f"{name} must be less than or equal to {most}")
    return _validate_sessions(typed, settings, broker_id)


def _validate_sessions(typed: Mapping[str, ConfigValue], settings: Settings, broker_id: int | None) -> ApiError | None:
    """A session has to be longer than a heartbeat interval, whichever of the two is the group's own."""
    for family in ("consumer", "share", "streams"):
        session, heartbeat = f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms"
        session_ms, heartbeat_ms = (
            typed.get(name, settings.static_int(f"group.{name}", broker_id)) for name in (session, heartbeat)
        )
        assert isinstance(session_ms, int)
        assert isinstance(heartbeat_ms, int)
        if session_ms <= heartbeat_ms:
            return invalid_config(f"{session} must be greater than {heartbeat}")
    return None


def validate_client_metrics_configs(subscription: str, configs: Mapping[str, str]) -> ApiError | None:
    """INVALID_CONFIG or INVALID_REQUEST, or None if a client metrics subscription may have all of `configs`."""
    if not subscription:
        return invalid_request("Subscription name can't be empty")
    definitions = client_metrics_definitions()
    unknown = next((name for name in in_hash_order(configs) if name not in definitions), None)
    if unknown is not None:
        return invalid_request(f"Unknown client metrics configuration: {unknown}")
    typed = typed_values(definitions, configs, CLIENT_METRICS_ORDER)
    if isinstance(typed, ApiError):
        return typed
    interval_ms = typed.get("interval.ms", _MIN_INTERVAL_MS)
    if isinstance(interval_ms, int) and not _MIN_INTERVAL_MS <= interval_ms <= _MAX_INTERVAL_MS:
        return invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between {_MIN_INTERVAL_MS} and "
            f"{_MAX_INTERVAL_MS} (1 hour)"
        )
    patterns = typed.get("match", ())
    illegal = (
        next((pattern for pattern in patterns if not _is_pattern(pattern)), None)
        if isinstance(patterns, tuple)
        else None
    )
    return None if illegal is None else invalid_config(f"Illegal client matching pattern: {illegal}")


def _is_pattern(text: str) -> bool:
    """Whether the text is `name=pattern`, with the name of a property that Kafka knows of clients."""
    name, _, rest = text.partition("=")
    pattern = rest.rstrip("=")  # Java splits at every equals sign, and forgets those at the end.
    if not pattern or "=" in pattern or name.strip() not in _MATCHED:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(_JAVA_ONLY.sub(lambda match: "(?:" if match[0].startswith("(") else "a", pattern.strip()))
    except (re.error, OverflowError, RecursionError):
        return False
    return True
