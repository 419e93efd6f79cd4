"""JSON answers: one line each, so that a shell can print them as they are."""

import json

from starlette.responses import Response

JSON = "application/json"


def encode_answer(content: object) -> bytes:
    """The bytes of an answer's body."""
    return json.dumps(content).encode() + b"\n"


def encode_error(reason: str) -> bytes:
    """The body of an error answer; its text is one line, whatever the reason contains."""
    return encode_answer({"error": " ".join(reason.split())})


def answer(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode_answer(content), status, headers, media_type=JSON)


def error_answer(reason: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(encode_error(reason), status, headers, media_type=JSON)
