"""The records of one query in the topic `snapshots`, as far as the merging worker must know them to delete them.

Windows need the panes that they hold, even after all partitions have closed them. The worker writes one
merged snapshot of such a pane. Once the broker acknowledges it, the worker deletes the snapshots of the
source partitions. With 64 partitions the topic then keeps one 64th of the records of a pane.
"""

from collections.abc import Iterable, Iterator, Mapping

from aggregator.merging import blocks
from aggregator.merging.blocks import Place
from aggregator.merging.snapshot_records import WindowState, has_head
from aggregator.merging.windows import ClosedWindow, Position
from aggregator.tallies.keys import BlockKey, PaneKey, StateKey, Write
from oracles.query import Query
from oracles.query.settings import Window

_TOTAL_PART = 1
"""The bit of a merged snapshot."""


def bit(key: PaneKey) -> int:
    """Return the number of a snapshot among all snapshots of its pane."""
    return 0 if key.kind == "merged" else 1 + 2 * key.partition + (key.kind == "open")


def pane_key(digest: bytes, pane: int, number: int) -> PaneKey:
    """Return the key of the snapshot with this number."""
    if not number:
        return PaneKey("merged", digest, pane, 0)
    return PaneKey("closed" if number % 2 else "open", digest, pane, (number - 1) // 2)


def _names(digest: bytes, pane: int, bits: int) -> list[bytes]:
    return sorted(pane_key(digest, pane, number).encode() for number in range(bits.bit_length()) if bits >> number & 1)


class StoredPanes:
    """The keys of a query's snapshots in the topic, with one bit for each snapshot of a pane."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest
        self._panes: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of panes with snapshots."""
        return len(self._panes)

    def add(self, key: PaneKey) -> None:
        self._panes[key.pane] = self._panes.get(key.pane, 0) | 1 << bit(key)

    def discard(self, key: PaneKey) -> None:
        bits = self._panes.get(key.pane, 0) & ~(1 << bit(key))
        if bits:
            self._panes[key.pane] = bits
        else:
            self._panes.pop(key.pane, None)

    def take(self, end: int | None = None) -> Iterator[bytes]:
        """Remove and yield the keys of the panes that start before a time, or of all panes."""
        for pane in sorted(pane for pane in self._panes if end is None or pane < end):
            yield from _names(self._digest, pane, self._panes.pop(pane))

    def take_parts(self, pane: int) -> Iterator[bytes]:
        """Remove and yield the keys of a pane, except the key of its merged snapshot."""
        parts = self._panes.get(pane, 0) & ~_TOTAL_PART
        if not parts:
            return

        self._panes[pane] &= _TOTAL_PART
        if not self._panes[pane]:
            del self._panes[pane]
        yield from _names(self._digest, pane, parts)


class StoredBlocks:
    """The blocks of each kind of window, also those that are not acknowledged."""

    def __init__(self, digest: bytes, stored: Mapping[Window, Mapping[Place, bytes]]) -> None:
        self._digest = digest
        self._blocks = {window: dict(places) for window, places in stored.items()}
        self._unwritten: list[Write] = []

    def has(self, key: BlockKey, value: bytes) -> bool:
        """Whether a record is the block that this worker has written or read."""
        return self._blocks.get(key.window, {}).get((key.scale, key.end)) == value

    def needed(self, finals: Iterable[tuple[ClosedWindow, Query]]) -> dict[Window, dict[Place, bytes]]:
        """Return the blocks that finals need, by kind of window. Each final has the version that applies to it."""
        result: dict[Window, dict[Place, bytes]] = {}
        for final, query in finals:
            store = self._blocks.get(final.span.window)
            if final.blocks and store:
                places = blocks.needed(query, final.span.window, final.blocks, store)
                result.setdefault(final.span.window, {}).update((place, store[place]) for place in places)
        return result

    def add(self, window: Window, new_blocks: Mapping[Place, bytes]) -> None:
        """Add blocks that the topic does not have yet."""
        if new_blocks:
            self._blocks.setdefault(window, {}).update(new_blocks)
            self._unwritten += [(self._name(window, place), value) for place, value in new_blocks.items()]

    def take_unwritten(self) -> list[Write]:
        """Remove and return the blocks to write. They come before the states that pass them."""
        writes = self._unwritten
        self._unwritten = []
        return writes

    def take_obsolete(self, query: Query, window: Window, end: int) -> Iterator[bytes]:
        """Remove and yield the keys of the blocks that no final after `end` needs."""
        places = self._blocks.get(window)
        if not places:
            return

        for place in blocks.obsolete(query, window, places, end):
            del places[place]
            yield self._name(window, place)

    def take_all(self) -> list[bytes]:
        """Remove all blocks and return their keys."""
        names: list[bytes] = []
        for window, places in self._blocks.items():
            names += [self._name(window, place) for place in places]
        self._blocks.clear()
        return names

    def _name(self, window: Window, place: Place) -> bytes:
        return BlockKey(self._digest, window, *place).encode()


class StoredStates:
    """The states of each kind of window."""

    def __init__(self, states: Mapping[Window, WindowState], names: Mapping[Window, set[bytes]]) -> None:
        self.positions = {window: state.position for window, state in states.items()}
        """The acknowledged positions."""
        self.too_large: set[Window] = set()
        """Kinds of windows whose newest state was too large to write."""
        self._names = dict(names)
        """The keys of the states in the topic."""
        self._new_names: dict[Window, set[bytes]] = {}
        """The keys of the states that are not acknowledged."""
        self._ends = {window: position.end for window, position in self.positions.items()}
        """The ends of the newest states that this worker has written or read."""

    def has(self, key: StateKey, value: bytes) -> bool:
        """Whether this worker has written or read this state, or a newer one."""
        # A stranger may write anything under a known key. A head that fits shows that the record is a state.
        return key.window in self._ends and self._ends[key.window] >= key.end and has_head(key, value)

    def add(self, window: Window, end: int, names: Iterable[bytes]) -> None:
        """Add the keys of a state that is about to be written."""
        self._ends[window] = max(end, self._ends.get(window, end))
        self._new_names[window] = set(names)

    def acknowledge(self, window: Window, position: Position) -> list[bytes]:
        """Note that a state is acknowledged, and return the keys that it replaces."""
        self.positions[window] = position
        self.too_large.discard(window)
        obsolete_names = self._names.get(window, set())
        self._names[window] = self._new_names.pop(window)
        # The record that counts the parts sorts first. If it outlived a part, a reader would find a damaged state.
        return sorted(obsolete_names - self._names[window])
