"""The state of alerts: the data from earlier finals of one attribute and kind of window that the next final needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aggregator.records.span import SCALES
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers, groups_of_row, groups_row
from oracles.errors import ReportError
from oracles.estimate import Estimate, Pure
from oracles.numbers.tree import estimate_of
from oracles.query import Query
from oracles.query.domain import NUMBERS, Domain
from oracles.query.footprint import SPACING
from oracles.query.settings import Window

Counts = NDArray[np.integer]
Value = Any
"""The position of a value, or the name of a quantile or range of numbers."""

ArmValue = tuple[str, str, str]
"""Two groups, and the name of a value or quantile."""
VERSION = 3
"""The version of a state record."""
_WITHOUT_FADES = 2
"""An older version, whose surges have only the end of their window."""
# Little-endian on every machine, because the next worker may run on another one.
_WIDTHS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
ALL_SCALES = sum(SCALES)
"""A silence at every scale."""
Direction = Literal["surge", "fade"]
_SIGNS: dict[int, Direction] = {1: "surge", -1: "fade"}
EVERYONE = 1 << 62
"""A population so large that any number of clients is a small sample of it."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A final for later ones to compare with. Its shares and variances follow exactly from its fields."""

    end: int
    n: int
    n_independent: int
    counts: Counts
    """The support of each value, in the narrowest type that holds it."""
    groups: GroupNumbers = GROUP_0
    """The groups whose reports these are."""

    def estimate(self, oracle: Pure) -> Estimate:
        return estimate_of(oracle, self.counts.astype(np.int64), self.n, self.n_independent)


@dataclass(frozen=True)
class Silence:
    """A value that brings no alert in one direction, because it had one."""

    value: Value
    kind: Direction
    end: int
    """The end of the stretch of that alert."""
    before: float | None
    """The share before the alert, or None from an older state."""
    scales: int = ALL_SCALES
    """The sum of the scales at which it is silent."""


@dataclass(frozen=True, eq=False)
class State:
    """The data from earlier finals that the next final needs."""

    end: int
    """The end of the last final. All finals up to it are done."""
    above: Mapping[Value, float | None] = field(default_factory=dict)
    """The values above the threshold since their last alert, with the threshold at their entry.

    None stands for the threshold of the next final.
    """
    silences: tuple[Silence, ...] = ()
    references: tuple[Reference, ...] = ()
    has_values: bool = False
    """Whether any final had values to show. The values of the first one were above before: a baseline."""
    arms: frozenset[ArmValue] = frozenset()
    """The values that have had an alert, with their two groups."""


def newest_before(references: Sequence[Reference], start: int, groups: GroupNumbers = GROUP_0) -> Reference | None:
    """Return the newest final of these groups that does not overlap a window."""
    for reference in reversed(references):
        if reference.end <= start and reference.groups == groups:
            return reference
    return None


def later_references(
    window: Window,
    references: tuple[Reference, ...],
    start: int,
    end: int,
    estimate: Estimate,
    groups: GroupNumbers = GROUP_0,
) -> tuple[Reference, ...]:
    """Return the references for the finals after this one. `all` overlaps itself, so it has none."""
    if window.kind == "all":
        return ()

    if not references or end - references[-1].end >= window.size / SPACING:
        # No count is more than n, so the type of n holds all of them.
        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))
        references = (*references, Reference(end, estimate.n, estimate.n_independent, counts, groups))

    # The next final compares with the newest one that ends at its start or before. Those before that one are obsolete.
    obsolete = sum(reference.end <= start + window.step for reference in references) - 1
    return references[max(obsolete, 0) :]


def dump(state: State) -> bytes:
    """Return a state as bytes: a line of JSON, then the counts of the references."""
    head: dict[str, Any] = {
        "version": VERSION,
        "end": state.end,
        "shown": state.has_values,
        "entered": sorted(state.above.items()),
        "silent": [_silence_row(silence) for silence in state.silences],
        "kept": [_reference_row(reference) for reference in state.references],
    }
    # Without such alerts the bytes are those of releases that know none.
    if state.arms:
        head["arms"] = sorted(state.arms)
    counts = [reference.counts.astype(_WIDTHS[reference.counts.itemsize]).tobytes() for reference in state.references]
    return b"".join([orjson.dumps(head), b"\n", *counts])


def _silence_row(silence: Silence) -> tuple[Any, ...]:
    sign = 1 if silence.kind == "surge" else -1
    return silence.value, sign, silence.end, silence.before, silence.scales


