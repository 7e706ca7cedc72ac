"""Frequency oracles: ways to perturb one answer, each under its name."""

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, partial
from typing import Protocol, cast

from oracles.errors import ParameterError
from oracles.mechanisms.blh import Blh
from oracles.mechanisms.choice import nearest, total
from oracles.mechanisms.full import Full
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.haar import Haar
from oracles.mechanisms.hr import Hr
from oracles.mechanisms.olh import Olh
from oracles.mechanisms.oue import Oue
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.short import Short
from oracles.mechanisms.ss import Ss
from oracles.mechanisms.sub import Sub
from oracles.mechanisms.sue import Sue
from oracles.mechanisms.table import MOST, Forms, best_points, is_allowed
from oracles.types import usable_epsilon, usable_size

EDITION = 1
"""The edition of a query file that names none."""
NEWEST = 2
"""The newest edition that has all its defaults. Its "auto" chooses near the smallest possible error, and its answers
for life use tables."""
COMING = 3
"""The edition of the next release. A file may name it, but it does not have all its defaults yet."""
EACH = "each"
TABLE = "table"
NOISES = (TABLE, EACH)
"""How the answers of a client to different values depend on one another."""


class OracleType(Protocol):
    """A class of oracles, as the table lists it."""

    @property
    def auto_edition(self) -> int | None: ...

    @property
    def max_size(self) -> int: ...

    @property
    def takes_buckets(self) -> bool: ...

    @property
    def takes_table(self) -> bool: ...

    def __call__(self, epsilon: float, size: int) -> Oracle: ...

    def candidate(self, epsilon: float, size: int, classes: int | None = None) -> Oracle | None: ...

    def versions(self, epsilon: float, size: int, forms: Forms) -> Iterator[Oracle]: ...


ORACLES: dict[str, OracleType] = {
    "grr": Grr,
    "hr": Hr,
    "olh": Olh,
    "full": Full,
    "short": Short,
    "oue": Oue,
    "ss": Ss,
    "sue": Sue,
    "blh": Blh,
    "sub": Sub,
}
"""Every oracle under its name. All code that lists, checks or chooses oracles reads this table. Of two oracles that are
equally good for "auto" of edition 2, it chooses the first."""
NUMBER_ORACLES: dict[str, OracleType] = {"haar": Haar}
"""Oracles of numbers. Their reports tell of blocks of bins, not of single values."""
ALL_ORACLES = ORACLES | NUMBER_ORACLES
WITH_BUCKETS = frozenset(name for name, kind in ORACLES.items() if kind.takes_buckets)
"""Oracles whose number of buckets a query may choose."""
WITH_TABLE = frozenset(name for name, kind in ALL_ORACLES.items() if kind.takes_table)
"""Oracles whose clients may answer by a table."""
WITH_SUBSETS = frozenset({"sub"})
"""Oracles whose reports name several buckets."""
_TAKING = {"buckets": WITH_BUCKETS, "subset": WITH_SUBSETS, "rows": WITH_SUBSETS, "table": WITH_TABLE}


def oracle(
    name: str,
    *,
    epsilon: float,
    size: int,
    buckets: int | None = None,
    subset: int | None = None,
    rows: str | None = None,
    table: int | None = None,
    edition: int | None = None,
) -> Oracle:
    """Return the frequency oracle `name` for `size` values, epsilon-LDP. "auto" chooses by variance and width.

    `buckets` is for olh, full, short and sub: fewer than the best number give a client that repeats itself fewer
    classes. `subset` and `rows` are for sub: the number of buckets that a report names, and the family of its maps.

    >>> olh = oracle("olh", epsilon=1.0, size=1024)
    >>> olh.width, round(olh.variance(1_000_000) ** 0.5, 6)
    (4, 0.001921)

    `table` makes clients answer by one permutation of at most 8 buckets. All answers of a round then give away less.

    >>> oracle("olh", epsilon=2.0, size=64, table=5).bound(8)
    6.6852270786

    `edition` makes "auto" choose as a query file of that edition does, by default of the newest one.
    """
    if edition is not None and (name != "auto" or edition not in (*range(EDITION, NEWEST + 1), COMING)):
        raise ParameterError(f"edition is for auto, and from {EDITION} to {COMING}; got {edition!r} for {name!r}")
    epsilon = usable_epsilon(epsilon)
    size = usable_size(size)
    settings = {"buckets": buckets, "subset": subset, "rows": rows, "table": table}
    options = {option: value for option, value in settings.items() if value is not None}
    if name == "auto" and not options:
        return automatic(epsilon, size, edition=NEWEST if edition is None else edition)
    if name not in ALL_ORACLES and name != "auto":
        raise ParameterError(f"unknown oracle {name!r}; choose one of {', '.join(ALL_ORACLES)} or auto")

    for option in options:
        names = _TAKING[option]
        if name not in names:
            raise ParameterError(f"oracle {name!r} takes no {option}; {', '.join(sorted(names))} do")
    return cast("Callable[..., Oracle]", ALL_ORACLES[name])(epsilon, size, **options)


