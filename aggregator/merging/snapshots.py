"""One partition of the snapshots topic: the queries at home there, from its records to their finals.

It is read from the beginning. Until all that stood there is read, only the newest of each key is
kept; then the mergers go on from the newest states.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aggregator.counting import clock
from aggregator.counting.tally import decode_snapshot, decode_tally
from aggregator.merging.merge import Merger, decode_state, encode_state
from aggregator.merging.windows import Position
from aggregator.topics import keys
from aggregator.topics.keys import PaneKey, PartitionKey, StateKey
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Place:
    """What one query holds on a shelf."""

    query: Query
    merger: Merger
    alerts: dict[Window, list[bytes]] = field(default_factory=dict)
    """The states of the alerts of each kind of window."""
    written: dict[Window, Position] = field(default_factory=dict)
    """The positions that are acknowledged."""
    snapshots: dict[int, set[bytes]] = field(default_factory=dict)
    """The keys of snapshots, by pane."""
    states: dict[Window, set[bytes]] = field(default_factory=dict)
    """The keys of states."""

    def state(self, window: Window, position: Position) -> tuple[bytes, bytes]:
        """The record to go on from."""
        name = StateKey(self.query.digest, window, position.end).encode()
        self.states.setdefault(window, set()).add(name)
        return name, encode_state(position, self.alerts.get(window, []))

    def settled(self, window: Window, position: Position) -> Iterator[bytes]:
        """The state is acknowledged: the keys that nobody needs any more."""
        self.written[window] = position
        kept = StateKey(self.query.digest, window, position.end).encode()
        names = self.states.setdefault(window, set())
        yield from sorted(names - {kept})
        names.intersection_update({kept})
        needed = self._needed_from()
        for pane in sorted(pane for pane in self.snapshots if needed is not None and pane < needed):
            yield from sorted(self.snapshots.pop(pane))

    def _needed_from(self) -> int | None:
        """No window to come needs a snapshot of a pane before; None while some kind has no state."""
        if any(window not in self.written for window in self.query.windows):
            return None
        ends = ((window, self.written[window].end) for window in self.query.windows)
        return min(end + window.step - window.size for window, end in ends)


class Shelf:
    """The queries of one partition of the snapshots topic."""

    def __init__(self, partition: int, partitions: int, queries: Mapping[bytes, Query]) -> None:
        self._partitions = partitions
        self._queries = {d: query for d, query in queries.items() if keys.home(d, partitions) == partition}
        self._before: dict[bytes, bytes] | None = {}
        self.places: dict[bytes, Place] = {}
        self.marked_ms: dict[bytes, int] = {}
        """When the newest watermark of a query was written."""
        self.overtaken = False
        """Whether somebody else has published finals that stand out here: all must be read anew."""

    @property
    def loaded(self) -> bool:
        return self._before is None

    def put(self, name: bytes, value: bytes | None, timestamp: int) -> None:
        """One record of the topic."""
        if self._before is None:
            self._take(name, value, timestamp)
        elif value is None:
            self._before.pop(name, None)
        else:
            self._before[name] = value

    def load(self) -> None:
        """All that stood there is read: go on from it."""
        before, self._before = self._before or {}, None
        states: dict[bytes, dict[Window, tuple[Position, list[bytes]]]] = {}
        names: dict[tuple[bytes, Window], set[bytes]] = {}
        for name, value in before.items():
            key = keys.decode(name)
            if isinstance(key, StateKey) and (query := self._queries.get(key.digest)):
                names.setdefault((key.digest, key.window), set()).add(name)
                found = states.setdefault(key.digest, {})
                if key.window not in found or found[key.window][0].end < key.end:
                    found[key.window] = decode_state(value, query.oracle.state_size)
        for digest, query in self._queries.items():
            stood = states.get(digest, {})
            positions = {window: position for window, (position, _) in stood.items()}
            place = Place(query, Merger(query, self._partitions, positions.items()))
            place.alerts = {window: alerts for window, (_, alerts) in stood.items()}
            place.written = positions
            place.states = {window: names[digest, window] for window in stood}
            self.places[digest] = place
        for name, value in before.items():
            self._take(name, value, 0)

    def _take(self, name: bytes, value: bytes | None, timestamp: int) -> None:
        key = keys.decode(name)
        if isinstance(key, PaneKey):
            self._take_snapshot(name, key, value)
        elif isinstance(key, StateKey) and value is not None and key.digest in self.places:
            # Whoever wrote it deletes the snapshots that it covers, so that what is read here may have gaps.
            written = self.places[key.digest].written.get(key.window)
            self.overtaken |= written is None or written.end < key.end
        elif isinstance(key, PartitionKey) and value is not None:
            for digest, end in clock.decode(value).closed.items():
                if digest in self.places:
                    self.places[digest].merger.mark(key.partition, end)
                    self.marked_ms[digest] = timestamp

    def _take_snapshot(self, name: bytes, key: PaneKey, value: bytes | None) -> None:
        place = self.places.get(key.digest)
        if place is None:
            return
        if value is None:
            place.snapshots.get(key.pane, set()).discard(name)
            return
        place.snapshots.setdefault(key.pane, set()).add(name)
        cells = place.query.oracle.state_size
        if key.kind == "closed":
            place.merger.take(key.pane, key.partition, decode_snapshot(value, cells), None)
        else:
            tally = decode_tally(value, cells)
            place.merger.take(key.pane, key.partition, tally.snapshot(), tally.next_offset)
