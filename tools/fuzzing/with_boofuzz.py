"""Fuzzes the server with boofuzz: one boofuzz request for every served API, with a primitive for each of its fields.

boofuzz has the changed values of a field, and its sessions go through all fields one by one. Of the thousands of values
of each field a few are drawn in every turn. The bytes that it renders are played as any other session.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

from boofuzz import BitField, Block, Fuzzable, ITargetConnection, Request, Session, Size, String, Target

from klamm.broker.dispatch import SERVED
from klamm.protocol.api import Listener
from klamm.protocol.codec.primitives import NUMBER_CODES
from klamm.protocol.fields import cached
from klamm.protocol.messages.cluster.api_versions import API as API_VERSIONS
from tools.fuzzing.broken import Broken
from tools.fuzzing.hunt import Hunt
from tools.fuzzing.pieces import Piece, head_of
from tools.fuzzing.session_making import request_of
from tools.fuzzing.sessions import Step

VALUES_PER_FIELD: Final = 3
MAX_TEXT: Final = 2000
MAX_FIELDS: Final = 60
SIGNED_SHARE: Final = 10
"""How much more often -1, -2 and -3 are drawn: boofuzz's numbers are unsigned, and most of Kafka's are signed."""


def boofuzz_turn(hunt: Hunt, seed: int, deadline: float) -> None:
    """Sessions of boofuzz, each on one listener, until the deadline."""
    chance = Random(seed)
    while monotonic() < deadline and not hunt.is_over:
        listener: Listener = "controller" if chance.random() < 0.25 else "broker"
        connection = _Connection(hunt, listener, deadline)
        with tempfile.TemporaryDirectory(prefix="klamm-boofuzz-") as folder:
            session = Session(
                target=Target(connection=connection),
                web_port=None,
                fuzz_loggers=[],
                fuzz_db_keep_only_n_pass_cases=1,
                receive_data_after_each_request=False,
                db_filename=str(Path(folder) / "session.db"),
            )
            for request in _requests(hunt, listener, chance):
                session.connect(request)
            try:
                session.fuzz(max_depth=1)
            except _Over:
                pass
            except Broken as broken:
                hunt.keep(tuple(connection.steps), broken)


def _requests(hunt: Hunt, listener: Listener, chance: Random) -> Iterator[Request]:
    """Every API that this listener serves, in a random order and version."""
    topic_ids = hunt.server().topic_ids
    apis = [served.api for served in SERVED.tables[listener].values()]
    for api in chance.sample(apis, len(apis)):
        version = chance.choice(api.kept_versions)
        pieces = request_of(api, version, chance, topic_ids, 1)[:MAX_FIELDS]
        size = Size("size", block_name="frame", length=4, endian=">", fuzzable=api is API_VERSIONS)
        fields = [_Field(f"{index} {piece.name}", piece, chance) for index, piece in enumerate(pieces)]
        yield Request(f"{api.name} v{version}", children=(size, Block("frame", children=fields)))


class _Field(Fuzzable):  # type: ignore[misc]
    """A piece of a request, and a few of the values that boofuzz has for its kind."""

    def __init__(self, name: str, piece: Piece, chance: Random) -> None:
        super().__init__(name=name, default_value=piece.data)
        known = _contents(piece)
        changed = [piece.with_content(value).data for value in chance.sample(known, min(VALUES_PER_FIELD, len(known)))]
        if piece.head:
            counts = _numbers(8 * (piece.head_width or 4))
            sampled = chance.sample(counts, VALUES_PER_FIELD)
            changed += [head_of(number, piece.head_width) + piece.content for number in sampled]
        self._changed = changed

    def mutations(self, default_value: bytes) -> Iterator[bytes]:
        yield from self._changed

    def num_mutations(self, default_value: bytes) -> int:
        return len(self._changed)


def _contents(piece: Piece) -> Sequence[bytes]:
    if piece.kind in NUMBER_CODES or piece.kind == "uuid":
        width = len(piece.content)
        stock = [number.to_bytes(width, "big") for number in _numbers(8 * width)]
        return [*stock, *SIGNED_SHARE * [(2 ** (8 * width) + number).to_bytes(width, "big") for number in (-1, -2, -3)]]
    return _texts() if piece.kind in {"string", "bytes", "records"} else ()


@cached
def _numbers(bits: int) -> Sequence[int]:
    return list(BitField(width=bits).mutations(0))


@cached
def _texts() -> Sequence[bytes]:
    stock = String(default_value="fuzz", max_len=MAX_TEXT)
    drawn = (value("fuzz") if callable(value) else value for value in stock.mutations("fuzz"))
    return sorted({value.encode(errors="surrogatepass") for value in drawn})


class _Connection(ITargetConnection):  # type: ignore[misc]
    """Collects what boofuzz sends, and plays it when boofuzz closes the connection."""

    def __init__(self, hunt: Hunt, listener: Listener, deadline: float) -> None:
        self.steps: list[Step] = []
        self._hunt = hunt
        self._listener = listener
        self._deadline = deadline

    def open(self) -> None:
        if monotonic() >= self._deadline:
            raise _Over
        self.steps = []

    def send(self, data: bytes) -> int:
        self.steps.append(Step(0, self._listener, data))
        return len(data)

    def recv(self, max_bytes: int) -> bytes:
        return b""

    def close(self) -> None:
        self._hunt.play(tuple(self.steps))

    @property
    def info(self) -> str:
        return f"klamm serve, {self._listener} listener"


class _Over(BaseException):
    """Raised at the deadline; boofuzz must not treat it as a finding."""
