"""Keys of a query that name its answers, one or several of a client, and the oracle that perturbs them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from oracles.discover import Slots, Strings
from oracles.errors import ParameterError
from oracles.mechanisms import EACH, NEWEST, NUMBER_ORACLES, ORACLES, TABLE, WITH_TABLE, automatic, oracle, with_noise
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import MOST
from oracles.multi import ADAPTIVE, multi
from oracles.multi.attributes import Multi
from oracles.query.answers import MOST_PAIRS, PAIR_MARK, Attribute, Pair
from oracles.query.domain import Domain, ranges_of, read_domain, sets_of
from oracles.query.lifetime import times
from oracles.query.settings import Place, Rule, choice, number, shown, table, whole
from oracles.query.strings import ORACLES_OF_CELLS, read_discovery

_ORACLE = choice(*ORACLES, *NUMBER_ORACLES, "auto")
_SOLUTION = choice("spl", "smp", "rsfd")
_POINTS = whole(f"a whole number from 1 to {MOST}", 1, MOST)
_TEXT = Rule("the name of an oracle", lambda value: isinstance(value, str))
_EACH = Rule(
    "the name of an oracle, or a list with that of each attribute",
    lambda value: all(isinstance(name, str) for name in (value if isinstance(value, list) else [value])),
)


_oracle = lru_cache(maxsize=1 << 10)(oracle)
"""The oracle with these settings. Many queries share one, because an oracle does not change."""


@contextmanager
def _refusals(at: Place) -> Iterator[None]:
    """Turn an oracle's ParameterError into a QueryError with file and key."""
    try:
        yield
    except ParameterError as error:
        raise at.error(str(error)) from error


class OracleSettings(NamedTuple):
    """The settings of a query that its oracle needs, except its name."""

    other: bool | None
    epsilon: float
    buckets: int | None
    answers: str
    edition: int
    noise: str | None
    """How answers to different values depend on one another, or None if the file leaves it open."""

    @property
    def resolved_noise(self) -> str:
        """The noise of an oracle that can have a table."""
        return self.noise or (TABLE if self.edition > 1 and self.answers == "life" else EACH)

    @property
    def within_budget(self) -> bool:
        """Whether "auto" must choose an oracle whose answers for life fit the budget."""
        return self.answers == "life" or self.noise == TABLE


def _budget(keys: dict[str, Any], at: Place, epsilon: float) -> float:
    rule = number(f"of at least the epsilon of one record ({epsilon})", lambda value: value >= epsilon)
    budget: float = rule(keys.get("budget", 4 * epsilon), at / "budget")
    return budget


def _open(keys: dict[str, Any], *, automatic: bool) -> frozenset[str]:
    """Return the keys that decide about reports and that the file leaves open."""
    absent = {key for key in ("noise", "table") if key not in keys}
    return frozenset(absent | ({"oracle", "buckets"} if automatic else set()))


def read_one(keys: dict[str, Any], at: Place, folder: Path | None, ask: OracleSettings) -> dict[str, Any]:
    """Return the domain and oracle of a query with one answer."""
    domain = read_domain(keys["domain"], at / "domain", folder, ask.other)
    return {
        **read_oracle(keys, at, domain, ask),
        "domain": domain,
        "sets": sets_of(keys.get("sets", {}), at / "sets", domain),
        "ranges": ranges_of(keys.get("ranges", {}), at / "ranges", domain),
        "attributes": (),
        "solution": None,
    }


def read_strings(keys: dict[str, Any], at: Place, ask: OracleSettings, pane: int) -> dict[str, Any]:
    """Return the domain and oracle of a query of unknown strings. Their hash has no key before the query's digest."""
    discovery = read_discovery(keys, at, pane)
    domain = Domain.of_strings(discovery)
    settings = read_oracle(keys, at, domain, ask)
    strings, cell = Strings(discovery.coding, discovery.cells, bytes(8)), settings["oracle"]
    return {
        **settings,
        "oracle": Slots(strings, lambda _: cell),
        "domain": domain,
        "sets": (),
        "ranges": (),
        "attributes": (),
        "solution": None,
    }


