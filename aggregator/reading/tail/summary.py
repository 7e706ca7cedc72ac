"""Records and alerts as a terminal shows them. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from aggregator.reading.tail.notation import clock, digits, label, level_text, percent, plain
from aggregator.reading.tail.rows import SummaryQuantity, SummaryRow, TailRow
from aggregator.records.alert import Alert
from aggregator.records.display import is_weak_number, nothing, proves_nothing
from aggregator.records.kinds import first
from aggregator.records.kinds.names import NameList, names_of
from aggregator.records.number_answers import NumberAnswers
from aggregator.records.record import Record
from aggregator.records.rows import HitterRow
from aggregator.records.subject import subjects
from aggregator.records.words import FLAGS, WITHHELD
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL
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
        attribute = None if source.attribute is None else plain(source.attribute, NAME)
        return cls(plain(source.query, NAME), source.digest, attribute, window, end)

    def __str__(self) -> str:
        name = self.query if self.attribute is None else f"{self.query}, {self.attribute}"
        return f"{name} {label(self.window)}"


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
    sigma: float | None
    detectable: float | None
    method: str | None
    """The method of the consistent shares."""
    rows: tuple[TailRow, ...]
    """The most frequent values, in the record's order. Of numbers the quantiles, means and ranges."""
    frequent: int
    proved: int
    flags: tuple[str, ...]
    record: Record = field(repr=False, compare=False)
    has_search: bool | None = None
    """Whether unknown strings are searched in such windows. None if the definition is not known."""
    nothing: str | None = None
    """The sentence in place of the numbers, if none of them is proved and the definition is known."""

    @classmethod
    def of(cls, record: Record, query: Query | None = None) -> Self:
        method = next((name for name in record.shares if name != UNBIASED), None)
        hitters = {hitter.value: hitter for hitter in record.hitters(method or UNBIASED)}
        rows = _number_rows(record) if record.has_numbers else _rows(record, method, hitters)
        summary = cls(
            heading=Heading.of(record),
            final=record.final,
            through=record.through,
            withheld=WITHHELD[record.withheld].short if record.withheld else None,
            n=record.n,
            sigma=record.sigma,
            detectable=record.detectable,
            method=method and plain(method),
            rows=tuple(rows),
            frequent=len(hitters),
            proved=sum(hitter.decided for hitter in hitters.values()),
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

        attribute = names.index(self.record.attribute)
        scale = query.domains[attribute].scale
        measure = "share" if scale is None else "number"
        _, first_rows = self.listed(1)
        name, low, high = next(((row.value, row.low, row.high) for row in first_rows), ("", None, None))
        return nothing(query, attribute, self.n).text if proves_nothing(name, measure, low, high, scale) else None

    def listed(self, top: int) -> tuple[float, list[TailRow]]:
        """Return the level of the intervals in a list of the first `top` values, and these values."""
        rows = self.rows[:top]
        if self.record.has_numbers:
            return LEVEL, list(rows)

        # One level holds for all listed intervals together, so they are wider than those of single values.
        level, lows, highs = first(self.record, len(rows))
        bounds = zip(rows, lows.tolist(), highs.tolist(), strict=True)
        return level, [replace(row, low=low, high=high) for row, low, high in bounds]

    @property
    def proof(self) -> str:
        """The word for what is proved of a value."""
        return "present" if self.record.proves_presence else "frequent"

    @property
    def quality(self) -> str:
        """Return a text with the number of frequent values, the errors and the flags."""
        if self.record.has_numbers:
            return ", ".join([*self._resolution, *self.flags])
        names = names_of(self.record)
        if names is not None:
            return ", ".join([*self._reach(names), *self.flags])

        is_one = self.record.proves_presence and self.frequent == self.proved
        parts = [f"{self.proved} proved present" if is_one else f"{self.frequent} frequent ({self.proved} proved)"]
        if self.sigma is not None:
            parts.append(f"standard error {percent(self.sigma, digits(self.sigma))}")
            if self.detectable is not None:
                parts.append(f"detectable from {percent(self.detectable, digits(self.sigma))}")
        return ", ".join([*parts, *self.flags])

    @property
    def _resolution(self) -> list[str]:
        """How well the share of the numbers below any number is known, in words."""
        resolution = (self.record.rest()["numbers"] or {}).get("resolution")
        return [] if resolution is None else [f"shares of numbers known to ± {percent(resolution, 1)}"]

    def _reach(self, names: NameList) -> list[str]:
        """How many names the window has, and which share a search of it can show if there is one, in words."""
        count = len(self.record.values)
        text = f"{count} name{'' if count == 1 else 's'}"
        if not self.has_search:
            return [text] if self.has_search is None else [f"{text} that were found before"]
        if names.smallest is None:
            return [text, "too few reports to find any"]
        return [text, f"a search finds shares from {percent(names.smallest, 2)}"]

    @property
    def state(self) -> str:
        """Return a text with the number of reports, or the reason for which it is withheld."""
        if self.withheld:
            return self.withheld
        through = "" if self.through is None else f" up to {clock(self.through)}"
        return f"{'' if self.final else 'provisional, '}{self.n:,} reports{through}"

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


def _number_rows(record: Record) -> Iterator[TailRow]:
    """Yield the quantiles, means and ranges that the query asks for."""
    answers = NumberAnswers(record)
    for row in answers.rows():
        if row.value is None or row.low is None or row.high is None:
            continue
        if row.measure == "number":
            is_weak = answers.scale is not None and is_weak_number(row.name, row.low, row.high, answers.scale)
            title = row.name.replace("_", " ")
            yield SummaryQuantity(title, row.value, row.low, row.high, unit=answers.unit, says_little=is_weak)
        else:
            yield SummaryRow(row.name, row.value, row.low, row.high, present=True)


def _rows(record: Record, method: str | None, hitters: dict[str, HitterRow]) -> Iterator[TailRow]:
    are_names = record.discover() is not None
    columns = (record.shares[UNBIASED], record.low, record.high, record.shares[method or UNBIASED])
    numbers = (column[:VALUES].tolist() for column in columns)

    for value, share, low, high, consistent in zip(record.values[:VALUES], *numbers, strict=True):
        if math.isnan(share):
            continue  # the window has no reports
        hitter = hitters.get(value)
        is_proved = low > 0.0 if are_names else hitter is not None and hitter.decided
        yield SummaryRow(
            value,
            share,
            low,
            high,
            consistent=None if method is None or math.isnan(consistent) else consistent,
            frequent=hitter is not None,
            proved=is_proved,
            present=is_proved or (record.significance is not None and share >= record.significance),
            ranks=None if hitter is None or hitter.ranks is None else tuple(hitter.ranks),
        )
