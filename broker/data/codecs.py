"""Compression of the records in a batch, by the numbers of Kafka's codecs: 0 none, 1 gzip.

Python has no library for snappy, lz4 and zstd: records in such batches cannot be read.
"""

import zlib
from typing import Final

UNCOMPRESSED: Final = 0
GZIP: Final = 1
_GZIP_FORMAT: Final = 31  # of zlib: a gzip header, and the largest window


def unpack(codec: int, payload: bytes, most_bytes: int) -> bytes | None:
    """The uncompressed bytes; None if they are damaged, more than `most_bytes`, or the codec is not known."""
    if codec == UNCOMPRESSED:
        return payload
    if codec != GZIP:
        return None
    unpacking = zlib.decompressobj(_GZIP_FORMAT)
    try:
        unpacked = unpacking.decompress(payload, most_bytes)
    except zlib.error:
        return None
    return unpacked if unpacking.eof else None


def pack(codec: int, payload: bytes) -> bytes:
    """The compressed bytes. The codec is one that `unpack` knows."""
    if codec == UNCOMPRESSED:
        return payload
    packing = zlib.compressobj(wbits=_GZIP_FORMAT)
    return packing.compress(payload) + packing.flush()
