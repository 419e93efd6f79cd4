"""The errors of requests without the required right: one code for each resource type, with Kafka's text."""

from collections.abc import Mapping
from typing import Final

from klamm.controller.authorizer.acls import AclOperation, AclResourceType
from klamm.protocol.errors import ApiError, ErrorCode

REFUSALS: Final[Mapping[AclResourceType, ApiError]] = {
    AclResourceType.TOPIC: ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    AclResourceType.GROUP: ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    AclResourceType.CLUSTER: ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    AclResourceType.TRANSACTIONAL_ID: ApiError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."
    ),
}
"""The error for one item of a request."""


def refused_as_a_whole(operation: AclOperation) -> ApiError:
    """The error for a request that needs a right on the cluster. Kafka's text also has the request as Java prints
    it."""
    return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Request needs {operation.name} permission.")
