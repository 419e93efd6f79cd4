"""Messages to bytes and back: ours beside kio (whose decoder is native code) and kafka-python's codec.

Everybody gets the same bytes, and every value is encoded by the codec that decoded it. Blocks of all codecs take
turns; a figure is the median of blocks, in the processor time of this thread, so that others do not count.
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from bench.codec_messages import Case, cases, small_requests
from bench.rows import Row, median
from bench.workbench import Workbench
from klamm.protocol import decode_message, decode_request, encode_message

BLOCKS = 25
BLOCK_SECONDS = 0.02
MICROSECONDS = 1e6
MARK = "ahead of kio"
SMALL_MARK = "at most half of kio's time"
_KAFKA_PYTHON = (kafka.protocol.admin, kafka.protocol.metadata, kafka.protocol.consumer)


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec and one message: bytes to a value, and that value to bytes."""

    name: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def measure_codec(bench: Workbench) -> list[Row]:
    """Each case in both directions, then a thousand small requests of mixed APIs."""
    rows = []
    for case in cases():
        codecs = [_klamm(case), _kio(case), _kafka_python(case)]
        raw = case.raw()
        _check(codecs, raw)
        decoded = {codec.name: codec.decode(raw) for codec in codecs}
        blocks = bench.samples(BLOCKS)
        rows += _rows("decode", case, blocks, {codec.name: _bound(codec.decode, raw) for codec in codecs})
        encoders = {codec.name: _bound(codec.encode, decoded[codec.name]) for codec in codecs}
        rows += _rows("encode", case, blocks, encoders)
    return [*rows, *_small_requests(bench.samples(BLOCKS))]


def _check(codecs: list[Codec], raw: bytes) -> None:
    """Raises an error if a codec makes other bytes; it is not timed then."""
    for codec in codecs:
        if codec.encode(codec.decode(raw)) != raw:
            raise OSError(f"{codec.name} does not give back the bytes that it was given")


def _klamm(case: Case) -> Codec:
    kind, version, flexible = type(case.message), case.version, case.flexible
    return Codec(
        "klamm",
        lambda raw: decode_message(kind, version, flexible, raw),
        lambda value: encode_message(value, version, flexible),
    )


def _kio(case: Case) -> Codec:
    load = load_request_schema if case.is_request else load_response_schema
    schema: Any = load(case.api.key, case.version)
    read, write = entity_reader(schema), entity_writer(schema)

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return Codec("kio", lambda raw: read(raw, 0)[0], encode)


def _kafka_python(case: Case) -> Codec:
    name = type(case.message).__name__
    found: Any = next(getattr(module, name) for module in _KAFKA_PYTHON if hasattr(module, name))
    version = case.version
    return Codec("kafka-python", lambda raw: found.decode(raw, version=version), lambda value: bytes(value.encode()))


def _bound(function: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    return lambda: function(argument)


def _rows(direction: str, case: Case, blocks: int, todo: dict[str, Callable[[], Any]]) -> list[Row]:
    taken = _in_turns(todo, blocks)
    return _compared(f"{direction} {case.what}", taken, blocks, MARK, reached=taken["klamm"] < taken["kio"])


def _compared(what: str, taken: dict[str, float], blocks: int, mark: str, *, reached: bool) -> list[Row]:
    """Klamm with each of the others; the mark applies to kio."""
    return [
        Row(
            group="codec",
            what=what,
            unit="µs",
            klamm=taken["klamm"],
            peer=peer,
            theirs=taken[peer],
            samples=blocks,
            mark=mark if peer == "kio" else None,
            reached=reached if peer == "kio" else None,
        )
        for peer in taken
        if peer != "klamm"
    ]


def _in_turns(todo: dict[str, Callable[[], Any]], blocks: int) -> dict[str, float]:
    """The median time of one call of each, in microseconds."""
    repeats = {name: max(1, int(BLOCK_SECONDS / _seconds(call, 3))) for name, call in todo.items()}
    taken: dict[str, list[float]] = {name: [] for name in todo}
    for _ in range(blocks):
        for name, call in todo.items():
            taken[name].append(_seconds(call, repeats[name]) * MICROSECONDS)
    return {name: median(of_name) for name, of_name in taken.items()}


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    call()
    began = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - began) / repeats


def _small_requests(blocks: int) -> list[Row]:
    """Requests in the order of arrival: the reader knows neither API nor version before it reads the header. kio is
    measured once as in its documentation, and once with its readers kept by hand, which it leaves to its users."""
    frames = [frame for frame in small_requests() if _kio_reads(frame)]
    frames = (frames * (1000 // len(frames) + 1))[:1000]
    kept = {frame[:4]: _kio_readers(frame) for frame in frames}

    def klamm() -> None:
        for frame in frames:
            decode_request(frame)

    def kio() -> None:
        for frame in frames:
            header, body = _kio_readers(frame)
            body(frame, header(frame, 0)[1])

    def kio_kept() -> None:
        for frame in frames:
            header, body = kept[frame[:4]]
            body(frame, header(frame, 0)[1])

    taken = _in_turns({"klamm": klamm, "kio": kio, "kio with cached readers": kio_kept}, blocks)
    what = "decode 1,000 small requests of mixed APIs, with headers"
    return _compared(what, taken, blocks, SMALL_MARK, reached=2 * taken["klamm"] <= taken["kio"])


def _kio_readers(frame: bytes) -> tuple[Any, Any]:
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    schema: Any = load_request_schema(key, version)
    return entity_reader(schema.__header_schema__), entity_reader(schema)


def _kio_reads(frame: bytes) -> bool:
    """kio refuses some recorded frames: values outside its enums and times, versions that it lacks."""
    try:
        header, body = _kio_readers(frame)
        at = header(frame, 0)[1]
        return bool(at + body(frame, at)[1] == len(frame))
    except Exception:  # noqa: BLE001 - whatever it raises, it does not read it
        return False
