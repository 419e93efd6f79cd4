"""ACL requests that Kafka cannot read: those with the value 0, UNKNOWN, as a type, operation or permission.

Kafka closes the connection when it gets one. It reads other undefined values, and the handlers refuse them.
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
"""For each API, whether Kafka cannot read a request."""
