"""Makes the bodies of a line of the journal from a request and its answer."""

import json
from typing import Final

from klamm.controller.core import Answer
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.fields import Message
from klamm.server.bodies import Bodies
from klamm.server.limits import KIB
from klamm.server.pending_answer import Arrived
from klamm.server.secrets import shown_message

MAX_MESSAGE_BYTES: Final = 64 * KIB
"""A request or an answer with more bytes on the wire is left out."""


def bodies_of(arrived: Arrived, answer: Answer) -> Bodies:
    """The request as the client sent it, and the answer as the client gets it, before its bytes are damaged; without
    secrets."""
    call, struck = arrived.call, arrived.struck
    request = call.request if struck is None else struck.asked.request
    asked = _text(request, call.api_version) if arrived.frame_bytes <= MAX_MESSAGE_BYTES else None
    if answer.payload is None or len(answer.payload) > MAX_MESSAGE_BYTES:
        return Bodies(asked, None)
    # From the bytes: the columns of the message may view what has changed since.
    _, response = decode_response(call.api, call.api_version, bytes(answer.payload))
    return Bodies(asked, _text(response, call.api_version))


def _text(message: Message, version: int) -> str:
    return json.dumps(shown_message(message, version), separators=(",", ":"))
