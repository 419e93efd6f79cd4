"""New ids for topics, incarnations and directories, made from the caller's source of random bytes."""

from collections.abc import Callable

import numpy as np

from klamm.protocol.uuid import Uuid

DASH = 62
"""The value of six bits that url-safe base64, the printed form of ids, shows as a dash."""


def random_bytes(rng: np.random.Generator) -> Callable[[int], bytes]:
    """A source of multiples of 8 random bytes. NumPy guarantees raw words in every version 2.x, but not `bytes`."""
    return lambda count: rng.bit_generator.random_raw(count // 8).astype("<u8").tobytes()


def new_uuid(random_bytes: Callable[[int], bytes]) -> Uuid:
    """A random id. It is no id that Kafka reserves, and does not begin with a dash, which tools read as an option."""
    while True:
        # Version and variant bits as in RFC 9562 version 4, as in Kafka's own random ids. The ids that Kafka reserves
        # have other bits there.
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != DASH:
            return Uuid(raw)
