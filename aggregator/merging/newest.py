"""Of each key of one partition the newest value, until all that stands there is read."""

from collections.abc import Iterator

from aggregator.merging.line import PaneStore, Place
from aggregator.merging.slot import bit, key_of
from aggregator.topics.keys import Key, PaneKey

UNREAD = b""
"""Stands for a value that cannot be read; nor can it."""


class Newest:
    """States and watermarks as they came; the snapshots of panes in a store, which goes with it."""

    def __init__(self, store: PaneStore) -> None:
        self._store = store
        self._panes: dict[bytes, dict[int, dict[int, Place]]] = {}
        """By digest, pane, and number within the pane."""
        self._others: dict[bytes, tuple[Key, bytes]] = {}

    def __len__(self) -> int:
        return len(self._others) + sum(map(len, self._panes.values()))

    def put(self, name: bytes, key: Key, value: bytes) -> None:
        if isinstance(key, PaneKey):
            parts, number = self._panes.setdefault(key.digest, {}).setdefault(key.pane, {}), bit(key)
            self._drop(parts.get(number, UNREAD))
            parts[number] = self._store.put(value)
        else:
            self._others[name] = key, value

    def spoil(self, name: bytes, key: Key) -> None:
        """A value that cannot be read: the one before it stands, if there is one."""
        if isinstance(key, PaneKey):
            self._panes.setdefault(key.digest, {}).setdefault(key.pane, {}).setdefault(bit(key), UNREAD)
        else:
            self._others.setdefault(name, (key, UNREAD))

    def pop(self, name: bytes, key: Key) -> None:
        if not isinstance(key, PaneKey):
            self._others.pop(name, None)
            return
        panes = self._panes.get(key.digest, {})
        self._drop(panes.get(key.pane, {}).pop(bit(key), UNREAD))
        if not panes.get(key.pane, True):
            del panes[key.pane]

    def others(self) -> list[tuple[bytes, Key, bytes]]:
        """States and watermarks."""
        return [(name, key, value) for name, (key, value) in self._others.items()]

    def take_panes(self) -> Iterator[tuple[bytes, int, list[tuple[PaneKey, bytes]]]]:
        """The snapshots of one pane after another, each query's in the order of time; they are gone."""
        while self._panes:
            digest, panes = self._panes.popitem()
            for pane in sorted(panes):
                parts = panes.pop(pane)
                yield digest, pane, [(key_of(digest, pane, each), self._get(place)) for each, place in parts.items()]

    def _get(self, place: Place) -> bytes:
        return UNREAD if place == UNREAD else self._store.get(place)

    def _drop(self, place: Place) -> None:
        if place != UNREAD:
            self._store.drop(place)
