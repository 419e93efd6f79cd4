"""Finds the errors in a response: every struct whose error code is not zero, and the topic or resource it is about.

Works on any response message. The declaration says which fields can contain error codes, so responses without errors
are fast. Columns are searched as arrays; only rows with errors become messages. No I/O here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypedDict

from klamm.protocol.columns import Columns, ColumnsSlice, Parts, is_column
from klamm.protocol.fields import Array, Message, wire_fields
from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.quick_dataclasses import dataclass
from klamm.server.limits import KIB

MAX_ERRORS_PER_RESPONSE = 1_000
"""Further errors of a response are left out of the list."""
MAX_ERROR_BYTES = 256 * KIB
"""The errors of a response take at most this much as JSON. Those that would take more are left out of the list."""
MAX_TEXT_CHARACTERS = 256
"""A longer name or error message is cut to this length, and an ellipsis follows."""
BYTES_OF_ERROR = 160
"""An error as JSON without its texts."""
ESCAPED_BYTES = 12
"""The most bytes of one character in JSON: two escaped surrogates."""
_TEXTS: tuple[Literal["topic_name", "resource_name", "error_message"], ...] = (
    "topic_name",
    "resource_name",
    "error_message",
)


class ResponseError(TypedDict):
    """One error. If it refuses the whole request, all its subjects are None."""

    topic_name: str | None
    topic_id: str | None
    partition_index: int | None
    resource_type: int | None
    resource_name: str | None
    error_code: int
    error_message: str | None


_Subject = Literal["topic_name", "topic_id", "partition_index", "resource_type", "resource_name"]
# One subject has several field names in Kafka's messages; the first that a struct has is used.
_CODE_NAMES = ("error_code", "partition_error_code")
_SUBJECT_NAMES: dict[_Subject, tuple[str, ...]] = {
    "topic_name": ("topic_name", "topic", "name"),
    "topic_id": ("topic_id",),
    "partition_index": ("partition_index", "partition_id", "index", "partition"),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
}
_SUBJECT_TYPES: dict[_Subject, str] = {"topic_name": "string", "topic_id": "uuid", "resource_name": "string"}


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fields of one message class that have error codes, or contain them."""

    code: str | None
    message: str | None
    subject: Mapping[_Subject, str]
    """Member of `ResponseError` -> field that holds it."""
    nested: tuple[str, ...]
    """Fields whose messages may hold errors."""


_plans: dict[type[Message], _Plan | None] = {}  # by class, of which there are a few hundred
_Sound = dict[int, bool]
"""By the `id()` of a Columns object: whether none of its rows has an error. All slices of it share the result."""


def collect_errors(response: Message) -> list[ResponseError]:
    """The errors in `response`, in the order of its fields, up to `MAX_ERRORS_PER_RESPONSE` and `MAX_ERROR_BYTES`. Long
    texts are shortened."""
    errors: list[ResponseError] = []
    left = MAX_ERROR_BYTES
    for error in islice(_errors(response, {}), MAX_ERRORS_PER_RESPONSE):
        left -= BYTES_OF_ERROR
        for member in _TEXTS:
            text = error[member] = shortened_text(error[member])
            left -= _json_bytes(text) if text else 0
        if left < 0:
            break
        errors.append(error)
    return errors


def shortened_text(text: str | None) -> str | None:
    """The text, cut after `MAX_TEXT_CHARACTERS`."""
    return text if text is None or len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}…"


def _json_bytes(text: str) -> int:
    plain = text.isascii() and text.isprintable()
    return len(text) if plain else ESCAPED_BYTES * len(text)


def _errors(message: Message, sound: _Sound) -> Iterator[ResponseError]:
    plan = _plan(type(message))
    if plan is None or _refuses_nothing(message, plan, sound):
        return
    if plan.code and (code := getattr(message, plan.code)):
        yield _with_subject(
            _response_error(code, getattr(message, plan.message) if plan.message else None), message, plan
        )
    for name in plan.nested:
        value = getattr(message, name)
        for element in (value,) if isinstance(value, Message) else _rows_with_errors(value or ()):
            for error in _errors(element, sound):
                yield _with_subject(error, message, plan)


def _refuses_nothing(message: Message, plan: _Plan, sound: _Sound) -> bool:
    """Whether a quick check finds no error: no error code is set, and all nested arrays are slices of Columns without
    errors. False: there may be one."""
    if plan.code and getattr(message, plan.code):
        return False
    for name in plan.nested:
        value = getattr(message, name)
        if value.__class__ is not ColumnsSlice:
            return False
        whole = value.whole
        if (known := sound.get(id(whole))) is None:
            known = sound[id(whole)] = not any(True for _ in _rows_with_errors(whole))
        if not known:
            return False
    return True


def _rows_with_errors(messages: Sequence[Message]) -> Iterable[Message]:
    """Those messages of an array that may hold errors."""
    return (messages[row] for row in _refused_rows(messages)) if isinstance(messages, Columns) else messages


def _refused_rows(columns: Columns[Message]) -> Sequence[int]:
    """The indexes of the rows that may hold errors, ascending."""
    plan = _plan(columns.message_class)
    rows: set[int] = set()
    codes: Any = columns.column(plan.code) if plan and plan.code else None
    if is_column(codes):
        rows.update(codes.nonzero()[0].tolist())
    elif codes:
        return range(len(columns))
    for name in plan.nested if plan else ():
        value = columns.column(name)
        if isinstance(value, Parts):
            rows.update((value.bounds.searchsorted(_refused_rows(value.whole), side="right") - 1).tolist())
        elif value:
            return range(len(columns))
    return sorted(row for row in rows if 0 <= row < len(columns))


def _response_error(code: int, error_message: str | None) -> ResponseError:
    return {
        "topic_name": None,
        "topic_id": None,
        "partition_index": None,
        "resource_type": None,
        "resource_name": None,
        "error_code": int(code),
        "error_message": error_message or None,
    }


def _with_subject(error: ResponseError, message: Message, plan: _Plan) -> ResponseError:
    """Fill in the subjects of the error from `message`, unless a struct nested deeper has already set them."""
    for member, name in plan.subject.items():
        if error[member] is None:
            value = getattr(message, name)
            error[member] = (str(value) if value != ZERO_UUID else None) if isinstance(value, Uuid) else value
    return error


def _plan(message_class: type[Message]) -> _Plan | None:
    """The plan of a message class; None if neither it nor any nested struct has an error code."""
    if message_class not in _plans:
        _plans[message_class] = _make_plan(message_class)
    return _plans[message_class]


def _make_plan(message_class: type[Message]) -> _Plan | None:
    fields = {wire.name: wire for wire in wire_fields(message_class)}
    code = next((name for name in _CODE_NAMES if name in fields), None)
    nested = []
    for name, wire in fields.items():
        inner = wire.type.of if isinstance(wire.type, Array) else wire.type
        if isinstance(inner, type) and _plan(inner) is not None:
            nested.append(name)
    if code is None and not nested:
        return None
    subject = {
        member: name
        for member, names in _SUBJECT_NAMES.items()
        for name in islice((n for n in names if n in fields and _fits(member, fields[n].type)), 1)
    }
    return _Plan(code, "error_message" if "error_message" in fields else None, subject, tuple(nested))


def _fits(member: _Subject, wire_type: object) -> bool:
    """Whether a field's type is right for the member. An array called `topic`, for example, is not a topic's name."""
    expected = _SUBJECT_TYPES.get(member)
    return wire_type == expected if expected else isinstance(wire_type, str) and wire_type.startswith("int")
