"""Windows in the board. Each joins the records of its query's attributes."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from aggregator.records.record import Record
from aggregator.records.rows import RefusedRow
from aggregator.records.span import Span
from aggregator.records.subject import subjects
from oracles.errors import ReportError
from oracles.query import Query

WAITING = 1024
"""Maximum number of windows that wait for records of other attributes. A window of a query may have 256 groups."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A window of a query or of one of its groups, with the records of its attributes."""

    parts: tuple[Record, ...]
    """One record for each attribute, or the only record of a query without attributes.

    A provisional window has no records of withheld attributes.
    """
    n: int
    """The reports of the window, over all attributes with values."""
    n_independent: int | None
    """The independent reports, or None if attributes without values may have others."""

    @classmethod
    def of(cls, parts: Sequence[Record], query: Query) -> Self:
        total = sum if query.solution == "smp" else max  # with smp each report answers one attribute
        is_whole = len(parts) == len(query.domains) and not any(part.withheld for part in parts)
        independent = total(part.n_independent for part in parts) if is_whole else None
        return cls(tuple(parts), total(part.n for part in parts), independent)

    def joined(self, earlier_state: "Entry | None", query: Query) -> "Entry":
        """Return this window with the records of other attributes in an earlier state of it."""
        if earlier_state is None or earlier_state.span != self.span:
            return self
        names = [part.attribute for part in self.parts]
        earlier_parts = [part for part in earlier_state.parts if part.attribute not in names]
        return Entry.of([*self.parts, *earlier_parts], query)

    def part(self, attribute: str | None) -> Record:
        """Return the record of an attribute. Raise ValueError if the window has none."""
        return self.parts[[part.attribute for part in self.parts].index(attribute)]

    def shows(self, attribute: str | None) -> bool:
        """Whether the window has values of an attribute."""
        return any(part.attribute == attribute and not part.withheld for part in self.parts)

    @property
    def query(self) -> str:
        return self.parts[0].query

    @property
    def digest(self) -> str:
        return self.parts[0].digest

    @property
    def group(self) -> str | None:
        """The value of the group, or None for the total."""
        return self.parts[0].group

    @property
    def span(self) -> Span:
        return self.parts[0].span

    @property
    def final(self) -> bool:
        return self.parts[0].final

    @property
    def through(self) -> int | None:
        """Return the end of the newest pane in a provisional window, or None for a final."""
        return max((part.through for part in self.parts if part.through is not None), default=None)

    @property
    def refused(self) -> RefusedRow:
        return self.parts[0].refused

    @property
    def size(self) -> int:
        """Return the approximate memory of the window, in bytes."""
        return sum(part.memory for part in self.parts)

    @property
    def flags(self) -> list[str]:
        """Return the flags of all attributes, each once."""
        flags: dict[str, None] = {}
        for part in self.parts:
            flags |= dict.fromkeys(part.flags)
        return list(flags)


def newest_reason(entries: Sequence[Entry], attribute: str | None) -> str | None:
    """Return why the last of these windows shows no values of an attribute. None if it shows some, or without any."""
    return entries[-1].part(attribute).withheld if entries else None


class IncompleteWindows:
    """The windows that still lack the records of some attributes."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str | None, Span], dict[str | None, Record]] = OrderedDict()

    def put(self, record: Record, query: Query) -> Entry | None:
        """Add a record, and return its window if the window is now complete. A provisional window always is.

        Raise ReportError if the record does not fit its definition.
        """
        names = [subject.name for subject in subjects(query)]
        _check(record, query)

        # Withheld attributes have no provisional records, so a provisional window would wait for ever.
        if not record.final:
            return Entry.of([record], query)

        # The last record of a window may never come. Without a limit such windows would pile up.
        place = record.digest, record.group, record.span
        parts = self._waiting.setdefault(place, {})
        parts[record.attribute] = record
        if len(parts) < len(names):
            while len(self._waiting) > WAITING:
                self._waiting.popitem(last=False)
            return None

        del self._waiting[place]
        return Entry.of([parts[name] for name in names], query)


def _check(record: Record, query: Query) -> None:
    # A foreign attribute would count as one of those that the window waits for.
    matches = [subject for subject in subjects(query) if subject.name == record.attribute]
    if not matches:
        raise ReportError(f"query {query.name} has no attribute {record.attribute!r}")
    subject = matches[0]
    if record.group not in (None, *query.groups.labels):
        raise ReportError(f"query {query.name} has no group {str(record.group)[:64]!r}")

    # Error messages go to the log, so a hostile value must not fill it.
    strange = next((value for value in record.values if not subject.domain.rule.holds(value)), None)
    if strange is not None:
        raise ReportError(f"{strange[:64]!r} is not a value of query {query.name}")
