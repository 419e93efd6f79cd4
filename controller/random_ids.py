"""New ids for topics, incarnations and directories, out of whatever source of random bytes the caller has."""

from collections.abc import Callable

import numpy as np

from klamm.protocol.uuid import Uuid

DASH = 62
"""What six bits make a dash in url-safe base64, in which ids are printed."""


def random_bytes(rng: np.random.Generator) -> Callable[[int], bytes]:
    """A source of multiples of 8 random bytes, the same with every NumPy 2: raw words are, `bytes` may not be."""
    return lambda count: rng.bit_generator.random_raw(count // 8).astype("<u8").tobytes()


def new_uuid(random_bytes: Callable[[int], bytes]) -> Uuid:
    """A random id; never one that Kafka reserves, nor one that starts with a dash, which tools take for an option."""
    while True:
        # Version and variant bits as in RFC 9562 version 4, which is what Kafka's own random ids carry; the ids that
        # Kafka reserves have neither.
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != DASH:
            return Uuid(raw)
