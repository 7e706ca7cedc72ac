"""The watch of one attribute and kind of window, and its part of the budget of false alerts."""

from dataclasses import dataclass

from aggregator.merging import blocks
from aggregator.records.subject import Subject
from oracles.numbers import Numbers, Scale
from oracles.numbers.number_changes import NumberChanges
from oracles.query import Query
from oracles.query.settings import Threshold, Window, quantile_name

DAY = 86_400
KINDS = 4.0
"""Number of kinds of alerts that share the budget: enter, leave, surge, fade."""
CHANGES = 2.0
"""Number of these kinds without a threshold: surge, fade."""


@dataclass(frozen=True)
class Watch:
    """One attribute and kind of window under watch, and its budget of false alerts."""

    query: str
    digest: bytes
    subject: Subject
    window: Window
    threshold: Threshold
    family_error: float
    alerts_a_day: float
    finals_a_day: float
    """Number of finals that share the budget: of all windows and attributes, if it is to hold for all of them."""
    panel: bool = False
    """Whether the same clients repeat their answers from window to window."""
    looks_a_day: float | None = None
    """Number of comparisons that share the budget of surges, and that of fades. None means one for each final."""
    season: int | None = None
    quantiles: tuple[float, ...] = ()
    """The quantiles of numbers whose changes are looked for."""
    limits: tuple[tuple[float, float], ...] = ()
    """Quantiles of numbers with their limits."""

    def error(self, *, kinds: float = KINDS, tests: int = 1) -> float:
        """Return the expected number of false enters, and of false leaves, of one test in a final."""
        return min(0.5, self.alerts_a_day / (kinds * self.finals_a_day * tests))

    def look_error(self, *, kinds: float = KINDS, tests: int = 1) -> float:
        """Return the expected number of false surges, and of false fades, of one test in a comparison."""
        looks_a_day = self.looks_a_day or self.finals_a_day
        return min(0.5, self.alerts_a_day / (kinds * looks_a_day * tests))


@dataclass(frozen=True)
class Measure:
    """A quantile or range under watch."""

    name: str
    quantile: float | None
    ends: tuple[float, float] | None = None

    def rise(self, changes: NumberChanges) -> float:
        """Return by how many standard errors it has risen."""
        if self.ends is not None:
            return changes.range(*self.ends)
        return changes.quantile(self.quantile or 0.0)

    def interval(self, numbers: Numbers) -> tuple[float, float, float]:
        """Return its value in a stretch, with the ends of its 95% interval."""
        if self.ends is not None:
            row = numbers.range(*self.ends)
            return row.share, row.low, row.high
        return numbers.quantile(self.quantile or 0.0)


@dataclass(frozen=True)
class NumberWatch:
    """Numbers of one attribute and kind of window under watch, and their budget of false alerts."""

    query: str
    digest: bytes
    attribute: str | None
    window: Window
    scale: Scale
    unit: str | None
    measures: tuple[Measure, ...]
    """The quantiles and ranges whose changes are looked for."""
    limits: tuple[tuple[float, float], ...]
    """Quantiles with their limits."""
    alerts_a_day: float
    finals_a_day: float
    looks_a_day: float
    panel: bool
    season: int | None

    @property
    def _kinds(self) -> float:
        """Number of kinds of alerts that share the budget. Without limits there are only surges and fades."""
        return KINDS if self.limits else KINDS / 2.0

    @property
    def limit_error(self) -> float:
        """Probability of a false enter, and of a false leave, of one quantile in one final."""
        return min(0.5, self.alerts_a_day / (self._kinds * self.finals_a_day * max(1, len(self.limits))))

    @property
    def look_error(self) -> float:
        """Probability of a false surge, and of a false fade, of one quantile or range in one comparison."""
        return min(0.5, self.alerts_a_day / (self._kinds * self.looks_a_day * max(1, len(self.measures))))

    def limit(self, measure: Measure) -> float | None:
        """Return the limit of a quantile, or None."""
        return next((limit for share, limit in self.limits if share == measure.quantile), None)


def watch_of(query: Query, subject: Subject, window: Window) -> Watch:
    """Return the watch of an attribute. All kinds of windows and all attributes share the budget of false alerts."""
    return Watch(
        query=query.name,
        digest=query.digest,
        subject=subject,
        window=window,
        threshold=query.threshold,
        family_error=query.family_error,
        alerts_a_day=query.alerts_a_day,
        finals_a_day=query_finals_a_day(query),
        panel=query.answers != "fresh",
        looks_a_day=looks_a_day(query),
        season=query.season,
        quantiles=query.quantiles,
        limits=query.limits,
    )


def number_watch_of(query: Query, subject: Subject, window: Window) -> NumberWatch:
    """Return the watch of an attribute whose answers are numbers."""
    domain = subject.domain
    assert domain.scale is not None  # noqa: S101 - its answers are numbers
    measures = [Measure(quantile_name(share), share) for share in query.quantiles]
    measures += [Measure(name, None, ends) for name, ends in subject.ranges]
    return NumberWatch(
        *(query.name, query.digest, subject.name, window, domain.scale, domain.unit, tuple(measures), query.limits),
        *(query.alerts_a_day, query_finals_a_day(query), looks_a_day(query), query.answers != "fresh", query.season),
    )


def query_finals_a_day(query: Query) -> float:
    """Return the number of finals of a query in a day, of all kinds of windows and all attributes."""
    return len(query.domains) * sum(finals_a_day(window, query.pane) for window in query.windows)


def finals_a_day(window: Window, pane: int) -> float:
    """Return the number of finals of a kind of window in a day."""
    return DAY / (window.step or pane)


def looks_a_day(query: Query) -> float:
    """Return the number of comparisons in a day. Windows are compared at each final, blocks when they are complete."""
    windows = [window for window in query.windows if window.kind != "all"]
    single = len(query.domains) * sum(DAY / window.step for window in windows)
    attributes = sum(blocks.has_blocks(query))
    return single + attributes * (1.0 - 1.0 / blocks.LONGEST) * sum(DAY / window.size for window in windows)
