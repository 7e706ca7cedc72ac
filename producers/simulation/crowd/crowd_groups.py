"""The groups of a crowd: the share of the clients in each, and the distribution of their values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.query import Query
from oracles.types import Ints
from producers.simulation.crowd.distribution import Crowd, read_crowd

_SLACK = 1e-9
"""How far the sum of the shares may be above 1, because of rounding."""


@dataclass(frozen=True, eq=False)
class CrowdGroups:
    """The groups that have clients. Each client stays in its group."""

    shares: Mapping[int, float]
    """Share of the clients by the number of their group, 0 for clients without a group. They sum to 1."""
    crowds: Mapping[int, Crowd]
    """Distribution of the values in each group."""

    def draw_members(self, rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
        """Draw the group of each client."""
        numbers = np.array([*self.shares], np.uint8)
        reach = np.cumsum([*self.shares.values()])
        # Divided by its end, since rounding may leave it below 1, and a draw above it has no place.
        places = np.searchsorted(reach / reach[-1], rng.random(count), side="right")
        return numbers[places]

    def draw(self, rng: np.random.Generator, members: NDArray[np.uint8]) -> Ints:
        """Draw a value for each client, from the distribution of its group."""
        if len(self.crowds) == 1:
            return next(iter(self.crowds.values())).draw(rng, len(members))
        parts = [(np.flatnonzero(members == number), crowd) for number, crowd in self.crowds.items()]
        places = np.concatenate([rows for rows, _ in parts])
        draws = np.concatenate([crowd.draw(rng, len(rows)) for rows, crowd in parts])
        values = np.empty_like(draws)
        values[places] = draws
        return values

    def without(self, attribute: int, value: int) -> "CrowdGroups":
        """Return the groups without the outcomes that have this value."""
        return replace(self, crowds={number: crowd.without(attribute, value) for number, crowd in self.crowds.items()})


def read_groups(text: str, specs: Sequence[str], group_specs: Sequence[str], query: Query) -> CrowdGroups:
    """Return the groups of `text`, such as ios=0.5,web=0.3. The other clients have no group.

    `specs` are the distributions for all groups, and `group_specs` those of single ones, each after the value and "=".
    """
    groups = query.groups
    if not groups:
        raise ParameterError(f"query {query.name!r} has no groups")

    shares: dict[int, float] = {}
    for item in text.split(","):
        name, _, number = item.strip().partition("=")
        group = groups.number(name)
        if not group or group in shares:
            raise ParameterError(f"--groups needs each of {', '.join(groups.values)} once at most, got {name!r}")
        shares[group] = _share(number, item)

    remainder = 1.0 - math.fsum(shares.values())
    # Shares of thirds do not sum to 1 exactly.
    if remainder < -_SLACK:
        raise ParameterError(f"the shares of --groups must sum to at most 1, got {1.0 - remainder:g}")
    if remainder > _SLACK:
        shares[0] = remainder

    specs_of: dict[int, list[str]] = {}
    for item in group_specs:
        name, equals, spec = item.partition("=")
        group = groups.number(name)
        if not equals or group not in shares or not group:
            raise ParameterError(f"--group-values needs GROUP=SPEC with a group of --groups, got {item!r}")
        specs_of.setdefault(group, []).append(spec)

    crowd = read_crowd(specs, query)
    crowds = {group: read_crowd(specs_of[group], query) if group in specs_of else crowd for group in shares}
    return CrowdGroups(dict(sorted(shares.items())), dict(sorted(crowds.items())))


def _share(text: str, item: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise ParameterError(f"--groups needs GROUP=SHARE with shares above 0 and at most 1, got {item!r}")
    return share
