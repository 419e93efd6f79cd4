"""Compression of the records in a batch, by the numbers of Kafka's codecs: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

The forms are those of Kafka's clients: snappy in the frame of xerial's library (or a single block without a frame), lz4
in independent blocks of its frame format. What Kafka accepts behind the compressed bytes, and what it refuses, is
recorded in `tests/golden/records`. No function ever holds more uncompressed bytes than it was asked for.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

UNCOMPRESSED, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DEFAULT_LEVELS: Final = {GZIP: -1, LZ4: 9, ZSTD: 3}

_GZIP_FORMAT: Final = 31  # of zlib: a gzip header, and the largest window
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_VERSIONS: Final = b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER: Final = _LZ4_MAGIC + b"\x60\x40\x82"  # version 1, independent blocks of 64 KiB, its checksum
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_BLOCK_SIZES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_VERSION, _LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_SIZE, _LZ4_RESERVED = 0x40, 0x20, 0x10, 0x08, 0x02
_LZ4_STORED: Final = 1 << 31
_LZ4_HIGH_LEVELS: Final = range(3, 13)
_WORD: Final = 0xFFFF_FFFF
_USUAL_BYTES: Final = 1024 * 1024


class DamagedPayload(Exception):
    """Kafka cannot uncompress the payload of a batch."""


class PayloadTooLarge(Exception):
    """The payload has more uncompressed bytes than were asked for."""


def unpack(codec: int, payload: bytes, most_bytes: int) -> bytes:
    """The uncompressed bytes. Raises DamagedPayload, or PayloadTooLarge if they are more than `most_bytes`."""
    return _UNPACK[codec](payload, most_bytes)


def pack(codec: int, payload: bytes, level: int | None = None) -> bytes:
    """The compressed bytes. `level` is that of Kafka's config for the codec; None: its default."""
    return _PACK[codec](payload, DEFAULT_LEVELS.get(codec, 0) if level is None else level)


def _plain(payload: bytes, _: int) -> bytes:
    return payload


def _ungzip(payload: bytes, most_bytes: int) -> bytes:
    unpacked, rest = b"", payload
    while True:
        unpacking = zlib.decompressobj(_GZIP_FORMAT)
        try:
            unpacked += unpacking.decompress(rest, most_bytes - len(unpacked) + 1)
        except zlib.error as error:
            raise DamagedPayload from error
        if len(unpacked) > most_bytes:
            raise PayloadTooLarge
        if not unpacking.eof:
            raise DamagedPayload
        rest = unpacking.unused_data
        if not rest.startswith(_GZIP_MAGIC):  # Java ignores what is no further member
            return unpacked


def _gzip(payload: bytes, level: int) -> bytes:
    packing = zlib.compressobj(level, wbits=_GZIP_FORMAT)
    return packing.compress(payload) + packing.flush()


def _unsnappy(payload: bytes, most_bytes: int) -> bytes:
    import cramjam

    unpacked = bytearray()
    for block in _snappy_blocks(payload):
        try:
            size = cramjam.snappy.decompress_raw_len(block)
            if len(unpacked) + size > most_bytes:
                raise PayloadTooLarge
            unpacked += bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise DamagedPayload from error
    return bytes(unpacked)


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    if not payload.startswith(_XERIAL_MAGIC):
        yield _not_empty(payload)
        return
    if len(payload) < _XERIAL_HEADER_BYTES:
        raise DamagedPayload
    at = _XERIAL_HEADER_BYTES
    while at + 4 <= len(payload):
        if payload.startswith(_XERIAL_MAGIC, at):  # another stream was appended
            at += _XERIAL_HEADER_BYTES
            continue
        size = int.from_bytes(payload[at : at + 4], "big")
        at += 4 + size
        if at > len(payload):
            raise DamagedPayload
        yield _not_empty(payload[at - size : at])


def _not_empty(block: bytes) -> bytes:
    if not block:
        raise DamagedPayload
    return block


def _snappy(payload: bytes, _: int) -> bytes:
    import cramjam

    pieces = [_XERIAL_MAGIC + _XERIAL_VERSIONS]
    for at in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        packed = bytes(cramjam.snappy.compress_raw(payload[at : at + _XERIAL_BLOCK_BYTES]))
        pieces += len(packed).to_bytes(4, "big"), packed
    return b"".join(pieces)


def _unlz4(payload: bytes, most_bytes: int) -> bytes:
    import cramjam

    flags, block_bytes, at = _lz4_header(payload)
    if flags & _LZ4_BLOCK_CHECKSUM:
        return _into(cramjam.lz4.decompress_into, payload, most_bytes)
    unpacked, room = bytearray(), memoryview(bytearray(block_bytes))
    while True:
        word = int.from_bytes(payload[at : at + 4], "little")
        size, at = word & ~_LZ4_STORED, at + 4
        if at + size > len(payload) or size > block_bytes:
            raise DamagedPayload
        if not word:  # the end; Kafka reads no further, and checks no checksum of the whole
            return bytes(unpacked)
        block: bytes | memoryview = payload[at : at + size]
        at += size
        if not word & _LZ4_STORED:
            try:
                # Without a length, cramjam takes the first bytes for one, if they could be.
                block = room[: cramjam.lz4.decompress_block_into(block, room, output_len=block_bytes)]
            except cramjam.DecompressionError as error:
                raise DamagedPayload from error
        if len(unpacked) + len(block) > most_bytes:
            raise PayloadTooLarge
        unpacked += block


