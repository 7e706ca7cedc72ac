"""What is counted, as the topic of definitions says it: every worker follows the topic, none its file.

A definition's key is its digest and the first pane it speaks for; the newest of a digest counts. It
holds all settings, domain files included, so that a worker or an audit needs no file at all.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oracles.query import Query, parse
from oracles.query.domain import Domain, Sets
from oracles.query.settings import Threshold, Window

Write = tuple[bytes, bytes]
_TIMES = ("from", "until")


@dataclass(frozen=True)
class Definitions:
    """The definitions in force."""

    queries: Mapping[bytes, Query] = field(default_factory=dict)
    """By digest, retired ones too."""
    retired: Mapping[bytes, int] = field(default_factory=dict)
    """By digest, the first pane that it no longer speaks for."""

    @property
    def active(self) -> dict[str, Query]:
        return {query.name: query for digest, query in self.queries.items() if digest not in self.retired}


def read(records: Iterable[tuple[bytes, bytes | None]]) -> Definitions:
    """What the records of the topic say, in their order."""
    newest: dict[bytes, tuple[int, Query, bool]] = {}
    for key, value in records:
        if value is None:
            continue
        digest_text, _, pane_text = key.decode().partition("|")
        digest, pane = bytes.fromhex(digest_text), int(pane_text)
        said = json.loads(value)
        if digest not in newest or pane >= newest[digest][0]:
            newest[digest] = pane, _query(said["query"], said["definition"], digest), said["retired"]
    queries = {digest: query for digest, (_, query, _) in newest.items()}
    return Definitions(queries, {digest: pane for digest, (pane, _, retired) in newest.items() if retired})


def changes(file: Mapping[str, Query], known: Definitions, newest_ms: int) -> list[Write]:
    """What has to be appended for the topic to say what the file says.

    A digest never seen before speaks for all panes. What changes, or ends, does so from the first pane
    that begins after the newest record of any partition, `newest_ms`, and the skew: no report
    of it can have been counted yet.
    """
    writes = []
    for query in file.values():
        before = known.queries.get(query.digest)
        if before is None:
            writes.append(_write(query, 0, retired=False))
        elif before != query or query.digest in known.retired:
            writes.append(_write(query, _first_pane(query, newest_ms), retired=False))
    wanted = {query.digest for query in file.values()}
    for digest, query in known.queries.items():
        if digest not in wanted and digest not in known.retired:
            writes.append(_write(query, _first_pane(query, newest_ms), retired=True))
    return writes


def _first_pane(query: Query, newest_ms: int) -> int:
    return (newest_ms // 1000 + query.skew) // query.pane * query.pane + query.pane


def _write(query: Query, pane: int, *, retired: bool) -> Write:
    said = {"query": query.name, "retired": retired, "definition": dump(query)}
    value = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{query.digest.hex()}|{pane}".encode(), value.encode()


def _query(name: str, definition: dict[str, Any], digest: bytes) -> Query:
    table = dict(definition)
    for key in _TIMES:
        if key in table:
            table[key] = datetime.fromtimestamp(table[key], UTC)
    query = parse({"queries": {name: table}}, "the topic of definitions", ".")[name]
    if query.digest != digest:
        raise ValueError(f"the definition of {name} has the digest {query.digest.hex()}, its key {digest.hex()}")
    return query


def dump(query: Query) -> dict[str, Any]:
    """The query's table as its file would have it, all defaults and domain files resolved."""
    table: dict[str, Any] = {
        "epsilon": query.epsilon,
        "pane": f"{query.pane}s",
        "lateness": f"{query.lateness}s",
        "skew": f"{query.skew}s",
        "windows": [_window(window) for window in query.windows],
        "period": f"{query.period}s",
        "emit_every": "never" if query.emit_every is None else f"{query.emit_every}s",
        "methods": list(query.methods),
        "fallback": query.fallback,
        "publish": "all" if query.publish is None else query.publish,
        "threshold": _threshold(query.threshold),
        "require_id": query.require_id,
        "family_error": query.family_error,
        "alerts_a_day": query.alerts_a_day,
        "max_ids": query.max_ids,
        "budget": query.budget,
        **{key: at for key, at in zip(_TIMES, (query.starts, query.until), strict=True) if at is not None},
    }
    if query.other is not None:  # else each attribute has its default
        table["other"] = query.other
    if query.domain is not None:
        return table | {
            "domain": _domain(query.domain),
            "oracle": query.oracle_names[0],
            "sets": _sets(query.sets, query.domain),
        }
    same = set(query.oracle_names)
    return table | {
        "attributes": {attribute.name: _domain(attribute.domain) for attribute in query.attributes},
        "solution": query.solution,
        "oracle": same.pop() if len(same) == 1 else "adaptive",
        "sets": {a.name: _sets(a.sets, a.domain) for a in query.attributes if a.sets},
    }


def _window(window: Window) -> str:
    if window.kind == "all":
        return "all"
    return f"{window.size}s" if window.size == window.step else f"{window.size}s/{window.step}s"


def _threshold(threshold: Threshold) -> Any:
    kinds = {"significance": "significance", "share": threshold.value, "count": {"count": int(threshold.value)}}
    return kinds[threshold.kind]


def _domain(domain: Domain) -> Any:
    return domain.named if domain.values is None else list(domain.values)


def _sets(sets: Sets, domain: Domain) -> dict[str, list[str]]:
    return {name: [domain.name(position) for position in positions] for name, positions in sets}
