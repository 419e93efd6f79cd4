"""The random numbers of a controller."""

import secrets

import numpy as np


def new_generator(seed: int | None, log_end_offset: int, *streams: int) -> np.random.Generator:
    """The generator of a controller whose log ends at `log_end_offset` when it starts.

    The same seed gives the same history; without a seed each start is different. A restarted log needs other numbers
    than a new one, because a restart would otherwise generate the same topic ids again. Other `streams`
    give other numbers.
    """
    return np.random.Generator(
        np.random.PCG64([secrets.randbits(64) if seed is None else seed, log_end_offset, *streams])
    )
