"""The configs that decide which records of a topic go: retention, segments and compaction."""

from functools import lru_cache
from typing import Final

from klamm.controller.config_definitions.values import ConfigValue
from klamm.controller.configs.effective import BrokerConfigs, DynamicConfigs, ResourceType, broker_configs
from klamm.controller.configs.in_force import broker_value, value_of_topic
from klamm.controller.settings import Settings
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CleanupRules:
    """The rules of a topic. Times are in ms, sizes in bytes."""

    deletes: bool
    """Whether segments that retention no longer covers are deleted (cleanup.policy)."""
    compacts: bool
    """Whether only the newest record of each key is kept (cleanup.policy)."""
    retention_ms: int
    """Below 0: without limit."""
    retention_bytes: int
    """Below 0: without limit."""
    segment_bytes: int
    segment_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    """How long tombstones and transaction markers remain after the compaction that finds nothing else of theirs."""

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment ends. Records of a compacted topic may not wait longer than their largest lag."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms


_CONFIGS: Final = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)
CLEANUP_CONFIGS: Final = frozenset(_CONFIGS)


def cleanup_rules(
    dynamic_configs: DynamicConfigs, settings: Settings, topic_name: str, broker_id: int | None = None
) -> CleanupRules:
    """The rules of a topic, as seen by a broker."""
    own = dynamic_configs.get((ResourceType.TOPIC, topic_name), {})
    decisive = tuple((name, own[name]) for name in _CONFIGS if name in own)
    return _cleanup_rules(broker_configs(dynamic_configs, settings, broker_id), decisive)


@lru_cache(maxsize=1024)
def _cleanup_rules(configs: BrokerConfigs, own: tuple[tuple[str, str], ...]) -> CleanupRules:
    levels, texts = configs.levels(), dict(own)
    values: dict[str, ConfigValue] = {name: value_of_topic(name, texts, levels) for name in _CONFIGS}

    def number(name: str) -> int:
        value = values[name]
        assert isinstance(value, int), f"{name} is no number"
        return value

    policies, ratio = values["cleanup.policy"], values["min.cleanable.dirty.ratio"]
    assert isinstance(policies, tuple), "cleanup.policy is no list"
    assert isinstance(ratio, float), "min.cleanable.dirty.ratio is no fraction"
    return CleanupRules(
        deletes="delete" in policies,
        compacts="compact" in policies,
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        min_cleanable_dirty_ratio=ratio,
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        delete_retention_ms=number("delete.retention.ms"),
    )


def retention_check_interval_ms(settings: Settings) -> int:
    """The time between two checks of retention, in the static configs of all brokers."""
    return settings.static_int("log.retention.check.interval.ms")


def log_cleaner_enabled(settings: Settings) -> bool:
    """Whether topics are compacted at all, in the static configs of all brokers."""
    return settings.static_bool("log.cleaner.enable")


def log_cleaner_backoff_ms(dynamic_configs: DynamicConfigs, settings: Settings) -> int:
    """How long the cleaner rests when it has found nothing to compact, in the configs of all brokers."""
    return int(broker_value("log.cleaner.backoff.ms", dynamic_configs, settings, None))
