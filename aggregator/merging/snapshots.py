"""One partition of the snapshots topic: the queries at home there, from its records to their finals.

It is read from the beginning. Until all that stood there is read, only the newest of each key is
kept; then the mergers go on from the newest states.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aggregator.counting import clock
from aggregator.counting.tally import decode_snapshot, decode_tally
from aggregator.merging.crowd import Foretelling, Shown
from aggregator.merging.merge import Merger, decode_state, encode_state
from aggregator.merging.windows import Position
from aggregator.topics import keys
from aggregator.topics.keys import PaneKey, PartitionKey, StateKey
from hubbub.definitions.versions import FOR_EVER, Versions
from oracles.query.settings import Window

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Place:
    """The place of one query on a shelf."""

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

    @property
    def versions(self) -> Versions:
        return self.merger.versions

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

    def __init__(self, partition: int, partitions: int, definitions: Mapping[bytes, Versions]) -> None:
        self._partition, self._partitions = partition, partitions
        self._definitions = self._at_home(definitions)
        self._before: dict[bytes, bytes] | None = {}
        self.places: dict[bytes, Place] = {}
        self.marked_ms: dict[bytes, int] = {}
        """When the newest watermark of a query was written."""
        self.overtaken = False
        """Whether somebody else has published finals that stand out here: all must be read anew."""
        self._unknown: set[bytes] = set()
        """Digests that records were passed over of."""

    def define(self, definitions: Mapping[bytes, Versions]) -> None:
        """Go on by these definitions; what was passed over for the lack of one is read anew."""
        self._definitions = self._at_home(definitions)
        if self._before is not None:
            return
        for digest in self.places.keys() - self._definitions.keys():  # let go of
            del self.places[digest]
            self.marked_ms.pop(digest, None)
            self._unknown.add(digest)
        for digest, versions in self._definitions.items():
            if digest in self.places:
                self.places[digest].merger.define(versions)
            elif digest in self._unknown:
                self.overtaken = True
            else:
                self.places[digest] = Place(Merger(versions, self._partitions))

    def _at_home(self, definitions: Mapping[bytes, Versions]) -> dict[bytes, Versions]:
        return {d: versions for d, versions in definitions.items() if keys.home(d, self._partitions) == self._partition}

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
        states: dict[bytes, dict[Window, tuple[Position, list[bytes], list[Shown | None]]]] = {}
        names: dict[tuple[bytes, Window], set[bytes]] = {}
        for name, value in before.items():
            key = keys.decode(name)
            if isinstance(key, StateKey) and (versions := self._definitions.get(key.digest)):
                names.setdefault((key.digest, key.window), set()).add(name)
                found = states.setdefault(key.digest, {})
                if key.window not in found or found[key.window][0].end < key.end:
                    found[key.window] = decode_state(value, versions.query.oracle.state_size)
        for digest, versions in self._definitions.items():
            stood = states.get(digest, {})
            positions = {window: position for window, (position, *_) in stood.items()}
            place = Place(Merger(versions, self._partitions, positions.items()))
            place.alerts = {window: alerts for window, (_, alerts, _) in stood.items()}
            place.shown = {window: shown for window, (*_, shown) in stood.items()}
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
                else:
                    self._unknown.add(digest)

    def _take_snapshot(self, name: bytes, key: PaneKey, value: bytes | None) -> None:
        place = self.places.get(key.digest)
        if place is None:
            self._unknown.add(key.digest)
            return
        if value is None:
            place.snapshots.get(key.pane, set()).discard(name)
            return
        place.snapshots.setdefault(key.pane, set()).add(name)
        cells = place.merger.cells
        if key.kind == "closed":
            place.merger.take(key.pane, key.partition, decode_snapshot(value, cells), None)
        else:
            tally = decode_tally(value, cells)
            place.merger.take(key.pane, key.partition, tally.snapshot(), tally.next_offset)
