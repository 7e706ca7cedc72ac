"""The windows of one definition of a query, by group and kind. The store fills them."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from aggregator.board.store.entry import Entry
from aggregator.board.store.oldest import Place
from aggregator.records.truth import Truth
from oracles.query.settings import Window

WINDOWS, TRUE_COUNTS = range(2)
"""The order of parts of a full board: windows go before true counts of the same age."""


@dataclass(slots=True, eq=False)
class Windows:
    """The finals of a kind of window, and the provisional window after them."""

    window: Window
    place: Place = ()
    """The order in which a full board drops windows of one age."""
    finals: dict[int, Entry] = field(default_factory=dict)
    """The finals by their end."""
    ends: list[int] = field(default_factory=list)
    """The ends of the finals, in order."""
    maps: dict[int, bytes] = field(default_factory=dict)
    """The records of maps of unknown strings, by the end of their final."""
    provisional: Entry | None = None
    size: int = 0
    """Approximate memory in bytes."""

    @property
    def latest(self) -> Entry | None:
        return self.finals[self.ends[-1]] if self.ends else None

    @property
    def newest(self) -> Entry | None:
        """Return the provisional window if there is one, otherwise the last final."""
        return self.provisional or self.latest

    @property
    def droppable(self) -> int | None:
        """Return the end of the oldest final, or None if it is the newest one too, which stays."""
        return self.ends[0] if len(self.ends) > 1 else None

    def shown(self, attribute: str | None) -> tuple[Entry | None, list[Entry]]:
        """Return the newest final with values of an attribute, and the withheld finals after it."""
        withheld: list[Entry] = []
        for end in reversed(self.ends):
            final = self.finals[end]
            if final.shows(attribute):
                return final, withheld[::-1]
            withheld.append(final)
        return None, withheld[::-1]

    def put(self, record: Entry) -> None:
        end = record.span.end
        if not record.final:
            if not self.ends or end > self.ends[-1]:
                self._set_provisional(record)
            return

        if end not in self.finals:
            insort(self.ends, end)
        self.size += record.size - (self.finals[end].size if end in self.finals else 0)
        self.finals[end] = record

        # The partitions are read in any order. A provisional window that is now final would hide its final.
        if self.provisional and self.provisional.span.end <= self.ends[-1]:
            self._set_provisional(None)

    def _set_provisional(self, record: Entry | None) -> None:
        self.size += (record.size if record else 0) - (self.provisional.size if self.provisional else 0)
        self.provisional = record

    def put_maps(self, end: int, value: bytes) -> None:
        self.size += len(value) - len(self.maps.get(end, b""))
        self.maps[end] = value

    def drop_oldest(self) -> None:
        """Drop the oldest final."""
        end = self.ends.pop(0)
        self.size -= self.finals.pop(end).size + len(self.maps.pop(end, b""))

    def between(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the finals that end in [start, end), in order."""
        for final_end in self.ends[bisect_left(self.ends, start) : bisect_left(self.ends, end)]:
            yield self.finals[final_end]


@dataclass(slots=True, eq=False)
class Series:
    """The windows and true counts of one digest."""

    query: str
    digest: str
    place: Place = ()
    """The number of the query in the store, and that of the digest in the query."""
    by_group: dict[str | None, dict[Window, Windows]] = field(default_factory=lambda: {None: {}})
    """The windows of the total, under None, and then those of each group."""
    truth: Truth = field(default_factory=Truth)

    @property
    def kinds(self) -> dict[Window, Windows]:
        """The windows of the total."""
        return self.by_group[None]

    @property
    def of_groups(self) -> list[dict[Window, Windows]]:
        """The windows of each group."""
        _, *further = self.by_group.values()
        return further

    @property
    def latest_end(self) -> int | None:
        """Return the end of the newest final of any kind."""
        return max((windows.ends[-1] for windows in self.kinds.values() if windows.ends), default=None)

    def kinds_of(self, group: str | None) -> dict[Window, Windows]:
        """Return the windows of a group, or of the total."""
        return self.by_group.get(group, {})

    def windows_of(self, window: Window, group: str | None) -> Windows:
        """Return the windows of a kind. They are new if there are none."""
        kinds = self.by_group.setdefault(group, {})
        if window not in kinds:
            group_number = list(self.by_group).index(group)
            kinds[window] = Windows(window, (WINDOWS, *self.place, group_number, len(kinds)))
        return kinds[window]

    @property
    def newest_end(self) -> int:
        records = [windows.newest for windows in self.kinds.values()]
        return max((record.span.end for record in records if record), default=0)