def _lz4_header(payload: bytes) -> tuple[int, int, int]:
    """The flags of a frame, the size of its blocks, and where they begin."""
    if len(payload) < len(_LZ4_HEADER) or not payload.startswith(_LZ4_MAGIC):
        raise DamagedPayload
    flags, sizes = payload[4], payload[5]
    end = 14 if flags & _LZ4_SIZE else 6
    is_known = flags & 0xC0 == _LZ4_VERSION and flags & _LZ4_INDEPENDENT and not flags & _LZ4_RESERVED
    block_bytes = _LZ4_BLOCK_SIZES.get(sizes >> 4)
    if not is_known or block_bytes is None or sizes & 0x8F or len(payload) <= end:
        raise DamagedPayload
    if payload[end] != _short_xxh32(payload[4:end]) >> 8 & 0xFF:
        raise DamagedPayload
    return flags, block_bytes, end + 1


def repaired_lz4(payload: bytes) -> bytes:
    """The payload of a message of format 0 with the right checksum of its frame's header. Clients of that format hash
    too many bytes (KAFKA-3160), and Kafka does not look at their checksum."""
    return _with_header_checksum(payload, len(_LZ4_MAGIC))


def broken_lz4(payload: bytes) -> bytes:
    """The payload for a message of format 0, whose readers expect the wrong checksum."""
    return _with_header_checksum(payload, 0)


def _with_header_checksum(payload: bytes, hashed_from: int) -> bytes:
    if len(payload) < len(_LZ4_HEADER):
        raise DamagedPayload
    end = 14 if payload[4] & _LZ4_SIZE else 6
    if len(payload) <= end:
        raise DamagedPayload
    checksum = _short_xxh32(payload[hashed_from:end]) >> 8 & 0xFF
    return payload[:end] + bytes((checksum,)) + payload[end + 1 :]


def _short_xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes."""
    mixed = (374_761_393 + len(data)) & _WORD
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        mixed = (mixed + int.from_bytes(data[at : at + 4], "little") * 3_266_489_917) & _WORD
        mixed = (mixed << 17 | mixed >> 15) * 668_265_263 & _WORD
    for byte in data[whole:]:
        mixed = (mixed + byte * 374_761_393) & _WORD
        mixed = (mixed << 11 | mixed >> 21) * 2_654_435_761 & _WORD
    mixed = (mixed ^ mixed >> 15) * 2_246_822_519 & _WORD
    mixed = (mixed ^ mixed >> 13) * 3_266_489_917 & _WORD
    return mixed ^ mixed >> 16


def _lz4(payload: bytes, level: int) -> bytes:
    if level != DEFAULT_LEVELS[LZ4]:
        return _lz4_high(payload, level)
    import cramjam

    pieces = [_LZ4_HEADER]
    for at in range(0, len(payload), _LZ4_BLOCK_BYTES):
        block = payload[at : at + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) >= len(block):
            pieces += (len(block) | _LZ4_STORED).to_bytes(4, "little"), block
        else:
            pieces += len(packed).to_bytes(4, "little"), packed
    pieces.append(bytes(4))
    return b"".join(pieces)


def _lz4_high(payload: bytes, level: int) -> bytes:
    """Kafka's default level stands for the fast compressor, all others for the high compression."""
    import cramjam

    level = min(max(level, _LZ4_HIGH_LEVELS.start), _LZ4_HIGH_LEVELS.stop - 1)
    packing = cramjam.lz4.Compressor(level=level, block_linked=False, content_checksum=False)
    packing.compress(payload)
    frame = bytes(packing.finish())
    flags, _, at = _lz4_header(frame)
    checksum_bytes = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    pieces = [_LZ4_HEADER]
    while word := int.from_bytes(frame[at : at + 4], "little"):
        end = at + 4 + (word & ~_LZ4_STORED)
        pieces.append(frame[at:end])
        at = end + checksum_bytes
    pieces.append(bytes(4))
    return b"".join(pieces)


def _unzstd(payload: bytes, most_bytes: int) -> bytes:
    import cramjam

    return _into(cramjam.zstd.decompress_into, payload, most_bytes) if payload else b""


def _zstd(payload: bytes, level: int) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(payload, level=level))


def _into(decompress_into: Callable[[Any, Any], int], payload: bytes, most_bytes: int) -> bytes:
    """Uncompress into a buffer of `most_bytes`, of whose memory only the part that is written to is taken."""
    import cramjam
    import numpy as np

    if most_bytes > _USUAL_BYTES:  # a large buffer takes 0.1 ms, so it is made for large payloads alone
        with suppress(PayloadTooLarge):
            return _into(decompress_into, payload, _USUAL_BYTES)
    room = np.empty(most_bytes, np.uint8)
    try:
        size = decompress_into(payload, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise PayloadTooLarge from error
        raise DamagedPayload from error
    return room[:size].tobytes()


_UNPACK: Final = (_plain, _ungzip, _unsnappy, _unlz4, _unzstd)
_PACK: Final = (_plain, _gzip, _snappy, _lz4, _zstd)
