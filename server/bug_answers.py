"""The answer that refuses a request as a whole: one that failed because of a bug in Klamm (UNKNOWN_SERVER_ERROR), that
came during an authentication, or that a simulated fault refuses.

A response with an error code at the top has it there. Other responses have an error code for each item, or for each
item of an item. Then each item of the request gets it, with the fields that name the item in request and response (a
topic's name or id, the index of a partition, a config resource).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from klamm.broker.handlers.alter_replica_log_dirs import refuse_moves
from klamm.broker.handlers.batches_written import ACKS_OF_NONE
from klamm.controller.core import Call
from klamm.controller.handlers.scram.alter_user_scram_credentials import refuse_users
from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Array, Message, WireField, wire_fields
from klamm.protocol.messages.brokers.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from klamm.protocol.messages.data.produce import ProduceRequest
from klamm.protocol.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest

NAMES = frozenset(
    {"name", "topic", "topic_id", "topic_name", "resource_type", "resource_name", "index", "partition", "partition_id",
     "partition_index", "transactional_id", "producer_id", "group_id", "key"}
)  # fmt: skip
"""Fields that name an item, in requests and in responses."""
CODES = ("error_code", "partition_error_code")
"""The names of error codes; the second one is that of AddPartitionsToTxn up to version 3."""


def unknown_server_error(call: Call) -> Message | None:
    """The response to a request that failed because of a bug, as `refuse_all` makes it."""
    return refuse_all(call, ErrorCode.UNKNOWN_SERVER_ERROR)


def refuse_all(call: Call, error: ErrorCode) -> Message | None:
    """The response that refuses all of `call` by an error. None if its response has no error code, or if the client
    expects no response and would take this one for the response to its next request."""
    if isinstance(call.request, ProduceRequest) and call.request.acks == ACKS_OF_NONE:
        return None
    return refused_whole(call.api, call.api_version, call.request, error)


def refused_whole(api: Api[Any, Any], version: int, request: Message, code: ErrorCode) -> Message | None:
    """The response that refuses all of a request with one error code. None if the response has no error code."""
    if isinstance(request, AlterReplicaLogDirsRequest):  # its items are by directory, and their results are not
        return refuse_moves(request, code)
    if isinstance(request, AlterUserScramCredentialsRequest):  # its two arrays have one array of results
        return refuse_users(request, code)
    response = api.response
    fields = _fields(response, version)
    if named := _code(fields):
        whole: Message = response(**{named: code})
        return whole
    place = next(_places(response, version), None)
    if place is None:
        return None
    name, item = place
    itemised: Message = response(**{name: [_refused(item, one, version, code) for one in _items(request, version)]})
    return itemised


def _fields(message_class: type[Message], version: int) -> dict[str, WireField]:
    return {wire.name: wire for wire in wire_fields(message_class) if wire.in_version(version)}


def _code(fields: Mapping[str, WireField]) -> str | None:
    return next((name for name in CODES if name in fields), None)


def _places(message_class: type[Message], version: int) -> Iterator[tuple[str, type[Message]]]:
    """The arrays of a message whose elements have an error code, or contain an array whose elements do."""
    for wire in _fields(message_class, version).values():
        item = wire.type.of if isinstance(wire.type, Array) else None
        if isinstance(item, type) and (_code(_fields(item, version)) or any(_places(item, version))):
            yield wire.name, item


def _items(asked: Any, version: int) -> Iterable[Any]:
    """The items of a request: the elements of its first array that is not empty."""
    for wire in _fields(type(asked), version).values():
        if isinstance(wire.type, Array) and (items := getattr(asked, wire.name)):
            return items  # type: ignore[no-any-return]
    return ()


def _refused(item: type[Message], asked: Any, version: int, error: ErrorCode) -> Message:
    fields = _fields(item, version)
    values: dict[str, Any]
    if isinstance(asked, Message):
        both = fields.keys() & _fields(type(asked), version).keys() & NAMES
        values = {name: getattr(asked, name) for name in both}
    else:  # topic names as plain strings in old versions, or partition indexes
        kind = "string" if isinstance(asked, str) else "int32"
        values = {name: asked for name in fields.keys() & NAMES if fields[name].type == kind}
    if code := _code(fields):
        values[code] = error
        return item(**values)
    name, inner = next(_places(item, version))
    return item(**values, **{name: [_refused(inner, one, version, error) for one in _items(asked, version)]})
