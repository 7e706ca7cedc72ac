"""Queries, what is counted and how: their file, read, checked, and given the digest that reports carry."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from oracles.consistency import NORM_SUB
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.multi.attributes import Multi
from oracles.query.counted import Ask, Attribute, read_one, read_several
from oracles.query.domain import Domain, Sets
from oracles.query.footprint import bounded
from oracles.query.lifetime import bearable, times
from oracles.query.settings import (
    ANSWERS,
    KEYS,
    Place,
    Threshold,
    Window,
    choice,
    duration,
    read_methods,
    read_threshold,
    read_windows,
    setting,
    table,
    whole,
)
from oracles.query.text import read_toml
from oracles.tally import RecordTally, ValueTally


@dataclass(frozen=True)
class Query:
    """A query as its file says it, nothing left open. Times are whole seconds."""

    name: str
    oracle: Oracle | Multi = field(compare=False)
    epsilon: float
    record_epsilon: float
    """The guarantee of a whole record: epsilon, but for rsfd."""
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
    crowd: int
    """The smallest group whose values can be had from records of one kind; 1: any."""
    threshold: Threshold
    require_id: bool
    family_error: float
    alerts_a_day: float
    max_ids: int
    answers: str
    """How a client repeats itself: life, once or fresh."""
    budget: float
    """The epsilon that a client may spend on this definition in a round, in epsilon."""
    renew: int | None
    """After so long a client's noise and charges begin anew."""
    domain: Domain | None
    """None for several attributes."""
    sets: Sets
    attributes: tuple[Attribute, ...]
    """In code-point order of their names; empty for one."""
    solution: str | None
    oracle_names: tuple[str, ...]
    """The oracle of each attribute, or of the one; never `auto` or `adaptive`."""
    fewer: tuple[int | None, ...]
    """Each one's buckets, where it is olh with fewer than the best."""
    automatic: bool = field(compare=False)
    """Whether the file left the choice of the oracle open."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The domain of each attribute, or of the one."""
        return tuple(attribute.domain for attribute in self.attributes) if self.domain is None else (self.domain,)

    @property
    def other(self) -> bool | None:
        """Whether answers outside the domain are counted as "(other)"; None where attributes differ."""
        kinds = {domain.other for domain in self.domains}
        return kinds.pop() if len(kinds) == 1 else None

    def tally(self) -> ValueTally[Oracle] | RecordTally[Multi]:
        """An empty tally, whose estimates know the values by their names."""
        names = [domain.names for domain in self.domains]
        return self.oracle.tally(names[0]) if isinstance(self.oracle, Oracle) else self.oracle.tally(names)

    @property
    def charge(self) -> Charge:
        """The charge of a client's first answer of a round; "fresh" is charged that for every answer."""
        if self.answers == "life" and self.oracle.life is not None:
            return self.oracle.life
        return Charge(self.record_epsilon, 1)

    @property
    def record_charge(self) -> float:
        """`charge` as one number, in epsilon."""
        return float(self.charge.amount)

    @property
    def charges(self) -> int:
        """How many charges a client takes in a round until it is silent: one, or as many fresh answers."""
        return times(self.budget, self.record_epsilon) if self.answers == "fresh" else 1

    @property
    def classes(self) -> int | dict[str, int] | None:
        """K, how many different answers a client has that answers for life: of each attribute; None for rsfd."""
        oracle = self.oracle
        if isinstance(oracle, Oracle):
            return oracle.classes
        if oracle.life is None:
            return None
        each = zip(self.attributes, oracle.encoders, strict=True)
        return {attribute.name: encoder.classes for attribute, encoder in each}

    @property
    def buckets(self) -> int | dict[str, int] | None:
        """Of olh where they are not the best for epsilon; an object of those attributes; None where all are."""
        if not self.attributes:
            return self.fewer[0]
        names = (attribute.name for attribute in self.attributes)
        return {name: fewer for name, fewer in zip(names, self.fewer, strict=True) if fewer} or None

    def round(self, at: float) -> int:
        """The Unix second at which the round began that a time falls in; 0 without renew."""
        return 0 if self.renew is None else int(at // self.renew) * self.renew

    def repeats(self, start: int, end: int) -> int:
        """How often one client's noise may stand in a window: its aligned periods that the window touches."""
        if self.answers == "fresh":
            return 1
        touched = max(1, -(-end // self.period) - start // self.period)
        return touched if self.renew is None else min(touched, self.renew // self.period)

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
        if self.buckets is not None:
            meaning["buckets"] = self.buckets
        return json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that change whenever a report would mean something else."""
        return sha256(self.canonical.encode()).digest()[:8]


__all__ = ["Attribute", "Query", "load", "parse"]


def _meaning(domain: Domain) -> dict[str, Any]:
    return {"domain": domain.named if domain.values is None else domain.values, "other": domain.other}


_KEYS = {
    *KEYS,
    *("domain", "attributes", "oracle", "solution"),
    *("windows", "period", "methods", "threshold", "sets", "budget", "answers"),
}
_ANSWERS = choice(*ANSWERS)
_PERIOD = duration(1)
_REVISION = whole("a whole number of at least 0", 0)


@dataclass(frozen=True)
class File:
    """A query file."""

    queries: Mapping[str, Query]
    revision: int = 0
    """Of two files of a prefix the one with the lower revision is the older one."""
    paths: tuple[Path, ...] = ()
    """The file itself, and those that its domains name."""


def load(path: str | PathLike[str]) -> dict[str, Query]:
    """The queries of a TOML file, by name; QueryError says what cannot be used, where and why."""
    return dict(load_file(path).queries)


def load_file(path: str | PathLike[str]) -> File:
    """A query file, with what it says beside its queries."""
    at = Place(fspath(path))
    mapping = read_toml(Path(path), at)
    folder = Path(path).parent
    queries = parse(mapping, at.file, folder)
    revision = _REVISION(mapping.get("revision", 0), at / "revision")
    return File(queries, revision, (Path(path), *(folder / name for name in _named_files(mapping["queries"]))))


def _named_files(tables: Mapping[str, Any]) -> Iterator[str]:
    for given in tables.values():
        for domain in (given.get("domain"), *given.get("attributes", {}).values()):
            if isinstance(domain, dict) and "file" in domain:
                yield domain["file"]


def parse(
    mapping: Mapping[str, Any], where: str, folder: str | PathLike[str] | None, *, standing: bool = False
) -> dict[str, Query]:
    """The queries of a file that is read already: `where` names it, `folder` is where domain files are sought.

    `standing` definitions are in force already: what clients would fall silent under is not refused.
    Without a folder a domain may name no file.
    """
    at = Place(where)
    queries = table(table(dict(mapping), at, ("revision", "queries")).get("queries", {}), at / "queries")
    if not queries:
        raise (at / "queries").error("must be one or more tables [queries.NAME], got none")
    within = None if folder is None else Path(folder)
    return {
        name: _query(name, value, at / "queries" / name, within, standing=standing) for name, value in queries.items()
    }


def _query(name: str, value: object, at: Place, folder: Path | None, *, standing: bool) -> Query:
    given = _table(value, at)
    read = {key: setting(given, key, at) for key in KEYS}
    if standing and "crowd" not in given:  # it is older than the key
        read["crowd"] = 1
    starts, until, other = read.pop("from"), read["until"], read.pop("other")
    if starts is not None and until is not None and starts >= until:
        raise (at / "until").error(f"must be later than from ({given['from']}), got {given['until']}")
    epsilon, pane = read["epsilon"], read["pane"]
    windows = read_windows(given.get("windows", [f"{pane}s"]), at / "windows", pane)
    longest = max(window.size for window in windows) or pane
    period, renew = _PERIOD(given["period"], at / "period") if "period" in given else longest, read["renew"]
    if period % pane and not standing:
        raise (at / "period").error(f"must be a multiple of the pane ({pane}s), got {period}s")
    if renew is not None and renew % period:
        raise (at / "renew").error(f"must be a multiple of the period ({period}s), got {renew}s")
    # Definitions that stand may be older than the key.
    default = "once" if given.get("solution") == "rsfd" and not standing else "life"
    answers = _ANSWERS(given.get("answers", default), at / "answers")
    reader = read_several if "attributes" in given else read_one
    counted = reader(given, at, folder, Ask(other, epsilon, read.pop("buckets"), answers))
    make = counted.pop("make")
    values = sum(attribute.domain.size for attribute in counted["attributes"]) or counted["domain"].size
    sampled = len(counted["attributes"]) if counted["solution"] == "smp" else 1
    shown = sampled if read["crowd"] > 1 else 0
    of = "attributes" if counted["attributes"] else "domain"
    bounded(counted["oracle"].state_size, values, windows, at, of, shown)
    if answers == "life" and not standing:
        bearable(counted["oracle"], counted["budget"], make, at / "answers")
    return Query(
        **read,
        **counted,
        name=name,
        starts=starts,
        windows=windows,
        period=period,
        answers=answers,
        methods=read_methods(given.get("methods", [NORM_SUB]), at / "methods"),
        threshold=read_threshold(given.get("threshold", "significance"), at / "threshold"),
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
