"""The oracles that answers of each kind can have, by their names in a query file."""

from typing import NamedTuple

from oracles.mechanisms import ALL_ORACLES, NUMBER_ORACLES, ORACLES
from oracles.query.domain import NAMES, NUMBERS, Domain
from oracles.query.settings import Place
from oracles.query.strings import ORACLES_OF_CELLS

AUTO = "auto"
"""The name in a file for the oracle that fits best."""
CHOICES = (*ALL_ORACLES, AUTO)
"""All names that a file may have."""
_OF_NUMBERS = '", "'.join(NUMBER_ORACLES)


class OracleNames(NamedTuple):
    """The oracles of a kind of answer."""

    names: tuple[str, ...]
    fault: str
    """The message about another oracle. The braces stand for its name."""


_OF_VALUES = OracleNames(
    tuple(ORACLES),
    f'"{_OF_NUMBERS}" is for numbers; use domain = {{{{ low = ..., high = ... }}}}, or another oracle',
)
"""The oracles of all kinds that have no row."""
_BY_KIND = {
    NUMBERS: OracleNames(tuple(NUMBER_ORACLES), f'must be "{_OF_NUMBERS}" or "{AUTO}" for numbers, got {{!r}}'),
    NAMES: OracleNames(
        tuple(ORACLES_OF_CELLS),
        f'must be one of {", ".join(ORACLES_OF_CELLS)} or "{AUTO}" for unknown strings, got {{!r}}',
    ),
}


def only_name(domain: Domain) -> str | None:
    """Return the oracle of a domain if there is nothing to choose, else None."""
    names, _ = _BY_KIND.get(domain.kind, _OF_VALUES)
    return names[0] if len(names) == 1 else None


def name_for(domain: Domain, name: str, place: Place) -> str:
    """Return the oracle of a domain, or `AUTO`. Raise an error if a domain of this kind cannot have it."""
    names, fault = _BY_KIND.get(domain.kind, _OF_VALUES)
    if name not in (*names, AUTO):
        raise place.error(fault.format(name))
    return only_name(domain) or name
