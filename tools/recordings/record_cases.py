"""Record batches with one fault or oddity each, in every codec, for `python -m tools.recordings`.

The batches are made from Kafka's description of the format and share no code with what they test: the frames of the
codecs are made here as well, because Kafka's lz4 and snappy have forms of their own.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cramjam
import google_crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Case:
    """One Produce request to an empty partition."""

    name: str
    records: bytes
    configs: dict[str, str] = field(default_factory=dict)
    api_version: int = 11


def zigzag(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(rest: int) -> bytes:
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def sized(value: bytes | None) -> bytes:
    return zigzag(-1) if value is None else zigzag(len(value)) + value


def body(
    offset_delta: int = 0,
    *,
    timestamp_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    attributes: int = 0,
    raw: dict[str, bytes] | None = None,
) -> bytes:
    """A record without its length. `raw` replaces fields by bytes."""
    fields = {
        "attributes": bytes([attributes]),
        "timestamp": zigzag(timestamp_delta),
        "offset": zigzag(offset_delta),
        "key": sized(key),
        "value": sized(value),
        "headers": zigzag(len(headers)) + b"".join(sized(name) + sized(content) for name, content in headers),
        "behind": b"",
    }
    return b"".join((fields | (raw or {})).values())


def record(offset_delta: int = 0, **fields: Any) -> bytes:
    inside = body(offset_delta, **fields)
    return zigzag(len(inside)) + inside


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, as in the headers of lz4 frames."""
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    h = (prime5 + len(data)) & mask
    at = 0
    while at + 4 <= len(data):
        h = (h + int.from_bytes(data[at : at + 4], "little") * prime3) & mask
        h = (((h << 17) | (h >> 15)) & mask) * prime4 & mask
        at += 4
    for byte in data[at:]:
        h = (h + byte * prime5) & mask
        h = (((h << 11) | (h >> 21)) & mask) * prime1 & mask
    h = ((h ^ (h >> 15)) * prime2) & mask
    h = ((h ^ (h >> 13)) * prime3) & mask
    return h ^ (h >> 16)


def lz4_frame(
    data: bytes, *, flags: int = 0x60, sizes: int = 0x40, checksum: int | None = None, end: bytes = bytes(4)
) -> bytes:
    descriptor = bytes((flags, sizes))
    if flags & 0x08:
        descriptor += len(data).to_bytes(8, "little")
    check = (xxh32(descriptor) >> 8) & 0xFF if checksum is None else checksum
    out = (0x184D2204).to_bytes(4, "little") + descriptor + bytes([check])
    for at in range(0, len(data), 65536):
        piece = data[at : at + 65536]
        packed = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        if len(packed) < len(piece):
            out += len(packed).to_bytes(4, "little") + packed
        else:
            out += (len(piece) | 1 << 31).to_bytes(4, "little") + piece
        if flags & 0x10:
            out += xxh32(packed).to_bytes(4, "little")
    return out + end


def xerial(data: bytes, *, version: int = 1, compatible: int = 1) -> bytes:
    out = b"\x82SNAPPY\0" + version.to_bytes(4, "big") + compatible.to_bytes(4, "big")
    for at in range(0, len(data), 32768):
        packed = bytes(cramjam.snappy.compress_raw(data[at : at + 32768]))
        out += len(packed).to_bytes(4, "big") + packed
    return out


def gzipped(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=31)
    return packing.compress(data) + packing.flush()


def pack(codec: int, data: bytes) -> bytes:
    packers: tuple[Callable[[bytes], bytes], ...] = (
        bytes,
        gzipped,
        xerial,
        lz4_frame,
        lambda plain: bytes(cramjam.zstd.compress(plain)),
    )
    return packers[codec](data)


