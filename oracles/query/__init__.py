"""What is counted and how: the query file, read, checked, and given the digest that reports carry."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from oracles import ORACLES, oracle
from oracles.errors import ParameterError
from oracles.multi import ADAPTIVE, multi
from oracles.multi.attributes import Multi
from oracles.pure import Oracle
from oracles.query.domain import Domain, Sets, read_domain, read_sets, read_text
from oracles.query.settings import (
    KEYS,
    Place,
    Rule,
    Threshold,
    Window,
    choice,
    duration,
    number,
    read_methods,
    read_threshold,
    read_windows,
    setting,
    table,
)


@dataclass(frozen=True)
class Attribute:
    """One of several answers that a client gives at once."""

    name: str
    domain: Domain
    sets: Sets = ()


@dataclass(frozen=True)
class Query:
    """A query as its file says it, nothing left open. Times are whole seconds."""

    name: str
    oracle: Oracle | Multi = field(compare=False)
    epsilon: float
    record_epsilon: float
    """What the report of a whole record is protected with: epsilon, but for rsfd."""
    pane: int
    lateness: int
    skew: int
    windows: tuple[Window, ...]
    period: int
    starts: int | None
    """The first pane counted starts here or later (`from`); panes start before `until`."""
    until: int | None
    emit_every: int | None
    methods: tuple[str, ...]
    fallback: str
    publish: int | None
    """The number of values in a record; None for all."""
    threshold: Threshold
    require_id: bool
    family_error: float
    alerts_a_day: float
    max_ids: int
    budget: float
    domain: Domain | None
    """None for several attributes."""
    sets: Sets
    attributes: tuple[Attribute, ...]
    """In code-point order of their names; empty for one."""
    solution: str | None
    oracle_names: tuple[str, ...]
    """The oracle of each attribute, or of the one; never `auto` or `adaptive`."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The domain of each attribute, or of the one."""
        return tuple(attribute.domain for attribute in self.attributes) if self.domain is None else (self.domain,)

    @property
    def other(self) -> bool | None:
        """Whether answers outside the domain are counted as "(other)"; None where attributes differ."""
        kinds = {domain.other for domain in self.domains}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def answers(self) -> int:
        """How many distinct answers of one client its budget allows; each spends what it reveals of a record."""
        times = Fraction(self.budget) / Fraction(self.record_epsilon)
        return int(times * (1 + Fraction(1, 10**12)))  # a budget of 0.3 is three times 0.1

    @cached_property
    def canonical(self) -> str:
        """All that gives a report its meaning, as canonical JSON."""
        meaning: dict[str, Any] = {"format": 1, "name": self.name, "epsilon": self.epsilon, "pane": self.pane}
        if self.domain is not None:
            meaning |= _meaning(self.domain) | {"oracle": self.oracle_names[0]}
        else:
            names = [attribute.name for attribute in self.attributes]
            meaning["attributes"] = {attribute.name: _meaning(attribute.domain) for attribute in self.attributes}
            meaning["oracle"] = dict(zip(names, self.oracle_names, strict=True))
            meaning["solution"] = self.solution
        return json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that change whenever a report would mean something else."""
        return sha256(self.canonical.encode()).digest()[:8]


def _meaning(domain: Domain) -> dict[str, Any]:
    return {"domain": domain.named if domain.values is None else domain.values, "other": domain.other}


_KEYS = {
    *KEYS,
    *("domain", "attributes", "oracle", "solution"),
    *("windows", "period", "methods", "threshold", "sets", "budget"),
}
_ORACLE = choice(*ORACLES, "auto")
_SOLUTION = choice("spl", "smp", "rsfd")
_PERIOD = duration(1)
_TEXT = Rule("the name of an oracle", lambda value: isinstance(value, str))


def load(path: str | PathLike[str]) -> dict[str, Query]:
    """The queries of a TOML file, by name; QueryError says what cannot be used, where and why."""
    at = Place(fspath(path))
    import tomllib

    text = read_text(Path(path), at, "")
    try:
        mapping = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise at.error(f"must be TOML: {error}") from error
    return parse(mapping, at.file, Path(path).parent)


def parse(mapping: Mapping[str, Any], where: str, folder: str | PathLike[str]) -> dict[str, Query]:
    """The queries of a file that is read already: `where` names it, `folder` is where domain files are sought."""
    at = Place(where)
    queries = table(table(dict(mapping), at, ("queries",)).get("queries", {}), at / "queries")
    if not queries:
        raise (at / "queries").error("must be one or more tables [queries.NAME], got none")
    return {name: _query(name, value, at / "queries" / name, Path(folder)) for name, value in queries.items()}


def _query(name: str, value: object, at: Place, folder: Path) -> Query:
    given = _table(value, at)
    read = {key: setting(given, key, at) for key in KEYS}
    starts, until, other = read.pop("from"), read["until"], read.pop("other")
    if starts is not None and until is not None and starts >= until:
        raise (at / "until").error(f"must be later than from ({given['from']}), got {given['until']}")
    epsilon, pane = read["epsilon"], read["pane"]
    windows = read_windows(given.get("windows", [f"{pane}s"]), at / "windows", pane)
    longest = max(window.size for window in windows) or pane
    counted = (_several if "attributes" in given else _one)(given, at, folder, other, epsilon)
    spent = counted["record_epsilon"]
    budget = number(f"of at least the epsilon of one record ({spent})", lambda value: value >= spent)
    return Query(
        **read,
        **counted,
        name=name,
        starts=starts,
        windows=windows,
        period=_PERIOD(given["period"], at / "period") if "period" in given else longest,
        methods=read_methods(given.get("methods", ["norm_sub"]), at / "methods"),
        threshold=read_threshold(given.get("threshold", "significance"), at / "threshold"),
        budget=budget(given.get("budget", 4 * spent), at / "budget"),
    )


def _table(value: object, at: Place) -> dict[str, Any]:
    """A query's table, with the keys of one answer or those of several."""
    given = table(value, at, _KEYS)
    if "domain" in given and "attributes" in given:
        raise (at / "attributes").error("must not stand beside domain, which is for one answer instead of several")
    if "domain" not in given and "attributes" not in given:
        raise (at / "domain").error("is missing; it must be a domain, or attributes must be a table of several")
    if "domain" in given and "solution" in given:
        raise (at / "solution").error("is for attributes only; a query with a domain must not have it")
    return given


