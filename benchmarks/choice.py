"""Prints how far "auto" is from the smallest possible error: python -m benchmarks.choice [EDITION] [BUDGET].

Columns are sizes of the domain, rows are epsilons. A cell is the sum of all variances, as a multiple of the sum of
the best report of any length. With BUDGET, as a multiple of epsilon, clients answer for life within it.
"""

import sys

from oracles.mechanisms import NEWEST, automatic
from oracles.mechanisms.choice import optimum, total

SIZES = (2, 3, 4, 8, 16, 32, 48, 64, 100, 128, 200, 256, 1_000, 1_024, 4_096, 65_536, 1_000_000)
EPSILONS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)


def main() -> None:
    edition = int(sys.argv[1]) if len(sys.argv) > 1 else NEWEST
    times = float(sys.argv[2]) if len(sys.argv) > 2 else None
    distances = []
    print("epsilon " + "".join(f"{size:>14,}" for size in SIZES))
    for epsilon in EPSILONS:
        cells = []
        for size in SIZES:
            o = automatic(epsilon, size, edition=edition, budget=None if times is None else times * epsilon)
            distances.append(total(o) / optimum(epsilon, size))
            cells.append(f"{o.name} {distances[-1]:.3f}")
        print(f"{epsilon:<8g}" + "".join(f"{cell:>14}" for cell in cells))
    far = sum(distance > 1.02 for distance in distances)
    print(
        f"{far} of {len(distances)} cells are more than 2% above the optimum. The worst: {max(distances):.3f} times it"
    )


if __name__ == "__main__":
    main()