def signed(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def batch(records: int | Sequence[bytes], codec: int, now_ms: int, **wrong: Any) -> bytes:
    if isinstance(records, int):
        records = [record(offset_delta) for offset_delta in range(records)]
    payload: bytes = wrong["payload"] if "payload" in wrong else pack(codec, b"".join(records))
    attributes = wrong.get("attributes", 0) | codec
    checked: bytes = (
        attributes.to_bytes(2, "big")
        + signed(wrong.get("last_offset_delta", len(records) - 1), 4)
        + signed(wrong.get("timestamp_ms", now_ms), 8)
        + signed(wrong.get("max_timestamp_ms", wrong.get("timestamp_ms", now_ms)), 8)
        + signed(wrong.get("producer_id", -1), 8)
        + signed(wrong.get("producer_epoch", -1), 2)
        + signed(wrong.get("base_sequence", -1), 4)
        + signed(wrong.get("record_count", len(records)), 4)
        + payload
    )
    front: bytes = (
        signed(wrong.get("base_offset", 0), 8)
        + signed(wrong.get("length", len(checked) + 9), 4)
        + signed(wrong.get("leader_epoch", -1), 4)
        + signed(wrong.get("magic", 2), 1)
        + wrong.get("crc", google_crc32c.value(checked)).to_bytes(4, "big")
    )
    return front + checked


def three(middle: bytes) -> list[bytes]:
    return [record(0), middle, record(2)]


def inner_faults() -> dict[str, list[bytes]]:
    """Three records, the second of which is odd."""
    inside = body(1)
    long_varint = b"\x80\x80\x80\x80\x80\x00"
    return {
        "length one too much": three(zigzag(len(inside) + 1) + inside),
        "length one too little": three(zigzag(len(inside) - 1) + inside),
        "length negative": three(zigzag(-1) + inside),
        "length 0": three(zigzag(0)),
        "length padded": three(bytes([2 * len(inside) | 0x80, 0]) + inside),
        "length of six bytes": three(long_varint + inside),
        "length beyond the end": [record(0), record(1), zigzag(100) + body(2)],
        "timestamp of eleven bytes": three(record(1, raw={"timestamp": b"\x80" * 10 + b"\0"})),
        "offset of six bytes": three(record(1, raw={"offset": long_varint})),
        "key beyond the record": three(record(1, raw={"key": zigzag(50) + b"k"})),
        "key beyond the batch": three(record(1, raw={"key": zigzag(5000) + b"k"})),
        "key length -2": three(record(1, raw={"key": zigzag(-2)})),
        "key length of six bytes": three(record(1, raw={"key": long_varint})),
        "value beyond the record": three(record(1, raw={"value": zigzag(50) + b"k"})),
        "value beyond the batch": three(record(1, raw={"value": zigzag(5000) + b"v"})),
        "value length -5": three(record(1, raw={"value": zigzag(-5)})),
        "headers -1": three(record(1, raw={"headers": zigzag(-1)})),
        "headers 9 of 0": three(record(1, raw={"headers": zigzag(9)})),
        "headers 90000 of 0": three(record(1, raw={"headers": zigzag(90000)})),
        "header name null": three(record(1, headers=[(None, b"x")])),
        "header name beyond": three(record(1, raw={"headers": zigzag(1) + zigzag(700) + b"n"})),
        "header value null": three(record(1, headers=[(b"h", None)])),
        "header value -9": three(record(1, raw={"headers": zigzag(1) + sized(b"h") + zigzag(-9)})),
        "header name not UTF-8": three(record(1, headers=[(b"\xff\xfe", b"x")])),
        "two headers": three(record(1, headers=[(b"h", b"x"), (b"h", b"")])),
        "bytes behind the headers": three(record(1, raw={"behind": b"\0\0\0"})),
        "a byte behind the records": [*three(record(1)), b"\0"],
        "offsets repeated": [record(0), record(0), record(0)],
        "offsets from 1": [record(1), record(2), record(3)],
        "offsets backwards": [record(2), record(1), record(0)],
        "offset delta of 5": [record(0), record(1), record(5)],
        "attributes of a record": three(record(1, attributes=0x7F)),
        "null key and value": three(record(1, key=None, value=None)),
        "later in the middle": three(record(1, timestamp_delta=5000)),
        "earlier in the middle": three(record(1, timestamp_delta=-5000)),
        "two hours ahead in the middle": three(record(1, timestamp_delta=2 * HOUR_MS)),
        "timestamp that overflows": three(record(1, timestamp_delta=2**63 - 1)),
        "too late, then headers -1": [
            record(0, timestamp_delta=2 * HOUR_MS),
            record(1, raw={"headers": zigzag(-1)}),
            record(2),
        ],
    }


def header_faults(now_ms: int) -> dict[str, dict[str, Any]]:
    return {
        "as it should be": {},
        "count 4 of 3": {"record_count": 4, "last_offset_delta": 3},
        "count 2 of 3": {"record_count": 2, "last_offset_delta": 1},
        "count 4, delta 2": {"record_count": 4},
        "delta 5, count 3": {"last_offset_delta": 5},
        "base offset 1": {"base_offset": 1},
        "wrong checksum": {"crc": 5},
        "control": {"attributes": CONTROL},
        "no sequence": {"producer_id": 9, "producer_epoch": 0},
        "idempotent": {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0},
        "log append time": {"attributes": LOG_APPEND_TIME},
        "log append time, timestamps -1": {"attributes": LOG_APPEND_TIME, "timestamp_ms": -1},
        "delete horizon": {"attributes": DELETE_HORIZON},
        "unknown attributes": {"attributes": 0x7F80},
        "max timestamp too high": {"max_timestamp_ms": now_ms + 9000},
        "max timestamp too low": {"max_timestamp_ms": now_ms - 9000},
        "max timestamp -1": {"max_timestamp_ms": -1},
        "timestamps -1": {"timestamp_ms": -1},
        "timestamps -5": {"timestamp_ms": -5},
        "two hours ahead": {"timestamp_ms": now_ms + 2 * HOUR_MS},
        "empty payload": {"payload": b""},
        "junk payload": {"payload": b"this is no payload"},
    }


def damaged_payloads(codec: int) -> dict[str, bytes]:
    plain = b"".join(record(offset_delta, value=b"value %d" % offset_delta) for offset_delta in range(3))
    payload = pack(codec, plain)
    found = {
        "payload without its last byte": payload[:-1],
        "payload without its last five bytes": payload[:-5],
        "half a payload": payload[: len(payload) // 2],
        "a byte behind the payload": payload + b"\0",
        "junk behind the payload": payload + b"junk behind",
        "the payload twice": payload + payload,
        "compressed twice": pack(codec, payload),
    }
    if codec == GZIP:
        found["a wrong checksum of gzip"] = payload[:-8] + b"abcd" + payload[-4:]
    if codec == SNAPPY:
        found["snappy without a frame"] = bytes(cramjam.snappy.compress_raw(plain))
        found["xerial of version 9"] = xerial(plain, version=9)
        found["xerial compatible with 9"] = xerial(plain, compatible=9)
        found["snappy's own frame"] = bytes(cramjam.snappy.compress(plain))
        found["xerial with nothing"] = xerial(b"")
        found["a chunk of length 0"] = xerial(plain) + bytes(4)
    if codec == LZ4:
        found["lz4 with a size"] = lz4_frame(plain, flags=0x68)
        found["lz4 with linked blocks"] = lz4_frame(plain, flags=0x40)
        found["lz4 of version 2"] = lz4_frame(plain, flags=0xA0)
        found["lz4 with a reserved bit"] = lz4_frame(plain, flags=0x62)
        found["lz4 with checksums of blocks"] = lz4_frame(b"abcdefgh", flags=0x70)
        found["lz4 with a checksum"] = lz4_frame(plain, flags=0x64, end=bytes(8))
        found["lz4 with a wrong header checksum"] = lz4_frame(plain, checksum=1)
        found["lz4 with blocks of size 3"] = lz4_frame(plain, sizes=0x30)
        found["lz4 without its end"] = lz4_frame(plain, end=b"")
        found["lz4 with a block too large"] = lz4_frame(b"", end=(70000).to_bytes(4, "little") + bytes(70004))
    if codec == ZSTD:
        found["zstd with an empty frame before it"] = pack(ZSTD, b"") + payload
        found["zstd with a skippable frame before it"] = (
            (0x184D2A50).to_bytes(4, "little") + bytes((2, 0, 0, 0, 7, 7)) + payload
        )
    return found


def cases(now_ms: int) -> Iterator[Case]:
    """All requests, in an order in which they may be sent."""
    for codec, name in enumerate(CODECS):
        for fault, wrong in header_faults(now_ms).items():
            yield Case(f"{name}: {fault}", batch(3, codec, now_ms, **wrong))
        for fault, records in inner_faults().items():
            yield Case(f"{name}: {fault}", batch(records, codec, now_ms, last_offset_delta=2, record_count=3))
        if codec:
            for fault, payload in damaged_payloads(codec).items():
                yield Case(f"{name}: {fault}", batch(3, codec, now_ms, payload=payload))
    yield from of_configs(now_ms)
    yield from recompressed(now_ms)
    yield from of_sizes(now_ms)
    for version in (3, 6, 7, 10, 12):
        for codec, name in enumerate(CODECS):
            yield Case(f"version {version}: {name}", batch(2, codec, now_ms), api_version=version)
    for codec in (5, 6, 7):
        yield Case(f"codec {codec}", batch(2, NONE, now_ms, attributes=codec))


def of_configs(now_ms: int) -> Iterator[Case]:
    compacted = {"cleanup.policy": "compact"}
    recent = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "1000"}
    stamped = {"message.timestamp.type": "LogAppendTime"}
    for codec, name in enumerate(CODECS):
        five = [record(n, key=None if n in (1, 2, 3, 4) else b"k") for n in range(5)]
        yield Case(f"{name}: keys missing", batch(five, codec, now_ms), compacted)
        yield Case(f"{name}: empty key", batch([record(0, key=b"")], codec, now_ms), compacted)
        mixed = [
            record(0, key=None),
            record(1, timestamp_delta=2 * HOUR_MS),
            record(2, key=None, timestamp_delta=2 * HOUR_MS),
        ]
        yield Case(f"{name}: keys missing and late", batch(mixed, codec, now_ms), compacted)
        old = [record(0), record(1, timestamp_delta=-120_000), record(2, timestamp_delta=5000)]
        yield Case(f"{name}: old, new and late", batch(old, codec, now_ms), recent)
        yield Case(f"{name}: no timestamp", batch([record(0)], codec, now_ms, timestamp_ms=-1), recent)
        yield Case(f"{name}: create time", batch(old, codec, now_ms), stamped)
        yield Case(f"{name}: log append time", batch(3, codec, now_ms, attributes=LOG_APPEND_TIME), stamped)
        yield Case(f"{name}: offsets backwards", batch([record(1), record(0)], codec, now_ms), stamped)


def recompressed(now_ms: int) -> Iterator[Case]:
    several = [
        record(0, key=None, headers=[(b"h", b"x"), (b"i", None)]),
        record(1, timestamp_delta=700, value=None),
        record(2, timestamp_delta=-3, value=b"long" * 200),
    ]
    inner = inner_faults()
    for target in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        config = {"compression.type": target}
        for codec, name in enumerate(CODECS):
            case = f"{name} to {target}"
            yield Case(case, batch(several, codec, now_ms), config)
            yield Case(
                f"{case}: max timestamp too high", batch(several, codec, now_ms, max_timestamp_ms=now_ms + 9000), config
            )
            numbered = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 5, "leader_epoch": 7}
            yield Case(f"{case}: idempotent", batch(several, codec, now_ms, **numbered), config)
            for fault in (
                "length one too much",
                "bytes behind the headers",
                "offsets backwards",
                "headers -1",
                "header name null",
                "attributes of a record",
                "a byte behind the records",
                "timestamp that overflows",
            ):
                if target in ("uncompressed", "zstd"):
                    records = inner[fault]
                    made = batch(records, codec, now_ms, last_offset_delta=2, record_count=3)
                    yield Case(f"{case}: {fault}", made, config)
        stamped = {"compression.type": target, "message.timestamp.type": "LogAppendTime"}
        yield Case(f"gzip to {target}, stamped", batch(several, GZIP, now_ms), stamped)
        yield Case(f"none to {target}, stamped", batch(several, NONE, now_ms), stamped)
        yield Case(f"none to {target}, control", batch(1, NONE, now_ms, attributes=CONTROL), config)
        yield Case(
            f"none to {target}, unknown attributes", batch(1, NONE, now_ms, attributes=0x7F80 | DELETE_HORIZON), config
        )
        yield Case(f"none to {target}, junk", batch(3, NONE, now_ms, payload=b"this is no payload"), config)
        yield Case(f"zstd to {target}, junk", batch(3, ZSTD, now_ms, payload=b"this is no payload"), config)
    for config in (
        {"compression.type": "gzip", "compression.gzip.level": "9"},
        {"compression.type": "lz4", "compression.lz4.level": "17"},
        {"compression.type": "zstd", "compression.zstd.level": "-5"},
    ):
        yield Case(f"none, {config}", batch(several, NONE, now_ms), config)


