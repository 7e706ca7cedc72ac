"""The keys of a query that need its domain: the domain itself, named sets of values, and ranges of numbers."""

from pathlib import Path
from typing import Any, cast

from oracles.errors import ParameterError
from oracles.mechanisms.haar import BINS
from oracles.numbers import LINEAR, LOG, Scale
from oracles.query.domain import BINS_BY_DEFAULT, OTHER, Domain, Ranges, Sets, composed, is_nameable
from oracles.query.domain_kinds import NumberDomain
from oracles.query.settings import Place, Rule, choice, number, quantile_of, repeated, several, shown, table
from oracles.query.strings import is_discovery
from oracles.query.text import read_text
from oracles.types import MAX_SIZE

_VALUE = Rule(f'a string that is neither empty nor "{OTHER}"', is_nameable)
_SIZE = Rule(
    f'a list of values, a size from 1 to {MAX_SIZE}, {{ file = "values.txt" }}, or for numbers {{ low = 0, high = 9 }}',
    lambda value: type(value) is int and 1 <= value <= MAX_SIZE,
)
_FINITE = number("that is finite", lambda value: abs(value) < float("inf"))
_SCALE = choice(LINEAR, LOG)
_BINS = Rule(f"a power of two from {BINS[0]} to {BINS[-1]}", lambda value: type(value) is int and value in BINS)
_UNIT = Rule("a text of 1 to 16 characters", lambda value: is_nameable(value) and len(value) <= 16)
_SCALE_KEYS = ("low", "high", "bins", "scale", "unit")


def _numbers(value: dict[str, Any], place: Place, other: bool | None) -> NumberDomain:
    """Return the domain of numbers between two ends."""
    keys = table(value, place, _SCALE_KEYS)
    for end in ("low", "high"):
        if end not in keys:
            raise (place / end).error("is missing; numbers need both ends, low and high")
    if other:
        raise place.error("must not be numbers if other = true: a number beyond an end counts in the bin at that end")

    bins = _BINS(keys.get("bins", BINS_BY_DEFAULT), place / "bins")
    kind = _SCALE(keys.get("scale", LINEAR), place / "scale")
    unit = _UNIT(keys["unit"], place / "unit") if "unit" in keys else None

    try:
        scale = Scale(_FINITE(keys["low"], place / "low"), _FINITE(keys["high"], place / "high"), bins, kind)
    except ParameterError as error:
        raise place.error(str(error)) from error
    return NumberDomain(None, bins, False, scale, unit)


def read_domain(value: object, place: Place, folder: Path | None, other: bool | None) -> Domain:
    """Return the domain of a list of values, a file or a size. `other` is true by default if values have names."""
    values: tuple[str, ...] | None = None
    if is_discovery(value):
        raise place.error("must not be unknown strings: they are the only answer of their query, under the key domain")
    if isinstance(value, dict) and {"low", "high"} & value.keys():
        return _numbers(value, place, other)

    if isinstance(value, list):
        values = several(value, place, _VALUE)
    elif isinstance(value, dict):
        name = table(value, place, ("file",)).get("file")
        if folder is None:
            raise place.error(f"must list its values: a file is not allowed here, got {shown(name)}")
        values = _file(name, place / "file", folder)

    # Definitions in a topic can be older than this check.
    repeat = None if values is None or folder is None else repeated([composed(value) for value in values])
    if values is not None and repeat is not None:
        raise place.error(f"must have values that differ in Unicode's normal form C too, got {values[repeat]!a} twice")

    count = _SIZE(value, place) if values is None else len(values)
    other = values is not None if other is None else other
    if not 2 <= count + other <= MAX_SIZE:
        raise place.error(
            f'must have from 2 to {MAX_SIZE} values, "{OTHER}" counted if there is one, got {count + other}'
        )
    return Domain(values, count + other, other)


def _file(name: Any, place: Place, folder: Path) -> tuple[str, ...]:
    """Return the lines of a domain file. Its path is relative to the query file."""
    if not isinstance(name, str):
        raise place.error(f"must be the path of a text file with one value a line, got {shown(name)}")

    # Files of other systems end their lines with a carriage return too.
    lines = [line.removesuffix("\r") for line in read_text(folder / name, place, f"{name} ").split("\n")]
    # The end of the last line begins no further value.
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise place.error(f"{name} must have one value a line, got no line")

    for index, line in enumerate(lines):
        if not is_nameable(line):
            raise place.error(f"{name}, line {index + 1}: must be {_VALUE.valid}, got {shown(line)}")
    repeat = repeated(lines)
    if repeat is not None:
        earlier_line = lines.index(lines[repeat]) + 1
        raise place.error(
            f"{name}, line {repeat + 1}: every line must differ, got {shown(lines[repeat])} as in line {earlier_line}"
        )
    return tuple(lines)


def sets_of(value: object, place: Place, domain: Domain) -> Sets:
    """Return the sets of a table. Each is a list of distinct values of the domain."""
    if value and domain.no_sets:
        raise place.error(domain.no_sets)
    sets = {name: several(values, place / name, domain.rule) for name, values in table(value, place).items()}
    return tuple((name, tuple(sorted(sets[name]))) for name in sorted(sets))


def ranges_of(value: object, place: Place, domain: Domain) -> Ranges:
    """Return the ranges of a table. Each is a list of two numbers, with at least one whole bin between them."""
    if domain.no_ranges:
        if value:
            raise place.error(domain.no_ranges)
        return ()

    ranges = {}
    for name, ends in table(value, place).items():
        if quantile_of(name) is not None:
            raise (place / name).error("must not be the name of a quantile, because alerts name both")
        if not isinstance(ends, list) or len(ends) != 2:
            raise (place / name).error(f"must be a list of two numbers, from and to; got {shown(ends)}")

        start, end = (_FINITE(number, place / name) for number in ends)
        if start >= end:
            raise (place / name).error(f"must begin below its end, got {shown(ends)}")
        # Records count whole bins only, so a range inside one bin would always be empty.
        first_bin, end_bin = cast(Scale, domain.scale).bounds(start, end)
        if first_bin >= end_bin:
            raise (place / name).error(f"must hold a whole bin, got {shown(ends)}; use ends that are further apart")
        ranges[name] = (start, end)
    return tuple((name, ranges[name]) for name in sorted(ranges))
