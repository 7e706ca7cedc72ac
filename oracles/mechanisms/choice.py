"""A choice near the optimum, for edition 2: the fewest bytes among the oracles within 2% of the smallest error."""

from collections.abc import Iterable
from dataclasses import dataclass

from oracles.errors import ParameterError
from oracles.estimate.pure import Pure
from oracles.mechanisms import chance
from oracles.mechanisms.protocol import Oracle

MOST_BYTES = 8
_NEAR_OPTIMUM = 1.02


@dataclass(frozen=True)
class Candidate:
    """An oracle that a query may use, and its error as a multiple of the smallest possible one."""

    oracle: Oracle
    distance: float


def nearest(versions: Iterable[Oracle], epsilon: float, size: int, budget: float | None = None) -> Candidate:
    """Return the best candidate, the first of equal ones. With a budget, its answers for life fit it."""
    optimal_total = optimum(epsilon, size)
    candidates = [
        Candidate(version, total(version) / optimal_total)
        for version in versions
        if version.width <= MOST_BYTES and (budget is None or version.life.amount <= budget)
    ]
    if not candidates:
        raise ParameterError(f"no oracle answers for life within a budget of {budget}; the least is {epsilon:g}")

    # Python's min takes the first of equal ones, so the order of ORACLES decides between equal widths.
    near_optimum = [candidate for candidate in candidates if candidate.distance <= _NEAR_OPTIMUM]
    if near_optimum:
        return min(near_optimum, key=lambda candidate: candidate.oracle.width)
    return min(candidates, key=lambda candidate: candidate.distance)


def total(oracle: Pure) -> float:
    """Return the sum of the variances of all shares, times the number of reports."""
    at_zero = oracle.variance(1)
    return oracle.size * at_zero + oracle.variance(1, 1.0) - at_zero


def optimum(epsilon: float, size: int) -> float:
    """Return the smallest `total` that a report of any length can have: that of the best subsets."""
    e = float(chance.exp(epsilon))
    floor = int(size / (e + 1.0))
    return min(_of_subsets(size, min(max(members, 1), size - 1), e) for members in (floor, floor + 1))


def least_variance(epsilon: float, size: int) -> float:
    """Return the smallest variance of a share near zero, times the number of reports, of any report."""
    e = float(chance.exp(epsilon))
    floor = int(size / (e + 1.0))
    laws = [_law(size, min(max(members, 1), size - 1), e) for members in (floor, floor + 1)]
    return min(q * (1.0 - q) / (p - q) ** 2 for p, q in laws)


def _of_subsets(size: int, members: int, e: float) -> float:
    p, q = _law(size, members, e)
    return size * q * (1.0 - q) / (p - q) ** 2 + (1.0 - p - q) / (p - q)


def _law(size: int, members: int, e: float) -> tuple[float, float]:
    """Return p and q of random subsets with so many members."""
    p = members * e / (members * e + size - members)
    return p, (p * (members - 1) + (1.0 - p) * members) / (size - 1)
