"""Reads the body of a request, within its limits of bytes and time (`klamm.control.limits`)."""

from typing import Any

import trio
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from klamm.control.limits import BODY_SECONDS, MAX_BODY_BYTES
from klamm.control.refusals import Checks, Refused, decode_body


async def read_members(request: Request, checks: Checks) -> dict[str, Any]:
    """The members of the body, checked (`decode_body`). Raises `Refused`."""
    return decode_body(await request.body(), checks)


async def read_request(scope: Scope, receive: Receive) -> Request:
    """The request with its whole body, which its `body` returns at once. Raises `Refused`."""
    request = Request(scope, _within_limit(receive))
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
        raise _too_long()
    try:
        with trio.fail_after(BODY_SECONDS):
            await request.body()
    except trio.TooSlowError:
        raise Refused(408, f"the body did not arrive within {BODY_SECONDS:.0f} s") from None
    except ClientDisconnect:
        raise Refused(400, "the connection ended within the body") from None
    return request


def _within_limit(receive: Receive) -> Receive:
    received = 0

    async def receive_within_limit() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise _too_long()
        return message

    return receive_within_limit


def _too_long() -> Refused:
    return Refused(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
