"""The answer to a request that met a bug of ours: UNKNOWN_SERVER_ERROR, in whatever place its response has for it.

Responses with an error code of their own say it there. Others have one per item: every item of the request is answered
with it, under the names that both sides of the API give an item (a topic's name or id, a config resource).
"""

from collections.abc import Iterable
from typing import Any

from controller.core import Call
from protocol.errors import ErrorCode
from protocol.fields import Array, Message, WireField, wire_fields


def unknown_server_error(call: Call) -> Message | None:
    """The response that refuses all of `call`; None where its API has no place for an error."""
    response = call.api.response
    fields = _fields(response, call.api_version)
    if "error_code" in fields:
        whole: Message = response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return whole
    for wire in fields.values():
        item = _element(wire)
        if item is not None and "error_code" in _fields(item, call.api_version):
            itemised: Message = response(**{wire.name: [_refused(item, asked) for asked in _items(call)]})
            return itemised
    return None


def _fields(message_class: type[Message], version: int) -> dict[str, WireField]:
    return {wire.name: wire for wire in wire_fields(message_class) if wire.in_version(version)}


def _element(wire: WireField) -> type[Message] | None:
    of = wire.type.of if isinstance(wire.type, Array) else None
    return of if isinstance(of, type) else None


def _items(call: Call) -> Iterable[Any]:
    """What the request asks for, item by item: its first array that is not empty."""
    for wire in _fields(type(call.request), call.api_version).values():
        if isinstance(wire.type, Array) and (items := getattr(call.request, wire.name)):
            return items  # type: ignore[no-any-return]
    return ()


def _refused(item: type[Message], asked: object) -> Message:
    if isinstance(asked, str):  # an old version that asks by bare names
        return item(name=asked, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)  # type: ignore[call-arg]
    both = {wire.name for wire in wire_fields(item)} & {wire.name for wire in wire_fields(type(asked))}  # type: ignore[arg-type]
    named = {name: getattr(asked, name) for name in both & {"name", "topic_id", "resource_type", "resource_name"}}
    return item(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, **named)  # type: ignore[call-arg]
