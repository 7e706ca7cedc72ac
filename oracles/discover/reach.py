"""The smallest share that a search finds, as a multiple of the error of one share.

Levels that each tell the children of a prefix apart need f >= sigma sqrt(2 ln(strings) / n), for the part n of the
clients that report a level. `benchmarks/string_lengths.py` measured by how much more a search needs.
"""

import math
from bisect import bisect_left

from oracles.discover.cell_hash import LEVEL_SLOTS, Strings
from oracles.estimate.pure import Pure

RATIOS = ((8, 1.3), (12, 1.28), (16, 1.28), (24, 1.36))
"""Lengths, and the reach as a multiple of the smallest reach that any code of levels can have."""
FEWER_CELLS = {16: 1.0, 15: 1.02, 14: 1.05, 13: 1.12, 12: 1.25}
"""Logarithm of the number of cells, and by how much fewer cells raise the reach."""


def reach(strings: Strings) -> float:
    """Return the smallest share that is found with probability 0.9, in standard errors of all clients."""
    coding = strings.coding
    # Only clients of the levels search. Those of the maps prove.
    searching = LEVEL_SLOTS * strings.levels / strings.slots
    smallest_reach = math.sqrt(2.0 * coding.length * math.log(coding.size) / searching)
    return smallest_reach * _ratio(coding.length) * FEWER_CELLS[strings.cells]


def smallest_share(strings: Strings, cell: Pure, n: int) -> float | None:
    """Return the smallest share that a search of `n` independent reports finds. None if there is none."""
    share = reach(strings) * float(cell.noise(n).sigma) if n else 1.0
    return share if share < 1.0 else None


def _ratio(length: int) -> float:
    """Return the ratio of a length, interpolated between the measured ones."""
    lengths = [length_of_ratio for length_of_ratio, _ in RATIOS]
    place = bisect_left(lengths, length)
    if place in (0, len(RATIOS)):
        return RATIOS[min(place, len(RATIOS) - 1)][1]
    low, low_ratio = RATIOS[place - 1]
    high, high_ratio = RATIOS[place]
    return low_ratio + (high_ratio - low_ratio) * (length - low) / (high - low)