@contextmanager
def _refusals(at: Place) -> Iterator[None]:
    """What an oracle refuses, said with file and key."""
    try:
        yield
    except ParameterError as error:
        raise at.error(str(error)) from error


def _one(given: dict[str, Any], at: Place, folder: Path, other: bool | None, epsilon: float) -> dict[str, Any]:
    """What is counted where a client gives one answer."""
    domain = read_domain(given["domain"], at / "domain", folder, other)
    name = _ORACLE(given.get("oracle", "auto"), at / "oracle")
    with _refusals(at / "oracle"):
        chosen = oracle(name, epsilon=epsilon, size=domain.size)
    return {
        "oracle": chosen,
        "oracle_names": (chosen.name,),
        "record_epsilon": epsilon,
        "domain": domain,
        "sets": read_sets(given.get("sets", {}), at / "sets", domain),
        "attributes": (),
        "solution": None,
    }


def _several(given: dict[str, Any], at: Place, folder: Path, other: bool | None, epsilon: float) -> dict[str, Any]:
    """What is counted where a client gives several answers at once."""
    tables = table(given["attributes"], at / "attributes")
    if not tables:
        raise (at / "attributes").error("must be a table of one or more attributes with their domains, got none")
    domains = {name: read_domain(tables[name], at / "attributes" / name, folder, other) for name in sorted(tables)}
    sets = table(given.get("sets", {}), at / "sets", domains)
    solution = _SOLUTION(given.get("solution", "smp"), at / "solution")
    name = _TEXT(given.get("oracle", ADAPTIVE), at / "oracle")
    sizes = [domain.size for domain in domains.values()]
    with _refusals(at / "oracle"):
        chosen = multi(solution, sizes=sizes, epsilon=epsilon, oracle=name)
    attributes = (
        Attribute(name, domain, read_sets(sets.get(name, {}), at / "sets" / name, domain))
        for name, domain in domains.items()
    )
    return {
        "oracle": chosen,
        "oracle_names": chosen.names,
        "record_epsilon": chosen.record_epsilon,
        "domain": None,
        "sets": (),
        "attributes": tuple(attributes),
        "solution": solution,
    }
