"""Messages to bytes and back: the border where whatever emitted code raises becomes `ProtocolError`.

The decoder is as lenient as Kafka's generated readers: any negative length is null where null is allowed, tagged
fields come in any order, any byte but zero is true. Stricter than they: a string must be UTF-8 unless the caller says
otherwise, a tagged field takes exactly the bytes it declares, a varint has at most 32 bits, and no bytes are left over.
"""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached

M = TypeVar("M", bound=Message)
MAX_EXPLAINED_BYTES = 1 << 16
"""Longer messages that fail are not parsed a second time, the slow way, for the sake of a better explanation."""

LONG_BYTES = 1 << 13
"""From this size on, messages have objects enough to make the collector of cycles run."""

_Parse = Callable[[Cursor, None], Any]
_Build = Callable[[Any, Buffer, None], None]


@cached
def parse_function(message_class: type[Message], version: int, flexible: bool, text_errors: str) -> _Parse:
    """The function that parses, as `compile()` emitted it from the construct schema."""
    from klamm.protocol.codec.schema import compiled_schema  # construct is not imported before its first use

    parse: _Parse = compiled_schema(message_class, version, flexible, text_errors).parsefunc
    return parse


@cached
def build_function(message_class: type[Message], version: int, flexible: bool) -> _Build:
    """The function that builds, as `compile()` emitted it from the construct schema."""
    from klamm.protocol.codec.schema import compiled_schema

    build: _Build = compiled_schema(message_class, version, flexible, "strict").buildfunc
    return build


def decode_message(message_class: type[M], version: int, flexible: bool, data: bytes) -> M:
    """The message whose bytes are `data`, all of them."""
    message, end = decode_message_at(message_class, version, flexible, data, 0)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes left over", offset=end)
    return message


def decode_message_at(
    message_class: type[M], version: int, flexible: bool, data: bytes, offset: int, text_errors: str = "strict"
) -> tuple[M, int]:
    """The message at `offset`, and the offset after it.

    With `text_errors` "replace", what is no UTF-8 in a string becomes U+FFFD, as in Kafka's own readers.
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
    """Parse with the collector of cycles at rest: what is being decoded is alive, and it would walk all of it over
    and over (measured: half of the time of a long Metadata answer)."""
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
    """`decode_message_at` for one message and version, for those who decode very many."""
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
    """The bytes of `message`; ProtocolError if this version cannot carry it."""
    out = Buffer()
    encode_message_into(out, message, version, flexible)
    return bytes(out)


def encode_message_into(out: Buffer, message: Message, version: int, flexible: bool) -> None:
    """Append the bytes of `message`; on an error `out` is as it was."""
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
