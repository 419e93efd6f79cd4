"""Filters of access control entries: what DescribeAcls shows and DeleteAcls removes.

A null name and the value ANY match everything. The pattern type MATCH with a name finds every entry that applies to the
resource of that name: literal entries, prefixed entries whose name is a prefix of it, and "*" (KIP-290).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Self, TypeVar

from klamm.controller.authorizer import WILDCARD, Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from klamm.controller.metadata.acls import AclTable
from klamm.protocol.messages.security.delete_acls import DeleteAclsFilter
from klamm.protocol.messages.security.describe_acls import DescribeAclsRequest
from klamm.protocol.uuid import Uuid

Kind = TypeVar("Kind", AclResourceType, PatternType, AclOperation, AclPermissionType)


def known(kind: type[Kind], number: int) -> Kind | None:
    """The member of the enumeration with this number; None if there is none."""
    try:
        return kind(number)
    except ValueError:
        return None


class AclFilter(NamedTuple):
    """The entries that a request asks for."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @classmethod
    def of(cls, request: DescribeAclsRequest | DeleteAclsFilter) -> Self:
        return cls(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )

    @property
    def knows_its_resources(self) -> bool:
        """Whether the resource type and the pattern type are values that Kafka defines."""
        return None not in (known(AclResourceType, self.resource_type), known(PatternType, self.pattern_type))

    @property
    def knows_its_entries(self) -> bool:
        """Whether the operation and the permission are values that Kafka defines."""
        return None not in (known(AclOperation, self.operation), known(AclPermissionType, self.permission_type))

    def candidates(self, acls: AclTable) -> Iterator[tuple[Uuid, Acl]]:
        """The entries that may match: only those whose resource name fits."""
        if self.resource_name is None:
            return iter(acls.by_id.items())
        if self.pattern_type == PatternType.MATCH:
            return acls.starting(self.resource_name)
        return acls.named(self.resource_name)

    def matcher(self) -> Callable[[Acl], bool]:
        """A function that returns whether an entry matches the filter."""
        by_match = self.pattern_type == PatternType.MATCH
        free = (
            self.resource_type == AclResourceType.ANY,
            self.resource_name is None or by_match,
            self.pattern_type == PatternType.ANY or by_match,
            self.principal is None,
            self.host is None,
            self.operation == AclOperation.ANY,
            self.permission_type == AclPermissionType.ANY,
        )
        bound = [(at, value) for at, value in enumerate(self) if not free[at]]
        name = self.resource_name if by_match else None

        def matches(acl: Acl) -> bool:
            for at, value in bound:
                if acl[at] != value:
                    return False
            return name is None or _is_about(acl, name)

        return matches


def _is_about(acl: Acl, resource_name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return resource_name.startswith(acl.resource_name)
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name in (resource_name, WILDCARD)
