"""A query as a gateway tells it, taken only within what the application has pinned."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from oracles.errors import HubbubError, QueryError
from oracles.query import Query, parse
from producers.errors import NotAllowed

_SECONDS = ("pane", "period", "lateness", "skew", "renew")
_TIMES = ("from", "until")
_AS_THEY_ARE = ("epsilon", "domain", "other", "solution", "budget", "answers")


def pinned(listing: bytes, name: str, max_epsilon: float, where: str) -> Query:
    """The query of that name in what GET /v1/queries answers; `where` is who answered.

    NotAllowed where a report would reveal more than `max_epsilon`; a QueryError where the gateway
    contradicts itself: what it tells must make the digest that reports are counted under.
    """
    try:
        listed: dict[str, dict[str, Any]] = {told["name"]: told for told in json.loads(listing)["queries"]}
        if name not in listed:
            raise NotAllowed(f"{where} has no query {name!r}; it has {', '.join(map(str, listed)) or 'none'}")
        told = listed[name]
        query = parse({"queries": {name: _table(told)}}, where, ".")[name]
        if (query.digest.hex(), query.oracle.width) != (told["digest"], told["width"]):
            raise QueryError(f"{where}: {name}: its digest {told['digest']} is not that of what it says")
    except HubbubError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise QueryError(f"{where}: this is no list of queries: {type(error).__name__}: {error}") from None
    if query.record_epsilon > max_epsilon:
        asked = f"{where}: a report of {name!r} reveals epsilon {query.record_epsilon:g}"
        raise NotAllowed(f"{asked}, and this application allows {max_epsilon:g}")
    return query


def _table(told: Mapping[str, Any]) -> dict[str, Any]:
    """As a query file would have it."""
    table = {key: told[key] for key in _AS_THEY_ARE if told.get(key) is not None}
    table |= {key: f"{told[key]:d}s" for key in _SECONDS if told.get(key) is not None}
    table |= {key: datetime.fromtimestamp(told[key], UTC) for key in _TIMES if told.get(key) is not None}
    buckets = told.get("buckets")
    if buckets is not None:  # of several attributes all that have fewer than the best have the same
        table["buckets"] = max(buckets.values()) if isinstance(buckets, dict) else buckets
    oracle, domains = told["oracle"], [told.get("domain")]
    if "attributes" in told:
        table["attributes"] = {name: attribute["domain"] for name, attribute in told["attributes"].items()}
        domains = list(table["attributes"].values())
        names = set(oracle.values())
        oracle = names.pop() if len(names) == 1 else "adaptive"
    if any(isinstance(domain, dict) and "file" in domain for domain in domains):
        raise ValueError("a domain names a file of this device")
    return {**table, "oracle": oracle}
