"""Why a request is not carried out, as a status and one clause for people; and what can be asked in a body.

A body is a JSON object or nothing at all. Nothing is guessed: members that are not known, members given twice and
values of another type are refused. The content type does not matter, so that `curl -d` does as it is.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from klamm.console.shown import shown
from klamm.protocol.near_names import did_you_mean

Checks = Mapping[str, Callable[[Any], object]]
"""The members that a body may have, each with a function that returns its value or raises ValueError with a clause."""


class Refused(Exception):
    """A request that is answered with an error; the text is one clause for people."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def decode_body(body: bytes, checks: Checks) -> dict[str, Any]:
    """The members of a body, checked; none if it is empty. Raises `Refused`."""
    members = decode_object(body)
    for name, value in members.items():
        if name not in checks:
            known = f"known: {', '.join(checks)}" if checks else "none can be given here"
            raise Refused(400, f"there is no member {shown(name)} ({known}){did_you_mean(name, checks)}")
        try:
            checks[name](value)
        except ValueError as error:
            raise Refused(400, str(error)) from None
    return members


def decode_object(body: bytes) -> dict[str, Any]:
    """The members of a body, as they are; none if it is empty. Raises `Refused`."""
    if not body.strip():
        return {}
    try:
        members = json.loads(body.decode(), object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise Refused(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Refused(400, f"the body is no JSON: {reason}") from None
    if not isinstance(members, dict):
        raise Refused(400, f"the body must be a JSON object, not {shown(members)}")
    return members


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{shown(next(name for name in names if names.count(name) > 1))} is given twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