def _reference_row(reference: Reference) -> tuple[Any, ...]:
    size = len(reference.counts)
    width = reference.counts.itemsize
    return reference.end, reference.n, reference.n_independent, size, width, *groups_row(reference.groups)


def load(data: bytes) -> State:
    """Return the state that `dump` has written, now or in the last release, or raise a ReportError."""
    line, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(line)
        if head["version"] not in (_WITHOUT_FADES, VERSION):
            raise ReportError(f"the alert state has version {head['version']}, but {VERSION} is expected")

        references = []
        start = 0
        for end, n, independent, size, width, *numbers in head["kept"]:
            _check_whole(end, n, independent, size)
            counts = np.frombuffer(body, _WIDTHS[width], size, start)
            references.append(Reference(end, n, independent, counts, groups_of_row(numbers)))
            start += size * width

        _check_whole(head["end"], start)
        state = State(
            end=head["end"],
            above=dict(head["entered"]),
            silences=_silences(head),
            references=tuple(references),
            has_values=bool(head["shown"]),
            arms=frozenset(map(_arm_value, head.get("arms", []))),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReportError(f"the alert state is unreadable: {error!r}") from error

    # Without this check, bytes behind the last counts would pass unread.
    if start != len(body):
        raise ReportError(f"the alert state has {len(body)} bytes of counts, but claims {start}")
    return state


def _arm_value(row: list[object]) -> ArmValue:
    if len(row) != 3 or not all(isinstance(text, str) for text in row):
        raise ReportError("the alert state needs two groups and a value")
    group, other, value = map(str, row)
    return group, other, value


def _silences(head: dict[str, Any]) -> tuple[Silence, ...]:
    if head["version"] == _WITHOUT_FADES:
        rows: list[Any] = [(value, 1, end, None, ALL_SCALES) for value, end in head["surged"]]
    else:
        rows = head["silent"]

    silences = []
    for value, sign, end, share, scales in rows:
        _check_values(value)
        _check_whole(end, scales)
        if share is not None and not (isinstance(share, float | int) and isfinite(share)):
            raise ReportError("the alert state needs a number as share")
        silences.append(Silence(value, _SIGNS[sign], end, share, scales))
    return tuple(silences)


def check_states(query: Query, states: Sequence[bytes]) -> None:
    """Raise a ReportError unless the bytes are the states of the query's attributes."""
    for data, domain, oracle in zip(states, query.domains, query.attribute_oracles, strict=bool(states)):
        if data:
            _check_state(query, load(data), domain, oracle)


def _is_position(value: object, domain: Domain) -> bool:
    return isinstance(value, int) and 0 <= value < domain.size


def _is_share(threshold: float) -> bool:
    return 0 < threshold <= 1


def _is_name(value: object, _: Domain) -> bool:
    return isinstance(value, str)


def _is_limit(_: float) -> bool:
    return True  # a limit in the unit of the numbers may have any value


class Checks(NamedTuple):
    """The checks of the values and thresholds in the state of a kind of answer."""

    is_value: Callable[[object, Domain], bool] = _is_position
    is_threshold: Callable[[float], bool] = _is_share


_POSITIONS = Checks()
_CHECKS = {NUMBERS: Checks(_is_name, _is_limit)}


def _check_state(query: Query, state: State, domain: Domain, oracle: Pure) -> None:
    values = [*state.above, *(silence.value for silence in state.silences)]
    _check_values(*values)
    checks = _CHECKS.get(domain.kind, _POSITIONS)
    if not all(checks.is_value(value, domain) for value in values):
        raise ReportError(f"the alert state has values that query {query.name} does not have")

    for threshold in state.above.values():
        if threshold is None:
            continue
        if not isinstance(threshold, float | int) or not checks.is_threshold(threshold):
            raise ReportError("the alert state has a threshold outside of (0, 1]")

    for reference in state.references:
        fits = len(reference.counts) == oracle.counters and 1 <= reference.n_independent <= reference.n <= EVERYONE
        if not fits or int(reference.counts.max()) > reference.n:
            raise ReportError(f"the alert state has a window that does not fit query {query.name}")


def _check_values(*values: object) -> None:
    _check_whole(*(value for value in values if not isinstance(value, str)))


def _check_whole(*numbers: object) -> None:
    for number in numbers:
        # `isinstance` would take true for 1.
        if type(number) is not int or abs(number) > EVERYONE:
            raise ReportError("the alert state needs whole numbers as times, positions and counts")
