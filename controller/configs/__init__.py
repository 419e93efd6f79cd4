"""Configs: the table of Kafka 4.3's, what their values mean, and which value is in force for whom.

The public names of the room; the modules behind it are `table` (definitions), `values` (text and type), `effective`
(precedence), `topic_rules` (validation), `created_topic` (CreateTopics answers), `in_force` (typed values for rules)
and `properties_file` (server.properties). It stands below the settings, which are validated by the table.
"""

from controller.configs.created_topic import topic_config_list
from controller.configs.effective import (
    BrokerConfigs,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    DynamicConfigs,
    ResourceType,
    broker_configs,
    effective_broker_configs,
    effective_client_metrics_configs,
    effective_cluster_configs,
    effective_group_configs,
    effective_topic_configs,
)
from controller.configs.in_force import (
    auto_create_topics_enabled,
    default_replication_factor,
    delete_topic_enabled,
    min_insync_replicas,
    num_partitions,
    unclean_leader_election_enabled,
)
from controller.configs.table import (
    ConfigDefinition,
    ConfigType,
    broker_definitions,
    client_metrics_definitions,
    group_definitions,
    topic_definitions,
)
from controller.configs.topic_rules import validate_topic_configs
from controller.configs.values import ConfigValue, typed_value, value_text

__all__ = [
    "BrokerConfigs",
    "ConfigDefinition",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConfigValue",
    "DynamicConfigs",
    "ResourceType",
    "auto_create_topics_enabled",
    "broker_configs",
    "broker_definitions",
    "client_metrics_definitions",
    "default_replication_factor",
    "delete_topic_enabled",
    "effective_broker_configs",
    "effective_client_metrics_configs",
    "effective_cluster_configs",
    "effective_group_configs",
    "effective_topic_configs",
    "group_definitions",
    "min_insync_replicas",
    "num_partitions",
    "topic_config_list",
    "topic_definitions",
    "typed_value",
    "unclean_leader_election_enabled",
    "validate_topic_configs",
    "value_text",
]
