"""Frequency oracles: ways to perturb one answer, each under its name."""

from collections.abc import Callable, Iterator

from oracles.errors import ParameterError
from oracles.mechanisms.blh import Blh
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.hr import Hr
from oracles.mechanisms.olh import Olh
from oracles.mechanisms.oue import Oue
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.ss import Ss
from oracles.mechanisms.sue import Sue
from oracles.types import MAX_WIDTH, usable_epsilon, usable_size

ORACLES: dict[str, Callable[[float, int], Oracle]] = {
    "grr": Grr,
    "sue": Sue,
    "oue": Oue,
    "blh": Blh,
    "olh": Olh,
    "hr": Hr,
    "ss": Ss,
}
"""Every oracle under its name: whatever lists or checks oracles reads this."""


def oracle(name: str, *, epsilon: float, size: int, buckets: int | None = None) -> Oracle:
    """The frequency oracle `name` for `size` values, epsilon-LDP; "auto" takes the smallest variance.

    `buckets` is for olh: fewer than the best number, so that a client that repeats itself has fewer classes.

    >>> olh = oracle("olh", epsilon=1.0, size=1024)
    >>> olh.width, round(olh.variance(1_000_000) ** 0.5, 6)
    (4, 0.001921)
    """
    epsilon, size = usable_epsilon(epsilon), usable_size(size)
    if buckets is not None:
        if name != "olh":
            raise ParameterError(f"buckets are for olh only, not for {name!r}")
        return Olh(epsilon, size, buckets)
    if name == "auto":
        return automatic(epsilon, size)
    if name not in ORACLES:
        raise ParameterError(f"there is no oracle {name!r}; choose one of {', '.join(ORACLES)} or auto")
    return ORACLES[name](epsilon, size)


def automatic(epsilon: float, size: int, classes: int | None = None) -> Oracle:
    """The fewest bytes a report among those whose variance at f = 0 is within 10% of the smallest.

    With `classes` only oracles of at most so many are meant: olh then with the best number of buckets
    that fits, which is blh where it is two.
    """
    candidates = list(_candidates(epsilon, size, classes))
    if not candidates:
        raise ParameterError(f"no oracle has as few as {classes} classes; there are at least 2")
    best = min(candidate.variance(1) for candidate in candidates)
    return min((c for c in candidates if c.variance(1) <= 1.1 * best), key=lambda c: c.width)


def _candidates(epsilon: float, size: int, classes: int | None) -> Iterator[Oracle]:
    """Of grr, olh and oue those with at most so many classes, in this order."""
    most = size if classes is None else classes
    if size <= most:
        yield Grr(epsilon, size)
    hashed = Olh(epsilon, size)
    while hashed.classes > most and hashed.hashes > 1:
        hashed = Olh(epsilon, size, hashed.buckets // 2)
    if hashed.classes <= most:
        yield Blh(epsilon, size) if hashed.hashes == 1 and classes is not None else hashed
    if size <= min(most, 8 * MAX_WIDTH):
        yield Oue(epsilon, size)
