"""The seeded generators of a simulation, one for each use."""

from enum import IntEnum

import numpy as np


class Draws(IntEnum):
    """The uses of a generator; each draws a stream of its own."""

    VALUES = 0
    REPORTS = 1
    CONDUCT = 2
    CHANGE = 3
    FRAMES = 4
    RUN = 5
    GROUPS = 6


def generator(seed: int, purpose: Draws, *key: int) -> np.random.Generator:
    """Return the generator of a purpose: the same for the same seed and key, independent of all others."""
    # A spawn key, because sums of seeds and keys could meet, and two streams would be one.
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))
