"""CreateAcls (30): adds access control entries. Creating an entry that exists succeeds and changes nothing.

Entries of one request are decided one by one, in order. The checks, their order and the texts are those recorded from
Apache Kafka 4.3 (tests/golden/authorizer). There an entry that contains ANY fails its whole request; here only itself.
"""

from klamm.controller.authorizer import CLUSTER_NAME, Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from klamm.controller.context import RequestContext
from klamm.controller.handlers.acls.acl_filter import known
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.security.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from klamm.protocol.records.security import AccessControlEntryRecord

MAX_ACLS = 100_000
"""Most entries in a cluster. Apache Kafka has no such limit."""
MAX_CHANGES_PER_REQUEST = 10_000
SWITCHED_OFF = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
_TOO_MANY = ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def handle_create_acls(image: MetadataImage, request: CreateAclsRequest, context: RequestContext) -> Outcome:
    """One result per entry, in request order."""
    refusal = context.refuse_cluster(AclOperation.ALTER)
    if refusal is None and context.settings.authorizer is None:
        refusal = SWITCHED_OFF
    if refusal:
        return _all_refused(request, refusal)
    results: list[AclCreationResult] = []
    made: dict[Acl, Record] = {}
    for creation in request.creations:
        acl = _acl(creation)
        fault = _validate(acl)
        if not fault and acl not in made and acl not in image.acls:
            fault = _validate_room(len(image.acls) + len(made))
            if not fault:
                made[acl] = AccessControlEntryRecord(id=context.new_uuid(), **acl._asdict())
        results.append(AclCreationResult(error_code=fault.code, error_message=fault.message) if fault else _SUCCESS)
    if len(made) > MAX_CHANGES_PER_REQUEST:
        return _all_refused(request, _TOO_MANY)
    return Outcome(CreateAclsResponse(results=results), list(made.values()))


_SUCCESS = AclCreationResult()


def _all_refused(request: CreateAclsRequest, refusal: ApiError) -> Outcome:
    result = AclCreationResult(error_code=refusal.code, error_message=refusal.message)
    return Outcome(CreateAclsResponse(results=[result] * len(request.creations)))


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _validate(acl: Acl) -> ApiError | None:
    text = _fault_in_name(acl) or _fault_in_numbers(acl)
    if not text and ":" not in acl.principal:
        text = (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return ApiError(ErrorCode.INVALID_REQUEST, text) if text else None


def _fault_in_name(acl: Acl) -> str | None:
    if acl.resource_type == AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None if acl.resource_name else "Invalid empty resource name"


def _fault_in_numbers(acl: Acl) -> str | None:
    only_in_filters = (AclResourceType.ANY, PatternType.ANY, PatternType.MATCH, AclOperation.ANY, AclPermissionType.ANY)
    for what, member in (
        ("resourceType", known(AclResourceType, acl.resource_type)),
        ("patternType", known(PatternType, acl.pattern_type)),
        ("operation", known(AclOperation, acl.operation)),
        ("permissionType", known(AclPermissionType, acl.permission_type)),
    ):
        if member is None:
            return f"Invalid {what} UNKNOWN"
        if any(member is one for one in only_in_filters):
            return f"Invalid {what} {member.name}"
    return None


def _validate_room(entries: int) -> ApiError | None:
    if entries < MAX_ACLS:
        return None
    return ApiError(ErrorCode.POLICY_VIOLATION, f"The cluster has {entries} ACLs; at most {MAX_ACLS} are possible.")
