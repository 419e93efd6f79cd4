"""CreateAcls: API key 30, versions 0 to 3, flexible from 2.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AclCreation(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    resource_pattern_type: int = field("int8", default=3, since=1)
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


@message
class CreateAclsRequest(Message):
    creations: Sequence[AclCreation] = field([AclCreation], default=())


@message
class AclCreationResult(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)


@message
class CreateAclsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AclCreationResult] = field([AclCreationResult], default=())


API = Api(
    key=30,
    name="CreateAcls",
    versions=span(0, 3),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=3,
    removed_before=1,
    request=CreateAclsRequest,
    response=CreateAclsResponse,
)
