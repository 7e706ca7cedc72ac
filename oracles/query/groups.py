"""Groups of a query: public labels of reports, such as the platform, and known shares of the groups in the population.

A report is of one group. Frames name a group by its number, which is 1 + its position in the list. Reports without a
group, or with a value that is not in the list, are of group 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from oracles.errors import ParameterError
from oracles.query.settings import NAME, Place, Rule, number, several, shown, table

NO_GROUP = "(none)"
"""Label of group 0. No value of a file can have it."""
MAX_VALUES = 255
"""Values of a query's groups. Their numbers fit in a byte."""
MOST_PAIRS = 64
"""Pairs of groups under watch. More would share the family error in parts too small to prove anything."""
_SLACK = 1e-6
"""How far the sum of weights may be from 1, because 1/3 has no end in decimals."""


@dataclass(frozen=True)
class Groups:
    """The groups of a query. Without a name and values they are those of a query without groups, and false.

    >>> platforms = Groups("platform", ("ios", "android"))
    >>> platforms.count, platforms.number("android"), platforms.number("web"), platforms.label(0), platforms.label(1)
    (3, 2, 0, '(none)', 'ios')
    """

    name: str = ""
    """Name of what the groups differ by, such as "platform"."""
    values: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def table(self) -> dict[str, list[str]] | None:
        """Groups as a query file has them, or None."""
        return {self.name: list(self.values)} if self else None

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the groups in the order of their numbers. Empty for a query without groups."""
        return (NO_GROUP, *self.values) if self else ()

    @property
    def count(self) -> int:
        """Number of groups, group 0 included."""
        return 1 + len(self.values)

    def number(self, value: str) -> int:
        """Return the number of a value, 0 if it is not in the list."""
        return self._numbers.get(value, 0)

    def label(self, number: int) -> str:
        """Return the value of a group, "(none)" for group 0."""
        return self.values[number - 1] if number else NO_GROUP

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {value: number for number, value in enumerate(self.values, 1)}


_VALUE = Rule(
    "a name of 1 to 64 of the characters A-Z a-z 0-9 _ . -",
    lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
)
_WEIGHT = number("from 0 to 1", lambda value: 0 <= value <= 1)


def read_groups(value: object, place: Place) -> Groups:
    """Return the groups of a table with one name and its values."""
    names = table(value, place)
    if len(names) != 1:
        raise place.error(
            f"must have exactly one name, such as {{ platform = [...] }}, got {len(names)}. "
            "For two attributes list their combinations as values"
        )
    [(name, listed)] = names.items()
    values = several(listed, place / name, _VALUE)
    if len(values) > MAX_VALUES:
        raise (place / name).error(f"must have at most {MAX_VALUES} values, got {len(values):,}")
    return Groups(name, values)


def read_weights(value: object, place: Place, groups: Groups) -> tuple[float, ...]:
    """Return the weight of each value in the order of the values. A value without a weight has 0."""
    if not groups:
        raise place.error("must be absent without groups: they are the known shares of the groups")
    weights = {name: _WEIGHT(weight, place / name) for name, weight in table(value, place, groups.values).items()}
    total = math.fsum(weights.values())
    if abs(total - 1.0) > _SLACK:
        raise place.error(f"must sum to 1, got {total:.9g}: they are shares of the population")
    return tuple(weights.get(name, 0.0) for name in groups.values)


def weight_table(groups: Groups, weights: Sequence[float]) -> dict[str, float] | None:
    """Return weights as a query file has them. None if they are unknown."""
    return dict(zip(groups.values, weights, strict=True)) if weights else None


def read_comparisons(value: object, place: Place, groups: Groups) -> tuple[tuple[str, str], ...]:
    """Return pairs of two groups. No pair may come twice, in either order, because it would alert twice."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_PAIRS:
        raise place.error(f'must be a list of 1 to {MOST_PAIRS} pairs of groups, such as [["ios", "android"]]')

    pairs: list[tuple[str, str]] = []
    for row in value:
        is_pair = isinstance(row, list) and len(row) == 2 and all(name in groups.values for name in row)
        if not is_pair or row[0] == row[1]:
            listed = ", ".join(groups.values) or "none"
            raise place.error(f"must have pairs of two different groups, got {shown(row)}; the groups are: {listed}")
        if {(row[0], row[1]), (row[1], row[0])} & set(pairs):
            raise place.error(f"must name each pair once, got {shown(row)} twice")
        pairs.append((row[0], row[1]))
    return tuple(pairs)


def number_of(groups: Groups, group: str | int | None) -> int:
    """Return the number of a group that a client names, by its value or by its number. None is no group.

    Values that the query does not list are of group 0, as in frames. So a client may name a value before the query
    lists it.
    """
    # Python takes True for an integer, so it would be group 1.
    if group is None or (isinstance(group, int) and not isinstance(group, bool)):
        return group or 0
    if not isinstance(group, str):
        raise ParameterError(f"a group must be a value such as 'ios', its number or None, got {group!r}")
    return groups.number(group)


def change_fault(before: Groups, after: Groups) -> str | None:
    """Return why a query cannot change its groups in this way, or None if it can.

    Reports in the log name their group by its position. So a version may only append values.
    """
    if not before or before == after:
        return None
    listed = ", ".join(before.values)
    if not after:
        return f"groups must stay; put back {{ {before.name} = [{listed}] }}"
    if after.name != before.name:
        return f"groups must keep the name {before.name}, got {after.name}"
    if after.values[: len(before.values)] != before.values:
        return f"groups.{before.name} must begin with {listed} in this order; append new values"
    return None
