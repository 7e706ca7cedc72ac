"""One partition of the topic `snapshots`: its queries, from their records to their finals.

The worker reads the partition from the beginning, and up to its end it keeps only the newest value of each
key. The mergers continue from the newest states.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

from aggregator.merging import snapshot_records
from aggregator.merging.closed_panes import ClosedPanes
from aggregator.merging.compaction import LatestValues
from aggregator.merging.merger import Merger
from aggregator.merging.pane_queue import MemoryStore, PaneStore
from aggregator.merging.query_state import QueryState
from aggregator.merging.record_index import StoredRecord, blocks_of, marks_of, state_names
from aggregator.merging.snapshot_records import Content, StateCheck, WindowState, is_valid_key
from aggregator.tallies import keys
from aggregator.tallies.clock_book import ClockView
from aggregator.tallies.group_cells import further_groups
from aggregator.tallies.keys import BlockKey, Key, PaneKey, PartitionKey, StateKey
from aggregator.tallies.snapshot import Snapshot, decode_snapshot, view_snapshot
from aggregator.tallies.state_forms import is_split, join_state
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query.settings import Window

log = logging.getLogger(__name__)

_MOST_UNKNOWN = 100_000
"""Most remembered digests without a definition. Beyond them, any new definition makes the worker read all again."""


class SnapshotPartition:
    """The queries of one partition of the topic `snapshots`."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        definitions: Mapping[bytes, Versions],
        check: StateCheck = lambda _query, _alerts: None,
        store: PaneStore | None = None,
    ) -> None:
        self._partition = partition
        self._partitions = partitions
        self._closed = ClosedPanes(partitions)
        self._definitions: dict[bytes, Versions] = {}
        self._set_definitions(definitions)
        self._check = check
        self._store = store or MemoryStore()

        self._latest: LatestValues | None = LatestValues(self._store.new())
        self.loaded = False
        """Whether the partition is read to its end, and the mergers continue from there."""
        self.queries: dict[bytes, QueryState] = {}
        self.states_read = 0
        """Number of states that `put` has taken."""
        self.must_reload = False
        """Whether the whole partition must be read again, for example because another worker has published finals."""
        self._unknown: set[bytes] = set()
        """Digests of the records without a definition, which `put` has skipped."""
        self.unreadable = 0
        """Number of unreadable records since the last `take_unreadable_count`."""

    def define(self, definitions: Mapping[bytes, Versions]) -> None:
        """Apply new definitions. If records of a new definition were skipped, the partition must be read again."""
        self._set_definitions(definitions)
        for digest in self.queries.keys() - self._definitions.keys():  # a forgotten definition
            del self.queries[digest]
            self._skip(digest)

        for digest, versions in self._definitions.items():
            if digest in self.queries:
                self.queries[digest].merger.define(versions)
            elif digest in self._unknown or len(self._unknown) >= _MOST_UNKNOWN:
                self.must_reload = True
                self._unknown.discard(digest)
            elif self.loaded:
                self.queries[digest] = QueryState(self._merger(versions))
                self._closed.mark(self.queries[digest].merger)

    def _merger(self, versions: Versions, states: Mapping[Window, WindowState] | None = None) -> Merger:
        positions = [(window, state.position) for window, state in (states or {}).items()]
        return Merger(versions, self._partitions, positions, self._store, marks_of(versions, states or {}))

    def _set_definitions(self, definitions: Mapping[bytes, Versions]) -> None:
        """Keep the definitions whose home is this partition."""
        self._definitions = {
            digest: versions
            for digest, versions in definitions.items()
            if keys.home(digest, self._partitions) == self._partition
        }
        spreads = (spread for versions in self._definitions.values() for _, spread in versions.spreads)
        self._closed.have_slots = any(spread is not None and spread < self._partitions for spread in spreads)

    def _skip(self, digest: bytes) -> None:
        if len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.add(digest)

    def put(self, name: bytes | None, value: bytes | None) -> None:
        """Take in one record of the topic, by any writer."""
        key = keys.decode(name)
        self.states_read += isinstance(key, StateKey)

        # Until the end of the partition is read, only the newest value of each key matters, and only if it is readable.
        if name is None or key is None or not self._is_valid_key(key):
            self._log_unreadable(name, "no worker writes this key")
        elif not isinstance(key, PartitionKey) and key.digest not in self._definitions:
            self._skip(key.digest)
        elif self._latest is None:
            self._take(name, key, value)
        elif value is None:
            self._latest.pop(name, key)
        elif isinstance(key, PaneKey) and key.kind == "open":
            self._latest.put_unreadable(name, key)
        elif self._read(name, key, value) is not None:
            self._latest.put(name, key, value)
        else:
            self._latest.put_unreadable(name, key)

    def may_close(self, view: ClockView) -> bool:
        """Whether panes may be closed at these clocks that were open before."""
        return self._closed.may_close(view)

    def put_clocks(self, view: ClockView) -> None:
        """Take the clocks of all source partitions. Every snapshot that they speak of must have been put before."""
        self._closed.put_clocks(view)
        for state in self.queries.values():
            self._closed.mark(state.merger)

    def take_obsolete_watermarks(self) -> list[bytes]:
        """Remove and return the keys of the watermarks of older releases that the clocks have passed."""
        return self._closed.take_obsolete(self._definitions) if self.loaded else []

    def load(self) -> None:
        """Start the mergers from the records up to the end of the partition."""
        for _ in self.load_in_slices():
            pass

    def load_in_slices(self) -> Iterator[None]:
        """Load the snapshots in slices, so that the event loop can turn.

        No record may come between two slices, since closed panes enter their windows at once.
        """
        latest = self._latest or LatestValues(self._store.new())
        self._latest = None
        # `put` has logged the unreadable records. With a count above 0, none of them is logged again.
        unreadable = self.unreadable
        self.unreadable = 1

        records = [record for record in latest.states_and_watermarks() if self._is_defined(record[1])]
        states = self._newest_states(records)
        self._replace_unreadable_states(records, states)
        names = state_names(records)
        blocks = blocks_of(records)
        for digest, versions in self._definitions.items():
            newest_states = states.get(digest, {})
            self.queries[digest] = QueryState(
                self._merger(versions, newest_states),
                states=newest_states,
                state_names={window: names[digest, window] for window in newest_states},
                stored_blocks=blocks.get(digest),
            )
        # The clocks and watermarks come before the panes, because only closed panes can enter their windows.
        for name, key, value in records:
            self._take(name, key, value)
        for query in self.queries.values():
            self._closed.mark(query.merger)

        # Each pane enters its windows at once. All panes of long windows together would not fit into memory.
        for digest, pane, parts in latest.take_panes():
            state = self.queries.get(digest)
            if state is None:
                self._skip(digest)
            else:
                for key, value in parts:
                    state.put_snapshot(key, view_snapshot(value) if value else None)
                state.merger.collect(pane)
            yield

        self.unreadable = unreadable
        self.loaded = True

    def _is_defined(self, key: Key) -> bool:
        """Whether the definition of a record is still there. It may be forgotten after the record was read."""
        if isinstance(key, PartitionKey) or key.digest in self._definitions:
            return True
        # If the definition returns, its records must be read again.
        self._skip(key.digest)
        return False

    def take_unreadable_count(self) -> int:
        """Return the number of unreadable records since the last call."""
        unreadable = self.unreadable
        self.unreadable = 0
        return unreadable

    def _newest_states(self, records: Sequence[StoredRecord]) -> dict[bytes, dict[Window, WindowState]]:
        """Return the newest readable state of each kind of window, by digest."""
        parts = {name: value for name, key, value in records if isinstance(key, StateKey) and key.part}
        states: dict[bytes, dict[Window, WindowState]] = {}
        for name, key, value in records:
            if not isinstance(key, StateKey) or key.digest not in self._definitions:
                continue

            newest_states = states.setdefault(key.digest, {})
            present = newest_states.get(key.window)
            if not key.part and (present is None or present.position.end < key.end):
                state = self._read_state(name, key, value, parts)
                if state is not None:
                    newest_states[key.window] = state
        return states

    def _replace_unreadable_states(
        self, records: Sequence[StoredRecord], states: dict[bytes, dict[Window, WindowState]]
    ) -> None:
        """Add a substitute for each kind of window without a readable state, up to the end in the key of its state."""
        self._put_watermarks(records)
        readable = {digest: set(newest_states) for digest, newest_states in states.items()}
        for _, key, _ in records:
            if not isinstance(key, StateKey) or key.part or key.window in readable.get(key.digest, ()):
                continue

            closed_end = self._closed.end(self._definitions[key.digest])
            if closed_end is None or key.end > closed_end:
                continue  # no worker can have written this state yet

            substitute = snapshot_records.substitute_state(key, self._definitions[key.digest].query.oracle.state_size)
            present = states.get(key.digest, {}).get(key.window)
            if present is None or present.position.end < substitute.position.end:
                states[key.digest][key.window] = substitute

    def _put_watermarks(self, records: Sequence[StoredRecord]) -> None:
        """Keep the watermarks of older releases."""
        for name, key, value in records:
            content = self._read(name, key, value) if isinstance(key, PartitionKey) else None
            if isinstance(key, PartitionKey) and isinstance(content, Mapping):
                self._closed.put_watermark(name, key.partition, content)

    def _is_valid_key(self, key: Key) -> bool:
        if isinstance(key, StateKey | BlockKey):
            return True
        versions = self._definitions.get(key.digest) if isinstance(key, PaneKey) else None
        return is_valid_key(key, versions, self._partitions)

    def _read_state(self, name: bytes, key: StateKey, value: bytes, parts: Mapping[bytes, bytes]) -> WindowState | None:
        """Return a state, joined from its parts if it is split, or None if it is unreadable."""
        try:
            state = join_state(key, value, parts)
            return snapshot_records.read_state(key, state, self._definitions[key.digest], self._check)
        except ReportError as error:
            self._log_unreadable(name, str(error))
            return None

    def _read(self, name: bytes, key: Key, value: bytes) -> Content | None:
        """Return the content of a record, or None if it is unreadable. A split state is not joined."""
        try:
            if isinstance(key, PartitionKey):
                return snapshot_records.read_watermarks(value)

            versions = self._definitions[key.digest]
            if isinstance(key, StateKey):
                is_fragment = key.part or is_split(value)
                return value if is_fragment else self._read_state(name, key, value, {})
            if isinstance(key, BlockKey):
                return snapshot_records.read_block(key, value, versions)

            query = versions.query
            return decode_snapshot(value, query.oracle.state_size, further_groups(query))
        except ReportError as error:
            self._log_unreadable(name, str(error))
            return None

    def _log_unreadable(self, name: bytes | None, fault: str) -> None:
        if not self.unreadable:  # one line for all unreadable records since the last count
            log.error("snapshot record skipped, since it is unreadable: key %r: %s", (name or b"")[:100], fault)
        self.unreadable += 1

    def _take(self, name: bytes, key: Key, value: bytes | None) -> None:
        if isinstance(key, PaneKey):
            self._take_snapshot(name, key, value)
            return
        if value is None:
            self._closed.forget_watermark(name)
            return
        if self._has(key, value):
            return

        content = self._read(name, key, value)
        if isinstance(key, StateKey) and content is not None and not key.part and key.digest in self.queries:
            # The writer of this state deletes the snapshots that it covers, so the records read here may have gaps.
            self.must_reload = True
        elif isinstance(key, PartitionKey) and isinstance(content, Mapping):
            self._closed.put_watermark(name, key.partition, content)
            for digest, end in content.items():
                state = self.queries.get(digest)
                if state is None:
                    self._skip(digest)
                else:
                    state.mark(key.partition, end)

    def _has(self, key: Key, value: bytes) -> bool:
        """Whether this worker has written or read this state or block."""
        if not isinstance(key, StateKey | BlockKey):
            return False
        state = self.queries.get(key.digest)
        return state is not None and state.has_read(key, value)

    def _take_snapshot(self, name: bytes, key: PaneKey, value: bytes | None) -> None:
        state = self.queries.get(key.digest)
        if state is None:
            self._skip(key.digest)
        elif value is None:
            state.forget_snapshot(key)
        else:
            content = None if key.kind == "open" else self._read(name, key, value)
            state.put_snapshot(key, content if isinstance(content, Snapshot) else None)
