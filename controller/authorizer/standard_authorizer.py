"""Kafka's StandardAuthorizer: who may do anything, what holds where no entry says anything, and what one requester may.

`Access` is what handlers ask, by way of the request context. Where everything is allowed (no authorizer, a super user,
the cluster's own brokers) there is none. Rules for a broker's early start are not needed: entries are read before the
first request is served.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from klamm.controller.authorizer.acl_index import AclIndex, Rights
from klamm.controller.authorizer.acls import RESOURCE_OPERATIONS, AclOperation, AclResourceType


class Access:
    """What one requester may do, by the entries as they are. Made for one request."""

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
        """For each resource what the requester may do, as bits of `AclOperation` (KIP-430)."""
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
    """The configuration of the authorizer."""

    super_users: frozenset[str] = frozenset()
    allow_if_no_acl: bool = False

    def access(self, acls: AclIndex, principal: str, host: str) -> Access | None:
        """What a requester may do; None: everything."""
        if principal in self.super_users:
            return None
        return Access(acls, principal, host, allow_if_no_acl=self.allow_if_no_acl)


def all_operations(resource_type: AclResourceType) -> int:
    """What may be done to a resource by those who may do everything, as bits."""
    return sum(1 << operation for operation in RESOURCE_OPERATIONS[resource_type])
