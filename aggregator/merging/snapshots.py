"""One partition of the snapshots topic: the queries at home there, from its records to their finals.

It is read from the beginning. Until all that stood there is read, only the newest of each key is
kept; then the mergers go on from the newest states.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

from aggregator.merging import records
from aggregator.merging.crowd import Foretelling
from aggregator.merging.line import Memory, PaneStore
from aggregator.merging.merge import ALL, Merger
from aggregator.merging.newest import Newest
from aggregator.merging.records import Check, Held, Read, WindowState, is_possible, lost_state
from aggregator.merging.slot import Slot
from aggregator.merging.windows import Position
from aggregator.topics import keys
from aggregator.topics.keys import Key, PaneKey, PartitionKey, StateKey
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query.settings import Window

log = logging.getLogger(__name__)

_MOST_UNKNOWN = 100_000
"""Digests without a definition that are remembered; beyond them any new definition has all read anew."""
_Found = tuple[bytes, Key, bytes]


class Shelf:
    """The queries of one partition of the snapshots topic."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        definitions: Mapping[bytes, Versions],
        check: Check = lambda _query, _alerts: None,
        store: PaneStore | None = None,
    ) -> None:
        self._partition, self._partitions = partition, partitions
        self._definitions = self._at_home(definitions)
        self._check = check
        self._store = store or Memory()
        self._before: Newest | None = Newest(self._store.fresh())
        self.loaded = False
        """Whether all that stood there is read, and the mergers go on from it."""
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
                self.slots[digest] = Slot(self._merger(versions))

    def go_on(self) -> None:
        """Partitions were shared out anew, and this one stays: others may have shown provisional records meanwhile."""
        for slot in self.slots.values():
            slot.foretelling = Foretelling()

    def _merger(self, versions: Versions, states: Mapping[Window, Position] | None = None) -> Merger:
        return Merger(versions, self._partitions, (states or {}).items(), self._store)

    def _at_home(self, definitions: Mapping[bytes, Versions]) -> dict[bytes, Versions]:
        return {d: versions for d, versions in definitions.items() if keys.home(d, self._partitions) == self._partition}

    def _pass_over(self, digest: bytes) -> None:
        if len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.add(digest)

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
            self._before.pop(name, key)
        elif self._read(name, key, value) is not None:
            self._before.put(name, key, value)
        else:
            self._before.spoil(name, key)

    def load(self) -> None:
        """All that stands there is read: go on from it."""
        for _ in self.loading():
            pass

    def loading(self) -> Iterator[None]:
        """The same in slices. No record may come meanwhile, since panes that are closed enter their windows at once."""
        before, self._before = self._before or Newest(self._store.fresh()), None
        unread, self.unread = self.unread, 1  # nothing is told twice
        found = before.others()
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
            slot = Slot(self._merger(versions, positions))
            slot.alerts = {window: state.alerts for window, state in stood.items()}
            slot.shown = {window: state.shown for window, state in stood.items()}
            slot.written = positions
            slot.states = {window: names[digest, window] for window in stood}
            slot.older = {window for window, state in stood.items() if not state.totals}
            self.slots[digest] = slot
        for name, key, value in found:
            self._take(name, key, value, 0)
        for digest, pane, parts in before.take_panes():
            if digest in self.slots:
                slot = self.slots[digest]
                for key, value in parts:
                    _keep(slot, key, records.snapshot_again(key, value, slot.merger.cells) if value else None)
                slot.merger.collect(pane)
            yield
        self.unread, self.loaded = unread, True

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
            slot.snapshots.discard(key)
            return
        read = self._read(name, key, value)
        _keep(slot, key, read if isinstance(read, Held) else None)


def _keep(slot: Slot, key: PaneKey, read: Held | None) -> None:
    """A snapshot that stands there; None where nobody can read it."""
    slot.snapshots.add(key)
    partition = ALL if key.kind == "merged" else key.partition
    if read is not None:
        slot.merger.take(key.pane, partition, *read)
    elif key.kind != "open":
        slot.merger.spoil(key.pane, partition)