def automatic(
    epsilon: float,
    size: int,
    classes: int | None = None,
    edition: int = EDITION,
    budget: float | None = None,
    *,
    noise: str | None = None,
    table: int | None = None,
    among: Collection[str] | None = None,
) -> Oracle:
    """Return the oracle that "auto" chooses for a query file of this edition.

    Edition 1: the shortest reports among the oracles within 10% of the smallest variance at f = 0. `classes`
    excludes oracles with more classes. Edition 2: the fewest bytes among the oracles within 2% of the smallest
    possible error, in at most 8 bytes. A `budget` excludes oracles whose answers for life charge more. `noise` and
    `table` exclude oracles of another noise. "auto" never chooses an oracle of a later edition, so a new oracle changes
    no digest. `among` names the oracles that suit, if not all do.
    """
    # Edition 1 has no choice of its own with tables.
    if noise == TABLE:
        edition = max(edition, NEWEST)
    kinds = tuple(
        kind
        for name, kind in ORACLES.items()
        if kind.auto_edition is not None and kind.auto_edition <= edition and (among is None or name in among)
    )
    if edition > 1:
        return _nearest(kinds, epsilon, size, budget=budget, noise=noise, table=table)
    return _shortest(kinds, epsilon, size, classes)


# Many queries share their settings, and oracles do not change.
@lru_cache(maxsize=1 << 10)
def _shortest(kinds: tuple[OracleType, ...], epsilon: float, size: int, classes: int | None) -> Oracle:
    """Return the choice of edition 1."""
    candidates = []
    for kind in kinds:
        candidate = kind.candidate(epsilon, size, classes)
        if candidate is not None:
            candidates.append(candidate)
    if not candidates:
        raise ParameterError(f"no oracle has at most {classes} classes; every oracle has at least 2")

    limit = 1.1 * min(candidate.variance(1) for candidate in candidates)
    near_best = [candidate for candidate in candidates if candidate.variance(1) <= limit]
    # The name decides between equal widths: then the order of the table does not matter.
    return min(near_best, key=lambda candidate: (candidate.width, candidate.name))


@lru_cache(maxsize=1 << 10)
def _nearest(
    kinds: tuple[OracleType, ...],
    epsilon: float,
    size: int,
    *,
    budget: float | None,
    noise: str | None,
    table: int | None,
) -> Oracle:
    """Return the choice of edition 2."""

    def points(buckets: int) -> int | None:
        # Without a budget clients do not answer for life, and need no table.
        if noise == EACH or budget is None:
            return None
        if table is None:
            return best_points(buckets, epsilon)
        return table if is_allowed(buckets, table, epsilon) else None

    forms = Forms(points, fewer=budget is not None, by_table=budget is not None and noise != EACH)
    versions: list[Oracle] = []
    for kind in kinds:
        versions += kind.versions(epsilon, size, forms)
    if noise == TABLE:
        versions = [version for version in versions if version.tables is not None]
    return nearest(versions, epsilon, size, budget).oracle


def fitted(name: str, epsilon: float, size: int, budget: float | None) -> Oracle:
    """Return an oracle of this name with the smallest error whose answers for life fit the budget, or the best one.

    Without a budget clients do not answer for life.
    """
    if budget is None:
        return automatic(epsilon, size, edition=NEWEST) if name == "auto" else oracle(name, epsilon=epsilon, size=size)
    usable_epsilon(epsilon)

    forms = Forms(partial(best_points, epsilon=epsilon), fewer=True)
    versions = [*ORACLES[name].versions(epsilon, size, forms)]
    # blh has no version of its own for "auto", which takes hr in its place.
    if not versions:
        versions = [oracle(name, epsilon=epsilon, size=size, table=2)]
    candidates = [version for version in versions if version.life.amount <= budget]
    if not candidates:
        least_charge = min(float(version.life.amount) for version in versions)
        raise ParameterError(f"answers for life charge {least_charge:,.4g}, above the budget of {budget:g}")
    return min(candidates, key=total)


def with_noise(single: Oracle, noise: str, table: int | None, make: Callable[[int], Oracle]) -> Oracle:
    """Return the oracle with a table if its noise is "table" and a table is possible. `make` makes it for a t."""
    if noise == EACH or single.places is None:
        return single
    if table is None and single.places <= MOST:
        table = best_points(single.places, single.epsilon)
    return single if table is None else make(table)
