"""The catalog of definitions: how the topic `queries` stores them, and what a query file changes in it.

Workers follow the topic, not the query file. A record holds one version of a definition, with all its settings and
the values of its domain files, so a worker or an audit needs no file. Each version has a key of its own, because the
timestamp of its record decides from which pane it applies. A later copy must never replace that record.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hubbub.definitions.definition_log import CORRECTION, MARGIN, DefinitionLog, Definitions, read
from hubbub.definitions.definition_record import TopicRecord, UnreadableRecord
from hubbub.definitions.editions import differs_by_edition, lines_that_keep, with_active_settings
from hubbub.definitions.table import dump
from oracles.errors import HubbubError
from oracles.query import File, Query
from oracles.query.groups import change_fault

__all__ = [
    "CORRECTION",
    "MARGIN",
    "Changes",
    "DefinitionLog",
    "Definitions",
    "DefinitionsError",
    "TopicRecord",
    "UnreadableRecord",
    "Write",
    "changes",
    "read",
]

Write = tuple[bytes, bytes]


class DefinitionsError(HubbubError):
    """A query file that would end an active query, which nobody asked to retire, or that needs too much memory."""

    exit_code = 2


@dataclass(frozen=True)
class Changes:
    """The changes that a query file makes to the topic."""

    writes: list[Write] = field(default_factory=list)
    """The records to append in one batch."""
    missing: tuple[str, ...] = ()
    """Active queries that the file lacks and nobody retires. If there are any, `writes` is empty."""
    ignored: tuple[str, ...] = ()
    """Queries that cannot be retired, because they are not active or the file still has them."""
    edition_lines: Mapping[str, str] = field(default_factory=dict)
    """Queries whose digest only the edition of the file changes, with the lines that keep the digest.

    If there are any, `writes` is empty.
    """
    group_faults: Mapping[str, str] = field(default_factory=dict)
    """Queries whose groups cannot change in this way, and why. If there are any, `writes` is empty."""
    behind: bool = False
    """Whether the topic has a later revision of the file. If so, `writes` is empty."""


def changes(file: File, definitions: Definitions, retire: Collection[str], token: str) -> Changes:
    """Return the changes that bring the topic in line with the file.

    No other batch has this `token`. A query that the file lacks is retired only if `retire` names it.
    """
    if file.revision < definitions.revision:
        return Changes(behind=True)

    active = definitions.active
    queries = {name: with_active_settings(query, active.get(name)) for name, query in file.queries.items()}
    editions = definitions.editions
    conflicts = {
        name for name in active.keys() & queries if differs_by_edition(file, queries[name], active[name], editions)
    }
    # If `retire` names such a query, it starts again with the digest of the new edition.
    queries |= {name: file.queries[name] for name in conflicts}
    ignored = tuple(
        sorted(name for name in retire if (name in file.queries and name not in conflicts) or name not in active)
    )

    # Nothing is written if any query would end by mistake. The message names all of them at once.
    missing = tuple(sorted(name for name in active if name not in file.queries and name not in retire))
    if missing:
        return Changes(missing=missing, ignored=ignored)
    edition_lines = {name: lines_that_keep(active[name], file.edition) for name in sorted(conflicts - set(retire))}
    if edition_lines:
        return Changes(edition_lines=edition_lines, ignored=ignored)
    faults = {name: _group_fault(query, definitions) for name, query in queries.items()}
    group_faults = {name: fault for name, fault in faults.items() if fault is not None}
    if group_faults:
        return Changes(group_faults=group_faults, ignored=ignored)

    versions = [(query, False) for query in queries.values() if active.get(query.name) != query]
    versions += [(query, True) for name, query in active.items() if name in retire and name not in file.queries]
    members = {"revision": file.revision, "founds": definitions.first_batch is None, "edition": file.edition}
    writes = [_write(query, token, {"retired": retires, **members}) for query, retires in versions]
    return Changes(writes, ignored=ignored)


def _group_fault(query: Query, definitions: Definitions) -> str | None:
    """Return why the groups of a query do not continue those of the same digest, or None if they do."""
    active = definitions.queries.get(query.digest)
    return None if active is None else change_fault(active.groups, query.groups)


def _write(query: Query, token: str, more: Mapping[str, Any]) -> Write:
    content = {"query": query.name, "definition": dump(query), **more}
    value = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{query.digest.hex()}|v{token}".encode(), value.encode()
