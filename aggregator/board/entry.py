"""The windows of a query as the board keeps them, each made of the records of its attributes."""

from collections import OrderedDict
from dataclasses import dataclass

from aggregator.merging.windows import Span
from aggregator.publishing.analysis import subjects
from aggregator.publishing.parts import RefusedRow
from aggregator.publishing.record_reader import Record
from oracles.errors import ReportError
from oracles.query import Query

WAITING = 256
"""Windows that wait for records of further attributes, at the most."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One window."""

    parts: tuple[Record, ...]
    """Of each attribute, or of the one answer."""
    n: int
    """How many reports the window has, whichever attributes they speak of."""
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
        """The memory it takes, about."""
        return sum(part.size for part in self.parts)

    @property
    def flags(self) -> list[str]:
        """Those of all attributes, each once."""
        return list(dict.fromkeys(flag for part in self.parts for flag in part.flags))


class Gathering:
    """The windows of which not all attributes have been read."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, Span, bool], dict[str | None, Record]] = OrderedDict()

    def put(self, record: Record, query: Query) -> Entry | None:
        """The window that this record makes whole; a ReportError where it does not fit the definition that it names."""
        names = [subject.name for subject in subjects(query)]
        _check(record, query)
        parts = self._waiting.setdefault((record.digest, record.span, record.final), {})
        parts[record.attribute] = record
        if len(parts) < len(names):
            while len(self._waiting) > WAITING:
                self._waiting.popitem(last=False)
            return None
        del self._waiting[record.digest, record.span, record.final]
        found = tuple(parts[name] for name in names)
        of_all = sum if query.solution == "smp" else max  # there each report speaks of one attribute
        return Entry(found, of_all(part.n for part in found), of_all(part.n_independent for part in found))


def _check(record: Record, query: Query) -> None:
    subject = next((each for each in subjects(query) if each.name == record.attribute), None)
    if subject is None:
        raise ReportError(f"{query.name} has no attribute {record.attribute!r}")
    strange = next((value for value in record.values if subject.domain.find(value) is None), None)
    if strange is not None:
        raise ReportError(f"{strange[:64]!r} is no value of {query.name}")
