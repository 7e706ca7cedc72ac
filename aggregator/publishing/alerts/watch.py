"""The watch of one attribute and kind of window, and its part of the budget of false alerts."""

from dataclasses import dataclass

from aggregator.merging import blocks
from aggregator.merging.kinds import has_blocks
from aggregator.records.subject import Subject
from oracles.query import Query
from oracles.query.settings import Threshold, Window

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
        # Beyond one half, a test would prove a change in the wrong direction.
        return min(0.5, self.alerts_a_day / (kinds * self.finals_a_day * tests))

    def look_error(self, *, kinds: float = KINDS, tests: int = 1) -> float:
        """Return the expected number of false surges, and of false fades, of one test in a comparison."""
        looks_a_day = self.looks_a_day or self.finals_a_day
        return min(0.5, self.alerts_a_day / (kinds * looks_a_day * tests))


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


def query_finals_a_day(query: Query) -> float:
    """Return the number of finals of a query in a day, of all kinds of windows and all attributes."""
    return len(query.domains) * sum(finals_a_day(window, query.pane) for window in query.windows)


def finals_a_day(window: Window, pane: int) -> float:
    """Return the number of finals of a kind of window in a day."""
    # A window `all` has no step, and a final after each pane.
    return DAY / (window.step or pane)


def looks_a_day(query: Query) -> float:
    """Return the number of comparisons in a day. Windows are compared at each final, blocks when they are complete."""
    windows = [window for window in query.windows if window.kind != "all"]
    single = len(query.domains) * sum(DAY / window.step for window in windows)
    attributes = sum(has_blocks(query))
    # Of blocks of 2, 4, ... LONGEST windows, a half, a quarter and so on of the windows completes one.
    return single + attributes * (1.0 - 1.0 / blocks.LONGEST) * sum(DAY / window.size for window in windows)
