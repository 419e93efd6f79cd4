"""The values in force, typed, of the configs that the controller itself obeys.

Topic configs take the topic's own value, else the broker's, else the cluster-wide default, else the static one, else
the table's. Configs that no request changes come from the settings alone.
"""

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from controller.configs.effective import (
    DynamicConfigs,
    ResourceType,
    config_levels,
    inherited_value,
)
from controller.configs.table import broker_definitions, topic_definitions
from controller.configs.values import ConfigValue, typed_value
from protocol.errors import ApiError

if TYPE_CHECKING:
    from controller.settings import Settings


def min_insync_replicas(
    dynamic_configs: DynamicConfigs, settings: "Settings", topic_name: str | None, broker_id: int | None = None
) -> int:
    """How many replicas have to be in sync; without a topic, what a topic inherits."""
    return int(_topic_value("min.insync.replicas", dynamic_configs, settings, topic_name, broker_id))


def unclean_leader_election_enabled(
    dynamic_configs: DynamicConfigs, settings: "Settings", topic_name: str | None, broker_id: int | None = None
) -> bool:
    """Whether a replica that lacks records may lead; without a topic, what a topic inherits."""
    return bool(_topic_value("unclean.leader.election.enable", dynamic_configs, settings, topic_name, broker_id))


def num_partitions(settings: "Settings", broker_id: int | None = None) -> int:
    """How many partitions a topic gets whose creator left it to the broker (KIP-464)."""
    return settings.static_int("num.partitions", broker_id)


def default_replication_factor(settings: "Settings", broker_id: int | None = None) -> int:
    """How many replicas a partition gets whose creator left it to the broker (KIP-464)."""
    return settings.static_int("default.replication.factor", broker_id)


def auto_create_topics_enabled(settings: "Settings", broker_id: int | None = None) -> bool:
    """Whether Metadata creates topics that do not exist, on this broker."""
    return settings.static_bool("auto.create.topics.enable", broker_id)


def delete_topic_enabled(settings: "Settings", broker_id: int | None = None) -> bool:
    """Whether topics may be deleted."""
    return settings.static_bool("delete.topic.enable", broker_id)


def max_broker_partitions(dynamic_configs: DynamicConfigs, settings: "Settings", broker_id: int | None = None) -> int:
    """KIP-578: most replicas on a broker, as the broker that was asked has it, or the cluster as such."""
    return int(_broker_value("max.broker.partitions", dynamic_configs, settings, broker_id))


def max_partitions(dynamic_configs: DynamicConfigs, settings: "Settings", broker_id: int | None = None) -> int:
    """KIP-578: most partitions in the cluster, as the broker that was asked has it, or the cluster as such."""
    return int(_broker_value("max.partitions", dynamic_configs, settings, broker_id))


def under_replicated_topic_creation_enabled(
    dynamic_configs: DynamicConfigs, settings: "Settings", broker_id: int | None = None
) -> bool:
    """KIP-409: whether placeholders stand in for brokers that are missing, as the broker that was asked has it."""
    return bool(_broker_value("enable.under.replicated.topic.creation", dynamic_configs, settings, broker_id))


def create_topic_policy_class_name(settings: "Settings", broker_id: int | None = None) -> str | None:
    """What judges new topics: `module:callable` here; None if nothing does."""
    return settings.static_configs_of(broker_id).get("create.topic.policy.class.name", "").strip() or None


def broker_session_timeout_ms(settings: "Settings") -> int:
    """How long a broker may be silent before it is fenced."""
    return settings.static_int("broker.session.timeout.ms")


def replica_lag_time_max_ms(settings: "Settings", broker_id: int | None = None) -> int:
    """How long a replica may lag behind before its leader takes it out of the ISR."""
    return settings.static_int("replica.lag.time.max.ms", broker_id)


def _broker_value(
    name: str, dynamic_configs: DynamicConfigs, settings: "Settings", broker_id: int | None
) -> int | bool:
    for _, values in config_levels(dynamic_configs, settings, broker_id):
        # A log from elsewhere may hold what we would have refused: then the next level counts.
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
    settings: "Settings",
    topic_name: str | None,
    broker_id: int | None,
) -> int | bool:
    definition = topic_definitions()[name]
    own = None if topic_name is None else dynamic_configs.get((ResourceType.TOPIC, topic_name), {}).get(name)
    inherited, _ = inherited_value(config_levels(dynamic_configs, settings, broker_id), definition)
    for text in (own, inherited, definition.default):
        value: ConfigValue | ApiError = typed_value(definition, text) if text is not None else ""
        # A log from elsewhere may hold what we would have refused: then the next level counts.
        if isinstance(value, int):
            return value
    raise AssertionError(f"the table's default of {name} is no number")
