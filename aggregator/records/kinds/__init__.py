"""The kinds of answers in a record: values, numbers and names. Each is a module with the same functions.

- `fields(window, total)` returns the members of a record that show something of the answers.
- `answers(record, limit)` yields what a reader lists, as `ShownAnswer`: at most `limit` values or names.
- `rows(record)` yields the cells of a table. `COLUMNS` are the columns that only this kind has.
- `words(record, has_search)` returns how exact the answers are. `has_search` tells whether names are searched in such
  windows, or is None if nobody knows.
- `intervals(record, places, total)` returns the intervals of the answers that a reader lists together.
- `differences(before, after, ...)` returns the differences between two records.

A kind without a module here is written like values. Groups, pairs and withholding are no kinds. They wrap one, and no
kind knows of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from aggregator.records import withheld_fields
from aggregator.records.differences import Differences
from aggregator.records.findings import GroupTotal, WindowFindings, WithheldFindings
from aggregator.records.kinds import names, numbers, values
from aggregator.records.kinds.answer import ShownAnswer
from aggregator.records.list_intervals import ListedIntervals
from aggregator.records.record import Record
from oracles.estimate.looks import ONE_LOOK, Looks
from oracles.query.domain import NAMES, NUMBERS, VALUES
from oracles.types import Ints


class RecordKind(Protocol):
    """The functions of a kind."""

    def fields(self, window: WindowFindings, total: GroupTotal, /) -> dict[str, Any]: ...

    COLUMNS: dict[str, type]

    def answers(self, record: Record, limit: int, /) -> Iterator[ShownAnswer]: ...

    def rows(self, record: Record, /) -> Iterator[dict[str, Any]]: ...

    def words(self, record: Record, /, *, has_search: bool | None) -> list[str]: ...

    def intervals(self, record: Record, places: Ints, total: int | None = None, /) -> ListedIntervals: ...

    def differences(
        self,
        before: Record,
        after: Record,
        size: int,
        family_error: float,
        names: Sequence[str] | None = None,
        top: int | None = None,
        *,
        apart: bool = False,
        looks: Looks = ONE_LOOK,
    ) -> Differences: ...


KINDS: dict[str, RecordKind] = {VALUES: values, NUMBERS: numbers, NAMES: names}


def fields_of(window: WindowFindings, total: GroupTotal) -> dict[str, Any]:
    """Return the members of a record that follow from its findings."""
    findings = total.findings
    if isinstance(findings, WithheldFindings):
        return withheld_fields.fields(window.query, findings)
    return KINDS.get(findings.subject.domain.kind, values).fields(window, total)


def kind_of(record: Record) -> RecordKind:
    """Return the kind of the answers of a record."""
    return KINDS.get(record.kind, values)


def rows_of(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the cells of a table of a record. A withheld record has one row without a value."""
    yield from kind_of(record).rows(record)

    # Without this row, a reader could not tell a withheld window from one that nobody asked for.
    if record.withheld:
        yield withheld_fields.cells(record)


def first(record: Record, count: int) -> ListedIntervals:
    """Return the intervals of the first values of a record, by their unbiased shares."""
    return kind_of(record).intervals(record, np.arange(min(count, len(record.values))))
