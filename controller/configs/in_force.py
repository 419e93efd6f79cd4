"""The effective values, typed, of the configs that the controller itself uses.

The first value of these applies: the topic's own, the broker's, the cluster-wide default, the static one, the table's.
Configs that requests cannot change come from the settings alone.
"""

from collections.abc import Mapping
from functools import cache, lru_cache

from klamm.controller.config_definitions.release_configs import NEWEST
from klamm.controller.config_definitions.table import broker_definitions, topic_definitions
from klamm.controller.config_definitions.values import ConfigValue, typed_value
from klamm.controller.configs.effective import (
    BrokerConfigs,
    DynamicConfigs,
    Levels,
    ResourceType,
    broker_configs,
    config_levels,
    inherited_value,
)
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The topic configs that apply to record batches written to a topic. Times are in ms, sizes in bytes."""

    max_message_bytes: int
    log_append_time: bool
    """Whether a record's timestamp is the time at which it is written, and not the producer's."""
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    is_compacted: bool
    """Whether the topic is compacted, so that records need a key."""
    deletes_records: bool
    """Whether clients may delete the oldest records."""
    min_insync_replicas: int
    segment_bytes: int
    compression: int | None = None
    """The number of the codec in which batches are stored; None: the one in which they are produced."""
    compression_level: int | None = None
    """The level of that codec; None: it has none."""


def record_rules(
    dynamic_configs: DynamicConfigs, settings: Settings, topic_name: str, broker_id: int | None = None
) -> RecordRules:
    """The rules of a topic, as seen by the broker that was asked. The result is cached: every request needs it."""
    own = dynamic_configs.get((ResourceType.TOPIC, topic_name), {})
    # The cache key has only the configs that decide, because others would duplicate entries.
    decisive = tuple((name, own[name]) for name in _RECORD_CONFIGS if name in own)
    former = settings.emulation.has_former_configs
    return _record_rules(broker_configs(dynamic_configs, settings, broker_id), decisive, former)


_DIFFERENCE = "message.timestamp.difference.max.ms"
_NO_DIFFERENCE = (1 << 63) - 1
_DOWN_CONVERSION = "message.downconversion.enable"
_LAST_WITH_DIFFERENCE = _LAST_WITH_DOWN_CONVERSION = "3.9"
_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
"""The values of compression.type by the number of the codec."""
_RECORD_CONFIGS = (
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "segment.bytes",
)


@lru_cache(maxsize=1024)
def _record_rules(configs: BrokerConfigs, own: tuple[tuple[str, str], ...], former: bool) -> RecordRules:
    """`former`: whether the former config of timestamps, `message.timestamp.difference.max.ms`, may be set."""
    levels, texts = configs.levels(), dict(own)

    def number(name: str) -> int:
        value = value_of_topic(name, texts, levels)
        assert isinstance(value, int), f"{name} is no number"
        return value

    policies = value_of_topic("cleanup.policy", texts, levels)
    assert isinstance(policies, tuple), "cleanup.policy is no list"
    difference = value_of_topic(_DIFFERENCE, texts, levels, _LAST_WITH_DIFFERENCE) if former else _NO_DIFFERENCE
    assert isinstance(difference, int), f"{_DIFFERENCE} is no number"
    before, after = number("message.timestamp.before.max.ms"), number("message.timestamp.after.max.ms")
    codec = str(value_of_topic("compression.type", texts, levels))
    return RecordRules(
        max_message_bytes=number("max.message.bytes"),
        log_append_time=value_of_topic("message.timestamp.type", texts, levels) == "LogAppendTime",
        # The newer of the two configs counts if it is set (KIP-937).
        timestamp_before_max_ms=difference if before == _NO_DIFFERENCE else before,
        timestamp_after_max_ms=difference if after == _NO_DIFFERENCE else after,
        is_compacted="compact" in policies,
        deletes_records="delete" in policies,
        min_insync_replicas=number("min.insync.replicas"),
        segment_bytes=number("segment.bytes"),
        compression=_CODECS.index(codec) if codec in _CODECS else None,
        compression_level=number(f"compression.{codec}.level") if codec in ("gzip", "lz4", "zstd") else None,
    )


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of new connections at one listener of a node. None: there is no limit."""

    rate: int | None
    """Connections per second of all listeners."""
    listener_rate: int | None
    """Connections per second of this listener: without a config of its own the same as `rate`, as in Kafka."""
    most: int | None
    """Open connections of all listeners."""
    listener_most: int | None
    """Open connections of this listener: without a config of its own the same as `most`."""
    per_address: int | None
    """Open connections from one address."""
    per_address_overrides: Mapping[str, int]
    """The same for some addresses."""


