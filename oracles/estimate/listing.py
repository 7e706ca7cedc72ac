"""Estimates for people: rows of values by name, text, a table, a chart."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from oracles.errors import ParameterError, ReportError, extra
from oracles.estimate.intervals import LEVEL, Ends, listed_level
from oracles.types import Floats, Ints, whole_number

if TYPE_CHECKING:
    from polars import DataFrame

_LIST_LENGTH = 5


class Listed(Protocol):
    """The part of an estimate that listings use."""

    @property
    def shares(self) -> Floats: ...

    @property
    def n(self) -> int: ...

    @property
    def labels(self) -> tuple[str, ...] | None: ...

    @property
    def stderr(self) -> Floats: ...

    @property
    def low(self) -> Floats: ...

    @property
    def high(self) -> Floats: ...

    def intervals_at(self, positions: Ints, level: float) -> Ends: ...


class Row(NamedTuple):
    """One value: its name (its position if values have no names), its share, and how sure it is."""

    value: str | int
    share: float
    stderr: float
    low: float
    high: float
    level: float
    """The level of the interval from `low` to `high`: 0.95 for a value by name, more in a list of the largest ones."""


def names(labels: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    """Check the labels of `size` values: one each, and all different."""
    if labels is None:
        return None
    all_labels = tuple(labels)
    if len(all_labels) != size or len(set(all_labels)) != size:
        raise ParameterError(
            f"labels must be {size} different names, got {len(all_labels)} with {len(set(all_labels))} different ones"
        )
    return all_labels


def positions(labels: tuple[str, ...] | None, values: "Sequence[int | str] | ArrayLike", size: int) -> Ints:
    """Return a set of distinct values as positions. Names are allowed if there are labels."""
    array = np.asarray(values)
    if labels is not None and array.dtype.kind in "UO":
        places = {name: place for place, name in enumerate(labels)}
        items = np.asarray(values, object).ravel().tolist()
        unknown = [value for value in items if isinstance(value, str) and value not in places]
        if unknown:
            raise ReportError(f"value {unknown[0]!r} is not one of the {size} labels")
        array = np.asarray([places.get(value, value) for value in items])

    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ReportError("a set must be a list of one or more positions (integers), or of names if there are labels")
    # NumPy would count a negative position from the end.
    if array.min() < 0 or array.max() >= size:
        raise ReportError(f"a position in the set is outside 0..{size - 1}")
    if len(np.unique(array)) != len(array):
        raise ReportError("a set must not hold a value twice")
    return array.astype(np.int64)


def highest(estimate: Listed, k: int) -> Ints:
    """Return the positions of the k largest shares, the largest first, ties by position."""
    order: Ints = np.argsort(-estimate.shares, kind="stable")[: whole_number("k", k)]
    return order


def chosen(labels: tuple[str, ...] | None, values: "slice | Sequence[int | str] | ArrayLike", size: int) -> Ints:
    """Return the positions of a slice of the values, or of a list of them."""
    return np.arange(size)[values] if isinstance(values, slice) else positions(labels, values, size)


def holds(labels: tuple[str, ...] | None, value: object, size: int) -> bool:
    """Whether a value is the name of one of the values, or its position."""
    if isinstance(value, int | np.integer):
        return bool(0 <= value < size)
    return labels is not None and value in labels


def rows(estimate: Listed, positions: Ints, level: float = LEVEL) -> list[Row]:
    # Without reports all numbers would be NaN, which looks like an answer.
    if len(positions) and not estimate.n:
        raise ReportError("the tally has no reports, so no share is known; add reports first")
    columns = (estimate.shares[positions], estimate.stderr[positions], *estimate.intervals_at(positions, level))
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Row(_name(estimate, position), share=share, stderr=stderr, low=low, high=high, level=level)
        for position, (share, stderr, low, high) in zip(positions.tolist(), numbers, strict=True)
    ]


def largest(estimate: Listed, k: int) -> list[Row]:
    """Return the k largest shares, the largest first, with intervals that allow for their choice."""
    positions = highest(estimate, k)
    return rows(estimate, positions, listed_level(len(positions), len(estimate.shares)))


def text(estimate: Listed) -> str:
    """Return the largest shares with their standard errors, which need no exact tails."""
    size = len(estimate.shares)
    stderr = estimate.stderr
    head = f"Estimate of {size:,} values from {estimate.n:,} reports"
    if not estimate.n:
        return f"{head}: no share is known"

    listed = highest(estimate, _LIST_LENGTH).tolist()
    width = max(len(str(_name(estimate, position))) for position in listed)
    lines = [f"{head}, share ± standard error:"]
    for position in listed:
        share = estimate.shares[position]
        lines.append(f"  {_name(estimate, position)!s:{width}}  {share:8.3%} ± {stderr[position]:.3%}")
    if size > len(listed):
        lines.append(f"  and {size - len(listed):,} more")
    return "\n".join(lines)


def html(estimate: Listed) -> str:
    """Return the text as HTML, for notebooks. Names may come from anybody, so they are escaped."""
    return f"<pre>{escape(text(estimate))}</pre>"


def frame(estimate: Listed) -> "DataFrame":
    """Return a polars table with one row for each value, in the order of the domain. Unknown numbers are null."""
    with extra("read"):
        import polars as pl

    size = len(estimate.shares)
    columns = {"share": estimate.shares, "stderr": estimate.stderr, "low": estimate.low, "high": estimate.high}
    names = [_name(estimate, position) for position in range(size)]
    return pl.DataFrame({"value": names, **columns}, nan_to_null=True)


def plot(estimate: Listed, k: int, axes: Any = None) -> Any:
    """Draw bars of the k largest shares with their intervals, on these matplotlib axes or new ones."""
    with extra("plot"):
        from matplotlib import pyplot as plt
    if axes is None:
        _, axes = plt.subplots(layout="constrained")

    bars = largest(estimate, k)
    share = np.array([row.share for row in bars])
    ends = np.array([[row.low for row in bars], [row.high for row in bars]])
    axes.barh([str(row.value) for row in bars], share, color="#9bbcf0")
    # matplotlib refuses negative lengths. A share below 0 has its interval beside it, cut at 0.
    error = np.maximum(np.abs(ends - share), 0.0)
    axes.errorbar(share, np.arange(len(bars)), xerr=error, fmt="none", ecolor="#1d3b6f", capsize=3)
    axes.invert_yaxis()

    level = bars[0].level if bars else LEVEL
    axes.set_xlabel(f"share, {100 * level:.6g}% intervals, {estimate.n:,} reports")
    return axes


def _name(estimate: Listed, position: int) -> str | int:
    return position if estimate.labels is None else estimate.labels[position]
