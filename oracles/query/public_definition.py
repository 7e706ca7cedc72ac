"""A definition as `GET /v1/queries` lists it for clients."""

import json
from typing import Any

from oracles.query.definition import Query
from oracles.query.purpose_keys import purpose_of


def public_definition(query: Query) -> dict[str, Any]:
    """Return all that a client needs to answer a query, including all parts of its digest."""
    meaning = json.loads(query.canonical)
    del meaning["format"]

    return {
        "digest": query.digest.hex(),
        "solution": None,
        **meaning,
        "other": query.other,
        "period": query.period,
        "lateness": query.lateness,
        "skew": query.skew,
        "from": query.starts,
        "until": query.until,
        "answers": query.answers,
        "budget": query.budget,
        "renew": query.renew,
        "classes": query.classes,
        "record_charge": query.record_charge,
        "buckets": query.buckets,
        "noise": query.noise,
        "table": query.table,
        "thresholds": query.thresholds,
        "edges": query.edges,
        "groups": query.groups.table,
        "width": query.oracle.width,
        # Absent unless the file has them, so that other items keep their bytes.
        **purpose_of(query),
    }
