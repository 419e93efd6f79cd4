"""ACL requests that Kafka does not even read: those with the number 0, UNKNOWN, for a type, operation or permission.

It closes the connection on them. Other numbers that mean nothing are read, and refused by the handlers.
"""

from collections.abc import Callable, Mapping
from typing import Any

from klamm.protocol.api import Api
from klamm.protocol.messages.security import create_acls, delete_acls, describe_acls
from klamm.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest
from klamm.protocol.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from klamm.protocol.messages.security.describe_acls import DescribeAclsRequest


def _filter_is_unreadable(one: DescribeAclsRequest | DeleteAclsFilter) -> bool:
    return 0 in (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)


def _deletion_is_unreadable(request: DeleteAclsRequest) -> bool:
    return any(map(_filter_is_unreadable, request.filters))


def _creation_is_unreadable(request: CreateAclsRequest) -> bool:
    return any(map(_entry_is_unreadable, request.creations))


def _entry_is_unreadable(one: AclCreation) -> bool:
    return 0 in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)


UNREADABLE: Mapping[Api[Any, Any], Callable[[Any], bool]] = {
    describe_acls.API: _filter_is_unreadable,
    create_acls.API: _creation_is_unreadable,
    delete_acls.API: _deletion_is_unreadable,
}
"""Whether a request of this API is one that Kafka does not read."""
