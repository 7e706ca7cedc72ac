"""A test for forged reports of unknown strings: how many reports came for each level and map, and their rows."""

import numpy as np

from oracles.discover.slots import Slots
from oracles.errors import extra
from oracles.multi.forgery import LEVEL, skewed_attributes
from oracles.types import Ints


def skewed(slots: Slots, state: Ints, n: int, n_independent: int) -> bool:
    """Whether the levels and maps of a tally, or the rows of one of them, prove forged reports."""
    return skewed_slots(slots, state, n, n_independent) or any(skewed_attributes(slots, state, n, n_independent))


def skewed_slots(slots: Slots, state: Ints, n: int, n_independent: int) -> bool:
    """Whether the number of reports of each level and map proves that clients did not draw their slots.

    The test is chi-square. Reports that repeat also repeat their slot, so only the independent ones count.
    """
    with extra("stats"):
        from scipy import special

    answering = np.array(slots.answering(state, n), np.float64)
    parts = slots.strings.part(np.arange(slots.strings.slots))
    expectation = n * np.bincount(parts) / slots.strings.slots
    if not n or expectation.min() * n_independent < 5.0 * n:
        return False
    statistic = float(((answering - expectation) ** 2 / expectation).sum()) * n_independent / n
    return float(special.gammaincc((len(expectation) - 1) / 2.0, statistic / 2.0)) < LEVEL
