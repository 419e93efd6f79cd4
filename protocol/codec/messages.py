"""Encodes and decodes messages. Every exception of emitted code becomes a `ProtocolError` here.

The decoder is as lenient as Kafka's generated readers: any negative length is null where null is allowed, tagged fields
may have any order, and any byte but zero is true. It is stricter in these points: strings must be UTF-8 (unless
`text_errors` is "replace"), a tagged field has exactly its declared size, a varint has at most 32 bits, and no bytes
are left over.
"""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached

M = TypeVar("M", bound=Message)
MAX_EXPLAINED_BYTES = 1 << 16
"""The most bytes of a malformed message that is parsed again by the slow interpreted schema to explain the error."""

LONG_BYTES = 1 << 13
"""From this size on, decoding creates so many objects that the garbage collector runs, so it is paused."""

_Parse = Callable[[Cursor, None], Any]
_Build = Callable[[Any, Buffer, None], None]


@cached
def parse_function(message_class: type[Message], version: int, flexible: bool, text_errors: str) -> _Parse:
    """The parse function that `compile()` emitted for the construct schema."""
    from klamm.protocol.codec.schema import compiled_schema  # construct is not imported before its first use

    parse: _Parse = compiled_schema(message_class, version, flexible, text_errors).parsefunc
    return parse


@cached
def build_function(message_class: type[Message], version: int, flexible: bool) -> _Build:
    """The build function that `compile()` emitted for the construct schema."""
    from klamm.protocol.codec.schema import compiled_schema

    build: _Build = compiled_schema(message_class, version, flexible, "strict").buildfunc
    return build


def decode_message(message_class: type[M], version: int, flexible: bool, data: bytes) -> M:
    """The message encoded in `data`. Raises ProtocolError if it is malformed or bytes are left over."""
    message, end = decode_message_at(message_class, version, flexible, data, 0)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes left over", offset=end)
    return message


def decode_message_at(
    message_class: type[M], version: int, flexible: bool, data: bytes, offset: int, text_errors: str = "strict"
) -> tuple[M, int]:
    """The message at `offset`, and the offset after it. Raises ProtocolError if it is malformed.

    With `text_errors` "replace", invalid UTF-8 in a string becomes U+FFFD, as in Kafka's readers.
    """
    cursor = Cursor(data, offset)
    parse = parse_function(message_class, version, flexible, "strict")
    try:
        message: M = parse(cursor, None) if len(data) - offset < LONG_BYTES else _parse_long(parse, cursor)
    except Exception as error:
        if text_errors == "strict" or not isinstance(error, UnicodeDecodeError):
            raise _decode_error(error, message_class, version, flexible, cursor) from error
        return _decode_malformed_text(message_class, version, flexible, cursor)
    return message, cursor.pos


def _parse_long(parse: _Parse, cursor: Cursor) -> Any:
    """Parse while the garbage collector is paused. Otherwise it would visit the objects decoded so far again and again,
    which takes half of the time of a long Metadata response (measured)."""
    if not gc.isenabled():
        return parse(cursor, None)
    gc.disable()
    try:
        return parse(cursor, None)
    finally:
        gc.enable()


def _decode_malformed_text(message_class: type[M], version: int, flexible: bool, cursor: Cursor) -> tuple[M, int]:
    try:
        message: M = parse_function(message_class, version, flexible, "replace")(cursor, None)
    except Exception as error:
        raise _decode_error(error, message_class, version, flexible, cursor, "replace") from error
    return message, cursor.pos


@cached
def message_decoder(
    message_class: type[Message], version: int, flexible: bool
) -> Callable[[bytes, int], tuple[Message, int]]:
    """A function like `decode_message_at` for one message class and version, faster for very many messages."""
    parse = parse_function(message_class, version, flexible, "strict")

    def decode(data: bytes, offset: int) -> tuple[Message, int]:
        cursor = Cursor(data, offset)
        try:
            message: Message = parse(cursor, None)
        except Exception as error:
            raise _decode_error(error, message_class, version, flexible, cursor) from error
        return message, cursor.pos

    return decode


def encode_message(message: Message, version: int, flexible: bool) -> bytes:
    """The bytes of `message`. Raises ProtocolError if this version cannot hold its values."""
    out = Buffer()
    encode_message_into(out, message, version, flexible)
    return bytes(out)


def encode_message_into(out: Buffer, message: Message, version: int, flexible: bool) -> None:
    """Append the bytes of `message`. If it raises ProtocolError, `out` is unchanged."""
    start = len(out)
    try:
        build_function(type(message), version, flexible)(message, out, None)
    except Exception as error:
        del out[start:]
        raise _encode_error(error, message, version, flexible) from error


def _decode_error(
    error: Exception,
    message_class: type[Message],
    version: int,
    flexible: bool,
    cursor: Cursor,
    text_errors: str = "strict",
) -> ProtocolError:
    """Asks the interpreted schema what was wrong, and where. The compiled one left the cursor where it began."""
    from klamm.protocol.codec.schema import schema

    if cursor.remaining() <= MAX_EXPLAINED_BYTES:
        try:
            schema(message_class, version, flexible, text_errors)._parse(Cursor(cursor.data, cursor.pos), None, "")
        except ProtocolError as explained:
            return explained
    reason = error.reason if isinstance(error, ProtocolError) else f"{type(error).__name__}: {error}"
    return ProtocolError(reason, offset=getattr(error, "offset", -1), path=message_class.__name__)


def _encode_error(error: Exception, message: Message, version: int, flexible: bool) -> ProtocolError:
    """Asks the interpreted schema what was wrong, and where."""
    from klamm.protocol.codec.schema import schema

    try:
        schema(type(message), version, flexible)._build(message, Buffer(), None, "")
    except ProtocolError as explained:
        return explained
    reason = error.reason if isinstance(error, ProtocolError) else f"{type(error).__name__}: {error}"
    return ProtocolError(reason, path=type(message).__name__)
