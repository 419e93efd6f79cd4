"""Configs: the table of Kafka 4.3, the meaning of values, and which value applies to a resource.

The public names of the room; the modules behind it are `table` (definitions), `values` (text and type), `effective`
(precedence), `alteration` (what operations do), `topic_rules`, `broker_rules`, `group_rules` (validation),
`created_topic` (CreateTopics answers), `in_force` (typed values for rules) and `properties_file` (server.properties).
This package does not import the settings, because the settings are validated with the table.
"""

from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.config_definitions.table import (
    ConfigDefinition,
    ConfigType,
    broker_definitions,
    client_metrics_definitions,
    group_definitions,
    topic_definitions,
)
from klamm.controller.config_definitions.values import (
    ConfigValue,
    invalid_config,
    invalid_request,
    shortened,
    typed_value,
    value_text,
)
from klamm.controller.configs.alteration import (
    MAX_VALUE_BYTES,
    Changes,
    ConfigEdit,
    ConfigOperation,
    apply_edits,
)
from klamm.controller.configs.broker_rules import (
    usable_broker_configs,
    validate_broker_configs,
    validate_broker_edits,
    validate_own_configs,
)
from klamm.controller.configs.created_topic import topic_config_list
from klamm.controller.configs.effective import (
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
from klamm.controller.configs.group_rules import validate_client_metrics_configs, validate_group_configs
from klamm.controller.configs.in_force import (
    ConnectionLimits,
    RecordRules,
    auto_create_topics_enabled,
    broker_session_timeout_ms,
    connection_limits,
    create_topic_policy_class_name,
    default_replication_factor,
    delete_topic_enabled,
    fetch_max_bytes,
    max_broker_partitions,
    max_partitions,
    min_insync_replicas,
    num_partitions,
    producer_id_expiration_ms,
    record_rules,
    replica_lag_time_max_ms,
    unclean_leader_election_enabled,
    under_replicated_topic_creation_enabled,
)
from klamm.controller.configs.node_names import decode_node_id, quoted_node_id
from klamm.controller.configs.topic_rules import validate_topic_configs

__all__ = [
    "MAX_VALUE_BYTES",
    "BrokerConfigs",
    "Changes",
    "ConfigDefinition",
    "ConfigEdit",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConfigValue",
    "ConnectionLimits",
    "DynamicConfigs",
    "RecordRules",
    "ResourceType",
    "apply_edits",
    "auto_create_topics_enabled",
    "broker_configs",
    "broker_definitions",
    "broker_session_timeout_ms",
    "client_metrics_definitions",
    "connection_limits",
    "create_topic_policy_class_name",
    "decode_node_id",
    "default_replication_factor",
    "delete_topic_enabled",
    "effective_broker_configs",
    "effective_client_metrics_configs",
    "effective_cluster_configs",
    "effective_group_configs",
    "effective_topic_configs",
    "fetch_max_bytes",
    "group_definitions",
    "in_hash_order",
    "invalid_config",
    "invalid_request",
    "max_broker_partitions",
    "max_partitions",
    "min_insync_replicas",
    "num_partitions",
    "producer_id_expiration_ms",
    "quoted_node_id",
    "record_rules",
    "replica_lag_time_max_ms",
    "shortened",
    "topic_config_list",
    "topic_definitions",
    "typed_value",
    "unclean_leader_election_enabled",
    "under_replicated_topic_creation_enabled",
    "usable_broker_configs",
    "validate_broker_configs",
    "validate_broker_edits",
    "validate_client_metrics_configs",
    "validate_group_configs",
    "validate_own_configs",
    "validate_topic_configs",
    "value_text",
]
