"""A partition of a model takes records, may show a lower end for a while, and is compacted behind a lag."""

from typing import NamedTuple

LAG = 100
"""Steps before which nothing is compacted. A frozen reader wakes earlier."""


class Entry(NamedTuple):
    """One record. A value None deletes its key."""

    key: tuple
    value: object
    step: int


class ModelLog:
    """An offset is a place in `entries`. Compaction leaves None there."""

    def __init__(self):
        self.entries = []
        self.hidden_from = 0
        self.hidden_until = -1

    def append(self, step, key, value):
        """Append a record, and return its offset."""
        self.entries.append(Entry(key, value, step))
        return len(self.entries) - 1

    def end(self, step):
        """Return the end that the leader shows."""
        return min(self.hidden_from, len(self.entries)) if step < self.hidden_until else len(self.entries)

    def read(self, start, end):
        return [(offset, entry) for offset, entry in enumerate(self.entries[start:end], start) if entry is not None]

    def live(self):
        """Return the newest value of each key that is not deleted."""
        newest = {entry.key: entry.value for entry in self.entries if entry is not None}
        return {key: value for key, value in newest.items() if value is not None}

    def compact(self, step):
        """Keep the newest record of each key of the old part. A deletion goes after a second lag."""
        old = [place for place, entry in enumerate(self.entries) if entry is not None and step - entry.step > LAG]
        newest = {self.entries[place].key: place for place in old}
        for place in old:
            entry = self.entries[place]
            is_over = entry.value is None and step - entry.step > 2 * LAG
            if newest[entry.key] != place or is_over:
                self.entries[place] = None
