"""DeleteAcls (31): removes the access control entries that filters match, and returns them for each filter.

All filters are compared with the entries from before the request: an entry that two filters match is in both results.
A request that would remove, compare or return too many entries is refused as a whole and removes nothing.
"""

from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import Acl, AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.handlers.acls.acl_filter import AclFilter
from klamm.controller.handlers.acls.create_acls import MAX_CHANGES_PER_REQUEST, SWITCHED_OFF
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.security.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from klamm.protocol.records.security import RemoveAccessControlEntryRecord
from klamm.protocol.uuid import Uuid

MAX_COMPARISONS_PER_REQUEST = 1_000_000
"""The limit is about one second of work. A filter with a resource name is compared only with entries that fit the
name."""


def handle_delete_acls(image: MetadataImage, request: DeleteAclsRequest, context: RequestContext) -> Outcome:
    """One result per filter, in request order."""
    refusal = context.refuse_cluster(AclOperation.ALTER)
    if refusal is None and context.settings.authorizer is None:
        refusal = SWITCHED_OFF
    if refusal:
        return _all_refused(request, refusal)
    results: list[DeleteAclsFilterResult] = []
    removed: dict[Uuid, Record] = {}
    left = MAX_COMPARISONS_PER_REQUEST
    room = AnswerRoom()
    for one in request.filters:
        wanted = AclFilter.of(one)
        fault = _validate(wanted)
        if fault:
            results.append(_refused(fault))
            continue
        matching = []
        matches = wanted.matcher()
        for acl_id, acl in wanted.candidates(image.acls):
            left -= 1
            if matches(acl):
                shown = _matching(acl)
                if not room.take(acl_id, encoded_at_most(shown)):
                    return _all_refused(request, NO_ROOM)
                matching.append(shown)
                removed[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
            if len(removed) > MAX_CHANGES_PER_REQUEST:
                return _all_refused(request, _too_many("remove", MAX_CHANGES_PER_REQUEST))
            if left < 0:
                return _all_refused(request, _too_many("look at", MAX_COMPARISONS_PER_REQUEST))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return Outcome(DeleteAclsResponse(filter_results=results), list(removed.values()))


def _validate(wanted: AclFilter) -> ApiError | None:
    if not wanted.knows_its_resources:
        return ApiError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if not wanted.knows_its_entries:
        return ApiError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return None


def _too_many(what: str, most: int) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"Cannot {what} more than {most} acls in a single delete operation.")


def _all_refused(request: DeleteAclsRequest, refusal: ApiError) -> Outcome:
    return Outcome(DeleteAclsResponse(filter_results=[_refused(refusal)] * len(request.filters)))


def _refused(refusal: ApiError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=refusal.code, error_message=refusal.message)


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(error_message=None, **acl._asdict())
