"""Messages to bytes and back: the border where whatever emitted code raises becomes `ProtocolError`.

The decoder is as lenient as Kafka's generated readers: any negative length is null where null is allowed, tagged
fields come in any order, any byte but zero is true. Stricter than they: a string must be UTF-8 unless the caller says
otherwise, a tagged field takes exactly the bytes it declares, and no bytes are left over.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from protocol.codec.streams import MALFORMED_TEXT, Buffer, Cursor
from protocol.columns import Columns
from protocol.errors import ProtocolError
from protocol.fields import Message, cached

M = TypeVar("M", bound=Message)
MAX_INTERPRETED_BYTES = 1 << 20
"""Longer messages are not decoded a second time, the slow way, when the compiled way failed."""


_Key = tuple[type[Message], int, bool]
_parsers: dict[_Key, Callable[[Cursor, None], Any]] = {}
_builders: dict[_Key, Callable[[Message, Buffer, None], None]] = {}


def _compile(key: _Key) -> None:
    """Make the functions that run: those which `compile()` emits from the construct schema."""
    from protocol.codec.schema import compiled_schema  # construct is not imported before its first use

    compiled = compiled_schema(*key)
    _parsers[key] = compiled.parsefunc
    _builders[key] = compiled.buildfunc


def running_functions(message_class: type[Message], version: int, flexible: bool) -> tuple[Any, Any] | None:
    """The functions in use for this message and version, parsing and building; None before its first use."""
    key = (message_class, version, flexible)
    return (_parsers[key], _builders[key]) if key in _parsers else None


def decode_message(message_class: type[M], version: int, flexible: bool, data: bytes) -> M:
    """The message whose bytes are `data`, all of them."""
    message, end = decode_message_at(message_class, version, flexible, data, 0)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes left over", offset=end)
    return message


def decode_message_at(
    message_class: type[M], version: int, flexible: bool, data: bytes, offset: int, *, malformed_text: bool = False
) -> tuple[M, int]:
    """The message at `offset`, and the offset after it.

    With `malformed_text`, what is no UTF-8 in a string becomes U+FFFD, as in Kafka's own readers; else it is an error.
    """
    key = (message_class, version, flexible)
    if key not in _parsers:
        _compile(key)
    cursor = Cursor(data, offset)
    try:
        message: M = _parsers[key](cursor, None)
    except Exception as error:
        if malformed_text and isinstance(error, UnicodeDecodeError):
            return _interpret(message_class, version, flexible, data, offset)
        raise _decode_error(error, message_class, version, flexible, data, offset) from error
    return message, cursor.pos


@cached
def message_decoder(
    message_class: type[Message], version: int, flexible: bool
) -> Callable[[bytes, int], tuple[Message, int]]:
    """`decode_message_at` for one message and version, for those who decode very many."""
    key = (message_class, version, flexible)
    if key not in _parsers:
        _compile(key)
    parse = _parsers[key]

    def decode(data: bytes, offset: int) -> tuple[Message, int]:
        cursor = Cursor(data, offset)
        try:
            message: Message = parse(cursor, None)
        except Exception as error:
            raise _decode_error(error, message_class, version, flexible, data, offset) from error
        return message, cursor.pos

    return decode


def _interpret(
    message_class: type[M], version: int, flexible: bool, data: bytes, offset: int, context: object = MALFORMED_TEXT
) -> tuple[M, int]:
    """Decode by the interpreted schema: slow, but it explains errors, and it knows the seldom ways."""
    from protocol.codec.schema import schema

    if len(data) - offset > MAX_INTERPRETED_BYTES:
        raise ProtocolError("not decoded", offset=offset, path=message_class.__name__)
    cursor = Cursor(data, offset)
    message: Any = schema(message_class, version, flexible)._parse(cursor, context, "")
    return message, cursor.pos


def encode_message(message: Message, version: int, flexible: bool) -> bytes:
    """The bytes of `message`; ProtocolError if this version cannot carry it."""
    out = Buffer()
    encode_message_into(out, message, version, flexible)
    return bytes(out)


def encode_message_into(out: Buffer, message: Message, version: int, flexible: bool) -> None:
    """Append the bytes of `message`; on an error `out` is as it was."""
    key = (type(message), version, flexible)
    if key not in _builders:
        _compile(key)
    start = len(out)
    try:
        _builders[key](message, out, None)
    except Exception as error:
        del out[start:]
        raise _encode_error(error, message, version, flexible) from error


def encode_columns_into(
    out: Buffer, columns: Columns[Any], message_class: type[Message], version: int, flexible: bool
) -> None:
    """Append the bytes of all rows, without a count; emitted code comes here for the arrays that are columns."""
    from protocol.codec.columns import build_columns  # NumPy is not imported before its first use

    if columns.message_class is not message_class:
        raise ProtocolError(f"columns of {columns.message_class.__name__}, not of {message_class.__name__}")
    key = (message_class, version, flexible)
    if key not in _builders:
        _compile(key)
    build_columns(out, columns, version, flexible, _builders[key])


def _decode_error(
    error: Exception, message_class: type[Message], version: int, flexible: bool, data: bytes, offset: int
) -> ProtocolError:
    """Asks the interpreted schema what was wrong, and where."""
    if len(data) - offset <= MAX_INTERPRETED_BYTES:
        try:
            _interpret(message_class, version, flexible, data, offset, context=None)
        except ProtocolError as explained:
            return explained
    reason = error.reason if isinstance(error, ProtocolError) else f"{type(error).__name__}: {error}"
    return ProtocolError(reason, offset=getattr(error, "offset", -1), path=message_class.__name__)


def _encode_error(error: Exception, message: Message, version: int, flexible: bool) -> ProtocolError:

    from protocol.codec.schema import schema

    try:
        schema(type(message), version, flexible)._build(message, Buffer(), None, "")
    except ProtocolError as explained:
        return explained
    reason = error.reason if isinstance(error, ProtocolError) else f"{type(error).__name__}: {error}"
    return ProtocolError(reason, path=type(message).__name__)
