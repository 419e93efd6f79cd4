"""What the codec promises for any bytes: `check` tries one case, and raises `Broken` with what was not kept.

- Decoding gives a value or a `ProtocolError` that says where, never another exception.
- What was compiled and what is interpreted agree: the same value from the same bytes, or both an error.
- A value has bytes again, by both the same, and they are the same value: decode, encode, decode is a fixed point. So it
  is by way of the JSON form.
- Frames are the same however their bytes arrive.
- Time and memory have bounds, stated below.
"""

import time
import traceback
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from klamm import protocol
from klamm.protocol import (
    Api,
    FrameBuffer,
    Message,
    ProtocolError,
    RecordType,
    decode_request,
    decode_response,
    encode_message,
    load_api,
)
from klamm.protocol.codec.json_form import message_from_json, message_to_json
from klamm.protocol.codec.messages import MAX_EXPLAINED_BYTES, decode_message_at
from klamm.protocol.codec.requests import decode_request_header
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.streams import Cursor
from klamm.protocol.errors import UnsupportedVersion
from klamm.protocol.raw_records import decode_control_value, decode_metadata_value, read_record
from klamm.protocol.record_batch import (
    HEADER_BYTES,
    Batch,
    decode_batch,
    encode_batch,
    encode_control_batch,
    find_sound_batch,
)
from klamm.protocol.record_batch import check_batch as check_batch_header
from tools.fuzzing.broken import Broken
from tools.fuzzing.codec_cases import CodecCase, declaration

MAX_CPU_SECONDS: Final = 5.0
"""Seconds for all checks of one input of a fuzzer, which has 8 KiB at most; 2 ms are usual, on a slow machine ten times
as much."""
MAX_MEMORY_FACTOR: Final = 256
MAX_MEMORY_BYTES: Final = 64 * 1024
"""Decoding takes no more memory than MAX_MEMORY_FACTOR × the bytes + MAX_MEMORY_BYTES, the value included. The densest
value is an array of elements with one unknown tagged field each: 72 × its bytes (measured). Of a request with an error
and with text that is no UTF-8 there may be three at once: read strictly, leniently, and for the explanation."""
_MAX_FRAME_BYTES: Final = 1024
_CHUNKS: Final = (1, 3, 64)
_PROTOCOL: Final = Path(protocol.__file__).parent

T = TypeVar("T")


def check(case: CodecCase, *, memory: bool = False) -> ProtocolError | None:
    """The error that the case is decoded to; None if it is a value. Raises Broken if a promise is not kept; `memory`
    measures the memory, too."""
    started = time.thread_time()
    outcome = _check(case)
    if time.thread_time() - started > MAX_CPU_SECONDS:
        # Once more: a schema may have been compiled in the first run, or garbage collected.
        started = time.thread_time()
        _check(case)
        if (seconds := time.thread_time() - started) > MAX_CPU_SECONDS:
            raise Broken(f"more than {MAX_CPU_SECONDS:g} s", f"{seconds:.1f} s of CPU time for {len(case.data)} bytes")
    if memory:
        _check_memory(case)
    return outcome if isinstance(outcome, ProtocolError) else None


def _check(case: CodecCase) -> object:
    """The decoded case, or its ProtocolError."""
    match case.kind:
        case "request":
            return _check_request(case.data)
        case "response":
            return _check_response(case)
        case "record":
            return _attempt(lambda: decode_metadata_value(case.data), case.data)
        case "batch":
            return _check_batch(case.data)
        case "stream":
            return _check_stream(case.data)
    declared = declaration(case.kind, case.key)
    assert isinstance(declared, RecordType)
    return check_message(declared.message, case.version, declared.flexible(case.version), case.data, 0)


