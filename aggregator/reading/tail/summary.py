"""Records and alerts as a terminal shows them. Pure."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from aggregator.publishing.alerts.message import Alert
from aggregator.publishing.records.decoder import FLAGS, WITHHELD, Record
from aggregator.publishing.records.list_intervals import first
from aggregator.publishing.records.name_list import NameList, names_of
from aggregator.publishing.records.number_answers import NumberAnswers
from aggregator.publishing.records.rows import HitterRow
from aggregator.reading.tail.notation import clock, digits, label, level_text, percent, plain, quantity
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL
from oracles.query.settings import Window

VALUES = 200
"""Maximum number of values of a summary."""
NAME = 64
"""Maximum number of characters in the name of a query or attribute."""
_VERBS = {
    "enter": "is now proved {}:",
    "leave": "is no longer proved {}:",
    "surge": "has risen to",
    "fade": "has fallen to",
}
_PLURAL_VERBS = {
    "enter": "are now proved {}",
    "leave": "are no longer proved {}",
    "surge": "have risen",
    "fade": "have fallen",
}
_FOUND, _PLURAL_FOUND = "was found for the first time:", "were found for the first time"
"""The verbs of names that nobody listed. Page and alert have the same words."""


@dataclass(frozen=True)
class SummaryRow:
    """A value of a window."""

    value: str
    """The value as published. Use `name` for the terminal, or `visible` if it is shortened to a width."""
    share: float
    """The unbiased share, with its 95% interval from `low` to `high`."""
    low: float
    high: float
    consistent: float | None = None
    """The share by the query's first method."""
    frequent: bool = False
    proved: bool = False
    present: bool = False
    """Whether the value is proved to be present. Otherwise its share may be zero."""
    ranks: tuple[int, ...] | None = None
    """The first and the last place that its true share can have, if they are in the record."""

    @property
    def visible(self) -> str:
        """The value, in quotes if it is empty or only blanks."""
        return self.value if self.value.strip(" ") else f'"{self.value}"'

    @property
    def name(self) -> str:
        return plain(self.visible)

    @property
    def rank(self) -> str:
        """Return the places that the value can have, or a text that is empty if it may be zero."""
        if self.ranks is None:
            return ""
        first, last = self.ranks
        return str(first) if first == last else f"{first}-{last}"

    @property
    def digits(self) -> int:
        return digits((self.high - self.low) / 2.0)

    def text(self, share: float) -> str:
        """Return a share of this value, with as many digits as its error allows."""
        return percent(share, self.digits)

    @property
    def interval(self) -> str:
        return f"{self.text(self.low)} to {self.text(self.high)}"

    @property
    def short_interval(self) -> str:
        """The interval with the unit or the sign once."""
        return f"{self.text(self.low).rstrip('%')} to {self.text(self.high)}"

    def __str__(self) -> str:
        return f"{self.text(self.share)} ({self.interval})"


@dataclass(frozen=True)
class SummaryQuantity(SummaryRow):
    """A quantile or a mean of numbers. Its `share` is the number."""

    unit: str | None = None

    def text(self, share: float) -> str:
        return quantity(share, (self.high - self.low) / 2.0, self.unit)

    @property
    def interval(self) -> str:
        error = (self.high - self.low) / 2.0
        return f"{quantity(self.low, error)} to {quantity(self.high, error)}"

    @property
    def short_interval(self) -> str:
        return self.interval


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
    rows: tuple[SummaryRow, ...]
    """The most frequent values, in the record's order. Of numbers the quantiles, means and ranges."""
    frequent: int
    proved: int
    flags: tuple[str, ...]
    record: Record = field(repr=False, compare=False)
    has_search: bool | None = None
    """Whether unknown strings are searched in such windows. None if the definition is not known."""

    @classmethod
    def of(cls, record: Record, *, has_search: bool | None = None) -> Self:
        method = next((name for name in record.shares if name != UNBIASED), None)
        hitters = {hitter.value: hitter for hitter in record.hitters(method or UNBIASED)}
        return cls(
            heading=Heading.of(record),
            final=record.final,
            through=record.through,
            withheld=record.withheld and WITHHELD[record.withheld],
            n=record.n,
            sigma=record.sigma,
            detectable=record.detectable,
            method=method and plain(method),
            rows=tuple(_number_rows(record) if record.has_numbers else _rows(record, method, hitters)),
            frequent=len(hitters),
            proved=sum(hitter.decided for hitter in hitters.values()),
            flags=tuple(FLAGS.get(flag, plain(flag)) for flag in record.flags if flag not in WITHHELD),
            record=record,
            has_search=has_search,
        )

    def listed(self, top: int) -> tuple[float, list[SummaryRow]]:
        """Return the level of the intervals in a list of the first `top` values, and these values."""
        rows = self.rows[:top]
        if self.record.has_numbers:
            return LEVEL, list(rows)
        level, low, high = first(self.record, len(rows))
        ends = zip(rows, low.tolist(), high.tolist(), strict=True)
        return level, [replace(row, low=least, high=most) for row, least, most in ends]

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
        known = (self.record.rest()["numbers"] or {}).get("resolution")
        return [] if known is None else [f"shares of numbers known to ± {percent(known, 1)}"]

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
        level, listed = self.listed(top)
        rows = ", ".join(f"{row.name} {row}" for row in listed)
        quality = f", {self.quality}" if self.quality else ""
        return f"{heading}{quality}: {rows}{f'; {level_text(level)} intervals' if listed else ''}"


