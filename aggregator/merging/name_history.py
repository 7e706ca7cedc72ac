"""The names that searches have found: when each was seen first and last.

They follow from the finals alone. A history keeps its newest searches one by one, because a final that is repeated
after a restart sees the names before it and no later ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from aggregator.merging.windows import order
from aggregator.records.findings import Sighting
from aggregator.records.span import Span
from hubbub.definitions.versions import MOST_SECONDS
from oracles.errors import ReportError
from oracles.query.settings import Window

MOST_NAMES = 4_096
"""Most names of a query. The one that was not seen for the longest time leaves first."""
VERSION = 1
_LONGEST = 1_024
"""Most characters of a name."""


class NameSearch(NamedTuple):
    """The result of the search in one final."""

    window: Window
    start: int
    end: int
    names: tuple[str, ...]
    """The names that it lists."""
    news: tuple[str, ...]
    """The names with an alert."""
    departures: tuple[str, ...]
    """The names that leave after it."""

    @property
    def span(self) -> Span:
        return Span(self.window, self.start, self.end)


@dataclass(frozen=True)
class NameHistory:
    """The names of one query."""

    base: Mapping[str, Sighting] = field(default_factory=dict)
    """The names before the searches."""
    searches: tuple[NameSearch, ...] = ()
    """The newest searches, in their order."""
    has_base: bool = False
    """Whether any search came before the newest ones."""

    def before(self, span: Span) -> dict[str, Sighting]:
        """Return the names that are known before the final of a window."""
        if not self.searches or order(self.searches[-1].span) < order(span):
            return dict(self._newest)
        return _after(self.base, (search for search in self.searches if order(search.span) < order(span)))

    @cached_property
    def _newest(self) -> dict[str, Sighting]:
        """The names after all searches."""
        return _after(self.base, self.searches)

    def is_first(self, span: Span) -> bool:
        """Whether no search came before the final of a window."""
        return not self.has_base and all(order(search.span) >= order(span) for search in self.searches)

    def with_search(self, search: NameSearch | None) -> "NameHistory":
        """Return the history with one more search. A search that is repeated replaces itself."""
        if search is None:
            return self

        searches = [search, *(present for present in self.searches if present.span != search.span)]
        return replace(self, searches=tuple(sorted(searches, key=_place)))

    def settled(self, end: int) -> "NameHistory":
        """Return the history without the searches of finals that end before a time. No such final is repeated."""
        # The searches are in the order of their ends, so these are the first ones.
        past_searches = [search for search in self.searches if search.end < end]
        if not past_searches:
            return self
        return NameHistory(_after(self.base, past_searches), self.searches[len(past_searches) :], has_base=True)

    def encode(self) -> bytes:
        searches = [
            [*_fields(window), start, end, names, news, departures]
            for window, start, end, names, news, departures in self.searches
        ]
        base = [[name, *sighting] for name, sighting in sorted(self.base.items())]
        return orjson.dumps({"version": VERSION, "begun": self.has_base, "names": base, "searches": searches})


def _place(search: NameSearch) -> tuple[int, bool, int, int]:
    return order(search.span)


def _fields(window: Window) -> tuple[str, int, int]:
    return window.kind, window.size, window.step


def _after(base: Mapping[str, Sighting], searches: Sequence[NameSearch] | Iterator[NameSearch]) -> dict[str, Sighting]:
    """Return the names after some searches."""
    names = dict(base)
    for search in searches:
        for name in search.names:
            sighting = names.get(name)
            is_announced = name in search.news or (sighting is not None and sighting.is_announced)
            names[name] = Sighting(search.end if sighting is None else sighting.first, search.end, is_announced)
        for name in search.departures:
            names.pop(name, None)
    return names


def surplus(sightings: Mapping[str, Sighting], names: Sequence[str], dictionary: Sequence[str]) -> tuple[str, ...]:
    """Return the names that leave after a search has found `names`. Those of `dictionary` never do.

    `sightings` are those before the search.
    """
    all_names = sightings.keys() | set(names)
    count = len(all_names) - MOST_NAMES
    if count <= 0:
        return ()

    # The name breaks a tie, because a final that is repeated must drop the same names.
    candidates = sorted((sightings[name].last, name) for name in all_names - set(names) - set(dictionary))
    return tuple(sorted(name for _, name in candidates[:count]))


def decode(data: bytes) -> NameHistory:
    """Return the history that `encode` has written, or raise a ReportError."""
    try:
        head = orjson.loads(data)
        if head["version"] != VERSION:
            raise ReportError(f"the names have version {head['version']}, but {VERSION} is expected")
        base = {
            _name(name): Sighting(_time(first), _time(last), is_announced is True)
            for name, first, last, is_announced in head["names"]
        }
        searches = tuple(_search(row) for row in head["searches"])
        has_base = head["begun"] is True
    except (ValueError, TypeError, KeyError) as error:
        raise ReportError(f"the names are unreadable: {error!r}") from error

    # `settled` and `before` rely on the order.
    if list(searches) != sorted(searches, key=_place):
        raise ReportError("the searches are not in their order")
    return NameHistory(base, searches, has_base)


def _search(row: Any) -> NameSearch:
    kind, size, step, start, end, *lists = row
    if kind not in ("tumbling", "hopping", "all"):
        raise ValueError("the kind of a window is expected")

    names, news, departures = (tuple(map(_name, texts)) for texts in lists)
    return NameSearch(
        window=Window(kind, _time(size), _time(step)),
        start=_time(start),
        end=_time(end),
        names=names,
        news=news,
        departures=departures,
    )


def _name(text: object) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise TypeError("a name is expected")
    return text


def _time(number: object) -> int:
    if type(number) is not int or abs(number) > MOST_SECONDS:
        raise TypeError("a time is expected")
    return number