def _check_memory(case: CodecCase) -> None:
    most = MAX_MEMORY_FACTOR * len(case.data) + MAX_MEMORY_BYTES
    tracemalloc.start()
    try:
        _attempt(lambda: _decode(case), case.data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > most:
        raise Broken("more memory than stated", f"{peak} bytes for {len(case.data)}")


def _decode(case: CodecCase) -> object:
    """The decoded case, by the functions that users call."""
    declared = declaration(case.kind, case.key)
    match case.kind:
        case "request":
            return decode_request(case.data)
        case "record":
            return decode_metadata_value(case.data)
        case "batch":
            return decode_batch(case.data, 0)
        case "stream":
            return _frames(case.data, 1)
    if isinstance(declared, Api):
        return decode_response(declared, case.version, case.data)
    assert declared is not None
    return decode_message_at(declared.message, case.version, declared.flexible(case.version), case.data, 0)


def _attempt(decode: Callable[[], T], data: bytes) -> T | ProtocolError:
    """The result of `decode`, or the ProtocolError with its path. Raises Broken for any other exception."""
    try:
        return decode()
    except UnsupportedVersion as error:
        return error
    except ProtocolError as error:
        if not error.reason or (len(data) <= MAX_EXPLAINED_BYTES and not 0 <= error.offset <= len(data)):
            raise Broken("an error that does not say where", f"{error.reason!r}, offset {error.offset}") from error
        return error
    except Exception as error:
        raise Broken(f"{type(error).__name__} from {_place(error)}", str(error)) from error


def _place(error: Exception) -> str:
    """The line of this project from which an exception came."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PROTOCOL)] or frames
    return f"{Path(ours[-1].filename).stem}.{ours[-1].name}"


def check_message(
    message_class: type[Message], version: int, flexible: bool, data: bytes, offset: int, text_errors: str = "strict"
) -> Message | ProtocolError:
    """The message that `data` has at `offset`, or its error; checks all promises for one message."""

    def compiled() -> tuple[Message, int]:
        return decode_message_at(message_class, version, flexible, data, offset, text_errors)

    def interpreted() -> tuple[Message, int]:
        cursor = Cursor(data, offset)
        return schema(message_class, version, flexible, text_errors)._parse(cursor, None, ""), cursor.pos

    one, other = _attempt(compiled, data), _attempt(interpreted, data)
    if isinstance(one, ProtocolError):
        if not isinstance(other, ProtocolError):
            raise Broken("only the interpreted schema gives a value", f"{message_class.__name__}: {one}")
        return one
    if isinstance(other, ProtocolError):
        raise Broken("only the compiled schema gives a value", f"{message_class.__name__}: {other}")
    if one != other:
        raise Broken("compiled and interpreted schema differ", f"{one} and {other}")
    _check_fixed_point(one[0], version, flexible)
    return one[0]


def _check_fixed_point(message: Message, version: int, flexible: bool) -> None:
    message_class = type(message)
    name = message_class.__name__
    try:
        encoded = encode_message(message, version, flexible)
        interpreted = schema(message_class, version, flexible).build(message)
        again, end = decode_message_at(message_class, version, flexible, encoded, 0)
        form = message_to_json(message, version)
        form_again = message_to_json(message_from_json(message_class, form, version), version)
    except Exception as error:
        raise Broken(
            f"a decoded value fails with {type(error).__name__} from {_place(error)}", f"{name}: {error}"
        ) from error
    if encoded != interpreted:
        raise Broken("compiled and interpreted schema write differently", f"{name}: {encoded!r} and {interpreted!r}")
    if again != message or end != len(encoded):
        raise Broken("a value is not the same after its bytes", f"{message} and {again}")
    if form_again != form:
        raise Broken("a value is not the same after its JSON form", f"{form} and {form_again}")


def _check_request(frame: bytes) -> object:
    """Headers and bodies as servers read them, and the body by the strict rules, too."""
    # Twice: a request that was read once takes a faster path afterwards.
    decoded = [_attempt(lambda: decode_request(frame), frame) for _ in range(2)]
    found = _attempt(lambda: decode_request_header(frame), frame)
    expected: object = found
    if not isinstance(found, ProtocolError):
        header, offset = found
        api, version = load_api(header.request_api_key), header.request_api_version
        if api is None or version not in api.versions:
            return decoded[0]
        body = check_message(api.request, version, api.flexible(version), frame, offset, "replace")
        expected = body if isinstance(body, ProtocolError) else (header, body)
        check_message(api.request, version, api.flexible(version), frame, offset)
    for one in decoded:
        if one != expected and not (isinstance(one, ProtocolError) and isinstance(expected, ProtocolError)):
            raise Broken("a request is not its header and its body", f"{one} and {expected}")
    return expected


def _check_response(case: CodecCase) -> object:
    api = load_api(case.key)
    assert api is not None
    decoded = _attempt(lambda: decode_response(api, case.version, case.data), case.data)
    # The header is an id and, in flexible versions, most often one zero byte.
    offset = 4 + api.response_header_version(case.version)
    if len(case.data) >= offset and not any(case.data[4:offset]):
        body = check_message(api.response, case.version, api.flexible(case.version), case.data, offset)
        if not isinstance(decoded, ProtocolError) and decoded[1] != body:
            raise Broken("a response is not its header and its body", f"{decoded[1]} and {body}")
    return decoded


def _check_batch(data: bytes) -> object:
    """Check a batch by its own reader and record by record, and its records in a batch of their own."""
    _attempt(lambda: find_sound_batch(data, 0), data)
    batch = _attempt(lambda: decode_batch(data, 0), data)
    records = _attempt(lambda: _raw_records(data), data)
    if isinstance(batch, ProtocolError):
        return batch
    if batch.records != records:
        raise Broken("a batch and its records differ", f"{batch.records} and {records}")
    if batch.records:
        again = _attempt(lambda: decode_batch(_encoded_again(batch), 0), data)
        if isinstance(again, ProtocolError) or again.records != batch.records:
            raise Broken("a batch is not the same after its bytes", f"{batch} and {again}")
    return batch


def _encoded_again(batch: Batch) -> bytes:
    encode = encode_control_batch if batch.is_control else encode_batch
    return encode(batch.base_offset, batch.leader_epoch, batch.timestamp_ms, batch.records)


def _raw_records(data: bytes) -> list[Message]:
    end, at, records = check_batch_header(data, 0), HEADER_BYTES, list[Message]()
    is_control = bool(data[22] & 0x20)
    while at < end:
        raw, at = read_record(data, at, end)
        records.append(decode_control_value(raw.key, raw.value) if is_control else decode_metadata_value(raw.value)[0])
    return records


def _check_stream(data: bytes) -> object:
    """Check that frames are the same in chunks of any size, up to the first invalid one."""
    frames, wrong = _frames(data, max(1, len(data)))
    for size in _CHUNKS:
        if _frames(data, size) != (frames, wrong):
            raise Broken("frames depend on how they arrive", f"in chunks of {size}")
    return ProtocolError(wrong) if wrong else frames


def _frames(data: bytes, chunk_bytes: int) -> tuple[list[bytes], str | None]:
    """The complete frames, and the error of the next one."""
    buffer, frames = FrameBuffer(_MAX_FRAME_BYTES), list[bytes]()
    try:
        for start in range(0, len(data), chunk_bytes):
            buffer.feed(data[start : start + chunk_bytes])
            while (frame := buffer.next_frame()) is not None:
                frames.append(frame)
    except ProtocolError as error:
        return frames, error.reason
    return frames, None