def of_sizes(now_ms: int) -> Iterator[Case]:
    small = {"max.message.bytes": "1000"}
    for codec, name in enumerate(CODECS):
        large = batch([record(0, value=bytes(5000))], codec, now_ms)
        yield Case(f"{name}: 5000 zeros", large, small)
        yield Case(f"{name} to uncompressed: 5000 zeros", large, {**small, "compression.type": "uncompressed"})
        yield Case(f"{name} to gzip: 5000 zeros", large, {**small, "compression.type": "gzip"})
        late = batch([record(0, value=bytes(5000), timestamp_delta=2 * HOUR_MS)], codec, now_ms)
        yield Case(f"{name} to uncompressed: 5000 zeros and late", late, {**small, "compression.type": "uncompressed"})
    segments = {"max.message.bytes": "3000000", "segment.bytes": "1048576"}
    wide = [record(0, value=bytes(1_500_000))]
    yield Case("none: more than a segment", batch(wide, NONE, now_ms), segments)
    yield Case("gzip: more than a segment, but compressed", batch(wide, GZIP, now_ms), segments)
    yield Case(
        "gzip to uncompressed: more than a segment",
        batch(wide, GZIP, now_ms),
        {**segments, "compression.type": "uncompressed"},
    )
    unordered = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 5}
    yield Case("none: more than a segment, and a gap", batch(wide, NONE, now_ms, **unordered), segments)
