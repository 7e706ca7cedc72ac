"""The newest value of each key of one partition, until the reader is at the partition's end."""

from collections.abc import Iterator

from aggregator.merging.pane_queue import PaneStore, StoreKey
from aggregator.merging.stored_records import bit, pane_key
from aggregator.tallies.keys import Key, PaneKey

UNREADABLE = b""
"""In place of an unreadable value."""


class LatestValues:
    """The newest states and watermarks in memory, and the newest snapshots of panes in a store."""

    def __init__(self, store: PaneStore) -> None:
        self._store = store
        self._panes: dict[bytes, dict[int, dict[int, StoreKey]]] = {}
        """Keys of the store by digest, pane, and number within the pane."""
        self._others: dict[bytes, tuple[Key, bytes]] = {}

    def __len__(self) -> int:
        return len(self._others) + sum(map(len, self._panes.values()))

    def put(self, name: bytes, key: Key, value: bytes) -> None:
        """Replace the value of a key."""
        if isinstance(key, PaneKey):
            parts = self._panes.setdefault(key.digest, {}).setdefault(key.pane, {})
            number = bit(key)
            # The room of a replaced value is free before the new one needs some.
            self._drop(parts.get(number, UNREADABLE))
            parts[number] = self._store.put(value)
        else:
            self._others[name] = key, value

    def put_unreadable(self, name: bytes, key: Key) -> None:
        """Note an unreadable value, unless there is an earlier readable one."""
        if isinstance(key, PaneKey):
            self._panes.setdefault(key.digest, {}).setdefault(key.pane, {}).setdefault(bit(key), UNREADABLE)
        else:
            self._others.setdefault(name, (key, UNREADABLE))

    def pop(self, name: bytes, key: Key) -> None:
        """Remove a key."""
        if not isinstance(key, PaneKey):
            self._others.pop(name, None)
            return

        panes = self._panes.get(key.digest, {})
        self._drop(panes.get(key.pane, {}).pop(bit(key), UNREADABLE))
        if not panes.get(key.pane, True):
            del panes[key.pane]

    def states_and_watermarks(self) -> list[tuple[bytes, Key, bytes]]:
        return [(name, key, value) for name, (key, value) in self._others.items()]

    def take_panes(self) -> Iterator[tuple[bytes, int, list[tuple[PaneKey, bytes]]]]:
        """Remove the snapshots pane by pane and yield them, the panes of each query in the order of time."""
        while self._panes:
            digest, panes = self._panes.popitem()
            for pane in sorted(panes):
                parts = panes.pop(pane)
                # The store ends after the loading. To drop each piece would only cost time.
                contents = [(pane_key(digest, pane, number), self._get(place)) for number, place in parts.items()]
                yield digest, pane, contents

    def _get(self, place: StoreKey) -> bytes:
        return UNREADABLE if place == UNREADABLE else self._store.get(place)

    def _drop(self, place: StoreKey) -> None:
        if place != UNREADABLE:
            self._store.drop(place)
