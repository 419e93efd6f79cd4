"""The values in force, typed, of the configs that the controller itself obeys.

Topic configs take the topic's own value, else the broker's, else the cluster-wide default, else the static one, else
the table's. Configs that no request changes come from the settings alone.
"""

from typing import TYPE_CHECKING

from controller.configs.effective import (
    DynamicConfigs,
    ResourceType,
    config_levels,
    inherited_value,
)
from controller.configs.table import topic_definitions
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
