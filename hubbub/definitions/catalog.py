"""The catalog of definitions: how the topic `queries` stores them, and what a query file changes in it.

Workers follow the topic, not the query file. A record holds one version of a definition, with all its settings and
the values of its domain files, so a worker or an audit needs no file. Each version has a key of its own, because the
timestamp of its record decides from which pane it applies. A later copy must never replace that record.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hubbub.definitions import definition_record, formats
from hubbub.definitions.definition_log import Definitions
from hubbub.definitions.definition_record import Content, TopicRecord, UnreadableRecord
from hubbub.definitions.editions import differs_by_edition, lines_that_keep, with_active_settings
from hubbub.definitions.formats import Formats
from hubbub.definitions.spread_change import NOTICE, changes_spread, with_spread_change
from hubbub.definitions.table import dump
from hubbub.definitions.versions import Version, Versions
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

MARGIN = 2
"""Seconds, in addition to the skew, between the timestamp of a version and the first reports that it applies to."""

CORRECTION = b"correction|"
"""The start of the keys of corrections of the log's time. Such records are skipped."""

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


def read(records: Iterable[TopicRecord]) -> Definitions:
    """Return the definitions of the topic's records, in their order. A value of None removes the record of its key."""
    log = DefinitionLog()
    for record in records:
        log.take(record)
    return log.definitions


class DefinitionLog:
    """The records of the topic that count, in their order, and the definitions that follow from them.

    Each record is read once, and adds its version to those of the earlier records. Only if it replaces or removes one,
    the versions are put together again, before the next use.
    """

    def __init__(self) -> None:
        self._before = Definitions()
        """The result of the records that are no longer in `_contents`."""
        self._contents: dict[bytes, Content | UnreadableRecord] = {}
        """The content of each record by its key."""
        self.formats = Formats()
        """The formats version of the installation."""
        self._raised_at = 0
        self._cached: Definitions | None = None
        self._is_stale = False
        """Whether a record was replaced or removed."""
        self._restart()

    @property
    def definitions(self) -> Definitions:
        """The definitions of all records. The object stays the same until the next record."""
        if self._is_stale:
            self._restart()

        if self._cached is None:
            unreadable = (content for content in self._contents.values() if isinstance(content, UnreadableRecord))
            # Later records change the dicts of the log, but readers keep the definitions that they have.
            self._cached = Definitions(
                versions=dict(self._versions),
                revision=self._revision,
                unreadable=tuple(unreadable),
                forgotten=self.forgotten,
                first_batch=self._first_batch,
                editions=dict(self._editions),
                formats=self.formats,
                raised_at=self._raised_at,
            )
        return self._cached

    @property
    def forgotten(self) -> Mapping[bytes, str]:
        """The names of forgotten definitions by digest."""
        return self._before.forgotten

    def take(self, record: TopicRecord) -> UnreadableRecord | None:
        """Add a record. If it is unreadable, return it, and only remove the earlier record of its key."""
        if record.key.startswith(CORRECTION):
            return None
        self._cached = None
        if record.key == formats.KEY:
            return self._take_formats(record)

        self._is_stale |= self._contents.pop(record.key, None) is not None
        if record.value is None:
            return None

        content = definition_record.read(record)
        self._contents[record.key] = content
        if isinstance(content, UnreadableRecord):
            return content
        if not self._is_stale:
            self._add(content)
        return None

    def _take_formats(self, record: TopicRecord) -> UnreadableRecord | None:
        """Read the formats version. Without a readable record it is the first."""
        self._contents.pop(record.key, None)
        self.formats = Formats()
        self._raised_at = 0
        try:
            if record.value is not None:
                self.formats = formats.read(record.value)
                self._raised_at = record.timestamp
        except definition_record.FAULTS as error:
            unreadable = definition_record.unreadable(record, error)
            self._contents[record.key] = unreadable
            return unreadable
        return None

    def forget(self, retired: Mapping[bytes, str]) -> None:
        """Forget these retired definitions, except for their names."""
        # Keep the result of all records together: one forgotten version may have retired another definition.
        definitions = self.definitions
        forgotten = {**self.forgotten, **retired}
        versions = {digest: versions for digest, versions in definitions.versions.items() if digest not in forgotten}
        self._before = replace(definitions, versions=versions, unreadable=(), forgotten=forgotten)
        self._contents = {record.key: record for record in definitions.unreadable}
        self._restart()

    def _restart(self) -> None:
        """Put the versions of all contents together again."""
        self._versions = dict(self._before.versions)
        self._active = {v.query.name: digest for digest, v in self._versions.items() if not v.newest.retired}
        """The digest of the active definition of each name. There is at most one, because it retires the others."""
        self._revision = self._before.revision
        self._first_batch = self._before.first_batch
        self._editions = dict(self._before.editions)
        self._cached = None
        self._is_stale = False
        for content in self._contents.values():
            if not isinstance(content, UnreadableRecord):
                self._add(content)

    def _add(self, content: Content) -> None:
        """Add a version. It retires an older digest of the same name."""
        self._first_batch = content.token if self._first_batch is None else self._first_batch
        self._revision = max(self._revision, content.revision)
        self._editions[content.query.digest] = content.edition

        query = content.query
        versions = self._versions
        earlier = versions.get(query.digest)
        # Workers that start together append the same version several times. Only the first copy counts.
        if earlier is not None and earlier.newest[1:] == (query, content.retired):
            return

        active = self._active.get(query.name, query.digest)
        older = None if content.retired or active == query.digest else versions[active]
        # The first batch of a new topic applies to all panes, because no other definition had reports before.
        first_pane = 0
        spread_first = 0
        if not content.topic_was_empty or content.token != self._first_batch:
            skews = [version.query.skew for version in (older, earlier) if version is not None]
            skew = max(query.skew, *skews, 0)
            first_pane = _first_pane(content.timestamp, skew, query.pane)
            spread_first = _first_pane(content.timestamp, skew + NOTICE, query.pane)
        if older is not None:
            end = -(-first_pane // older.query.pane) * older.query.pane
            versions[active] = older.with_version(Version(end, older.query, retired=True))

        version = Version(first_pane, query, content.retired)
        # The newest digest is the last one, so the old place must go.
        versions.pop(query.digest, None)
        if earlier is None:
            versions[query.digest] = Versions((version,))
        elif changes_spread(earlier, version):
            versions[query.digest] = with_spread_change(earlier, version, spread_first)
        else:
            versions[query.digest] = earlier.with_version(version)
        if not content.retired:
            self._active[query.name] = query.digest
        elif active == query.digest:
            self._active.pop(query.name, None)


def _first_pane(timestamp: int, skew: int, pane: int) -> int:
    """Return the first pane that starts later than the timestamp, the skew and MARGIN together."""
    return ((timestamp + 1000 * (skew + MARGIN)) // (1000 * pane) + 1) * pane


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
