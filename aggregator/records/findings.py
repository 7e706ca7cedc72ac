"""The findings of a window: shares by each method, their errors, and the frequent values. They hold values only.

`aggregator.publishing` computes them once for a window. Its record, its alerts and the metrics use them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from aggregator.records.span import Span
from aggregator.records.subject import Subject
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers
from aggregator.tallies.snapshot import Snapshot
from oracles.calibrate import Calibrated
from oracles.discover import Maps, Name
from oracles.estimate import Estimate, Pure
from oracles.group_total import WeightedTotal
from oracles.heavy import Hitters
from oracles.numbers import Numbers
from oracles.query import Query
from oracles.types import Floats

PROOF_LENGTHS = 24
"""A second search must confirm the proof of a name within so many lengths of the first one's window."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The shares, hitters and risk by one method."""

    method: str
    shares: Floats
    hitters: Hitters
    risk: float
    """The estimated mean squared error of a share."""


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of a window for one attribute."""

    has_values: ClassVar[bool] = True
    """Whether the window shows anything of the answers."""
    subject: Subject
    estimate: Estimate
    calibration: Calibrated | None
    """The calibrated prior, if the query has a method that fits one."""
    by_method: Mapping[str, MethodResult]
    """The results of the unbiased shares and of each method of the query.

    If the prior is rejected, the methods that fit one have the result of the fallback.
    """
    likely: Floats | None
    """The probability of each value to exceed the threshold, if there is a prior."""
    detectable: float | None
    flags: tuple[str, ...]

    @property
    def prior_rejected(self) -> bool:
        return self.calibration is not None and self.calibration.rejected


@dataclass(frozen=True, eq=False)
class NumberFindings:
    """The findings of a window for an attribute whose answers are numbers."""

    has_values: ClassVar[bool] = True
    subject: Subject
    estimate: Estimate
    numbers: Numbers
    flags: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class WithheldFindings:
    """An attribute of which a window shows no values."""

    has_values: ClassVar[bool] = False
    subject: Subject
    oracle: Pure
    flags: tuple[str, ...]


class Proof(NamedTuple):
    """The proof of a name by one search. A second one over other reports must follow before the name is kept."""

    start: int
    end: int
    is_first: bool
    """Whether it was the first search of all."""

    def is_confirmed(self, start: int) -> bool:
        """Whether a search of a window with this start confirms the proof: it has other reports, and is in time."""
        return self.end <= start <= self.last_start

    @property
    def last_start(self) -> int:
        """The last start of a window that confirms the proof.

        Without an end the pairs of searches, and with them false names, would grow with the square of time.
        """
        return self.end + PROOF_LENGTHS * (self.end - self.start)


class Sighting(NamedTuple):
    """When a name was found."""

    first: int
    """The end of the first window that found it."""
    last: int
    """The end of the last one."""
    is_announced: bool
    """Whether an alert has told of it."""


@dataclass(frozen=True, eq=False)
class NameResult:
    """The names of one window."""

    maps: Maps
    levels: tuple[int, ...]
    """Number of reports of each level and map."""
    names: tuple[Name, ...]
    """The names of at least `crowd` reports, by falling share."""
    ambiguous: tuple[str, ...]
    """Names that no map tells apart from others."""
    before: Mapping[str, Sighting]
    """The names that were known before."""
    proofs: Mapping[str, Proof]
    """The names that one search has proved before."""
    start: int
    """The start of the window."""
    end: int
    """The end of the window."""
    smallest: float | None
    """The smallest share that a search of so many reports finds with probability 0.9."""
    is_searched: bool
    is_first: bool
    """Whether no search came before."""
    skewed: bool
    """Whether the reports look forged."""


@dataclass(frozen=True, eq=False)
class NameFindings:
    """The findings of a window of unknown strings."""

    has_values: ClassVar[bool] = True
    subject: Subject
    oracle: Pure
    n: int
    n_independent: int
    names: NameResult
    flags: tuple[str, ...]


AnyFindings = Findings | NumberFindings | NameFindings | WithheldFindings


class PopulationShares(NamedTuple):
    """A total of groups, weighted to their known shares."""

    total: WeightedTotal
    shares: Mapping[str, Floats]
    """The weighted shares by method."""


@dataclass(frozen=True, eq=False)
class GroupTotal:
    """The findings of one attribute in one group, or in the total of some groups."""

    findings: AnyFindings
    reports: Snapshot
    """The reports that they are about."""
    groups: GroupNumbers = GROUP_0
    """The groups of these reports. If a total is withheld, all groups with reports."""
    population: PopulationShares | None = None


@dataclass(frozen=True, eq=False)
class WindowFindings:
    """The findings of a window for each attribute."""

    query: Query
    span: Span
    """The whole window. A provisional one holds only its panes up to `through`."""
    total: Snapshot
    """The reports of all groups."""
    through: int | None
    """The end of the panes of a provisional window, or None for a final."""
    totals: Sequence[GroupTotal]
    by_group: Mapping[int, Sequence[GroupTotal]] = field(default_factory=dict)
    """The findings of each group with reports. Empty for a query without groups."""
    published_totals: Sequence[bool] = ()
    """Whether a provisional window has the total of each attribute. Empty if it has all of them."""

    @property
    def of_totals(self) -> tuple[AnyFindings, ...]:
        """The findings of the total of each attribute, or of the only answer."""
        return tuple(total.findings for total in self.totals)
