"""A strict JSON decoder: invalid JSON and repeated member names raise `InvalidJson`, whose text is one clause.

The standard library's decoder also accepts NaN, keeps the last of two members with the same name, and raises several
kinds of errors.
"""

import json
from typing import Any, Final, NoReturn

_MAX_DIGITS: Final = 1_000  # int() refuses more than 4,300 digits, and no valid number has more than 19
LONGEST_SHOWN: Final = 40
"""A message shows at most this many characters of a text."""


class InvalidJson(ValueError):
    """The text is not JSON, or a value has the wrong type. The exception's text is one line for users."""


def decode_object(text: bytes, what: str) -> dict[str, Any]:
    """Decode a JSON object in UTF-8. `what` names it in messages, such as "the line". Raises `InvalidJson`."""
    if not text.strip():
        raise InvalidJson(f"{what} is empty; a JSON object is expected")
    try:
        decoded = _DECODER.decode(text.removeprefix(b"\xef\xbb\xbf").decode())
    except UnicodeDecodeError as error:
        raise InvalidJson(f"{what} is not UTF-8: {error.reason} at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{what} is not JSON: {error.msg} at character {error.pos + 1}") from None
    except _NoJson as error:
        raise InvalidJson(f"{what} is not JSON: {error}") from None
    except RecursionError:
        raise InvalidJson(f"{what} is nested too deeply") from None
    if not isinstance(decoded, dict):
        refuse(what, decoded, "a JSON object")
    return decoded


def refuse(what: str, found: Any, expected: str) -> NoReturn:
    """Raise `InvalidJson` for a value of the wrong type or range."""
    raise InvalidJson(f"{what} is {described(found)}; {expected} is expected")


def described(found: Any) -> str:
    """A short text for a value of any size or depth, such as "a list of 3"."""
    if found is None:
        return "null"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, list | dict):
        return f"{'a list' if isinstance(found, list) else 'an object'} of {len(found)}"
    return shown(found) if isinstance(found, str) else str(found)[:LONGEST_SHOWN]


def shown(text: str) -> str:
    """The text in quotes, cut after LONGEST_SHOWN characters."""
    return json.dumps(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…", ensure_ascii=False)


class _NoJson(Exception):
    pass


def _distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in members if names.count(name) > 1)
        raise InvalidJson(f"the member {shown(twice)} is given twice")
    return members


def _constant(name: str) -> NoReturn:
    raise _NoJson(f"{name} is no JSON number")


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise InvalidJson(f"a number of {len(digits)} digits: up to {_MAX_DIGITS} are read")
    return int(digits)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_distinct_members, parse_constant=_constant, parse_int=_integer)
