"""Makes sessions from a random source: valid requests with changed fields, in a few writes, on a few connections."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from klamm.broker.dispatch import SERVED
from klamm.protocol import Api, Uuid, load_api
from klamm.protocol.api import Listener
from klamm.protocol.messages.index import MODULES
from tools.fuzzing.mutations import mutated
from tools.fuzzing.pieces import Piece, request_pieces
from tools.fuzzing.sessions import Session, Step
from tools.fuzzing.values import Values

MAX_FRAMES: Final = 8
MAX_CONNECTION_BYTES: Final = 60_000
"""The bytes that a server accepts from a client that does not read its answers."""
_CLIENTS: Final = ("fuzz", "", None, "x" * 200)


def make_session(chance: Random, topic_ids: tuple[Uuid, ...]) -> Session:
    """One session."""
    listeners: list[Listener] = [
        "controller" if chance.random() < 0.25 else "broker" for _ in range(chance.choice((1, 1, 2, 3)))
    ]
    steps, sent = list[Step](), [0] * len(listeners)
    for number in range(1 + chance.randrange(MAX_FRAMES)):
        connection = chance.randrange(len(listeners))
        if sent[connection] < 0:
            continue
        listener = listeners[connection]
        frame = _sized(_request(listener, chance, topic_ids, number), chance)
        if sent[connection] + len(frame) > MAX_CONNECTION_BYTES:
            continue
        sent[connection] += len(frame)
        steps += [Step(connection, listener, part) for part in _writes(frame, chance)]
        if chance.random() < 0.03:
            steps.append(Step(connection, listener, None))
            sent[connection] = -1
    return tuple(steps)


def request_of(
    api: Api[Any, Any], version: int, chance: Random, topic_ids: tuple[Uuid, ...], number: int
) -> list[Piece]:
    """A valid request, in pieces."""
    body = Values(chance, topic_ids).message(api.request, version)
    return request_pieces(api, version, number, chance.choice(_CLIENTS), body)


def _request(listener: Listener, chance: Random, topic_ids: tuple[Uuid, ...], number: int) -> bytes:
    apis: Sequence[Api[Any, Any]] = [served.api for served in SERVED.tables[listener].values()]
    if chance.random() < 0.02:  # not served
        other = load_api(chance.choice(sorted(MODULES)))
        assert other is not None
        apis = [other]
    api = chance.choice(apis)
    version = chance.choice(api.kept_versions or api.versions)
    return mutated(request_of(api, version, chance, topic_ids, number), chance)


def _sized(request: bytes, chance: Random) -> bytes:
    """The request after its size, which is sometimes wrong."""
    size = len(request)
    if chance.random() < 0.03:
        size = chance.choice((-1, 0, 1, size - 1, size + 1, 2**31 - 1, -(2**31), 104_857_600, 104_857_601))
    return size.to_bytes(4, "big", signed=True) + request


def _writes(frame: bytes, chance: Random) -> list[bytes]:
    """The frame in one write, or in a few."""
    cuts = sorted(chance.randrange(len(frame) + 1) for _ in range(chance.choice((0, 0, 0, 1, 2))))
    return [part for start, end in zip((0, *cuts), (*cuts, len(frame)), strict=True) if (part := frame[start:end])]
