"""The query file: its queries, and the checks of all their keys together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from oracles.consistency import NORM_SUB
from oracles.discover import Slots
from oracles.mechanisms import EDITION, NEWEST, NOISES
from oracles.query.definition import Query
from oracles.query.footprint import check_sizes, tally_cells
from oracles.query.groups import read_groups, read_weights
from oracles.query.lifetime import check_lifetime
from oracles.query.oracle_keys import OracleSettings, read_one, read_several, read_strings
from oracles.query.settings import (
    ANSWERS,
    KEYS,
    QUANTILES,
    Place,
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
    groups = read_groups(keys["groups"], at / "groups") if "groups" in keys else None
    weights = read_weights(keys["weights"], at / "weights", groups) if "weights" in keys else None
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
