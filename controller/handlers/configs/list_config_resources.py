"""ListConfigResources (74, KIP-1142): which resources have configs. Version 0 is the former ListClientMetricsResources.

The answer has every topic, registered broker and broker logger resource, because these always have configs. Groups and
client metrics subscriptions are listed only while a config of them is set. An unknown type fails the whole request with
UNSUPPORTED_VERSION.
"""

from collections.abc import Iterable
from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.configs import ResourceType
from klamm.controller.context import RequestContext
from klamm.controller.handlers.configs.access import CLUSTER_DENIED
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

# In the order of the answer.
_LISTED: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle_list_config_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, context: RequestContext
) -> Outcome:
    """All resource types if the request names none; only client metrics in version 0."""
    if not context.authorize_cluster(AclOperation.DESCRIBE_CONFIGS):
        return Outcome(ListConfigResourcesResponse(error_code=CLUSTER_DENIED.code))
    supported = (ResourceType.CLIENT_METRICS,) if context.api_version == 0 else _LISTED
    wanted = set(request.resource_types) or set(supported)
    if not wanted <= set(supported):
        return Outcome(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    resources = [
        ConfigResource(resource_name=name, resource_type=resource_type)
        for resource_type in supported
        if resource_type in wanted
        for name in _names(image, resource_type)
    ]
    return Outcome(ListConfigResourcesResponse(config_resources=resources))


def _names(image: MetadataImage, resource_type: ResourceType) -> Iterable[str]:
    if resource_type is ResourceType.TOPIC:
        return image.topics_by_name
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return map(str, sorted(image.brokers))
    return sorted(name for kind, name in image.configs if kind == resource_type)
