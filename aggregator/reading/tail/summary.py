"""Records and alerts as a terminal shows them, read from what stands in the topics. Pure."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from aggregator.publishing.alert import Alert
from aggregator.publishing.record_reader import Record
from aggregator.reading.tail.notation import clock, digits, label, percent, plain
from oracles.consistency import UNBIASED
from oracles.query.settings import Window

VALUES = 200
"""Values of a record that are kept."""
NAME = 64
"""Characters of the name of a query or attribute."""
_SAID = {"enter": "is now proved frequent:", "leave": "is proved frequent no more:", "surge": "has risen to"}
_TOGETHER = {"enter": "are now proved frequent", "leave": "are proved frequent no more", "surge": "have risen"}


@dataclass(frozen=True)
class SummaryRow:
    """One value of a window."""

    value: str
    """As it is: it is `name` that is fit to be shown."""
    share: float
    """Unbiased, as its 95% interval is."""
    low: float
    high: float
    consistent: float | None = None
    """By the query's first method."""
    frequent: bool = False
    proved: bool = False

    @property
    def name(self) -> str:
        return plain(self.value)

    @property
    def digits(self) -> int:
        return digits((self.high - self.low) / 2.0)

    @property
    def interval(self) -> str:
        return f"{percent(self.low, self.digits)} to {percent(self.high, self.digits)}"

    def __str__(self) -> str:
        return f"{percent(self.share, self.digits)} ({self.interval})"


@dataclass(frozen=True)
class Heading:
    """The query, attribute and window that a record or an alert is about."""

    query: str
    digest: str
    attribute: str | None
    window: Window
    end: int

    @classmethod
    def of(cls, said: Record | Alert) -> Self:
        window, _, end = said.span if isinstance(said, Record) else said.window.span
        attribute = None if said.attribute is None else plain(said.attribute, NAME)
        return cls(plain(said.query, NAME), said.digest, attribute, window, end)

    def __str__(self) -> str:
        name = self.query if self.attribute is None else f"{self.query}, {self.attribute}"
        return f"{name} {label(self.window)}"


@dataclass(frozen=True)
class Summary:
    """One window of a query, or of one of its attributes."""

    heading: Heading
    final: bool
    n: int
    sigma: float | None
    detectable: float | None
    method: str | None
    """Whose shares are the consistent ones."""
    rows: tuple[SummaryRow, ...]
    """The most frequent values, in the record's order."""
    frequent: int
    proved: int
    flags: tuple[str, ...]

    @classmethod
    def of(cls, record: Record) -> Self:
        method = next((name for name in record.shares if name != UNBIASED), None)
        hitters = {hitter.value: hitter.decided for hitter in record.hitters(method or UNBIASED)}
        return cls(
            heading=Heading.of(record),
            final=record.final,
            n=record.n,
            sigma=record.sigma,
            detectable=record.detectable,
            method=method and plain(method),
            rows=tuple(_rows(record, method, hitters)),
            frequent=len(hitters),
            proved=sum(hitters.values()),
            flags=tuple(map(plain, record.flags)),
        )

    @property
    def quality(self) -> str:
        """How many values are frequent, and how sure all of it is."""
        said = [f"{self.frequent} frequent ({self.proved} proved)"]
        if self.sigma is not None:
            said.append(f"standard error {percent(self.sigma, digits(self.sigma))}")
            if self.detectable is not None:
                said.append(f"detectable from {percent(self.detectable, digits(self.sigma))}")
        return ", ".join([*said, *self.flags])

    def line(self, top: int) -> str:
        rows = ", ".join(f"{row.name} {row}" for row in self.rows[:top])
        kind = "" if self.final else "provisional, "
        return f"{clock(self.heading.end)} {self.heading}: {kind}{self.n:,} reports, {self.quality}: {rows}"


def _rows(record: Record, method: str | None, hitters: dict[str, bool]) -> Iterator[SummaryRow]:
    columns = (record.shares[UNBIASED], record.low, record.high, record.shares[method or UNBIASED])
    numbers = (column[:VALUES].tolist() for column in columns)
    for value, share, low, high, consistent in zip(record.values[:VALUES], *numbers, strict=True):
        if not math.isnan(share):  # there are reports
            by_method = None if method is None or math.isnan(consistent) else consistent
            yield SummaryRow(value, share, low, high, by_method, value in hitters, hitters.get(value, False))


@dataclass(frozen=True)
class Notice:
    """An alert as a terminal shows it."""

    id: str
    kind: str
    heading: Heading
    row: SummaryRow
    before: float | None
    baseline: bool
    """Whether it was so from the start."""

    @classmethod
    def of(cls, alert: Alert) -> Self:
        low, high = (math.nan if bound is None else bound for bound in (alert.low, alert.high))
        row = SummaryRow(alert.value, alert.share, low, high)
        return cls(alert.id, alert.kind, Heading.of(alert), row, alert.before, alert.baseline)

    def __str__(self) -> str:
        before = "" if self.before is None else f", before {percent(self.before, self.row.digits)}"
        return f"{self.row.name} {_SAID[self.kind]} {self.row}{before}"


def notice_lines(notices: Iterable[Notice], top: int) -> Iterator[tuple[str, str]]:
    """A line for the notices of one kind and window, with the kind; it names the first `top` values."""
    groups: dict[tuple[Heading | str, str], list[Notice]] = {}
    for notice in notices:
        groups.setdefault((notice.heading.query if notice.baseline else notice.heading, notice.kind), []).append(notice)
    for (_, kind), together in groups.items():
        found = sorted(together, key=lambda notice: -notice.row.share)
        heading = found[0].heading
        if found[0].baseline:
            names = list(dict.fromkeys(notice.row.name for notice in found))
            some = ", ".join(names[:top]) + ", ..." * (len(names) > top)
            count = f"{len(names)} value{'s' * (len(names) != 1)}"
            yield kind, f"{clock(heading.end)} {heading.query}: baseline: {count} frequent from the start: {some}"
            continue
        said = str(found[0])
        if len(found) > 1:
            values = ", ".join(f"{notice.row.name} {notice.row}" for notice in found[:top])
            said = f"{len(found)} values {_TOGETHER[kind]}: {values}{', ...' * (len(found) > top)}"
        yield kind, f"{clock(heading.end)} {heading}: ALERT {kind}: {said}"
