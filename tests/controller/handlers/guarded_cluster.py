"""A driven cluster with an authorizer. Requests come from the principal that the test sets, otherwise from the cluster
itself."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from klamm.controller.authorizer import (
    CLUSTER_NAME,
    STANDARD_AUTHORIZER,
    AclOperation,
    AclPermissionType,
    AclResourceType,
)
from klamm.controller.authorizer import PatternType as Pattern
from klamm.controller.core import Answer, Call
from klamm.protocol.api import Listener
from klamm.protocol.codec.requests import encode_request, read_request
from klamm.protocol.fields import Message
from klamm.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from klamm.protocol.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from klamm.protocol.messages.security.describe_acls import DescribeAclsRequest
from tests.controller.handlers.cluster import APIS, DrivenCluster

ALICE, BOB = "User:alice", "User:bob"
LOOPBACK = "127.0.0.1"
GUARDED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin;User:broker"}
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


class GuardedCluster(DrivenCluster):
    """`principal` and `host` apply to the requests that follow."""

    def __init__(self, brokers: int = 3, *, configs: Mapping[str, str] | None = None, **fields: Any) -> None:
        self.principal: str | None = None
        self.host = LOOPBACK
        super().__init__(brokers, configs={**GUARDED, **(configs or {})}, **fields)

    def submit(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Answer:
        self.note_registration(request)
        api = APIS[type(request)]
        version = api.latest_stable if version is None else version
        listener: Listener = "controller" if broker_id is None or "broker" not in api.listeners else "broker"
        _, _, read = read_request(encode_request(api, version, 1, "test", request))
        requested = broker_id if listener == "broker" else None
        return self.controller.submit(Call(api, version, read, listener, requested, "test", self.principal, self.host))

    @contextmanager
    def asking(self, principal: str | None = ALICE, host: str = LOOPBACK) -> Iterator[None]:
        """Requests in the block come from this principal and host."""
        before = self.principal, self.host
        self.principal, self.host = principal, host
        yield
        self.principal, self.host = before

    def grant(self, *acls: AclCreation) -> None:
        """Create ACLs; an error fails the test."""
        with self.asking(None):
            response: CreateAclsResponse = self.ask(CreateAclsRequest(creations=acls))
        assert [result.error_code for result in response.results] == [0] * len(acls)

    def revoke_all(self) -> None:
        with self.asking(None):
            self.ask(DeleteAclsRequest(filters=[deletion()]))


def entry(
    operation: int,
    name: str = "t",
    resource_type: int = AclResourceType.TOPIC,
    *,
    pattern: int = Pattern.LITERAL,
    principal: str = ALICE,
    host: str = "*",
    permission: int = ALLOW,
) -> AclCreation:
    """An entry in the form of CreateAcls."""
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def cluster_entry(operation: int, **fields: Any) -> AclCreation:
    return entry(operation, CLUSTER_NAME, AclResourceType.CLUSTER, **fields)


_ANY: Mapping[str, Any] = {
    "resource_type_filter": AclResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": Pattern.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": AclPermissionType.ANY,
}


def deletion(**fields: Any) -> DeleteAclsFilter:
    """A filter that matches everything that `fields` do not exclude."""
    return DeleteAclsFilter(**{**_ANY, **fields})


def description(**fields: Any) -> DescribeAclsRequest:
    """A request for everything that `fields` do not exclude."""
    return DescribeAclsRequest(**{**_ANY, **fields})


def codes(items: Iterable[Any]) -> list[int]:
    return [item.error_code for item in items]
