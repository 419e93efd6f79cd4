"""Rules between several configs of a broker, or between the old and the new value of a config.

The rules and messages are those of Apache Kafka 4.3, in its order as far as that is known. Only changes are validated.
The listeners of a simulated broker follow from the server's options and do not change while it runs.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.table import broker_definitions, topic_definitions
from klamm.controller.config_definitions.values import ConfigValue, typed_value, value_text
from klamm.controller.configs.effective import ConfigSource, inherited_value
from klamm.protocol.errors import ApiError

_UNLIMITED: Final = -1
_SAME_AS_RETENTION: Final = -2
_MEBIBYTE: Final = 1024 * 1024
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]*")
_COUNT: Final = re.compile(r"[+-]?\d{1,10}")
_INT32_END: Final = 2**31
_ALL_DIRECTORIES: Final = "*"
_PROTOCOL_MAP: Final = "listener.security.protocol.map"
_SECURITY_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_END_POINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://(\[.*\]|[^:]*):(-?\d+)")


class BrokerValues:
    """The values that apply to a broker, typed, from all levels."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def text(self, name: str) -> str | None:
        return self._texts.get(name, broker_definitions()[name].default)

    def value(self, name: str) -> ConfigValue | None:
        """The value; None if it is not set and has no default, or if the text is not valid."""
        text = self.text(name)
        value = None if text is None else typed_value(broker_definitions()[name], text)
        return None if isinstance(value, ApiError) else value

    def number(self, name: str) -> int | None:
        value = self.value(name)
        return value if isinstance(value, int) else None

    def items(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        return value if isinstance(value, tuple) else ()

    def retention(self, unit: str) -> int:
        """The value that topics inherit as `retention.ms` or `retention.bytes`."""
        definition = topic_definitions()[f"retention.{unit}"]
        text, _ = inherited_value(((ConfigSource.STATIC_BROKER, self._texts),), definition)
        value = typed_value(definition, text or "")
        return value if isinstance(value, int) else _UNLIMITED


Rule = Callable[[BrokerValues, BrokerValues], str | None]
"""From the present and the new values to the error of the new ones; None if they are valid."""


def validate_dependencies(now: BrokerValues, then: BrokerValues) -> str | None:
    """Kafka's message, or None if a broker can apply the new values."""
    for names, rule in _RULES:
        if any(now.text(name) != then.text(name) for name in names):
            fault = rule(now, then)
            if fault:
                return fault
    return None


def _listeners(now: BrokerValues, then: BrokerValues) -> str | None:
    wanted = then.items("listeners")
    unreadable = next((item for item in wanted if not _END_POINT.fullmatch(item)), None)
    listed = f"Error creating broker listeners from '[{', '.join(wanted)}]': "
    if unreadable is not None:
        return f"{listed}Unable to parse {unreadable} to a broker endpoint"
    protocols = _listener_protocols(then)
    for item in wanted:
        name = item.partition("://")[0]
        if name.upper() not in protocols:
            return f"{listed}No security protocol defined for listener {name}"
    return None if wanted == now.items("listeners") else "The server's own options decide where this broker listens."


def _security_protocols(now: BrokerValues, then: BrokerValues) -> str | None:
    items = _mapped_items(then)
    for item in items:
        if ":" not in item:
            return _no_colon(_PROTOCOL_MAP, item)
    protocols = dict(_split_at_last_colon(item) for item in items)
    for listener in in_hash_order(protocols):
        if not listener:
            return "The provided listener name is null or empty string"
        if protocols[listener].upper() not in _SECURITY_PROTOCOLS:
            return f"Invalid security protocol `{protocols[listener]}` defined in {_PROTOCOL_MAP}"
    fault = _listeners(now, then)
    if fault:
        return fault
    before, after = _listener_protocols(now), _listener_protocols(then)
    for item in then.items("listeners"):
        name = item.partition("://")[0].upper()
        if before.get(name) != after[name]:
            return _dynamic(f"Security protocol cannot be updated for existing listener ListenerName({name})")
    return None


def _listener_protocols(values: BrokerValues) -> Mapping[str, str]:
    pairs = dict(map(_split_at_last_colon, _mapped_items(values)))
    return {listener.upper(): protocol.upper() for listener, protocol in pairs.items()}


def _mapped_items(values: BrokerValues) -> list[str]:
    """The items of the map, without empty ones at its end, as Java splits."""
    items = [item.strip() for item in (values.text(_PROTOCOL_MAP) or "").split(",")]
    while items and not items[-1]:
        items.pop()
    return items


def _split_at_last_colon(item: str) -> tuple[str, str]:
    name, _, value = item.rpartition(":")
    return name.strip(), value.strip()


def _no_colon(name: str, item: str) -> str:
    """Java's message for an item without a colon."""
    return f"Error parsing configuration property '{name}': begin 0, end -1, length {len(item)}"


def _assignment_interval(family: str) -> Rule:
    interval, most = f"group.{family}.assignment.interval.ms", f"group.{family}.max.assignment.interval.ms"
    least = f"group.{family}.min.assignment.interval.ms"

    def rule(_: BrokerValues, then: BrokerValues) -> str | None:
        value = then.number(interval) or 0
        if value > (then.number(most) or 0):
            return f"{interval} must be less than or equal to {most}"
        return f"{interval} must be greater than or equal to {least}" if value < (then.number(least) or 0) else None

    return rule


def _at_least(name: str, least: int) -> Rule:
    def rule(_: BrokerValues, then: BrokerValues) -> str | None:
        value = then.number(name)
        too_low = value is not None and value < least
        return f"requirement failed: {name} must be greater than or equal to {least}" if too_low else None

    return rule


def _retention(_: BrokerValues, then: BrokerValues) -> str | None:
    if then.number("log.retention.ms") != 0:
        return None
    return "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"


def _cordoned_directories(_: BrokerValues, then: BrokerValues) -> str | None:
    known = {*(then.items("log.dirs") or then.items("log.dir")), _ALL_DIRECTORIES}
    missing = [directory for directory in then.items("cordoned.log.dirs") if directory not in known]
    if not missing:
        return None
    return (
        "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}"
    )


def _cleaner_buffer(_: BrokerValues, then: BrokerValues) -> str | None:
    threads, size = then.number("log.cleaner.threads") or 0, then.number("log.cleaner.dedupe.buffer.size") or 0
    if threads == 0:
        return "/ by zero"
    if size // threads > _MEBIBYTE:
        return None
    return "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


def _connections_per_ip(_: BrokerValues, then: BrokerValues) -> str | None:
    overrides = [item.strip() for item in (then.text("max.connections.per.ip.overrides") or "").split(",")]
    hosts = []
    for item in filter(None, overrides):
        host, colon, count = item.rpartition(":")
        if not colon:
            return _no_colon("max.connections.per.ip.overrides", item)
        if not _COUNT.fullmatch(count.strip()) or not -_INT32_END <= int(count) < _INT32_END:
            return f'For input string: "{count}"'
        hosts.append(host.strip())
    if then.number("max.connections.per.ip") == 0 and not hosts:
        return (
            "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        )
    invalid = [host for host in hosts if not _HOST.fullmatch(host)]
    return f"max.connections.per.ip.overrides contains invalid addresses : {','.join(invalid)}" if invalid else None


def _not_zero(name: str) -> Rule:
    def rule(_: BrokerValues, then: BrokerValues) -> str | None:
        return _dynamic(f"Invalid {name} 0") if then.number(name) == 0 else None

    return rule


def _reporters(now: BrokerValues, then: BrokerValues) -> str | None:
    if set(then.items("metric.reporters")) <= set(now.items("metric.reporters")):
        return None
    return _dynamic(
        "Validation of dynamic config update of Set(metric.reporters) failed with class "
        "class kafka.server.DynamicMetricsReporters"
    )


def _thread_count(name: str) -> Rule:
    def rule(now: BrokerValues, then: BrokerValues) -> str | None:
        before, after = now.number(name) or 0, then.number(name) or 0
        failed = f"Dynamic thread count update validation failed for {name}={after}, value should"
        if after < before // 2:
            return _dynamic(f"{failed} be at least half the current value {before}")
        return (
            _dynamic(f"{failed} not be greater than double the current value {before}") if after > before * 2 else None
        )

    return rule


def _cleaner_threads(now: BrokerValues, then: BrokerValues) -> str | None:
    before, after = now.number("log.cleaner.threads") or 0, then.number("log.cleaner.threads") or 0
    if after < before // 2:
        return _dynamic(f"Log cleaner threads cannot be reduced to less than half the current value {before}")
    if after > before * 2:
        return _dynamic(f"Log cleaner threads cannot be increased to more than double the current value {before}")
    return None


def _local_retention(unit: str) -> Rule:
    def rule(_: BrokerValues, then: BrokerValues) -> str | None:
        local, retention = then.number(f"log.local.retention.{unit}"), then.retention(unit)
        if local is None or local == _SAME_AS_RETENTION or retention == _UNLIMITED:
            return None
        invalid = f"Invalid value {value_text(local)} for configuration log.local.retention.{unit}: Value must not be"
        if local == _UNLIMITED:
            return _dynamic(f"{invalid} -1 as log.retention.{unit} value is set as {retention}.")
        if local > retention:
            return _dynamic(f"{invalid} more than log.retention.{unit} property value: {retention}")
        return None

    return rule


def _dynamic(fault: str) -> str:
    """Kafka's message when a part of the broker refuses its new configs."""
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {fault} "
        "for configuration Invalid dynamic configuration"
    )


_THREAD_COUNTS: Final = (
    "num.network.threads",
    "num.io.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "background.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)
_RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    ((_PROTOCOL_MAP,), _security_protocols),
    (("listeners",), _listeners),
    *(
        ((f"group.{family}.assignment.interval.ms",), _assignment_interval(family))
        for family in ("consumer", "share", "streams")
    ),
    (("log.roll.ms",), _at_least("log.roll.ms", 1)),
    (("log.roll.jitter.ms",), _at_least("log.roll.jitter.ms", 0)),
    (("log.retention.ms",), _retention),
    (("cordoned.log.dirs",), _cordoned_directories),
    (("log.cleaner.threads", "log.cleaner.dedupe.buffer.size"), _cleaner_buffer),
    (("max.connections.per.ip", "max.connections.per.ip.overrides"), _connections_per_ip),
    (("max.connections",), _not_zero("max.connections")),
    (("max.connection.creation.rate",), _not_zero("max.connection.creation.rate")),
    (("metric.reporters",), _reporters),
    *(((name,), _thread_count(name)) for name in _THREAD_COUNTS),
    (("log.cleaner.threads",), _cleaner_threads),
    *(((f"log.local.retention.{unit}", f"log.retention.{unit}"), _local_retention(unit)) for unit in ("ms", "bytes")),
)
