"""Converts single lines of `klamm wire`: JSON with hex bytes to JSON with header and body, and back.

The answer to a line that cannot be converted is the same line with `error`.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from klamm.protocol import ProtocolError
from klamm.wire.kinds import kind_of

MAX_LINE_BYTES: Final = 64 << 20

Answered = tuple[str, bool]
"""The answer without a line end, and whether the line was converted."""
_NAME: Final = re.compile(r"_([a-z0-9])")


def decode_line(line: bytes) -> Answered:
    """The same line with `header` (requests, responses) and `body` in Kafka's JSON form; or with `error`."""

    def decode(given: dict[str, Any]) -> dict[str, Any]:
        return kind_of(given).decode(_bytes(given))

    return _answered(line, decode)


def encode_line(line: bytes) -> Answered:
    """The same line with `hex`; or with `error`."""

    def encode(given: dict[str, Any]) -> dict[str, Any]:
        return {"hex": kind_of(given).encode(given).hex()}

    return _answered(line, encode)


def _answered(line: bytes, convert: Callable[[dict[str, Any]], dict[str, Any]]) -> Answered:
    given: dict[str, Any] = {}
    try:
        given = _object(line)
        return _text({**given, **convert(given)}), True
    except ProtocolError as error:
        problem = {"offset": error.offset, "path": _as_json(error.path), "reason": error.reason}
        return _text({**given, "error": problem}), False


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError(f"the line has more than {MAX_LINE_BYTES} bytes")
    try:
        given = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8 from byte {error.start} on") from None
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ProtocolError("not a JSON object")
    given.pop("error", None)  # of an earlier conversion
    return given


def _bytes(line: dict[str, Any]) -> bytes:
    text = line.get("hex")
    if not isinstance(text, str):
        raise ProtocolError("the line has no hex", path="hex")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ProtocolError("hex is not an even number of hexadecimal digits", path="hex") from None


def _as_json(path: str) -> str:
    """The path of a field with the names of Kafka's JSON form."""
    return _NAME.sub(lambda found: found[1].upper(), path)


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))
