"""Windows in the board. Each joins the records of all attributes of its query."""

from collections import OrderedDict
from dataclasses import dataclass

from aggregator.merging.windows import Span
from aggregator.publishing.findings import subjects
from aggregator.publishing.records.decoder import Record
from aggregator.publishing.records.rows import RefusedRow
from oracles.errors import ReportError
from oracles.query import Query

WAITING = 256
"""Maximum number of windows that wait for records of other attributes."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A window of a query, with the records of all its attributes."""

    parts: tuple[Record, ...]
    """One record for each attribute, or the only record of a query without attributes."""
    n: int
    """The reports of the window, over all attributes."""
    n_independent: int

    @property
    def query(self) -> str:
        return self.parts[0].query

    @property
    def digest(self) -> str:
        return self.parts[0].digest

    @property
    def span(self) -> Span:
        return self.parts[0].span

    @property
    def final(self) -> bool:
        return self.parts[0].final

    @property
    def refused(self) -> RefusedRow:
        return self.parts[0].refused

    @property
    def size(self) -> int:
        """Return the approximate memory of the window, in bytes."""
        return sum(part.size for part in self.parts)

    @property
    def flags(self) -> list[str]:
        """Return the flags of all attributes, each once."""
        return list(dict.fromkeys(flag for part in self.parts for flag in part.flags))


class IncompleteWindows:
    """The windows that still lack the records of some attributes."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, Span, bool], dict[str | None, Record]] = OrderedDict()

    def put(self, record: Record, query: Query) -> Entry | None:
        """Add a record, and return its window if the window is now complete.

        Raise ReportError if the record does not fit its definition.
        """
        names = [subject.name for subject in subjects(query)]
        _check(record, query)
        parts = self._waiting.setdefault((record.digest, record.span, record.final), {})
        parts[record.attribute] = record
        if len(parts) < len(names):
            while len(self._waiting) > WAITING:
                self._waiting.popitem(last=False)
            return None
        del self._waiting[record.digest, record.span, record.final]
        records = tuple(parts[name] for name in names)
        total = sum if query.solution == "smp" else max  # with smp each report answers one attribute
        return Entry(records, total(part.n for part in records), total(part.n_independent for part in records))


def _check(record: Record, query: Query) -> None:
    subject = next((each for each in subjects(query) if each.name == record.attribute), None)
    if subject is None:
        raise ReportError(f"query {query.name} has no attribute {record.attribute!r}")
    strange = next((value for value in record.values if subject.domain.find(value) is None), None)
    if strange is not None:
        raise ReportError(f"{strange[:64]!r} is not a value of query {query.name}")
