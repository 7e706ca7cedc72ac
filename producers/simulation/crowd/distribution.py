"""The distribution of a crowd, from which each simulated client draws its value or record."""

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from oracles.errors import HubbubError, ParameterError
from oracles.numbers import Scale
from oracles.query import Query
from oracles.query.domain import NUMBERS, Domain
from oracles.types import Ints

Floats = NDArray[np.float64]

MOST_VALUES = 1 << 24
"""The largest domain of a simulation: a distribution has a weight for each value."""
SPECS = (
    "uniform, zipf:A, beta:A,B, geometric:P, for numbers normal:MEAN,SD or lognormal:MEAN,SD (of the logarithm), "
    "file:PATH, or a mixture such as 0.7*zipf:1.1+0.3*uniform"
)
COUNT = "count"
VALUE = "value"
"""Columns of a file of counts. With several attributes, their names replace the column `value`."""

_TERM = re.compile(r"([0-9.]+(?:e-?[0-9]+)?)\*(.+)")


@dataclass(frozen=True, eq=False)
class Distribution:
    """Outcomes and their weights. An outcome is a value, or one of `records` with a value per attribute."""

    weights: Floats
    records: Ints | None = None

    def __post_init__(self) -> None:
        total = float(self.weights.sum())
        if not 0.0 < total < math.inf or self.weights.min() < 0.0:
            raise ParameterError("a distribution needs weights of at least 0 with a finite sum above 0")

    @cached_property
    def _reach(self) -> Floats:
        reach = np.cumsum(self.weights)
        # Rounding may leave the end below 1, and a draw above it would have no outcome.
        reach /= reach[-1]
        return reach

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """Draw values, or records of shape (count, attributes)."""
        outcomes = np.searchsorted(self._reach, rng.random(count), side="right")
        return outcomes if self.records is None else self.records[outcomes]

    def without(self, attribute: int, value: int) -> "Distribution":
        """Return the distribution without the outcomes that have this value."""
        values = np.arange(len(self.weights)) if self.records is None else self.records[:, attribute]
        return replace(self, weights=np.where(values == value, 0.0, self.weights))


@dataclass(frozen=True, eq=False)
class Independent:
    """Several attributes, each with a distribution of its own."""

    laws: tuple[Distribution, ...]

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        return np.stack([law.draw(rng, count) for law in self.laws], axis=1)

    def without(self, attribute: int, value: int) -> "Independent":
        laws = list(self.laws)
        laws[attribute] = laws[attribute].without(0, value)
        return Independent(tuple(laws))


Crowd = Distribution | Independent


def read_crowd(specs: Sequence[str], query: Query) -> Crowd:
    """Return the distribution of `specs`: SPEC for all attributes, NAME=SPEC for single ones, or joint counts.

    An attribute without a spec of its own takes the spec without a name. If there is none, it is uniform.
    """
    names = [attribute.name for attribute in query.singles]
    for domain in query.answer_domains:
        if domain.size > MOST_VALUES:
            raise ParameterError(
                f"the domain has {domain.size:,} values, but a simulation takes at most {MOST_VALUES:,}"
            )

    specs_by_name: dict[str | None, str] = {}
    for spec in specs:
        name, equals, law = spec.partition("=")
        # A path may have an equals sign too, so only the names of attributes count.
        if equals and name in names:
            specs_by_name[name] = law
        else:
            specs_by_name[None] = spec
    if len(specs_by_name) < len(specs):
        raise ParameterError("give one distribution per attribute, and at most one without a name")

    default_spec = specs_by_name.get(None, "uniform")
    if not names:
        return read_law(default_spec, query.domains[0])

    if default_spec.startswith("file:") and len(specs_by_name) == 1:
        return _joint(Path(default_spec.removeprefix("file:")), names, query.answer_domains)

    domains = zip(names, query.answer_domains, strict=True)
    laws = (read_law(specs_by_name.get(name, default_spec), domain) for name, domain in domains)
    return Independent(tuple(laws))


