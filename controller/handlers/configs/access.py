"""Who may describe and alter the configs of a resource, and how the config APIs refuse others.

A refusal does not reveal whether the resource exists.
"""

from collections.abc import Mapping
from typing import Final

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import ResourceType
from klamm.controller.context import RequestContext
from klamm.protocol.errors import ApiError, ErrorCode

CLUSTER_DENIED: Final = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
_ASKED: Final[Mapping[int, tuple[AclResourceType, ApiError]]] = {
    ResourceType.TOPIC: (
        AclResourceType.TOPIC,
        ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ),
    ResourceType.GROUP: (
        AclResourceType.GROUP,
        ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ),
}


def refuse_unless_authorized(
    context: RequestContext, operation: AclOperation, resource_type: int, resource_name: str
) -> ApiError | None:
    """None if the requester may do this to the configs of this resource. Other types than topics and groups need the
    right on the cluster."""
    if context.access is None:
        return None
    acl_type, denied = _ASKED.get(resource_type, (AclResourceType.CLUSTER, CLUSTER_DENIED))
    allowed = (
        context.authorize_cluster(operation)
        if acl_type is AclResourceType.CLUSTER
        else context.authorize(operation, acl_type, resource_name)
    )
    return None if allowed else denied
