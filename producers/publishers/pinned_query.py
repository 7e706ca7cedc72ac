"""The definition of a query as a gateway lists it, checked against the limits that the application pinned."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from oracles.errors import HubbubError, QueryError
from oracles.query import Query, parse
from oracles.query.public_definition import public_definition
from oracles.query.recorder import recorder_keys
from oracles.query.strings import keys_of_meaning
from producers.errors import NotAllowed
from producers.pins import check_numbers, check_pins

_SECONDS = ("pane", "period", "lateness", "skew", "renew")
_TIMES = ("from", "until")
_SAME_MEMBERS = (
    "epsilon",
    "domain",
    "other",
    "solution",
    "budget",
    "answers",
    "noise",
    "table",
    "subset",
    "rows",
    "groups",
    "about",
    "purpose",
    "contact",
)
"""Members that a query file has under the same name with the same value."""


def pin_query(
    listing: bytes, name: str, max_epsilon: float, gateway: str, pins: Mapping[str, Any] | None = None
) -> Query:
    """Return the query `name` of a listing, the body of GET /v1/queries. `gateway` is its address, for messages.

    Raise NotAllowed if a report would reveal more than `max_epsilon`, or if the query is not within the pins. Raise
    QueryError if the definition does not match its digest, because workers count reports under the digest.
    """
    try:
        definitions: dict[str, dict[str, Any]] = {item["name"]: item for item in json.loads(listing)["queries"]}
        if name not in definitions:
            raise NotAllowed(f"{gateway} has no query {name!r}; it has {', '.join(map(str, definitions)) or 'none'}")

        definition = definitions[name]
        check_numbers(definition)
        query = parse({"queries": {name: _table(definition)}}, gateway, ".")[name]
        digest = definition["digest"]
        if query.digest.hex() != digest or query.oracle.width != definition["width"]:
            raise QueryError(f"{gateway}: {name}: digest {digest} does not match the definition; report this fault")
    except HubbubError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise QueryError(f"{gateway}: not a valid list of queries: {type(error).__name__}: {error}") from None

    if query.record_epsilon > max_epsilon:
        cost = f"{gateway}: a report of {name!r} reveals epsilon {query.record_epsilon:g}"
        raise NotAllowed(f"{cost}, and this application allows {max_epsilon:g}")
    # The members of the query itself, since a listing may state a charge that the answers do not have.
    check_pins(public_definition(query), pins or {})
    return query


def _table(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition in the form of a query file."""
    table = {key: definition[key] for key in _SAME_MEMBERS if definition.get(key) is not None}
    table |= {key: f"{definition[key]:d}s" for key in _SECONDS if definition.get(key) is not None}
    table |= {key: datetime.fromtimestamp(definition[key], UTC) for key in _TIMES if definition.get(key) is not None}

    buckets = definition.get("buckets")
    if buckets is not None:  # all attributes with fewer buckets than the best number have the same number
        table["buckets"] = max(buckets.values()) if isinstance(buckets, dict) else buckets

    oracle = definition["oracle"]
    domains = [definition.get("domain")]
    table |= keys_of_meaning(definition.get("domain"))
    table |= recorder_keys(definition.get("recorder"))
    if "attributes" in definition:
        table["attributes"] = {name: attribute["domain"] for name, attribute in definition["attributes"].items()}
        domains = list(table["attributes"].values())
        names = set(oracle.values())
        oracle = names.pop() if len(names) == 1 else "adaptive"

    # A gateway must not make this device read its own files.
    if any(isinstance(domain, dict) and "file" in domain for domain in domains):
        raise ValueError("a domain must not name a file of this device")
    return {**table, "oracle": oracle}
