"""Silence after an alert: a change that lasts brings one alert, not one in each window.

A value is silent in one direction after an alert. At each scale it stays so until its newest block is back at the value
before the alert, or until all blocks before it lie behind the alert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from aggregator.merging.blocks import BLOCKS_BEFORE, LONGEST
from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.state import ALL_SCALES, Direction, Silence, Value
from oracles.query.settings import Window

Change = tuple[Direction, Value]
"""A direction and a value."""


class ProvedChanges(Protocol):
    """The changes that a comparison proves."""

    @property
    def rises(self) -> Sequence[Value]: ...

    @property
    def falls(self) -> Sequence[Value]: ...

    def before(self, value: Value) -> float | None:
        """Return the value in the stretch before, as an alert shows it."""

    def is_back(self, value: Value, before: float) -> bool:
        """Whether the newest stretch is back at `before`, within its error."""


@dataclass(frozen=True, eq=False)
class Look:
    """A comparison of two stretches, and what it proves."""

    stretches: StretchPair
    changes: ProvedChanges


def longest_silence(window: Window, season: int | None) -> int:
    """Return the seconds after which all blocks lie behind an alert."""
    return (BLOCKS_BEFORE + 1) * LONGEST * window.size + BLOCKS_BEFORE * (season or 0)


def after_silence(
    silences: Sequence[Silence], looks: Sequence[Look], end: int, longest: int
) -> tuple[tuple[Silence, ...], Mapping[Change, Look]]:
    """Return the silences from now on, and the changes to report, each with its shortest comparison."""
    silent: dict[Change, Silence] = {(one.kind, one.value): one for one in silences if end - one.end < longest}
    hits: dict[Change, Look] = {}
    for look in looks:
        scale, changes = look.stretches.scale, look.changes
        for change, one in list(silent.items()):
            if not one.scales & scale:
                continue
            is_back = one.before is not None and changes.is_back(one.value, one.before)
            if is_back or look.stretches.earlier[0] >= one.end:
                silent[change] = replace(one, scales=one.scales & ~scale)
        directions: tuple[tuple[Direction, Sequence[Value]], ...] = (("surge", changes.rises), ("fade", changes.falls))
        for kind, values in directions:
            for value in values:
                before = silent.get((kind, value))
                if (kind, value) not in hits and not (before and before.scales & scale):
                    hits[kind, value] = look
    for (kind, value), look in hits.items():
        before_it = look.changes.before(value)
        silent[kind, value] = Silence(value, kind, look.stretches.newest[1], before_it, ALL_SCALES)
    rest = (one for _, one in sorted(silent.items()) if one.scales)
    return tuple(rest), hits


def in_order(hits: Mapping[Change, Look]) -> list[tuple[Change, Look]]:
    """Return changes in the order of alerts: rises first, then by value."""
    return sorted(hits.items(), key=lambda hit: (hit[0][0] == "fade", hit[0][1]))