def read_oracle(keys: dict[str, Any], at: Place, domain: Domain, ask: OracleSettings) -> dict[str, Any]:
    """Return the oracle of one answer, and the budget of its clients."""
    oracle_name = _name_for(domain, _ORACLE(keys.get("oracle", "auto"), at / "oracle"), at / "oracle")
    among = None if domain.discovery is None else ORACLES_OF_CELLS
    budget = _budget(keys, at, ask.epsilon)
    points = _POINTS(keys["table"], at / "table") if "table" in keys else None

    def make(epsilon: float = ask.epsilon, name: str = oracle_name, buckets: int | None = ask.buckets) -> Oracle:
        if name == "auto" and buckets is None:
            most = budget if ask.within_budget else None
            classes = None if most is None else times(most, epsilon)
            if domain.discovery is not None:  # they are younger than edition 2, so all editions choose alike
                noise = ask.noise or (EACH if ask.edition == 1 else None)
                return automatic(epsilon, domain.size, None, NEWEST, most, noise=noise, table=points, among=among)
            return automatic(epsilon, domain.size, classes, ask.edition, most, noise=ask.noise, table=points)
        each = partial(_oracle, name, epsilon=epsilon, size=domain.size, buckets=buckets)
        return with_noise(each(), ask.resolved_noise, points, lambda t: each(table=t))

    is_each = ask.noise == EACH or (ask.noise is None and ask.edition == 1)
    if oracle_name == "auto" and ask.answers == "life" and is_each and times(budget, ask.epsilon) < 2:
        raise (at / "answers").error(
            f'"life" charges at least 2 epsilon = {2 * ask.epsilon:g}, above the budget of {budget:g}; '
            f'use budget = {2 * ask.epsilon:g}, or epsilon = {budget / 2:g}, or answers = "once" or "fresh"'
        )
    with _refusals(at / _key_at_fault(keys)):
        selection = make()
    _check_table(ask, points is not None, [selection], at)
    return {
        "oracle": selection,
        "oracle_names": (selection.name,),
        "fewer": (getattr(selection, "fewer", None),),
        "open": _open(keys, automatic=keys.get("oracle", "auto") == "auto"),
        "make": make,
        "budget": budget,
        "record_epsilon": ask.epsilon,
    }


def read_several(keys: dict[str, Any], at: Place, folder: Path | None, ask: OracleSettings) -> dict[str, Any]:
    """Return the attributes and oracles of a query with several answers."""
    tables = table(keys["attributes"], at / "attributes")
    if not tables:
        raise (at / "attributes").error("must be a table of one or more attributes with their domains, got none")
    domains = {name: read_domain(tables[name], at / "attributes" / name, folder, ask.other) for name in sorted(tables)}
    sets, ranges = (table(keys.get(key, {}), at / key, domains) for key in ("sets", "ranges"))
    solution = _SOLUTION(keys.get("solution", "smp"), at / "solution")
    # A definition in a topic names the oracle that "adaptive" chose when it was written.
    oracle_name = (_EACH if folder is None else _TEXT)(keys.get("oracle", ADAPTIVE), at / "oracle")
    if any(domain.scale is not None for domain in domains.values()):
        oracle_name = _names_for(list(domains.values()), oracle_name, solution, at)
    sizes = [domain.size for domain in domains.values()]
    pairs = _read_pairs(keys.get("pairs", []), at / "pairs", domains, solution)
    points = _points_of_attributes(keys, at, [*domains, *(name for name, _, _ in pairs)])
    places = [place for _, place, _ in pairs]

    def make(
        epsilon: float = ask.epsilon, name: str | list[str] = oracle_name, buckets: int | None = ask.buckets
    ) -> Multi:
        noise = ask.resolved_noise
        return multi(
            solution,
            sizes=sizes,
            epsilon=epsilon,
            oracle=name,
            buckets=buckets,
            noise=noise,
            tables=points,
            pairs=places,
        )

    with _refusals(at / _key_at_fault(keys)):
        selection = make()
    _check_table(ask, bool(points), selection.encoders, at)
    attributes = [
        Attribute(
            name,
            domain,
            sets_of(sets.get(name, {}), at / "sets" / name, domain),
            ranges_of(ranges.get(name, {}), at / "ranges" / name, domain),
        )
        for name, domain in domains.items()
    ]
    attributes += [Attribute(name, domain, pair=place) for name, place, domain in pairs]
    return {
        "oracle": selection,
        "oracle_names": selection.names,
        "fewer": tuple(getattr(encoder, "fewer", None) for encoder in selection.encoders),
        "open": _open(keys, automatic=False),
        "make": make,
        "budget": _budget(keys, at, selection.record_epsilon),
        "record_epsilon": selection.record_epsilon,
        "domain": None,
        "sets": (),
        "ranges": (),
        "attributes": tuple(attributes),
        "solution": solution,
    }


