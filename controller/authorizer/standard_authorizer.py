"""Kafka's StandardAuthorizer: super users, the default for resources without entries, and the rights of one requester.

Handlers use `Access` through the request context. If everything is allowed (no authorizer, a super user, the cluster's
own brokers) there is no `Access`. Kafka's rules for the early start of a broker are not needed, because entries are
read before the first request is served.
"""

from collections.abc import Callable, Iterable

from klamm.controller.authorizer.acl_index import AclIndex, Rights
from klamm.controller.authorizer.acls import RESOURCE_OPERATIONS, AclOperation, AclResourceType
from klamm.quick_dataclasses import dataclass


class Access:
    """The rights of one requester according to the present entries. Made for one request."""

    __slots__ = ("_acls", "_allow_if_no_acl", "_host", "_principal")

    def __init__(self, acls: AclIndex, principal: str, host: str, *, allow_if_no_acl: bool) -> None:
        self._acls = acls
        self._principal = principal
        self._host = host
        self._allow_if_no_acl = allow_if_no_acl

    def allows(self, operation: AclOperation, resource_type: AclResourceType, resource_name: str) -> bool:
        """Whether the requester may do this to this resource, which need not exist."""
        return self._rights(operation, resource_type).allow_name(resource_name)

    def allows_some(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there may be a resource of the type to which the requester may do this."""
        return self._rights(operation, resource_type).allow_some()

    def permits(self, operation: AclOperation, resource_type: AclResourceType) -> Callable[[str], bool]:
        """The same for any number of names."""
        return self._rights(operation, resource_type).allow_name

    def denied(self, operation: AclOperation, resource_type: AclResourceType, names: Iterable[str]) -> frozenset[str]:
        """Those of the names to which the requester may not do this."""
        rights = self._rights(operation, resource_type)
        if rights.allow_everything():
            return frozenset()
        return frozenset(name for name in names if not rights.allow_name(name))

    def operations(self, resource_type: AclResourceType, names: Iterable[str]) -> list[int]:
        """For each resource the operations that the requester may perform, as bits of `AclOperation` (KIP-430)."""
        always, sometimes = 0, []
        for operation in RESOURCE_OPERATIONS[resource_type]:
            rights = self._rights(operation, resource_type)
            if rights.allow_everything():
                always |= 1 << operation
            elif rights.allow or rights.any_entry is not None:
                sometimes.append((1 << operation, rights))
        return [always + sum(bit for bit, rights in sometimes if rights.allow_name(name)) for name in names]

    def _rights(self, operation: AclOperation, resource_type: AclResourceType) -> Rights:
        return self._acls.rights(
            self._principal, self._host, operation, resource_type, allow_if_no_acl=self._allow_if_no_acl
        )


@dataclass(frozen=True, slots=True)
class StandardAuthorizer:
    """The configured authorizer."""

    super_users: frozenset[str] = frozenset()
    allow_if_no_acl: bool = False

    def access(self, acls: AclIndex, principal: str, host: str) -> Access | None:
        """The rights of a requester; None: everything is allowed."""
        if principal in self.super_users:
            return None
        return Access(acls, principal, host, allow_if_no_acl=self.allow_if_no_acl)


def all_operations(resource_type: AclResourceType) -> int:
    """The operations on a resource of this type, as bits of `AclOperation`, for a requester that may do everything."""
    return sum(1 << operation for operation in RESOURCE_OPERATIONS[resource_type])
