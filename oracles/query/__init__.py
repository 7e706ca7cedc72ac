"""Queries: the definitions in a query file, their checks, and the digest that reports carry."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from oracles.consistency import NORM_SUB
from oracles.discover import Slots, Strings
from oracles.mechanisms import EACH, EDITION, NEWEST, NOISES, TABLE
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.multi.attributes import Multi
from oracles.pure import Pure
from oracles.query.domain import Domain, Ranges, Sets
from oracles.query.footprint import check_sizes, tally_cells
from oracles.query.groups import Groups, read_groups
from oracles.query.lifetime import check_lifetime, times
from oracles.query.oracle_keys import Attribute, OracleSettings, read_one, read_several, read_strings
from oracles.query.settings import (
    ANSWERS,
    KEYS,
    QUANTILES,
    Place,
    Threshold,
    Window,
    choice,
    duration,
    read_limits,
    read_methods,
    read_quantiles,
    read_threshold,
    read_windows,
    setting,
    table,
    whole,
)
from oracles.query.strings import KEYS_OF_STRINGS, check_keys, is_discovery, read_known, read_search
from oracles.query.text import read_toml
from oracles.tally import RecordTally, ValueTally

_DAY = 86_400


@dataclass(frozen=True)
class Query:
    """A query of a file, with every setting resolved. Times are whole seconds."""

    name: str
    oracle: Oracle | Multi = field(compare=False)
    epsilon: float
    record_epsilon: float
    """Guarantee of a whole record: epsilon, except for rsfd."""
    pane: int
    lateness: int
    skew: int
    windows: tuple[Window, ...]
    period: int
    starts: int | None
    """Time of the first pane, or None (`from` in the file). The last pane starts before `until`."""
    until: int | None
    emit_every: int | None
    methods: tuple[str, ...]
    fallback: str
    publish: int | None
    """Number of values in a record, or None for all."""
    crowd: int
    """Smallest group whose values records of one kind can reveal. 1 means any."""
    threshold: Threshold
    require_id: bool
    family_error: float
    alerts_a_day: float
    max_ids: int
    answers: str
    """Way in which a client repeats itself: life, once or fresh."""
    budget: float
    """Epsilon that a client may spend on this definition in a round."""
    renew: int | None
    """Length of a round, or None. A new round has new noise and new charges."""
    season: int | None
    """Seconds after which shares are expected to repeat, or None. Slow changes are compared with earlier seasons."""
    domain: Domain | None
    """Domain of the answer, or None for several attributes."""
    sets: Sets
    ranges: Ranges
    """Named ranges of numbers."""
    quantiles: tuple[float, ...]
    """Quantiles of numbers in a record. Empty if no answer is a number."""
    limits: tuple[tuple[float, float], ...]
    """Quantiles of numbers with the limits that alerts watch."""
    attributes: tuple[Attribute, ...]
    """Attributes in code-point order of their names, then their pairs. Empty for one answer."""
    solution: str | None
    oracle_names: tuple[str, ...]
    """Oracle of each attribute or of the one answer, never `auto` or `adaptive`."""
    fewer: tuple[int | None, ...]
    """Number of buckets of each oracle, or None unless it is olh with fewer than the best."""
    known: tuple[str, ...]
    """Names of unknown strings that are always candidates, as coded."""
    search: int | None
    """Seconds of the shortest window in which names are searched. None unless strings are unknown."""
    open: frozenset[str] = field(compare=False)
    """Keys about reports (oracle, buckets, noise, table) that the file leaves open."""
    groups: Groups | None = None
    weights: tuple[float, ...] | None = None
    """Shares of the groups in the population, in the order of their values. None if they are unknown."""

    def is_searched(self, window: Window) -> bool:
        """Whether names are searched in a kind of window: in `all`, and in windows that are long enough."""
        return self.search is not None and (window.kind == "all" or window.size >= self.search)

    @property
    def searches_a_day(self) -> float:
        """Number of searches for names in a day."""
        steps = (window.step or self.search for window in self.windows if self.is_searched(window))
        return sum(_DAY / step for step in steps if step)

    @property
    def singles(self) -> tuple[Attribute, ...]:
        """Attributes to which a client gives an answer. Pairs follow from them."""
        return tuple(attribute for attribute in self.attributes if attribute.pair is None)

    @property
    def pairs(self) -> list[list[str]]:
        """Names of the two attributes of each pair."""
        return [[self.attributes[place].name for place in each.pair] for each in self.attributes if each.pair]

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Domain of each attribute, or of the one answer."""
        return tuple(attribute.domain for attribute in self.attributes) if self.domain is None else (self.domain,)

    @property
    def answer_domains(self) -> tuple[Domain, ...]:
        """Domain of each answer of a client, which are all but the pairs."""
        return tuple(domain for domain in self.domains if domain.parts is None)

    @property
    def other(self) -> bool | None:
        """Whether answers outside the domain count as "(other)". None if attributes differ."""
        kinds = {domain.other for domain in self.answer_domains}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def attribute_oracles(self) -> tuple[Pure, ...]:
        """The law of each attribute, or of the one answer."""
        if self.only_oracle is not None:
            return (self.only_oracle,)
        return () if isinstance(self.oracle, Oracle) else self.oracle.attributes

    @property
    def only_oracle(self) -> Oracle | None:
        """The oracle of the one answer, or of its cells if strings are unknown. None for several attributes."""
        if isinstance(self.oracle, Slots):
            return self.oracle.cell_oracle
        return self.oracle if isinstance(self.oracle, Oracle) else None

    @property
    def strings(self) -> Strings | None:
        """The hash of unknown strings, or None if the answers are listed."""
        return self.oracle.strings if isinstance(self.oracle, Slots) else None

    @property
    def _encoders(self) -> dict[str, Oracle]:
        """Oracle of each attribute, by its name."""
        encoders = () if isinstance(self.oracle, Oracle) else self.oracle.encoders
        return {attribute.name: encoder for attribute, encoder in zip(self.attributes, encoders, strict=True)}

    def tally(self) -> ValueTally[Oracle] | RecordTally[Multi]:
        """Return an empty tally whose estimates know the names of the values."""
        names = [domain.names for domain in self.domains]
        if isinstance(self.oracle, Oracle):
            return self.oracle.tally(names[0])
        return self.oracle.tally(names if self.strings is None else None)

    @property
    def charge(self) -> Charge:
        """Charge of a client's first answer of a round. "fresh" has this charge for every answer."""
        if self.answers == "life" and self.oracle.life is not None:
            return self.oracle.life
        return Charge(self.record_epsilon, 1)

    @property
    def record_charge(self) -> float:
        """Sum of `charge`, in epsilon."""
        return float(self.charge.amount)

    @property
    def charges(self) -> int:
        """Number of charges in a round before a client is silent: one, or one for each fresh answer."""
        return times(self.budget, self.record_epsilon) if self.answers == "fresh" else 1

    @property
    def classes(self) -> int | dict[str, int] | None:
        """Number of different answers, K, of a client that answers for life. One for each attribute, None for rsfd."""
        if self.only_oracle is not None:
            return self.only_oracle.classes
        return None if self.oracle.life is None else {name: each.classes for name, each in self._encoders.items()}

    @property
    def buckets(self) -> int | dict[str, int] | None:
        """Buckets of olh if they are not the best for epsilon, by attribute if there are several. Else None."""
        if not self.attributes:
            return self.fewer[0]
        names = (attribute.name for attribute in self.attributes)
        return {name: fewer for name, fewer in zip(names, self.fewer, strict=True) if fewer} or None

    @property
    def table(self) -> int | dict[str, int] | None:
        """The t of the clients' tables, by attribute if there are several. None if no answer comes from a table."""
        if self.only_oracle is not None:
            return self.only_oracle.table
        return {name: t for name, each in self._encoders.items() if (t := each.table) is not None} or None

    @property
    def thresholds(self) -> dict[str, str] | dict[str, dict[str, str]]:
        """Integers that a client compares with random ones, in decimal. By attribute if there are several."""
        if self.only_oracle is not None:
            return self.only_oracle.thresholds
        return {name: each.thresholds for name, each in self._encoders.items()}

    @property
    def edges(self) -> list[float] | dict[str, list[float]] | None:
        """Edges of the bins of numbers, by attribute if there are several. None if no answer is a number."""
        if self.domain is not None:
            return None if self.domain.scale is None else self.domain.scale.edges.tolist()
        scales = ((each.name, each.domain.scale) for each in self.attributes)
        return {name: scale.edges.tolist() for name, scale in scales if scale is not None} or None

    @property
    def noise(self) -> str:
        """How a client's answers to different values depend on one another: "table" or "each"."""
        return EACH if self.table is None else TABLE

    def round(self, at: float) -> int:
        """Return the Unix second at which the round of a time began, 0 without renew."""
        return 0 if self.renew is None else int(at // self.renew) * self.renew

    def repeats(self, start: int, end: int) -> int:
        """Return how often a window may hold one client's noise: the number of aligned periods that it touches."""
        if self.answers == "fresh":
            return 1
        periods = max(1, -(-end // self.period) - start // self.period)
        return periods if self.renew is None else min(periods, self.renew // self.period)

    @cached_property
    def canonical(self) -> str:
        """All settings that give a report its meaning, as canonical JSON."""
        meaning: dict[str, Any] = {"format": 1, "name": self.name, "epsilon": self.epsilon, "pane": self.pane}
        if self.domain is not None:
            meaning |= _meaning(self.domain) | {"oracle": self.oracle_names[0]}
        else:
            names = [attribute.name for attribute in self.attributes]
            meaning["attributes"] = {attribute.name: _meaning(attribute.domain) for attribute in self.singles}
            meaning["oracle"] = dict(zip(names, self.oracle_names, strict=True))
            meaning["solution"] = self.solution
        if self.pairs:
            meaning["pairs"] = self.pairs
        if self.buckets is not None:
            meaning["buckets"] = self.buckets
        if self.table is not None:
            meaning["table"] = self.table
        return json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that change if the meaning of a report changes."""
        return sha256(self.canonical.encode()).digest()[:8]


__all__ = ["Attribute", "Query", "load", "parse"]


def _meaning(domain: Domain) -> dict[str, Any]:
    if domain.discovery is not None:
        return {"domain": domain.discovery.meaning}
    if domain.scale is not None:
        scale = domain.scale
        return {"domain": {"bins": scale.bins, "high": scale.high, "low": scale.low, "scale": scale.kind}}
    return {"domain": domain.named if domain.values is None else domain.values, "other": domain.other}


_KEYS = {
    *KEYS,
    *("domain", "attributes", "pairs", "oracle", "solution", "noise", "table"),
    *("windows", "period", "methods", "threshold", "sets", "ranges", "quantiles", "budget", "answers"),
    *KEYS_OF_STRINGS,
    *("groups", "weights"),
}
_ANSWERS = choice(*ANSWERS)
_PERIOD = duration(1)
_REVISION = whole("a whole number of at least 0", 0)
_EDITION = whole(f"a whole number from {EDITION} to {NEWEST}; upgrade hubbub for a later one", EDITION, NEWEST)
_NOISE = choice(*NOISES)


@dataclass(frozen=True)
class File:
    """A query file."""

    queries: Mapping[str, Query]
    revision: int = 0
    """Age of the file: of two files of a prefix, the one with the lower revision is older."""
    paths: tuple[Path, ...] = ()
    """Paths of the file and of its domain files."""
    edition: int = EDITION
    """Edition of the defaults that hold in the file."""


def load(path: str | PathLike[str]) -> dict[str, Query]:
    """Return the queries of a TOML file, by name. A QueryError names file, key and valid range."""
    return dict(load_file(path).queries)


def load_file(path: str | PathLike[str], edition: int | None = None) -> File:
    """Return a query file with its settings outside the queries. `edition` replaces that of the file."""
    at = Place(fspath(path))
    mapping = read_toml(Path(path), at)
    if edition is not None:
        mapping["edition"] = edition
    folder = Path(path).parent
    queries = parse(mapping, at.file, folder)
    revision = _REVISION(mapping.get("revision", 0), at / "revision")
    paths = (Path(path), *(folder / name for name in _named_files(mapping["queries"])))
    return File(queries, revision, paths, mapping.get("edition", EDITION))


def _named_files(tables: Mapping[str, Any]) -> Iterator[str]:
    for query in tables.values():
        for domain in (query.get("domain"), *query.get("attributes", {}).values()):
            if isinstance(domain, dict) and "file" in domain:
                yield domain["file"]


def parse(
    mapping: Mapping[str, Any], where: str, folder: str | PathLike[str] | None, *, standing: bool = False
) -> dict[str, Query]:
    """Return the queries of a file's contents. `where` names it, and `folder` holds its domain files.

    Definitions that are `standing` are already active, so settings that would silence clients are not refused.
    Without a folder a domain may name no file.
    """
    at = Place(where)
    keys = table(dict(mapping), at, ("edition", "revision", "queries"))
    edition = _EDITION(keys.get("edition", EDITION), at / "edition")
    queries = table(keys.get("queries", {}), at / "queries")
    if not queries:
        raise (at / "queries").error("must be one or more tables [queries.NAME], got none")
    within = None if folder is None else Path(folder)
    return {
        name: _query(name, value, at / "queries" / name, within, edition, standing=standing)
        for name, value in queries.items()
    }


def _query(name: str, value: object, at: Place, folder: Path | None, edition: int, *, standing: bool) -> Query:
    keys = _table(value, at)
    settings = {key: setting(keys, key, at) for key in KEYS}
    if standing and "crowd" not in keys:  # the definition is older than the key
        settings["crowd"] = 1
    starts, until, other = settings.pop("from"), settings["until"], settings.pop("other")
    if starts is not None and until is not None and starts >= until:
        raise (at / "until").error(f"must be later than from ({keys['from']}), got {keys['until']}")
    epsilon, pane = settings["epsilon"], settings["pane"]
    windows = read_windows(keys.get("windows", [f"{pane}s"]), at / "windows", pane)
    longest = max(window.size for window in windows)
    period, renew = _PERIOD(keys["period"], at / "period") if "period" in keys else longest or pane, settings["renew"]
    if period % pane and not standing:
        raise (at / "period").error(f"must be a multiple of the pane ({pane}s), got {period}s")
    if renew is not None and renew % period:
        raise (at / "renew").error(f"must be a multiple of the period ({period}s), got {renew}s")
    if settings["season"] is not None and settings["season"] % pane:
        raise (at / "season").error(f"must be a multiple of the pane ({pane}s), got {settings['season']}s")
    # Active definitions may be older than the key.
    default = "once" if keys.get("solution") == "rsfd" and not standing else "life"
    answers = _ANSWERS(keys.get("answers", default), at / "answers")
    noise = _NOISE(keys["noise"], at / "noise") if "noise" in keys else None
    ask = OracleSettings(other, epsilon, settings.pop("buckets"), answers, edition, noise)
    oracle_settings = _oracle_settings(keys, at, folder, ask, pane)
    make, domain = oracle_settings.pop("make"), oracle_settings["domain"]
    discovery = None if domain is None else domain.discovery
    values = sum(attribute.domain.size for attribute in oracle_settings["attributes"])
    if domain is not None and discovery is None:  # a search compares no windows with earlier ones
        values = domain.size
    of = "domain" if domain is not None else "attributes"
    groups, weights = read_groups(keys, at)
    check_sizes(tally_cells(oracle_settings["oracle"].state_size, groups), values, windows, at, of)
    if answers == "life" and not standing:
        check_lifetime(oracle_settings["oracle"], oracle_settings["budget"], make, at / "answers")
    quantiles, limits = _number_settings(keys, oracle_settings, at)
    query = Query(
        **settings,
        **oracle_settings,
        known=() if discovery is None else read_known(keys.get("known", []), at / "known", discovery),
        search=None if discovery is None else read_search(keys.get("search"), at / "search", pane, longest),
        quantiles=quantiles,
        limits=limits,
        groups=groups,
        weights=weights,
        name=name,
        starts=starts,
        windows=windows,
        period=period,
        answers=answers,
        methods=read_methods(keys.get("methods", [NORM_SUB]), at / "methods") if discovery is None else (),
        threshold=read_threshold("significance" if limits else keys.get("threshold", "significance"), at / "threshold"),
    )
    return replace(query, oracle=query.oracle.keyed(query.digest)) if isinstance(query.oracle, Slots) else query


def _oracle_settings(
    keys: dict[str, Any], at: Place, folder: Path | None, ask: OracleSettings, pane: int
) -> dict[str, Any]:
    """Return the settings of the answers and their oracle, and the function that makes another oracle."""
    if is_discovery(keys.get("domain")):
        return read_strings(keys, at, ask, pane)
    check_keys(keys, at)
    return read_several(keys, at, folder, ask) if "attributes" in keys else read_one(keys, at, folder, ask)


def _number_settings(
    keys: dict[str, Any], oracle_settings: dict[str, Any], at: Place
) -> tuple[tuple[float, ...], tuple[tuple[float, float], ...]]:
    """Return the quantiles of numbers in a record, and the limits of quantiles."""
    domain = oracle_settings["domain"]
    domains = [domain] if domain is not None else [each.domain for each in oracle_settings["attributes"]]
    if all(each.scale is None for each in domains):
        if "quantiles" in keys:
            raise (at / "quantiles").error("must be absent: no answer of this query is a number")
        return (), ()
    quantiles = read_quantiles(keys.get("quantiles", list(QUANTILES)), at / "quantiles")
    threshold = keys.get("threshold")
    if domain is None or threshold in (None, "significance"):
        return quantiles, ()
    return quantiles, read_limits(threshold, at / "threshold", domain.scale)


def _table(value: object, at: Place) -> dict[str, Any]:
    """Return a query's table, with the keys of one answer or of several."""
    keys = table(value, at, _KEYS)
    if "domain" in keys and "attributes" in keys:
        raise (at / "attributes").error(
            "must be absent if domain is present: domain is for one answer, attributes for several"
        )
    if "domain" not in keys and "attributes" not in keys:
        raise (at / "domain").error("is missing; it must be a domain, or attributes must be a table of several")
    for key in ("solution", "pairs"):
        if "domain" in keys and key in keys:
            raise (at / key).error("must be absent if domain is present; it is for attributes only")
    return keys
