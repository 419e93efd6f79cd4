"""Message sets of formats 0 and 1, written only from Kafka's description of the formats: this module shares no code
with what it tests."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import cramjam

FILE: Final = Path(__file__).parents[2] / "golden" / "message_sets" / "message-sets.txt"
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}


class Recorded(NamedTuple):
    """A line of the file, which Kafka's classes have written."""

    kind: str
    magic: int
    codec: int
    time: str
    first: int
    before: bytes
    after: bytes | None


def recorded() -> list[Recorded]:
    found = []
    for line in FILE.read_text().splitlines():
        kind, magic, codec, time, first, before, after = line.split()
        converted = None if after == "-" else bytes.fromhex(after)
        found.append(Recorded(kind, int(magic), CODECS[codec], time, int(first), bytes.fromhex(before), converted))
    return found


class Old(NamedTuple):
    """One message as it was read."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def message(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp_ms: int = 0,
    offset: int = 0,
    crc: int | None = None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp_ms) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) if crc is None else crc) + body


def wrapped(messages: Sequence[bytes], *, magic: int = 1, attributes: int = 0) -> bytes:
    """The messages in a gzip message."""
    packing = zlib.compressobj(wbits=31)
    packed = packing.compress(b"".join(messages)) + packing.flush()
    return message(None, packed, magic=magic, attributes=1 | attributes)


def messages_in(data: bytes) -> list[Old]:
    """The messages of a set, with what is in compressed ones in their place and with absolute offsets."""
    found, at = [], 0
    while at < len(data):
        offset, size, crc = struct.unpack_from(">qiI", data, at)
        body = data[at + 16 : at + 12 + size]
        assert zlib.crc32(body) == crc
        one = _read(offset, body)
        codec = one.attributes & 7
        if codec:
            inner = messages_in(unpacked(codec, one.value or b"", one.magic))
            last = inner[-1].offset
            assert one.key is None
            assert one.timestamp_ms == (max(each.timestamp_ms for each in inner) if one.magic else -1)
            found += [each._replace(offset=offset - last + each.offset) if one.magic else each for each in inner]
            assert one.magic or last == offset
        else:
            found.append(one)
        at += 12 + size
    return found


def _read(offset: int, body: bytes) -> Old:
    magic, attributes = struct.unpack_from(">bb", body)
    at, timestamp_ms = 2, -1
    if magic:
        (timestamp_ms,) = struct.unpack_from(">q", body, at)
        at += 8
    parts: list[bytes | None] = []
    for _ in range(2):
        (size,) = struct.unpack_from(">i", body, at)
        at += 4
        parts.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    assert at == len(body)
    return Old(offset, magic, attributes, timestamp_ms, *parts)


def unpacked(codec: int, packed: bytes, magic: int) -> bytes:
    if codec == 1:
        return zlib.decompress(packed, 31)
    if codec == 2:
        assert packed.startswith(b"\x82SNAPPY\0")
        blocks, at = b"", 16
        while at < len(packed):
            (size,) = struct.unpack_from(">i", packed, at)
            blocks += bytes(cramjam.snappy.decompress_raw(packed[at + 4 : at + 4 + size]))
            at += 4 + size
        return blocks
    assert codec == 3
    if magic == 0:  # the checksum of the frame's header is that of more bytes, as old clients expect (KAFKA-3160)
        assert packed[6] != 0x82, "the right one for these flags"
        packed = packed[:6] + b"\x82" + packed[7:]
    return bytes(cramjam.lz4.decompress(packed))
