"""The watch of one attribute and kind of window, and its part of the budget of false alerts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from aggregator.merging import blocks
from aggregator.publishing.findings import Subject
from oracles.query import Query
from oracles.query.settings import Threshold, Window

DAY = 86_400
KINDS = 4.0
"""Number of kinds of alerts that share the budget: enter, leave, surge, fade."""


@dataclass(frozen=True)
class Watch:
    """One attribute and kind of window under watch, and its budget of false alerts."""

    query: str
    digest: bytes
    attribute: str | None
    window: Window
    name: Callable[[int], str] = field(compare=False)
    """Returns the value at a position."""
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

    @property
    def error(self) -> float:
        """Expected number of false enters, and of false leaves, in one final."""
        return min(0.5, self.alerts_a_day / (KINDS * self.finals_a_day))

    @property
    def look_error(self) -> float:
        """Expected number of false surges, and of false fades, in one comparison."""
        return min(0.5, self.alerts_a_day / (KINDS * (self.looks_a_day or self.finals_a_day)))


def watch_of(query: Query, subject: Subject, window: Window) -> Watch:
    """Return the watch of an attribute. All kinds of windows and all attributes share the budget of false alerts."""
    finals = len(query.domains) * sum(finals_a_day(window, query.pane) for window in query.windows)
    return Watch(
        *(query.name, query.digest, subject.name, window, subject.domain.name),
        *(query.threshold, query.family_error, query.alerts_a_day, finals, query.answers != "fresh"),
        *(looks_a_day(query), query.season),
    )


def finals_a_day(window: Window, pane: int) -> float:
    """Return the number of finals of a kind of window in a day."""
    return DAY / (window.step or pane)


def looks_a_day(query: Query) -> float:
    """Return the number of comparisons in a day. Windows are compared at each final, blocks when they are complete."""
    windows = [window for window in query.windows if window.kind != "all"]
    single = len(query.domains) * sum(DAY / window.step for window in windows)
    attributes = sum(blocks.has_blocks(query))
    return single + attributes * (1.0 - 1.0 / blocks.LONGEST) * sum(DAY / window.size for window in windows)
