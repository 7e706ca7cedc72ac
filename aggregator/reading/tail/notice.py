"""Alerts as a terminal shows them. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from aggregator.reading.tail.notation import clock, plain
from aggregator.reading.tail.rows import SummaryQuantity, SummaryRow, TailRow
from aggregator.reading.tail.summary import Heading
from aggregator.records.alert import Alert
from aggregator.records.words import alert_word


@dataclass(frozen=True)
class Notice:
    """An alert as a terminal shows it."""

    id: str
    kind: str
    heading: Heading
    row: TailRow
    before: float | None
    baseline: bool
    """Whether the value was frequent in the first final."""
    proof: str
    """The word for what is proved of a value."""
    windows: int
    """The number of windows of a change."""
    is_name: bool = False
    """Whether the value is a name that a search has found."""
    sides: tuple[str, str | None] | None = None
    """The two groups of a difference. Then `before` is of the first one, and the row of the second one."""

    @classmethod
    def of(cls, alert: Alert) -> Self:
        low = math.nan if alert.low is None else alert.low
        high = math.nan if alert.high is None else alert.high
        row: TailRow = SummaryRow(alert.value, alert.share, low, high)
        proof = "present" if alert.by == "significance" else "frequent"
        if alert.quantile is not None:
            row = SummaryQuantity(alert.value, alert.share, low, high, unit=alert.unit)
            limit = "" if alert.threshold is None else f"{alert.threshold:,.10g}"
            unit = f" {plain(alert.unit)}" if alert.unit else ""
            proof = f"above {limit}{unit}"

        return cls(
            id=alert.id,
            kind=alert.kind,
            heading=Heading.of(alert),
            row=row,
            before=alert.before,
            baseline=alert.baseline,
            proof=proof,
            windows=alert.scale or 1,
            is_name=alert.is_name,
            sides=None if alert.group is None else (alert.group, alert.with_),
        )

    @property
    def thing(self) -> str:
        """The word for what the alert is about."""
        return "name" if self.is_name else "value"

    @property
    def over(self) -> str:
        """Return over how many windows a change took place, if it is more than one."""
        return f", over {self.windows} windows" if self.windows > 1 else ""

    @property
    def listed(self) -> str:
        """The value with its figures."""
        if self.sides is None:
            return f"{self.row.name} {self.row}"
        # The interval of the row is that of the difference, so no share can be shown with it.
        group, other = self.sides
        before = "" if self.before is None else f" ({self.row.text(self.before)})"
        return f"{self.row.name} between {group}{before} and {other} ({self.row.text(self.row.amount)})"

    def __str__(self) -> str:
        if self.sides is not None:
            return f"a difference of {self.listed}"
        before = "" if self.before is None else f", before {self.row.text(self.before)}"
        verb = alert_word(self.kind, is_name=self.is_name).short.format(proof=self.proof)
        return f"{self.row.name} {verb} {self.row}{before}{self.over}"


def notice_lines(notices: Iterable[Notice], top: int) -> Iterator[tuple[str, str]]:
    """Yield the kind and a line for the notices of each kind and window. A line names at most `top` values."""
    groups: dict[tuple[Heading | str, str], list[Notice]] = {}
    for notice in notices:
        # Each kind of window has a baseline of its own, with about the same values.
        place = notice.heading.query if notice.baseline else notice.heading
        groups.setdefault((place, notice.kind), []).append(notice)

    for (_, kind), group in groups.items():
        ranking = sorted(group, key=lambda notice: -notice.row.amount)
        heading = ranking[0].heading
        if ranking[0].baseline:
            yield kind, f"{clock(heading.end)} {heading.query}: {_baseline_text(ranking, top)}"
        else:
            yield kind, f"{clock(heading.end)} {heading}: ALERT {kind}: {_change_text(ranking, top)}"


def _baseline_text(ranking: Sequence[Notice], top: int) -> str:
    # Each kind of window has its baseline, so a value may come several times.
    names = [row.name for row in {notice.row.value: notice.row for notice in ranking}.values()]
    count = _plural(len(names), ranking[0].thing)
    start = alert_word(ranking[0].kind, is_name=ranking[0].is_name, is_baseline=True).short
    return f"baseline: {count} {start}: {_list_text(names, top)}"


def _change_text(ranking: Sequence[Notice], top: int) -> str:
    notice = ranking[0]
    if len(ranking) == 1:
        return str(notice)

    word = alert_word(notice.kind, is_name=notice.is_name)
    verb = (word.plural or word.text).format(proof=notice.proof)
    values = [notice.listed for notice in ranking]
    return f"{_plural(len(ranking), notice.thing)} {verb}: {_list_text(values, top)}"


def _plural(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _list_text(texts: Sequence[str], top: int) -> str:
    listed = ", ".join(texts[:top])
    return f"{listed}, ..." if len(texts) > top else listed