def connection_limits(
    dynamic_configs: DynamicConfigs, settings: Settings, listener_name: str, broker_id: int | None = None
) -> ConnectionLimits:
    """The limits at a listener. The result is cached: every connection needs it."""
    return _connection_limits(broker_configs(dynamic_configs, settings, broker_id), listener_name.lower())


@lru_cache(maxsize=256)
def _connection_limits(configs: BrokerConfigs, listener_name: str) -> ConnectionLimits:
    levels = configs.levels()

    def limit(name: str, *prefixes: str) -> int | None:
        for prefix in (*prefixes, ""):
            for _, values in levels:
                if prefix + name in values and (value := _number(name, values[prefix + name])) is not None:
                    return None if value >= _NO_LIMIT else value
        return None

    own = f"listener.name.{listener_name}."

    overrides = next((values[_PER_IP_OVERRIDES] for _, values in levels if _PER_IP_OVERRIDES in values), "")
    items = [item.rpartition(":") for item in overrides.split(",") if item.strip()]
    return ConnectionLimits(
        rate=limit("max.connection.creation.rate"),
        listener_rate=limit("max.connection.creation.rate", own),
        most=limit("max.connections"),
        listener_most=limit("max.connections", own),
        per_address=limit("max.connections.per.ip"),
        # Host names are not resolved, because a name server may be slow.
        per_address_overrides={host.strip(): int(count) for host, _, count in items if count.strip().isdecimal()},
    )


_NO_LIMIT = (1 << 31) - 1
_PER_IP_OVERRIDES = "max.connections.per.ip.overrides"


def fetch_max_bytes(settings: Settings, broker_id: int | None = None) -> int:
    """Most bytes of records in one response of a broker, not counting the first batch."""
    return settings.static_int("fetch.max.bytes", broker_id)


def min_insync_replicas(
    dynamic_configs: DynamicConfigs, settings: Settings, topic_name: str | None, broker_id: int | None = None
) -> int:
    """min.insync.replicas of a topic; without a topic, the value that topics inherit."""
    return int(_topic_value("min.insync.replicas", dynamic_configs, settings, topic_name, broker_id))


def unclean_leader_election_enabled(
    dynamic_configs: DynamicConfigs, settings: Settings, topic_name: str | None, broker_id: int | None = None
) -> bool:
    """Whether a replica that lacks records may become leader; without a topic, the value that topics inherit."""
    return bool(_topic_value("unclean.leader.election.enable", dynamic_configs, settings, topic_name, broker_id))


def down_conversion_enabled(
    dynamic_configs: DynamicConfigs, settings: Settings, topic_name: str, broker_id: int | None = None
) -> bool:
    """Whether consumers that need an older message format may read a topic. Always, where no release has the config."""
    if not settings.emulation.has_former_configs:
        return True
    own, levels = (
        dynamic_configs.get((ResourceType.TOPIC, topic_name), {}),
        config_levels(dynamic_configs, settings, broker_id),
    )
    return bool(value_of_topic(_DOWN_CONVERSION, own, levels, _LAST_WITH_DOWN_CONVERSION))


def num_partitions(settings: Settings, broker_id: int | None = None) -> int:
    """The number of partitions of a topic whose creation request leaves it to the broker (KIP-464)."""
    return settings.static_int("num.partitions", broker_id)


def default_replication_factor(settings: Settings, broker_id: int | None = None) -> int:
    """The number of replicas of a partition whose creation request leaves it to the broker (KIP-464)."""
    return settings.static_int("default.replication.factor", broker_id)


