"""CreateAcls: API key 30, versions 1 to 3, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AclCreation(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    resource_pattern_type: int = field("int8", default=3)
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
    error_message: str | None = field("string", default="", nullable_since=1)


@message
class CreateAclsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AclCreationResult] = field([AclCreationResult], default=())


API = Api(
    key=30,
    name="CreateAcls",
    versions=span(1, 3),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=3,
    request=CreateAclsRequest,
    response=CreateAclsResponse,
)
