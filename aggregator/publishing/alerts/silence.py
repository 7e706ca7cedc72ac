"""Silence after an alert: a change that lasts brings one alert, not one in each window.

A value is silent in one direction after an alert. The silence ends at each scale on its own, in two cases. The newest
block began after the alert and is back at the value before it. Or all blocks before the newest one lie behind the
alert, and the newest one does not differ from them: a slow change goes on after its alert.
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

    def stands_still(self, value: Value) -> bool:
        """Whether the newest stretch differs from the one before by no more than its error."""


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
    silent: dict[Change, Silence] = {
        (silence.kind, silence.value): silence for silence in silences if end - silence.end < longest
    }
    hits: dict[Change, Look] = {}
    for look in looks:
        # A silence that ends with this comparison hides none of its changes, so silences end first.
        scale = look.stretches.scale
        proved = _proved(look.changes)
        for change, silence in silent.items():
            if silence.scales & scale and _ends(silence, look, is_proved=change in proved):
                silent[change] = replace(silence, scales=silence.scales & ~scale)

        for change in proved:
            earlier = silent.get(change)
            is_silent = earlier is not None and bool(earlier.scales & scale)
            if change not in hits and not is_silent:
                hits[change] = look

    for (kind, value), look in hits.items():
        share_before = look.changes.before(value)
        silent[kind, value] = Silence(value, kind, look.stretches.newest[1], share_before, ALL_SCALES)

    # Sorted, because the bytes of a state must not depend on the order of the alerts.
    return tuple(silence for _, silence in sorted(silent.items()) if silence.scales), hits


def _ends(silence: Silence, look: Look, *, is_proved: bool) -> bool:
    """Whether a silence ends at the scale of a comparison, which may prove the same change again."""
    changes = look.changes
    stretches = look.stretches
    began_after = stretches.newest[0] >= silence.end
    if began_after and silence.before is not None and changes.is_back(silence.value, silence.before):
        return True

    # By chance a comparison inside a slow change proves nothing. So it must show that the value stands still.
    is_behind = stretches.earlier[0] >= silence.end
    return is_behind and not is_proved and changes.stands_still(silence.value)


def _proved(changes: ProvedChanges) -> list[Change]:
    rises: list[Change] = [("surge", value) for value in changes.rises]
    falls: list[Change] = [("fade", value) for value in changes.falls]
    return rises + falls


def in_order(hits: Mapping[Change, Look]) -> list[tuple[Change, Look]]:
    """Return changes in the order of alerts: rises first, then by value."""
    return sorted(hits.items(), key=lambda hit: (hit[0][0] == "fade", hit[0][1]))
