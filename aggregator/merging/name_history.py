"""The names that searches have found: when each was seen first and last.

They follow from the finals alone. A history keeps its newest searches one by one. So a final that is repeated after a
restart sees the names before it and no later ones.
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
        return _after(self.base, (each for each in self.searches if order(each.span) < order(span)))

    @cached_property
    def _newest(self) -> dict[str, Sighting]:
        """The names after all searches."""
        return _after(self.base, self.searches)

    def is_first(self, span: Span) -> bool:
        """Whether no search came before the final of a window."""
        return not self.has_base and all(order(each.span) >= order(span) for each in self.searches)

    def with_search(self, search: NameSearch | None) -> "NameHistory":
        """Return the history with one more search. A search that is repeated replaces itself."""
        if search is None:
            return self
        others = [each for each in self.searches if each.span != search.span]
        return replace(self, searches=tuple(sorted([*others, search], key=lambda each: order(each.span))))

    def settled(self, end: int) -> "NameHistory":
        """Return the history without the searches of finals that end before a time. No such final is repeated."""
        old = [each for each in self.searches if each.end < end]
        if not old:
            return self
        return NameHistory(_after(self.base, old), self.searches[len(old) :], has_base=True)

    def encode(self) -> bytes:
        searches = [
            [*_fields(window), start, end, names, news, departures]
            for window, start, end, names, news, departures in self.searches
        ]
        base = [[name, *sighting] for name, sighting in sorted(self.base.items())]
        return orjson.dumps({"version": VERSION, "begun": self.has_base, "names": base, "searches": searches})


def _fields(window: Window) -> tuple[str, int, int]:
    return window.kind, window.size, window.step


def _after(base: Mapping[str, Sighting], searches: Sequence[NameSearch] | Iterator[NameSearch]) -> dict[str, Sighting]:
    """Return the names after some searches."""
    names = dict(base)
    for search in searches:
        for name in search.names:
            before = names.get(name)
            is_announced = name in search.news or (before is not None and before.is_announced)
            names[name] = Sighting(search.end if before is None else before.first, search.end, is_announced)
        for name in search.departures:
            names.pop(name, None)
    return names


def surplus(before: Mapping[str, Sighting], names: Sequence[str], dictionary: Sequence[str]) -> tuple[str, ...]:
    """Return the names that leave after a search has found `names`. Those of `dictionary` never do."""
    every = before.keys() | set(names)
    count = len(every) - MOST_NAMES
    if count <= 0:
        return ()
    old = sorted((before[name].last, name) for name in every - set(names) - set(dictionary))
    return tuple(sorted(name for _, name in old[:count]))


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
        searches, has_base = tuple(map(_search, head["searches"])), head["begun"] is True
    except (ValueError, TypeError, KeyError) as error:
        raise ReportError(f"the names are unreadable: {error!r}") from error
    if [*searches] != sorted(searches, key=lambda each: order(each.span)):
        raise ReportError("the searches are not in their order")
    return NameHistory(base, searches, has_base)


def _search(row: Any) -> NameSearch:
    kind, size, step, start, end, *lists = row
    if kind not in ("tumbling", "hopping", "all"):
        raise ValueError("the kind of a window is expected")
    names, news, departures = (tuple(_name(name) for name in names) for names in lists)
    return NameSearch(Window(kind, _time(size), _time(step)), _time(start), _time(end), names, news, departures)


def _name(text: object) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise TypeError("a name is expected")
    return text


def _time(number: object) -> int:
    if type(number) is not int or abs(number) > MOST_SECONDS:
        raise TypeError("a time is expected")
    return number
