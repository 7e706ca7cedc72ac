"""The mathematics of hubbub: perturbing answers, counting reports, and what the counts say."""

from collections.abc import Callable

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.mechanisms.blh import Blh
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.hr import Hr
from oracles.mechanisms.olh import Olh
from oracles.mechanisms.oue import Oue
from oracles.mechanisms.ss import Ss
from oracles.mechanisms.sue import Sue
from oracles.pure import MAX_EPSILON, MAX_SIZE, Oracle, whole

__all__ = ["ORACLES", "Estimate", "Oracle", "oracle"]

ORACLES: dict[str, Callable[[float, int], Oracle]] = {
    "grr": Grr,
    "sue": Sue,
    "oue": Oue,
    "blh": Blh,
    "olh": Olh,
    "hr": Hr,
    "ss": Ss,
}


def oracle(name: str, *, epsilon: float, size: int) -> Oracle:
    """The frequency oracle `name` for `size` values, epsilon-LDP; "auto" takes the smallest variance.

    >>> olh = oracle("olh", epsilon=1.0, size=1024)
    >>> olh.width, round(olh.variance(1_000_000) ** 0.5, 6)
    (4, 0.001921)
    """
    epsilon = usable_epsilon(epsilon)
    if whole("size", size) < 2 or size > MAX_SIZE:
        raise ParameterError(f"size must be between 2 and {MAX_SIZE}, got {size}")
    if name == "auto":
        return _auto(epsilon, int(size))
    if name not in ORACLES:
        raise ParameterError(f"there is no oracle {name!r}; choose one of {', '.join(ORACLES)} or auto")
    return ORACLES[name](epsilon, int(size))


def usable_epsilon(epsilon: float) -> float:
    """`epsilon` as a float, refused unless it is above 0 and at most 16."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0.0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"epsilon must be a number above 0 and at most {MAX_EPSILON:g}, got {epsilon!r}")
    return float(epsilon)


def _auto(epsilon: float, size: int) -> Oracle:
    """The fewest bytes a report among those whose variance at f = 0 is within 10% of the smallest."""
    names = [name for name in ("grr", "olh", "oue") if name != "oue" or size <= 524_280]
    candidates = [ORACLES[name](epsilon, size) for name in names]
    best = min(candidate.variance(1) for candidate in candidates)
    return min((c for c in candidates if c.variance(1) <= 1.1 * best), key=lambda c: c.width)
