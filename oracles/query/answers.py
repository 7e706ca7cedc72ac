"""Keys of a query that name its answers: the domain of one, or several attributes and their pairs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oracles.query import settings
from oracles.query.domain import NUMBERS, Domain, Ranges, Sets
from oracles.query.domain_kinds import NameDomain, PairDomain
from oracles.query.domain_reader import ranges_of, read_domain, sets_of
from oracles.query.draft import Draft
from oracles.query.settings import Place, choice, shown, table
from oracles.query.strings import read_discovery

_SOLUTION = choice("spl", "smp", "rsfd")
Pair = tuple[int, int]
"""Numbers of two attributes, in the order of the pair."""
PAIR_MARK = "*"
"""Mark between the two names of a pair. No name of an attribute has it."""
MOST_PAIRS = 4_096
"""Most pairs of values of a pair. Its record holds all of them."""


@dataclass(frozen=True)
class Attribute:
    """One of several answers that a client gives together, or a pair of two such answers."""

    name: str
    domain: Domain
    sets: Sets = ()
    ranges: Ranges = ()
    pair: Pair | None = None
    """Numbers of the two attributes of a pair, or None for a single attribute."""


def read_answer(draft: Draft) -> Domain | None:
    """Return the domain of the one answer, or None for several attributes."""
    if "domain" not in draft:
        return None
    if draft.has_strings:
        return NameDomain.of(read_discovery(draft.table, draft.place, draft["pane"]))
    return read_domain(draft.table["domain"], draft.at("domain"), draft.folder, draft["other"])


def read_attributes(draft: Draft) -> dict[str, Domain]:
    """Return the domains of several answers in the order of their names."""
    if "attributes" not in draft:
        return {}

    place = draft.at("attributes")
    tables = table(draft.table["attributes"], place)
    if not tables:
        raise place.error("must be a table of one or more attributes with their domains, got none")
    # Sorted, because reports number the attributes, and a file may list them in any order.
    return {name: read_domain(tables[name], place / name, draft.folder, draft["other"]) for name in sorted(tables)}


def read_solution(draft: Draft) -> str | None:
    """Return how a client answers several attributes, or None for one answer."""
    return draft.read("solution", _SOLUTION, "smp") if draft["attributes"] else None


def read_pairs(draft: Draft) -> list[Attribute]:
    """Return the attribute of each pair."""
    place = draft.at("pairs")
    value = draft.table.get("pairs", [])
    if not isinstance(value, list):
        raise place.error(f'must be a list of pairs such as [["version", "crash"]], got {shown(value)}')
    if value and draft["solution"] != "smp":
        raise place.error(f'need solution = "smp", got "{draft["solution"]}"')

    domains = draft["attributes"]
    names = list(domains)
    pairs: list[Attribute] = []
    for item in value:
        are_texts = isinstance(item, list) and len(item) == 2 and all(isinstance(name, str) for name in item)
        if not are_texts or item[0] == item[1] or not set(item) <= set(names):
            raise place.error(
                f"must have two different attributes in each pair ({', '.join(names)}), got {shown(item)}"
            )
        if any(set(item) == set(pair.name.split(PAIR_MARK)) for pair in pairs):
            raise place.error(f"must have each pair once, in one order; got {shown(item)} again")

        domain = _pair_domain(domains[item[0]], domains[item[1]], item, place)
        pairs.append(Attribute(PAIR_MARK.join(item), domain, pair=(names.index(item[0]), names.index(item[1]))))
    return pairs


def _pair_domain(rows: Domain, columns: Domain, names: list[str], place: Place) -> Domain:
    """Return the domain of a pair. Refuse numbers, and pairs with too many values."""
    if not (rows.can_pair and columns.can_pair):
        raise place.error(f"must be pairs of values, but {shown(names)} has a number")
    if rows.size * columns.size > MOST_PAIRS:
        sizes = f"{rows.size} x {columns.size} = {rows.size * columns.size:,}"
        raise place.error(f"must have at most {MOST_PAIRS:,} pairs of values, because a record holds all; got {sizes}")
    return PairDomain.of(rows, columns)


def read_sets(draft: Draft) -> dict[str, Sets]:
    """Return the sets of each attribute, or those of the one answer under the empty name."""
    return _each_domain(draft, "sets", sets_of)


def read_ranges(draft: Draft) -> dict[str, Ranges]:
    """Return the ranges of each attribute, or those of the one answer under the empty name."""
    return _each_domain(draft, "ranges", ranges_of)


def read_quantiles(draft: Draft) -> tuple[float, ...]:
    """Return the quantiles of the numbers, or none if no answer is a number."""
    if any(domain.kind == NUMBERS for domain in draft.domains):
        return settings.read_quantiles(draft.table.get("quantiles", list(settings.QUANTILES)), draft.at("quantiles"))
    if "quantiles" in draft:
        raise draft.error("quantiles", "must be absent: no answer of this query is a number")
    return ()


def _each_domain(draft: Draft, key: str, read: Callable[[object, Place, Domain], Any]) -> dict[str, Any]:
    place = draft.at(key)
    value = draft.table.get(key, {})
    domains = draft["attributes"]
    if not domains:
        return {"": read(value, place, draft["domain"])}

    tables = table(value, place, domains)
    return {name: read(tables.get(name, {}), place / name, domain) for name, domain in domains.items()}


def attributes_of(draft: Draft) -> tuple[Attribute, ...]:
    """Return the attributes with their sets and ranges, then the pairs. Empty for one answer."""
    singles = [
        Attribute(name, domain, draft["sets"][name], draft["ranges"][name])
        for name, domain in draft["attributes"].items()
    ]
    return (*singles, *draft["pairs"])
