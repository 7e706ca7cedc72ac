"""The names that searches of a query have found, and the draft of a query that lists them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggregator.records.decoder import decode
from aggregator.records.kinds.names import names_of
from aggregator.records.maps_record import is_maps
from aggregator.records.record import Record
from hubbub.texts import percent
from oracles.consistency import UNBIASED
from oracles.discover.alphabet import OPEN_END
from oracles.errors import ParameterError
from oracles.mechanisms import NEWEST
from oracles.query import Query, parse
from oracles.query.domain import OTHER

SUFFIX = "_names"
"""The end of the new query's name."""
LEAST_VALUES = 2
"""Fewest values of a domain."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"


@dataclass
class NameCollection:
    """The names in the finals of one digest, each with its share in the newest window that lists it."""

    digest: str
    shares: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The end of that window, and the share."""
    newest: Record | None = None
    """The final with the most reports, and the newest of several."""

    def add(self, record: Record) -> None:
        """Add a record. Records of other digests, provisional and withheld ones have no effect."""
        names = names_of(record) if record.digest == self.digest and record.final else None
        if names is None:
            return

        if self.newest is None or _rank(record) > _rank(self.newest):
            self.newest = record

        # Partitions arrive in any order, so the end of a window decides which share is the newest.
        for name, share in zip(record.values, record.shares[UNBIASED].tolist(), strict=True):
            self.shares[name] = max(self.shares.get(name, (0, 0.0)), (record.span.end, share))

    @property
    def smallest(self) -> float | None:
        """The smallest share that a search of that final shows, or None if that is not known."""
        names = None if self.newest is None else names_of(self.newest)
        return None if names is None else names.smallest

    @property
    def names(self) -> list[str]:
        """All names, by falling share."""
        return sorted(self.shares, key=lambda name: (-self.shares[name][1], name))


def _rank(record: Record) -> tuple[int, int]:
    return record.n, record.span.end


def add_all(collection: NameCollection, messages: Iterable[Any]) -> None:
    """Add the records in messages of the topic. Unreadable ones are skipped."""
    for message in messages:
        if message.value is None or is_maps(message.key):
            continue

        # One unreadable record must not cost all the names of the others.
        try:
            record = decode(message.value)
        except ValueError:
            continue

        collection.add(record)


def default_name(query: Query) -> str:
    return f"{query.name[: 64 - len(SUFFIX)]}{SUFFIX}"


def listable(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names that a query can list, and those that it cannot, because they are cut or not writable.

    A name that was cut stands for many strings. A client cannot tell which of them a list means.
    """
    usable = [name for name in names if _is_usable(name)]
    unusable = [name for name in names if not _is_usable(name)]
    return usable, unusable


def _is_usable(name: str) -> bool:
    return bool(name) and not name.endswith(OPEN_END) and _UNREADABLE not in name and name != OTHER


@dataclass(frozen=True)
class NameListDraft:
    """A query with the names of another one as its values. All its other settings are those of the other query."""

    name: str
    source: Query
    domain: list[str]
    people: int
    smallest: float | None = None
    """The smallest share that the search shows, or None if that is not known."""
    rest: int = 0
    """Number of names that a query cannot list."""

    @property
    def table(self) -> dict[str, Any]:
        """The query, as a query file has it."""
        source = self.source

        # The longest window has the most reports, so it shows the smallest shares.
        longest = max((window.size for window in source.windows), default=0)

        table: dict[str, Any] = {
            "domain": self.domain,
            "other": True,
            "epsilon": source.epsilon,
            "answers": source.answers,
        }
        if source.answers == "fresh":
            table["budget"] = source.budget

        return table | {
            "period": f"{source.period}s",
            "pane": f"{source.pane}s",
            "windows": [f"{longest}s" if longest else "all"],
        }

    @property
    def query(self) -> Query:
        if len(self.domain) < LEAST_VALUES:
            raise ParameterError(f"{len(self.domain)} name can be listed, but a list needs at least {LEAST_VALUES}")
        return parse({"edition": NEWEST, "queries": {self.name: self.table}}, "hubbub init", None)[self.name]

    @property
    def notes(self) -> list[str]:
        """Sentences about the list, for the file and for the terminal."""
        coding = self.source.domains[0].discovery
        source = f"These are the names that searches of {self.source.name} have found."
        notes = [f"{source} A list needs far fewer people than a search for the same share."]

        if self.smallest is not None:
            notes.append(f"The search of {self.people:,} reports shows shares from {percent(self.smallest)} on.")
        if coding is not None and coding.coding.normal != "none":
            notes.append(f"Give a client each string in the form {coding.coding.normal!r}, as the names are.")

        if self.rest:
            notes.append(
                f"{self.rest} more {'name is' if self.rest == 1 else 'names are'} left out: cut at the length of the "
                "query, empty, or not whole characters."
            )
        return notes
