"""The table of a query, as a query file would have it, with all defaults and domain files resolved."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from oracles.query import Query, parse
from oracles.query.domain import Domain, Ranges, Sets
from oracles.query.settings import quantile_name

TIMES = ("from", "until")
"""The keys whose values are times."""


def dump(query: Query) -> dict[str, Any]:
    """Return the table of a query."""
    table: dict[str, Any] = {
        "epsilon": query.epsilon,
        "pane": f"{query.pane}s",
        "lateness": f"{query.lateness}s",
        "skew": f"{query.skew}s",
        "windows": [window.text for window in query.windows],
        "period": f"{query.period}s",
        "emit_every": "never" if query.emit_every is None else f"{query.emit_every}s",
        **({"methods": list(query.methods)} if query.methods else {}),
        "fallback": query.fallback,
        "publish": "all" if query.publish is None else query.publish,
        "crowd": query.crowd,
        "threshold": {quantile_name(share): limit for share, limit in query.limits} or query.threshold.in_file,
        "require_id": query.require_id,
        "family_error": query.family_error,
        "alerts_a_day": query.alerts_a_day,
        "max_ids": query.max_ids,
        "answers": query.answers,
        "budget": query.budget,
        **({"quantiles": list(query.quantiles)} if query.quantiles else {}),
        **({} if query.renew is None else {"renew": f"{query.renew}s"}),
        **({} if query.season is None else {"season": f"{query.season}s"}),
        **({"buckets": max(filter(None, query.fewer))} if any(query.fewer) else {}),
        "noise": query.noise,
        **({} if query.table is None else {"table": query.table}),
        **_search(query),
        **_groups(query),
        **{key: at for key, at in zip(TIMES, (query.starts, query.until), strict=True) if at is not None},
    }
    if query.other is not None:  # otherwise each attribute has its default
        table["other"] = query.other
    if query.domain is not None:
        return table | {
            "domain": query.domain.in_file,
            "oracle": query.oracle_names[0],
            "sets": _sets(query.sets, query.domain),
            **({"ranges": _ranges(query.ranges)} if query.ranges else {}),
        }
    names = query.oracle_names
    ranges = {a.name: _ranges(a.ranges) for a in query.attributes if a.ranges}
    return table | {
        "attributes": {attribute.name: attribute.domain.in_file for attribute in query.singles},
        **({"pairs": query.pairs} if query.pairs else {}),
        "solution": query.solution,
        "oracle": names[0] if len(set(names)) == 1 else list(names),
        "sets": {a.name: _sets(a.sets, a.domain) for a in query.attributes if a.sets},
        **({"ranges": ranges} if ranges else {}),
    }


def query_of(name: str, definition: Mapping[str, Any]) -> Query:
    """Return the query of a table."""
    times = {key: datetime.fromtimestamp(definition[key], UTC) for key in TIMES if key in definition}
    queries = {"queries": {name: {**definition, **times}}}
    return parse(queries, "the topic of definitions", None, standing=True)[name]


def _groups(query: Query) -> dict[str, Any]:
    """Return the keys of groups and weights that the query has."""
    if query.groups is None:
        return {}
    groups = {"groups": {query.groups.name: list(query.groups.values)}}
    if query.weights is None:
        return groups
    return {**groups, "weights": dict(zip(query.groups.values, query.weights, strict=True))}


def _search(query: Query) -> dict[str, Any]:
    """Return the keys that only queries of unknown strings have."""
    if query.domain is None or query.domain.discovery is None:
        return {}
    normal = query.domain.discovery.coding.normal
    return {"normal": normal, "known": list(query.known), "search": f"{query.search}s"}


def _ranges(ranges: Ranges) -> dict[str, list[float]]:
    return {name: list(ends) for name, ends in ranges}


def _sets(sets: Sets, domain: Domain) -> dict[str, list[str]]:
    return {name: [domain.name(position) for position in positions] for name, positions in sets}
