"""Records and alerts as a terminal shows them. Pure."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from aggregator.reading.tail.notation import brief, clock, label, level_text, plain
from aggregator.reading.tail.rows import SummaryQuantity, SummaryRow, TailRow
from aggregator.records.alert import Alert
from aggregator.records.display import nothing_proved
from aggregator.records.kinds import kind_of
from aggregator.records.kinds.answer import ShownAnswer
from aggregator.records.record import Record
from aggregator.records.subject import subjects
from aggregator.records.words import FLAGS, WITHHELD
from oracles.query import Query
from oracles.query.settings import Window

VALUES = 200
"""Maximum number of values of a summary."""
NAME = 64
"""Maximum number of characters in the name of a query or attribute."""


@dataclass(frozen=True)
class Heading:
    """The query, attribute and window of a record or an alert."""

    query: str
    digest: str
    attribute: str | None
    window: Window
    end: int

    @classmethod
    def of(cls, source: Record | Alert) -> Self:
        window, _, end = source.span if isinstance(source, Record) else source.window.span
        # Anybody may write a record. Its names must not control the terminal.
        attribute = source.attribute and plain(source.attribute, NAME)
        return cls(plain(source.query, NAME), source.digest, attribute, window, end)

    def __str__(self) -> str:
        return f"{', '.join(filter(None, (self.query, self.attribute)))} {label(self.window)}"

    @property
    def subject(self) -> str:
        """The attribute, if there are several, and the kind of window."""
        return ", ".join(filter(None, (self.attribute, label(self.window))))


@dataclass(frozen=True)
class Summary:
    """A window of a query, or of one of its attributes."""

    heading: Heading
    final: bool
    through: int | None
    """The end of the panes in a provisional window."""
    withheld: str | None
    """The reason for which the window has no values, in words."""
    n: int
    method: str | None
    """The method of the consistent shares."""
    rows: tuple[TailRow, ...]
    """The most frequent values, in the record's order. Of numbers the quantiles, means and ranges."""
    flags: tuple[str, ...]
    record: Record = field(repr=False, compare=False)
    has_search: bool | None = None
    """Whether unknown strings are searched in such windows. None if the definition is not known."""
    nothing: str | None = None
    """The sentence in place of the numbers, if none of them is proved and the definition is known."""

    @classmethod
    def of(cls, record: Record, query: Query | None = None) -> Self:
        method = record.consistent_method
        rows = map(_row, kind_of(record).answers(record, VALUES))
        summary = cls(
            heading=Heading.of(record),
            final=record.final,
            through=record.through,
            withheld=WITHHELD[record.withheld].short if record.withheld else None,
            n=record.n,
            method=method and plain(method),
            rows=tuple(rows),
            flags=tuple(_flag_text(flag) for flag in record.flags if flag not in WITHHELD),
            record=record,
            has_search=None if query is None else query.is_searched(record.span.window),
        )
        return summary if query is None else replace(summary, nothing=summary._nothing(query))

    def _nothing(self, query: Query) -> str | None:
        """Return the sentence in place of the numbers, or None if the first one is proved or the window is withheld."""
        names = [subject.name for subject in subjects(query)]
        if self.withheld or self.record.attribute not in names:
            return None

        _, first_rows = self.listed(1)
        leader = next(((row.value, row.low, row.high) for row in first_rows), ("", None, None))
        words = nothing_proved(query, names.index(self.record.attribute), self.n, leader)
        return words.text if words else None

    def listed(self, top: int) -> tuple[float, list[TailRow]]:
        """Return the level of the intervals in a list of the first `top` values, and these values."""
        rows = self.rows[:top]
        # One level holds for all listed intervals together, so they are wider than those of single values.
        level, lows, highs = kind_of(self.record).intervals(self.record, np.arange(len(rows)))
        bounds = zip(rows, lows.tolist(), highs.tolist(), strict=True)
        return level, [replace(row, low=low, high=high) for row, low, high in bounds]

    @property
    def proof(self) -> str:
        """The word for what is proved of a value."""
        return "present" if self.record.proves_presence else "frequent"

    @property
    def quality(self) -> str:
        """Return a text with the number of frequent values, the errors and the flags."""
        return ", ".join([*kind_of(self.record).words(self.record, has_search=self.has_search), *self.flags])

    @property
    def state(self) -> str:
        """Return a text with the number of reports, or the reason for which it is withheld."""
        if self.withheld:
            return self.withheld
        through = "" if self.through is None else f" up to {clock(self.through)}"
        return f"{'' if self.final else 'provisional, '}{self.n:,} reports{through}"

    @property
    def brief_state(self) -> tuple[str, str]:
        """The number of reports in a few characters, and words in place of the first value, if it is not shown."""
        if self.withheld:
            return "-", "held back" if "held back" in self.withheld else "too few reports"
        return brief(self.n), "nothing can be told yet" if self.nothing else ""

    def caption(self, legend: str) -> str | None:
        """Return a legend and the quality, or the sentence in place of the numbers. None if the window is withheld."""
        return None if self.withheld else self.nothing or f"{legend}{self.quality}"

    def line(self, top: int) -> str:
        heading = f"{clock(self.heading.end)} {self.heading}: {self.state}"
        if self.withheld:
            return heading
        if self.nothing:
            state = "" if self.final else "provisional, "
            return f"{clock(self.heading.end)} {self.heading}: {', '.join([state + self.nothing, *self.flags])}"

        level, listed = self.listed(top)
        rows = ", ".join(f"{row.name} {row}" for row in listed)
        quality = f", {self.quality}" if self.quality else ""
        return f"{heading}{quality}: {rows}{f'; {level_text(level)} intervals' if listed else ''}"


def _flag_text(flag: str) -> str:
    return FLAGS[flag].short if flag in FLAGS else plain(flag)


def _row(answer: ShownAnswer) -> TailRow:
    """Return an answer as a terminal shows it."""
    if answer.measure == "number":
        name = answer.name.replace("_", " ")
        return SummaryQuantity(
            name, answer.value, answer.low, answer.high, unit=answer.unit, says_little=answer.is_weak
        )
    return SummaryRow(
        answer.name,
        answer.value,
        answer.low,
        answer.high,
        consistent=answer.consistent,
        frequent=answer.is_frequent,
        proved=answer.is_proved,
        present=answer.is_present,
        ranks=answer.ranks,
    )
