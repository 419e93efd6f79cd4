"""DescribeAcls (29): the access control entries that a filter matches, grouped by resource pattern."""

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.handlers.acls.acl_filter import AclFilter
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.security.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_SWITCHED_OFF = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def handle_describe_acls(image: MetadataImage, request: DescribeAclsRequest, context: RequestContext) -> Outcome:
    """Patterns in the order in which their first entry was found; none if the filter's values are not defined in
    Kafka."""
    refusal = context.refuse_cluster(AclOperation.DESCRIBE)
    if refusal is None and context.settings.authorizer is None:
        refusal = _SWITCHED_OFF
    if refusal:
        return Outcome(DescribeAclsResponse(error_code=refusal.code, error_message=refusal.message))
    wanted = AclFilter.of(request)
    matches = wanted.matcher()
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for _, acl in wanted.candidates(image.acls):
        if matches(acl):
            description = AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
            found.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(description)
    resources = [
        DescribeAclsResource(resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=acls)
        for (resource_type, name, pattern_type), acls in found.items()
    ]
    return Outcome(DescribeAclsResponse(resources=resources))