def _number_rows(record: Record) -> Iterator[SummaryRow]:
    """Yield the quantiles, means and ranges that the query asks for."""
    answers = NumberAnswers(record)
    for row in answers.rows():
        if row.value is not None and row.low is not None and row.high is not None:
            if row.measure == "number":
                name = row.name.replace("_", " ")
                yield SummaryQuantity(name, row.value, row.low, row.high, present=True, unit=answers.unit)
            else:
                yield SummaryRow(row.name, row.value, row.low, row.high, present=True)


def _rows(record: Record, method: str | None, hitters: dict[str, HitterRow]) -> Iterator[SummaryRow]:
    are_names = record.discover() is not None
    columns = (record.shares[UNBIASED], record.low, record.high, record.shares[method or UNBIASED])
    numbers = (column[:VALUES].tolist() for column in columns)
    for value, share, low, high, consistent in zip(record.values[:VALUES], *numbers, strict=True):
        if not math.isnan(share):  # NaN: the window has no reports
            by_method = None if method is None or math.isnan(consistent) else consistent
            hitter = hitters.get(value)
            proved = low > 0.0 if are_names else hitter is not None and hitter.decided
            present = proved or (record.significance is not None and share >= record.significance)
            ranks = None if hitter is None or hitter.ranks is None else tuple(hitter.ranks)
            yield SummaryRow(value, share, low, high, by_method, hitter is not None, proved, present, ranks)


@dataclass(frozen=True)
class Notice:
    """An alert as a terminal shows it."""

    id: str
    kind: str
    heading: Heading
    row: SummaryRow
    before: float | None
    baseline: bool
    """Whether the value was frequent in the first final."""
    proof: str
    """The word for what is proved of a value."""
    scale: int | None
    """The number of windows of a change that took longer than one, else None."""
    is_name: bool = False
    """Whether the value is a name that a search has found."""

    @classmethod
    def of(cls, alert: Alert) -> Self:
        low, high = (math.nan if bound is None else bound for bound in (alert.low, alert.high))
        row = SummaryRow(alert.value, alert.share, low, high)
        proof = "present" if alert.by == "significance" else "frequent"
        if alert.quantile is not None:
            row = SummaryQuantity(alert.value, alert.share, low, high, unit=alert.unit)
            limit = "" if alert.threshold is None else f"{alert.threshold:,.10g}"
            proof = f"above {limit}{f' {plain(alert.unit)}' if alert.unit else ''}"
        scale = alert.scale if alert.scale != 1 else None
        heading, is_name = Heading.of(alert), alert.is_name
        return cls(alert.id, alert.kind, heading, row, alert.before, alert.baseline, proof, scale, is_name)

    @property
    def thing(self) -> str:
        """The word for what the alert is about."""
        return "name" if self.is_name else "value"

    @property
    def over(self) -> str:
        """Return over how many windows a change took place, if it is more than one."""
        return "" if self.scale is None else f", over {self.scale} windows"

    def __str__(self) -> str:
        before = "" if self.before is None else f", before {self.row.text(self.before)}"
        verb = _FOUND if self.is_name else _VERBS[self.kind].format(self.proof)
        return f"{self.row.name} {verb} {self.row}{before}{self.over}"


def notice_lines(notices: Iterable[Notice], top: int) -> Iterator[tuple[str, str]]:
    """Yield the kind and a line for the notices of each kind and window. A line names at most `top` values."""
    groups: dict[tuple[Heading | str, str], list[Notice]] = {}
    for notice in notices:
        groups.setdefault((notice.heading.query if notice.baseline else notice.heading, notice.kind), []).append(notice)
    for (_, kind), group in groups.items():
        ranking = sorted(group, key=lambda notice: -notice.row.share)
        heading = ranking[0].heading
        if ranking[0].baseline:
            names = [row.name for row in {notice.row.value: notice.row for notice in ranking}.values()]
            some = ", ".join(names[:top]) + ", ..." * (len(names) > top)
            count = f"{len(names)} {ranking[0].thing}{'s' * (len(names) != 1)}"
            start = "found by the first search" if ranking[0].is_name else "frequent from the start"
            yield kind, f"{clock(heading.end)} {heading.query}: baseline: {count} {start}: {some}"
            continue
        text = str(ranking[0])
        if len(ranking) > 1:
            values = ", ".join(f"{notice.row.name} {notice.row}" for notice in ranking[:top])
            first = ranking[0]
            verb = _PLURAL_FOUND if first.is_name else _PLURAL_VERBS[kind].format(first.proof)
            text = f"{len(ranking)} {first.thing}s {verb}: {values}{', ...' * (len(ranking) > top)}"
        yield kind, f"{clock(heading.end)} {heading}: ALERT {kind}: {text}"
