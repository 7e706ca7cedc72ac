"""The people that a table of pairs needs, in addition to two attributes alone, in words."""

import re
from collections.abc import Iterator

from aggregator.plan.kinds.values import people
from hubbub.texts import percent
from oracles.errors import ParameterError
from oracles.mechanisms import NEWEST, automatic
from oracles.query.answers import MOST_PAIRS

_SIZES = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
SHARE = 0.01
"""The share of a cell to see, by default."""


def table_sizes(text: str) -> tuple[int, int]:
    """Return the sizes of a table such as 16x8."""
    match = _SIZES.fullmatch(text)
    rows, columns = (int(match[1]), int(match[2])) if match else (0, 0)
    if min(rows, columns) < 2 or rows * columns > MOST_PAIRS:
        raise ParameterError(f"must be the sizes of two attributes, such as 16x8, with at most {MOST_PAIRS:,} cells")
    return rows, columns


def sentences(
    sizes: tuple[int, int], epsilon: float, share: float, family_error: float, budget: float | None
) -> Iterator[str]:
    """Yield in words how many people a table of pairs needs, and how many its two attributes alone need.

    With `smp` a person answers one attribute or the pair. So each answer has a third of the people, or half of them
    without the pair. Oracles are those of a file of the newest edition, within the budget of answers for life.
    """
    rows, columns = sizes

    def need(size: int, answers: int) -> int | None:
        oracle = automatic(epsilon, size, edition=NEWEST, budget=budget)
        each = people(oracle, share, family_error, sampled=True)
        return None if each is None else each * answers

    cell, alone = need(rows * columns, 3), max_of(need(rows, 2), need(columns, 2))
    yield (
        f"At epsilon {epsilon:g} a table of {rows} x {columns} needs {_count(cell)} people to see a cell that more "
        f"than {percent(share)} have."
    )
    yield (
        f"The two attributes alone need {_count(alone)} people to see a value that more than {percent(share)} have. "
        f"With the pair they need {_count(None if alone is None else -(-alone * 3 // 2))}, because fewer answer each."
    )


def max_of(first: int | None, second: int | None) -> int | None:
    """Return the larger number. None is more than any number."""
    return None if first is None or second is None else max(first, second)


def _count(number: int | None) -> str:
    return "more than 10^13" if number is None else f"{number:,}"