def auto_create_topics_enabled(settings: Settings, broker_id: int | None = None) -> bool:
    """Whether a Metadata request to this broker creates topics that do not exist."""
    return settings.static_bool("auto.create.topics.enable", broker_id)


def delete_topic_enabled(settings: Settings) -> bool:
    """Whether topics may be deleted, according to the controller's configs."""
    return settings.static_bool("delete.topic.enable")


def max_broker_partitions(dynamic_configs: DynamicConfigs, settings: Settings, broker_id: int | None = None) -> int:
    """KIP-578: most replicas on a broker, according to the broker that was asked, or to the cluster-wide configs."""
    return int(broker_value("max.broker.partitions", dynamic_configs, settings, broker_id))


def max_partitions(dynamic_configs: DynamicConfigs, settings: Settings, broker_id: int | None = None) -> int:
    """KIP-578: most partitions in the cluster, according to the broker that was asked, or to the cluster-wide
    configs."""
    return int(broker_value("max.partitions", dynamic_configs, settings, broker_id))


def under_replicated_topic_creation_enabled(
    dynamic_configs: DynamicConfigs, settings: Settings, broker_id: int | None = None
) -> bool:
    """KIP-409: whether placeholders replace missing brokers, according to the broker that was asked."""
    return bool(broker_value("enable.under.replicated.topic.creation", dynamic_configs, settings, broker_id))


def create_topic_policy_class_name(settings: Settings, broker_id: int | None = None) -> str | None:
    """The create-topic policy, as `module:callable`; None: there is no policy."""
    return settings.static_configs_of(broker_id).get("create.topic.policy.class.name", "").strip() or None


def broker_session_timeout_ms(settings: Settings) -> int:
    """The time without a heartbeat after which a broker is fenced."""
    return settings.static_int("broker.session.timeout.ms")


def replica_lag_time_max_ms(settings: Settings) -> int:
    """The time that a replica may lag before its leader removes it from the ISR. The same for all leaders."""
    return settings.static_int("replica.lag.time.max.ms")


def producer_id_expiration_ms(dynamic_configs: DynamicConfigs, settings: Settings, broker_id: int | None = None) -> int:
    """How long a partition remembers a producer that writes nothing, according to a broker."""
    return int(broker_value("producer.id.expiration.ms", dynamic_configs, settings, broker_id))


def broker_value(name: str, dynamic_configs: DynamicConfigs, settings: Settings, broker_id: int | None) -> int | bool:
    """A config of a broker; None: of all brokers."""
    for _, values in config_levels(dynamic_configs, settings, broker_id):
        # A log from another controller may have a value that Klamm refuses; then the next level applies.
        if name in values and (value := _number(name, values[name])) is not None:
            return value
    return _default_number(name)


@lru_cache(maxsize=256)
def _number(name: str, text: str) -> int | bool | None:
    value = typed_value(broker_definitions()[name], text)
    return value if isinstance(value, int) else None


@cache
def _default_number(name: str) -> int | bool:
    default = _number(name, broker_definitions()[name].default or "")
    assert default is not None, f"the table's default of {name} is no number"
    return default


def _topic_value(
    name: str,
    dynamic_configs: DynamicConfigs,
    settings: Settings,
    topic_name: str | None,
    broker_id: int | None,
) -> int | bool:
    own = {} if topic_name is None else dynamic_configs.get((ResourceType.TOPIC, topic_name), {})
    value = value_of_topic(name, own, config_levels(dynamic_configs, settings, broker_id))
    assert isinstance(value, int), f"{name} is no number"
    return value


def value_of_topic(name: str, own: Mapping[str, str], levels: Levels, release: str = NEWEST) -> ConfigValue:
    """A topic's config: its own, else inherited from the levels of a broker's configs. `release`: one that has it."""
    definition = topic_definitions(release)[name]
    inherited, _ = inherited_value(levels, definition)
    for text in (own.get(name), inherited, definition.default):
        value = None if text is None else typed_value(definition, text)
        # A log from another controller may have a value that Klamm refuses; then the next level applies.
        if value is not None and not isinstance(value, ApiError):
            return value
    raise AssertionError(f"the table has no default of {name}")
