"""The one list of the APIs that Klamm serves. ApiVersions, routing, tests and fuzzers derive from it.

Adding an API is one line here, beside its message module and its handler (docs/add-an-api.md).
"""

from collections.abc import Callable, Mapping
from typing import Any

from controller.handlers.acls.create_acls import handle_create_acls
from controller.handlers.acls.delete_acls import handle_delete_acls
from controller.handlers.acls.describe_acls import handle_describe_acls
from controller.handlers.acls.unreadable import UNREADABLE
from controller.handlers.brokers.broker_heartbeat import handle_broker_heartbeat
from controller.handlers.brokers.broker_registration import handle_broker_registration
from controller.handlers.brokers.describe_log_dirs import handle_describe_log_dirs
from controller.handlers.brokers.unregister_broker import handle_unregister_broker
from controller.handlers.cluster.api_versions import handle_api_versions
from controller.handlers.cluster.describe_cluster import handle_describe_cluster
from controller.handlers.configs.alter_configs import handle_alter_configs
from controller.handlers.configs.describe_configs import handle_describe_configs
from controller.handlers.configs.incremental_alter_configs import handle_incremental_alter_configs
from controller.handlers.configs.list_config_resources import handle_list_config_resources
from controller.handlers.partitions.alter_partition import handle_alter_partition
from controller.handlers.topics.create_partitions import handle_create_partitions
from controller.handlers.topics.create_topics import handle_create_topics
from controller.handlers.topics.delete_topics import handle_delete_topics
from controller.handlers.topics.describe_topic_partitions import handle_describe_topic_partitions
from controller.handlers.topics.metadata import handle_metadata
from controller.metadata.image import MetadataImage
from controller.outcome import Outcome, RequestContext
from controller.served_versions import newest_version
from protocol.api import Api, Listener
from protocol.fields import Message
from protocol.messages.brokers import broker_heartbeat, broker_registration, describe_log_dirs, unregister_broker
from protocol.messages.cluster import api_versions, describe_cluster
from protocol.messages.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from protocol.messages.partitions import alter_partition
from protocol.messages.security import create_acls, delete_acls, describe_acls
from protocol.messages.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)

Handler = Callable[[MetadataImage, Any, RequestContext], Outcome]

HANDLERS: Mapping[Api[Any, Any], Handler] = {
    metadata.API: handle_metadata,
    api_versions.API: handle_api_versions,
    create_topics.API: handle_create_topics,
    delete_topics.API: handle_delete_topics,
    describe_acls.API: handle_describe_acls,
    create_acls.API: handle_create_acls,
    delete_acls.API: handle_delete_acls,
    describe_configs.API: handle_describe_configs,
    alter_configs.API: handle_alter_configs,
    incremental_alter_configs.API: handle_incremental_alter_configs,
    list_config_resources.API: handle_list_config_resources,
    describe_log_dirs.API: handle_describe_log_dirs,
    create_partitions.API: handle_create_partitions,
    alter_partition.API: handle_alter_partition,
    describe_cluster.API: handle_describe_cluster,
    broker_registration.API: handle_broker_registration,
    broker_heartbeat.API: handle_broker_heartbeat,
    unregister_broker.API: handle_unregister_broker,
    describe_topic_partitions.API: handle_describe_topic_partitions,
}
SERVED: Mapping[Listener, tuple[Api[Any, Any], ...]] = {
    listener: tuple(sorted((api for api in HANDLERS if listener in api.listeners), key=lambda api: api.key))
    for listener in ("broker", "controller")
}


def is_readable(api: Api[Any, Any], request: Message) -> bool:
    """Whether Kafka reads a request that has been decoded: on a few it closes the connection all the same."""
    return api not in UNREADABLE or not UNREADABLE[api](request)


def serves(listener: Listener, api: Api[Any, Any], api_version: int, *, kip_578_versions: bool = False) -> bool:
    """Whether a request of this API and version is answered on a listener of this kind."""
    newest = newest_version(api, kip_578_versions=kip_578_versions)
    return api in HANDLERS and listener in api.listeners and api.versions.start <= api_version <= newest