def read_law(spec: str, domain: Domain) -> Distribution:
    """Return the distribution of one value."""
    terms = [_TERM.fullmatch(term.strip()) for term in spec.split("+")]
    # A mixture comes first, because a term may have any other form.
    if all(terms):
        shares = [(_number(term[1], spec), read_law(term[2], domain).weights) for term in terms if term]
        return Distribution(reduce(np.add, (share * weights / weights.sum() for share, weights in shares)))

    kind, _, arguments = spec.partition(":")
    if kind == "file":
        return _by_counts(Path(arguments), domain)

    numbers = [_number(text, spec) for text in arguments.split(",")] if arguments else []
    parameters, weigh = _SHAPES.get(kind, (-1, _uniform))
    has_law = kind in _LAWS_OF_KIND.get(domain.kind, {})
    if has_law:
        parameters = 2
    if len(numbers) != parameters:
        raise ParameterError(f"a distribution is {SPECS}, got {spec!r}")

    if has_law:
        return Distribution(_of_numbers(cast(Scale, domain.scale), kind, *numbers))

    # Extreme parameters overflow. The check below refuses them with a sentence.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        weights = weigh(np.arange(domain.size, dtype=np.float64), domain.size, *numbers)
    if not np.isfinite(weights).all():
        raise ParameterError(f"{spec}: these parameters give weights that are not finite")
    return Distribution(weights)


def _number(text: str, spec: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise ParameterError(f"a number of a distribution must be at least 0, got {text!r} in {spec!r}")
    return number


def _uniform(values: Floats, size: int) -> Floats:
    del size
    return np.ones_like(values)


def _zipf(values: Floats, size: int, exponent: float) -> Floats:
    del size
    return (values + 1.0) ** -exponent


def _beta(values: Floats, size: int, a: float, b: float) -> Floats:
    """Return the density at the middle of each value's part of 0..1."""
    middle = (values + 0.5) / size
    return middle ** (a - 1.0) * (1.0 - middle) ** (b - 1.0)


def _geometric(values: Floats, size: int, p: float) -> Floats:
    del size
    if p >= 1.0:
        raise ParameterError(f"the probability of a geometric distribution must be below 1, got {p}")
    return (1.0 - p) ** values


_SHAPES: dict[str, tuple[int, Callable[..., Floats]]] = {
    "uniform": (0, _uniform),
    "zipf": (1, _zipf),
    "beta": (2, _beta),
    "geometric": (1, _geometric),
}


_LAWS = {"normal": lambda edges: edges, "lognormal": lambda edges: np.log(np.maximum(edges, 0.0))}
_LAWS_OF_KIND = {NUMBERS: _LAWS}
"""The laws that only a kind of answer has."""
"""Laws of numbers, by the function that makes them normal."""


def _of_numbers(scale: Scale, kind: str, mean: float, sd: float) -> Floats:
    """Return the weight of each bin. The bins at the ends have what lies beyond them."""
    if not sd:
        raise ParameterError(f"the standard deviation of {kind} must be above 0")
    # A lognormal law has nothing below 0, where a linear scale may have edges.
    with np.errstate(divide="ignore"):
        places = (_LAWS[kind](scale.edges[1:-1]) - mean) / (sd * math.sqrt(2.0))

    shares_below = [0.0, *(0.5 * math.erfc(-place) for place in places.tolist()), 1.0]
    return np.diff(np.array(shares_below))


def _by_counts(path: Path, domain: Domain) -> Distribution:
    weights = np.zeros(domain.size)
    for positions, count in _rows(path, [VALUE], [domain]):
        weights[positions] += count
    return Distribution(weights)


def _joint(path: Path, names: Sequence[str], domains: Sequence[Domain]) -> Distribution:
    rows = list(_rows(path, names, domains))
    if not rows:
        raise ParameterError(f"{path}: the file has no counts below the first line")
    return Distribution(np.array([count for _, count in rows]), np.array([record for record, _ in rows], np.int64))


def _check_columns(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    if sorted(header) != sorted(columns):
        raise ParameterError(f"{path}: the first line must name the columns {', '.join(columns)}")


def _rows(path: Path, names: Sequence[str], domains: Sequence[Domain]) -> Iterator[tuple[list[int], float]]:
    """Yield the positions of each row's values, and its count."""
    columns = [*names, COUNT]
    try:
        # Spreadsheets begin a file with a mark of its encoding, which would be part of the first name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            _check_columns(path, table.fieldnames or [], columns)

            for row in table:
                try:
                    positions = [domain.position(row[name] or "") for name, domain in zip(names, domains, strict=True)]
                    yield positions, _number(row[COUNT] or "", f"{row}")
                except HubbubError as error:
                    raise ParameterError(f"{path}, line {table.line_num}: {error}") from error
    except ParameterError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise ParameterError(f"cannot read {path}: {error}") from error
