"""The one list of the APIs that Klamm serves. ApiVersions, routing, tests and fuzzers derive from it.

Adding an API is one line here, beside its message module and its handler (docs/add-an-api.md).
"""

from collections.abc import Callable, Mapping
from typing import Any

from controller.handlers.brokers.broker_heartbeat import handle_broker_heartbeat
from controller.handlers.brokers.broker_registration import handle_broker_registration
from controller.handlers.brokers.describe_log_dirs import handle_describe_log_dirs
from controller.handlers.brokers.unregister_broker import handle_unregister_broker
from controller.handlers.cluster.api_versions import handle_api_versions
from controller.handlers.cluster.describe_cluster import handle_describe_cluster
from controller.handlers.configs.describe_configs import handle_describe_configs
from controller.handlers.topics.create_partitions import handle_create_partitions
from controller.handlers.topics.create_topics import handle_create_topics
from controller.handlers.topics.delete_topics import handle_delete_topics
from controller.handlers.topics.describe_topic_partitions import handle_describe_topic_partitions
from controller.handlers.topics.metadata import handle_metadata
from controller.metadata.image import MetadataImage
from controller.outcome import Outcome, RequestContext
from protocol.api import Api, Listener
from protocol.messages.brokers import broker_heartbeat, broker_registration, describe_log_dirs, unregister_broker
from protocol.messages.cluster import api_versions, describe_cluster
from protocol.messages.configs import describe_configs
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
    describe_configs.API: handle_describe_configs,
    describe_log_dirs.API: handle_describe_log_dirs,
    create_partitions.API: handle_create_partitions,
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


def serves(listener: Listener, api: Api[Any, Any], api_version: int) -> bool:
    """Whether a request of this API and version is answered on a listener of this kind."""
    return api in HANDLERS and listener in api.listeners and api.versions.start <= api_version <= api.latest_stable
