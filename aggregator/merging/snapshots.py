"""One partition of the snapshots topic: the queries at home there, from its records to their finals.

It is read from the beginning. Until all that stood there is read, only the newest of each key is
kept; then the mergers go on from the newest states.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.merging import records
from aggregator.merging.crowd import Foretelling, Shown
from aggregator.merging.merge import Merger, encode_state
from aggregator.merging.records import Check, Held, Read, WindowState, is_possible, lost_state
from aggregator.merging.windows import ClosedWindow, Position, Span
from aggregator.topics import keys
from aggregator.topics.keys import Key, PaneKey, PartitionKey, StateKey
from hubbub.definitions.versions import FOR_EVER, Versions
from oracles.errors import ReportError
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)

_MOST_UNKNOWN = 100_000
"""Digests without a definition that are remembered; beyond them any new definition has all read anew."""
_UNREAD = b""
"""Stands for a value that cannot be read; nor can it."""
_Found = tuple[bytes, Key, bytes]


@dataclass(eq=False)
class Slot:
    """The slot of one query on a shelf."""

    merger: Merger
    alerts: dict[Window, list[bytes]] = field(default_factory=dict)
    """The states of the alerts of each kind of window."""
    shown: dict[Window, list[Shown | None]] = field(default_factory=dict)
    """Of each kind of window and attribute, the last one that showed values."""
    foretelling: Foretelling = field(default_factory=Foretelling)
    written: dict[Window, Position] = field(default_factory=dict)
    """The positions that are acknowledged."""
    snapshots: dict[int, set[bytes]] = field(default_factory=dict)
    """The keys of snapshots, by pane."""
    states: dict[Window, set[bytes]] = field(default_factory=dict)
    """The keys of states."""
    repeated: set[Window] = field(default_factory=set)
    """Kinds of windows whose newest state was too large to be written: their snapshots stay, for a restart."""
    finished: int | None = None
    """All windows that end here or before are published, and acknowledged."""
    _owed: Iterator[ClosedWindow] | None = None

    def finals(self) -> Iterator[ClosedWindow]:
        """The finals that are owed; whoever leaves off goes on there the next time."""
        self._owed = self._owed or self.merger.finals()
        for final in self._owed:  # noqa: UP028 - `from` would end it with whoever leaves off
            yield final
        self._owed = None

    @property
    def owes(self) -> bool:
        """Whether there are finals that nobody has taken yet."""
        return self._owed is not None or self.merger.owes

    @property
    def versions(self) -> Versions:
        return self.merger.versions

    def speaking(self, span: Span) -> Query:
        """The version that speaks for a window: that of its last pane."""
        return self.versions.at(span.end - self.versions.query.pane).query

    @property
    def end(self) -> int | None:
        """That of the newest final that is acknowledged."""
        return max((position.end for position in self.written.values()), default=None)

    def is_over(self, retired: int) -> bool:
        """Whether nothing before it is retired is owed to anybody, and no state is missing."""
        return self.finished is not None and self.finished >= retired and not self.repeated

    def remains(self) -> list[bytes]:
        """The keys of all its snapshots, once it is retired and over: no window to come holds them."""
        retired = self.versions.retired
        if retired is None or not self.is_over(retired):
            return []
        names = sorted(name for names in self.snapshots.values() for name in names)
        self.snapshots.clear()
        return names

    def state(self, window: Window, position: Position) -> tuple[bytes, bytes]:
        """The record to go on from."""
        name = StateKey(self.versions.query.digest, window, position.end).encode()
        return name, encode_state(position, self.alerts.get(window, []), self.shown.get(window, []))

    def settled(self, window: Window, position: Position) -> Iterator[bytes]:
        """The state is acknowledged: the keys that nobody needs any more."""
        self.written[window] = position
        self.repeated.discard(window)
        kept = StateKey(self.versions.query.digest, window, position.end).encode()
        yield from sorted(self.states.get(window, set()) - {kept})
        self.states[window] = {kept}
        needed = self._needed_from()
        for pane in sorted(pane for pane in self.snapshots if needed is not None and pane < needed):
            yield from sorted(self.snapshots.pop(pane))

    def _needed_from(self) -> int | None:
        """No window to come needs a snapshot of a pane before; None while some kind has no state."""
        starts = []
        for window, since, until in self.versions.tenures:
            if self.finished is not None and until <= self.finished and window not in self.repeated:
                continue
            written = self.written.get(window)
            if written is None and since == -FOR_EVER:
                return None
            first = -FOR_EVER if written is None else written.end + window.step - window.size
            starts.append(max(since, first))
        return min(starts)


class Shelf:
    """The queries of one partition of the snapshots topic."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        definitions: Mapping[bytes, Versions],
        check: Check = lambda _query, _alerts: None,
    ) -> None:
        self._partition, self._partitions = partition, partitions
        self._definitions = self._at_home(definitions)
        self._check = check
        self._before: dict[bytes, bytes] | None = {}
        self.slots: dict[bytes, Slot] = {}
        self.marked_ms: dict[bytes, int] = {}
        """When the newest watermark of a query was written."""
        self.overtaken = False
        """Whether somebody else has published finals that stand out here: all must be read anew."""
        self._unknown: set[bytes] = set()
        """Digests that records were passed over of."""
        self.unread = 0
        """Records that could not be read."""

    def define(self, definitions: Mapping[bytes, Versions]) -> None:
        """Go on by these definitions; what was passed over for the lack of one is read anew."""
        self._definitions = self._at_home(definitions)
        for digest in self.slots.keys() - self._definitions.keys():  # let go of
            del self.slots[digest]
            self.marked_ms.pop(digest, None)
            self._pass_over(digest)
        for digest, versions in self._definitions.items():
            if digest in self.slots:
                self.slots[digest].merger.define(versions)
            elif digest in self._unknown or len(self._unknown) >= _MOST_UNKNOWN:
                self.overtaken = True
                self._unknown.discard(digest)
            elif self.loaded:
                self.slots[digest] = Slot(Merger(versions, self._partitions))

    def _at_home(self, definitions: Mapping[bytes, Versions]) -> dict[bytes, Versions]:
        return {d: versions for d, versions in definitions.items() if keys.home(d, self._partitions) == self._partition}

    def _pass_over(self, digest: bytes) -> None:
        if len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.add(digest)

    @property
    def loaded(self) -> bool:
        return self._before is None

    def put(self, name: bytes | None, value: bytes | None, timestamp: int) -> None:
        """One record of the topic, whoever wrote it."""
        key = keys.decode(name)
        if name is None or key is None or not self._is_possible(key):
            self._tell(name, "it is no key of a worker's")
        elif not isinstance(key, PartitionKey) and key.digest not in self._definitions:
            self._pass_over(key.digest)
        elif self._before is None:
            self._take(name, key, value, timestamp)
        elif value is None:
            self._before.pop(name, None)
        elif self._read(name, key, value) is not None:
            self._before[name] = value
        else:
            self._before.setdefault(name, _UNREAD)

    def load(self) -> None:
        """All that stood there is read: go on from it."""
        before, self._before = self._before or {}, None
        unread, self.unread = self.unread, 1  # nothing is told twice
        found = [(name, key, value) for name, value in before.items() if (key := keys.decode(name)) is not None]
        states: dict[bytes, dict[Window, WindowState]] = {}
        names: dict[tuple[bytes, Window], set[bytes]] = {}
        for name, key, value in found:
            if isinstance(key, StateKey) and key.digest in self._definitions:
                names.setdefault((key.digest, key.window), set()).add(name)
                newest = states.setdefault(key.digest, {})
                known = newest.get(key.window)
                if known is None or known.position.end < key.end:
                    state = self._read(name, key, value)
                    newest |= {key.window: state} if isinstance(state, WindowState) else {}
        self._recover_lost(found, states)
        for digest, versions in self._definitions.items():
            stood = states.get(digest, {})
            positions = {window: state.position for window, state in stood.items()}
            slot = Slot(Merger(versions, self._partitions, positions.items()))
            slot.alerts = {window: state.alerts for window, state in stood.items()}
            slot.shown = {window: state.shown for window, state in stood.items()}
            slot.written = positions
            slot.states = {window: names[digest, window] for window in stood}
            self.slots[digest] = slot
        for name, key, value in found:
            self._take(name, key, value, 0)
        self.unread = unread

    def passed_over(self) -> int:
        """How many records could not be read since this was asked last."""
        unread, self.unread = self.unread, 0
        return unread

    def _recover_lost(self, found: Sequence[_Found], states: dict[bytes, dict[Window, WindowState]]) -> None:
        """Of a kind of window whose states cannot be read, one that says so: up to where its key says that it was."""
        marks: dict[bytes, dict[int, int]] = {}
        for name, key, value in found:
            if isinstance(key, PartitionKey) and isinstance(read := self._read(name, key, value), Mapping):
                for digest, end in read.items():
                    of = marks.setdefault(digest, {})
                    of[key.partition] = max(end, of.get(key.partition, end))
        readable = {(digest, window) for digest, of in states.items() for window in of}
        for _, key, _ in found:
            if not isinstance(key, StateKey) or (key.digest, key.window) in readable:
                continue
            of, known = marks.get(key.digest, {}), states.get(key.digest, {}).get(key.window)
            if len(of) < self._partitions or key.end > min(of.values()):
                continue  # no worker was so far
            lost = lost_state(key, self._definitions[key.digest].query.oracle.state_size)
            if known is None or known.position.end < lost.position.end:
                states[key.digest][key.window] = lost

    def _is_possible(self, key: Key) -> bool:
        if isinstance(key, StateKey):
            return True
        versions = self._definitions.get(key.digest) if isinstance(key, PaneKey) else None
        return is_possible(key, versions, self._partitions)

    def _read(self, name: bytes, key: Key, value: bytes) -> Read | None:
        """The content of a record; None where that cannot be read."""
        try:
            if isinstance(key, PartitionKey):
                return records.marks(value)
            query = self._definitions[key.digest].query
            if isinstance(key, StateKey):
                return records.state(key, value, query, self._check)
            return records.snapshot(key, value, query.oracle.state_size)
        except ReportError as error:
            self._tell(name, str(error))
            return None

    def _tell(self, name: bytes | None, fault: str) -> None:
        if not self.unread:  # one line stands for all that were passed over since it was last looked at
            log.error("a snapshot cannot be read and is passed over: %r: %s", (name or b"")[:100], fault)
        self.unread += 1

    def _take(self, name: bytes, key: Key, value: bytes | None, timestamp: int) -> None:
        if isinstance(key, PaneKey):
            self._take_snapshot(name, key, value)
            return
        read = None if value is None else self._read(name, key, value)
        if isinstance(key, StateKey) and read is not None and key.digest in self.slots:
            # Whoever wrote it deletes the snapshots that it covers, so that what is read here may have gaps.
            written = self.slots[key.digest].written.get(key.window)
            self.overtaken |= written is None or written.end < key.end
        elif isinstance(key, PartitionKey) and isinstance(read, Mapping):
            for digest, end in read.items():
                if digest in self.slots:
                    self.slots[digest].merger.mark(key.partition, end)
                    self.marked_ms[digest] = timestamp
                else:
                    self._pass_over(digest)

    def _take_snapshot(self, name: bytes, key: PaneKey, value: bytes | None) -> None:
        slot = self.slots.get(key.digest)
        if slot is None:
            self._pass_over(key.digest)
            return
        if value is None:
            slot.snapshots.get(key.pane, set()).discard(name)
            return
        slot.snapshots.setdefault(key.pane, set()).add(name)
        read = self._read(name, key, value)
        if isinstance(read, Held):
            slot.merger.take(key.pane, key.partition, *read)
        elif key.kind == "closed":
            slot.merger.spoil(key.pane, key.partition)
