"""Metadata records about security.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class AccessControlEntryRecord(Message):
    id: Uuid = field("uuid", default=ZERO_UUID)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    pattern_type: int = field("int8", default=0)
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


@message
class RemoveAccessControlEntryRecord(Message):
    id: Uuid = field("uuid", default=ZERO_UUID)


@message
class UserScramCredentialRecord(Message):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)
    salt: bytes = field("bytes", default=b"")
    stored_key: bytes = field("bytes", default=b"")
    server_key: bytes = field("bytes", default=b"")
    iterations: int = field("int32", default=0)


@message
class RemoveUserScramCredentialRecord(Message):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)


@message
class DelegationTokenRecord(Message):
    owner: str = field("string", default="")
    requester: str = field("string", default="")
    renewers: Sequence[str] = field(["string"], default=())
    issue_timestamp: int = field("int64", default=0)
    max_timestamp: int = field("int64", default=0)
    expiration_timestamp: int = field("int64", default=0)
    token_id: str = field("string", default="")


@message
class RemoveDelegationTokenRecord(Message):
    token_id: str = field("string", default="")


ACCESS_CONTROL_ENTRY = RecordType(
    id=18,
    name="AccessControlEntryRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=AccessControlEntryRecord,
)

REMOVE_ACCESS_CONTROL_ENTRY = RecordType(
    id=19,
    name="RemoveAccessControlEntryRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=RemoveAccessControlEntryRecord,
)

USER_SCRAM_CREDENTIAL = RecordType(
    id=11,
    name="UserScramCredentialRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=UserScramCredentialRecord,
)

REMOVE_USER_SCRAM_CREDENTIAL = RecordType(
    id=22,
    name="RemoveUserScramCredentialRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=RemoveUserScramCredentialRecord,
)

DELEGATION_TOKEN = RecordType(
    id=10,
    name="DelegationTokenRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=DelegationTokenRecord,
)

REMOVE_DELEGATION_TOKEN = RecordType(
    id=26,
    name="RemoveDelegationTokenRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=RemoveDelegationTokenRecord,
)
