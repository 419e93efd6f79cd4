"""A request and the rights that allow it: the type of the rows in `authorization_rows`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.security import create_acls
from tests.controller.handlers.guarded_cluster import cluster_entry, entry

GROUP = AclResourceType.GROUP
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DENIALS = frozenset({TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED})


class Right(NamedTuple):
    """A right on the resource of the request, or on the cluster."""

    operation: AclOperation
    resource_type: AclResourceType | None = None

    def entry(self, name: str, **fields: Any) -> create_acls.AclCreation:
        if self.resource_type is None:
            return cluster_entry(self.operation, **fields)
        return entry(self.operation, name, self.resource_type, **fields)


def topic(operation: AclOperation) -> Right:
    return Right(operation, AclResourceType.TOPIC)


def on_cluster(operation: AclOperation) -> Right:
    return Right(operation)


def transaction(operation: AclOperation) -> Right:
    return Right(operation, AclResourceType.TRANSACTIONAL_ID)


def group(operation: AclOperation) -> Right:
    return Right(operation, GROUP)


@dataclass(frozen=True)
class Row:
    """A request about a resource, and the rights for it, each of which is enough."""

    what: str
    api: Api[Any, Any]
    request: Callable[[str], Message]
    rights: Sequence[Right]
    refusal: ErrorCode
    version: int | None = None
    by_controller: bool = False
    besides: Sequence[create_acls.AclCreation] = ()
    """Rights of the requester on other resources."""