def _read_pairs(
    value: object, at: Place, domains: Mapping[str, Domain], solution: str
) -> list[tuple[str, Pair, Domain]]:
    """Return the name, the attributes' numbers and the domain of each pair."""
    if not isinstance(value, list):
        raise at.error(f'must be a list of pairs such as [["version", "crash"]], got {shown(value)}')
    if value and solution != "smp":
        raise at.error(f'need solution = "smp", got "{solution}"')
    names = list(domains)
    pairs: list[tuple[str, Pair, Domain]] = []
    for item in value:
        known = isinstance(item, list) and len(item) == 2 and all(isinstance(each, str) for each in item)
        if not known or item[0] == item[1] or not set(item) <= set(names):
            raise at.error(f"must have two different attributes in each pair ({', '.join(names)}), got {shown(item)}")
        if any(set(item) == {names[first], names[second]} for _, (first, second), _ in pairs):
            raise at.error(f"must have each pair once, in one order; got {shown(item)} again")
        first, second = (domains[each] for each in item)
        if first.scale is not None or second.scale is not None:
            raise at.error(f"must be pairs of values, but {shown(item)} has a number")
        if first.size * second.size > MOST_PAIRS:
            sizes = f"{first.size} x {second.size} = {first.size * second.size:,}"
            raise at.error(f"must have at most {MOST_PAIRS:,} pairs of values, because a record holds all; got {sizes}")
        place = (names.index(item[0]), names.index(item[1]))
        pairs.append((PAIR_MARK.join(item), place, Domain.of_pair(first, second)))
    return pairs


def _name_for(domain: Domain, name: str, at: Place) -> str:
    """Return the oracle of a domain. Numbers have one that values do not have."""
    (of_numbers,) = NUMBER_ORACLES
    if domain.scale is not None and name not in (of_numbers, "auto"):
        raise at.error(f'must be "{of_numbers}" or "auto" for numbers, got {name!r}')
    if domain.discovery is not None and name not in (*ORACLES_OF_CELLS, "auto"):
        raise at.error(f'must be one of {", ".join(ORACLES_OF_CELLS)} or "auto" for unknown strings, got {name!r}')
    if domain.scale is None and name == of_numbers:
        raise at.error(f'"{of_numbers}" is for numbers; use domain = {{ low = ..., high = ... }}, or another oracle')
    return name if domain.scale is None else of_numbers


def _names_for(domains: list[Domain], names: str | list[str], solution: str, at: Place) -> list[str]:
    """Return the oracle of each attribute, if some are numbers."""
    if solution == "rsfd":
        raise (at / "solution").error('must be "smp" or "spl" if an attribute is a number, got "rsfd"')
    each = [names] * len(domains) if isinstance(names, str) else names
    if len(each) != len(domains):
        raise (at / "oracle").error(f"must name one oracle, or one for each of {len(domains)} attributes")
    (of_numbers,) = NUMBER_ORACLES
    return [of_numbers if domain.scale is not None else name for domain, name in zip(domains, each, strict=True)]


def _points_of_attributes(keys: dict[str, Any], at: Place, names: list[str]) -> dict[int, int]:
    """Return the t of each attribute that has one, by its number."""
    points = table(keys.get("table", {}), at / "table", names)
    return {names.index(name): _POINTS(value, at / "table" / name) for name, value in points.items()}


def _key_at_fault(keys: dict[str, Any]) -> str:
    """Return the key that an error of the oracle most likely comes from."""
    return next((key for key in ("table", "buckets") if key in keys), "oracle")


def _check_table(ask: OracleSettings, has_points: bool, oracles: Sequence[Oracle], at: Place) -> None:
    """Refuse a table for oracles that have none."""
    if any(single.tables is not None for single in oracles):
        return
    if has_points:
        raise (at / "table").error(f'needs noise = "{TABLE}", and an oracle with at most {MOST} buckets or values')
    if ask.noise == TABLE:
        names = ", ".join(dict.fromkeys(single.name for single in oracles))
        raise (at / "noise").error(
            f'"{TABLE}" needs an oracle with at most {MOST} buckets or values ({", ".join(sorted(WITH_TABLE))}), '
            f'got {names}; use noise = "{EACH}", or name an oracle and `buckets`'
        )
