"""The names that a query keeps: when each was seen first and last.

A list has a false name in 5% of searches, so a query with many searches would keep many. A name is kept after two
searches over different reports have proved it, or one that is as sure. In windows since the start, whose reports add
up, a proof must hold at every look.
Names and proofs follow from the finals alone. A history keeps its newest searches one by one, because a final that is
repeated after a restart sees the names before it and no later ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from aggregator.merging.windows import order
from aggregator.records.findings import Proof, Sighting
from aggregator.records.span import Span
from hubbub.definitions.versions import MOST_SECONDS
from oracles.errors import ReportError
from oracles.query.settings import Window

MOST_NAMES = 4_096
"""Most names of a query, and most that wait for a second proof. The one with the oldest sighting leaves first."""
VERSION = 1
_LONGEST = 1_024
"""Most characters of a name."""


class NameSearch(NamedTuple):
    """The result of the search in one final."""

    window: Window
    start: int
    end: int
    names: tuple[str, ...]
    """The names that it lists, and that are kept."""
    news: tuple[str, ...]
    """The names with an alert."""
    departures: tuple[str, ...]
    """The names that leave after it."""
    proofs: tuple[str, ...] = ()
    """The names that it lists, and that wait for a second proof."""

    @property
    def span(self) -> Span:
        return Span(self.window, self.start, self.end)


class Memory(NamedTuple):
    """The names that are kept, and those that one search has proved."""

    names: dict[str, Sighting]
    proofs: dict[str, Proof]


@dataclass(frozen=True)
class NameHistory:
    """The names of one query."""

    base: Mapping[str, Sighting] = field(default_factory=dict)
    """The names before the searches."""
    searches: tuple[NameSearch, ...] = ()
    """The newest searches, in their order."""
    has_base: bool = False
    """Whether any search came before the newest ones."""
    base_proofs: Mapping[str, Proof] = field(default_factory=dict)
    """The names that one search had proved before the searches."""

    def before(self, span: Span) -> Memory:
        """Return the names and proofs before the final of a window."""
        if not self.searches or order(self.searches[-1].span) < order(span):
            return self._newest
        return self._after(search for search in self.searches if order(search.span) < order(span))

    @cached_property
    def _newest(self) -> Memory:
        """The names and proofs after all searches."""
        return self._after(self.searches)

    def _after(self, searches: Iterable[NameSearch]) -> Memory:
        """Return the names and proofs after the first ones of the searches."""
        memory = Memory(dict(self.base), dict(self.base_proofs))
        is_first = not self.has_base
        for search in searches:
            _add(memory, search, is_first=is_first)
            is_first = False
        return memory

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
        names, proofs = self._after(past_searches)
        return NameHistory(names, self.searches[len(past_searches) :], has_base=True, base_proofs=proofs)

    def encode(self) -> bytes:
        searches = [
            [*_fields(search.window), search.start, search.end, search.names, search.news, search.departures]
            for search in self.searches
        ]
        base = [[name, *sighting] for name, sighting in sorted(self.base.items())]
        content: dict[str, Any] = {"version": VERSION, "begun": self.has_base, "names": base, "searches": searches}

        # Members of their own: older releases read all others, and keep no name that waits for a second proof.
        base_proofs = [[name, *proof] for name, proof in sorted(self.base_proofs.items())]
        proofs = [search.proofs for search in self.searches]
        if base_proofs or any(proofs):
            content |= {"base_proofs": base_proofs, "proofs": proofs}
        return orjson.dumps(content)


def _place(search: NameSearch) -> tuple[int, bool, int, int]:
    return order(search.span)


def _fields(window: Window) -> tuple[str, int, int]:
    return window.kind, window.size, window.step


def _add(memory: Memory, search: NameSearch, *, is_first: bool) -> None:
    """Add the names and proofs of a search."""
    names, proofs = memory
    for name in search.names:
        sighting = names.get(name)
        proof = proofs.pop(name, None)
        first = proof.end if proof else search.end
        is_announced = name in search.news or (sighting is not None and sighting.is_announced)
        names[name] = Sighting(sighting.first if sighting else first, search.end, is_announced)
    for name in search.departures:
        names.pop(name, None)

    # A search since the start confirms no proof, because it has all reports of the proof too.
    if search.window.kind == "all":
        return
    for name in [name for name, proof in proofs.items() if proof.last_start < search.start]:
        del proofs[name]
    for name in search.proofs:
        proofs.setdefault(name, Proof(search.start, search.end, is_first))
    oldest = sorted(proofs, key=lambda name: (proofs[name].end, name))
    for name in oldest[: max(0, len(proofs) - MOST_NAMES)]:
        del proofs[name]


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
        rows = head["searches"]
        proofs = head.get("proofs", [()] * len(rows))
        searches = tuple(_search(row, texts) for row, texts in zip(rows, proofs, strict=True))
        has_base = head["begun"] is True
        base_proofs = {
            _name(name): Proof(_time(start), _time(end), is_first is True)
            for name, start, end, is_first in head.get("base_proofs", ())
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReportError(f"the names are unreadable: {error!r}") from error

    # `settled` and `before` rely on the order.
    if list(searches) != sorted(searches, key=_place):
        raise ReportError("the searches are not in their order")
    return NameHistory(base, searches, has_base, base_proofs)


def _search(row: Any, proofs: Any) -> NameSearch:
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
        proofs=tuple(map(_name, proofs)),
    )


def _name(text: object) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise TypeError("a name is expected")
    return text


def _time(number: object) -> int:
    if type(number) is not int or abs(number) > MOST_SECONDS:
        raise TypeError("a time is expected")
    return number
