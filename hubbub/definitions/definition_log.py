"""The log of definitions: the records of the topic `queries`, and the definitions that follow from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hubbub.definitions import definition_record, formats, stop_record
from hubbub.definitions.definition_record import Content, TopicRecord, UnreadableRecord
from hubbub.definitions.formats import Formats
from hubbub.definitions.spread_change import NOTICE, changes_spread, with_spread_change
from hubbub.definitions.stop_record import Stop, StopRecord
from hubbub.definitions.versions import Version, Versions
from oracles.query import Query

MARGIN = 2
"""Seconds, in addition to the skew, between the timestamp of a version and the first reports that it applies to."""

CORRECTION = b"correction|"
"""The start of the keys of corrections of the log's time. Such records are skipped."""


@dataclass(frozen=True)
class Definitions:
    """The definitions in the topic, each with all its versions."""

    versions: Mapping[bytes, Versions] = field(default_factory=dict)
    """The versions of each digest, retired ones included; the newest is last."""
    revision: int = 0
    """The highest revision of all files that were registered."""
    unreadable: tuple[UnreadableRecord, ...] = ()
    forgotten: Mapping[bytes, str] = field(default_factory=dict)
    """The names of forgotten definitions by digest."""
    first_batch: str | None = None
    """The token of the batch that was appended first."""
    editions: Mapping[bytes, int] = field(default_factory=dict)
    """The edition of the file that wrote the newest version of each digest."""
    formats: Formats = Formats()  # noqa: RUF009 - a tuple never changes
    """The formats version of the installation."""
    raised_at: int = 0
    """The log time in ms of the record of the formats version, or 0 without one."""
    stops: Mapping[str, Stop] = field(default_factory=dict)
    """The stop of each name that `hubbub stop` holds."""

    @cached_property
    def queries(self) -> dict[bytes, Query]:
        """The newest query of each digest."""
        return {digest: versions.query for digest, versions in self.versions.items()}

    @cached_property
    def digests(self) -> dict[str, list[bytes]]:
        """The digests of each name, retired ones included."""
        result: dict[str, list[bytes]] = defaultdict(list)
        for digest, query in self.queries.items():
            result[query.name].append(digest)
        return dict(result)

    @cached_property
    def active(self) -> dict[str, Query]:
        """The active queries by name, stopped ones included, because their file still has them."""
        return {v.query.name: v.query for v in self.versions.values() if not v.newest.retired}


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
        self._contents: dict[bytes, Content | StopRecord | UnreadableRecord] = {}
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
                stops=dict(self._stops),
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

        read_content = stop_record.read if record.key.startswith(stop_record.START) else definition_record.read
        content = read_content(record)
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
        self._stops = dict(self._before.stops)
        self._cached = None
        self._is_stale = False
        for content in self._contents.values():
            if not isinstance(content, UnreadableRecord):
                self._add(content)

    def _add(self, content: Content | StopRecord) -> None:
        if isinstance(content, StopRecord):
            self._add_stop(content)
        else:
            self._add_version(content)

    def _add_stop(self, content: StopRecord) -> None:
        """Stop the query of a name, or let it go on. A stop also holds for each later definition of the name."""
        is_stopped = content.name in self._stops
        if is_stopped == content.is_stopped:
            return
        if content.is_stopped:
            self._stops[content.name] = Stop(content.timestamp // 1000, content.reason)
        else:
            del self._stops[content.name]

        digest = self._active.get(content.name)
        if digest is None:
            return
        versions = self._versions[digest]
        query = versions.query
        first_pane = _first_pane(content.timestamp, query.skew, query.pane)
        self._versions[digest] = versions.with_version(Version(first_pane, query, is_stopped=content.is_stopped))

    def _add_version(self, content: Content) -> None:
        """Add a version. It retires an older digest of the same name."""
        self._first_batch = content.token if self._first_batch is None else self._first_batch
        self._revision = max(self._revision, content.revision)
        self._editions[content.query.digest] = content.edition

        query = content.query
        versions = self._versions
        earlier = versions.get(query.digest)
        # Workers that start together append the same version several times. Only the first copy counts.
        if earlier is not None and (earlier.query, earlier.newest.retired) == (query, content.retired):
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

        version = Version(first_pane, query, content.retired, is_stopped=query.name in self._stops)
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
