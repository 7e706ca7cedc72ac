"""Estimates as people look at them: rows of values by name, text, a table, a chart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from oracles.errors import ParameterError, ReportError, extra
from oracles.types import Floats, Ints, whole_number

if TYPE_CHECKING:
    from polars import DataFrame

_SHOWN = 5


class Listed(Protocol):
    """An estimate, as far as it is looked at."""

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


class Row(NamedTuple):
    """One value: its name (its position where values have none), its share, and how sure that is."""

    value: str | int
    share: float
    stderr: float
    low: float
    high: float


def names(labels: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    """Labels for `size` values, one each and all different."""
    if labels is None:
        return None
    given = tuple(labels)
    if len(given) != size or len(set(given)) != size:
        raise ParameterError(f"labels are {size} different names, got {len(given)}, of which {len(set(given))} differ")
    return given


def positions(labels: tuple[str, ...] | None, values: "Sequence[int | str] | ArrayLike", size: int) -> Ints:
    """A set of distinct values as their positions; names are understood where there are labels."""
    chosen = np.asarray(values)
    if labels is not None and chosen.dtype.kind in "UO":
        places = {name: at for at, name in enumerate(labels)}
        named = np.asarray(values, object).ravel().tolist()
        unknown = [value for value in named if isinstance(value, str) and value not in places]
        if unknown:
            raise ReportError(f"there is no value {unknown[0]!r} among the {size} labels")
        chosen = np.asarray([places.get(value, value) for value in named])
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise ReportError(
            "a set is a list of one or more positions of values (integers), or of names where there are labels"
        )
    if chosen.min() < 0 or chosen.max() >= size:
        raise ReportError(f"a position in the set is outside 0..{size - 1}")
    if len(np.unique(chosen)) != len(chosen):
        raise ReportError("a value stands in the set twice")
    return chosen.astype(np.int64)


def highest(estimate: Listed, k: int) -> Ints:
    """The positions of the k largest shares, the largest first, ties by position."""
    found: Ints = np.argsort(-estimate.shares, kind="stable")[: whole_number("k", k)]
    return found


def rows(estimate: Listed, positions: Ints) -> list[Row]:
    columns = (estimate.shares, estimate.stderr, estimate.low, estimate.high)
    return [Row(_name(estimate, at), *(float(column[at]) for column in columns)) for at in positions.tolist()]


def text(estimate: Listed) -> str:
    """The largest shares, with their standard errors: these need no exact tails."""
    size, stderr = len(estimate.shares), estimate.stderr
    head = f"Estimate of {size:,} values from {estimate.n:,} reports"
    if not estimate.n:
        return head
    shown = highest(estimate, _SHOWN).tolist()
    wide = max(len(str(_name(estimate, at))) for at in shown)
    lines = [f"  {_name(estimate, at)!s:{wide}}  {estimate.shares[at]:8.3%} ± {stderr[at]:.3%}" for at in shown]
    more = [f"  and {size - len(shown):,} more"] if size > len(shown) else []
    return "\n".join([f"{head}, share ± standard error:", *lines, *more])


def frame(estimate: Listed) -> "DataFrame":
    """A table of polars, a row a value in the domain's order."""
    with extra("read"):
        import polars as pl
    size = len(estimate.shares)
    columns = {"share": estimate.shares, "stderr": estimate.stderr, "low": estimate.low, "high": estimate.high}
    return pl.DataFrame({"value": [_name(estimate, at) for at in range(size)], **columns})


def plot(estimate: Listed, k: int, axes: Any = None) -> Any:
    """Bars of the k largest shares with their 95% intervals, on these axes of matplotlib or new ones."""
    with extra("plot"):
        from matplotlib import pyplot as plt
    if axes is None:
        _, axes = plt.subplots(layout="constrained")
    shown = rows(estimate, highest(estimate, k))
    share = np.array([row.share for row in shown])
    ends = np.array([[row.low for row in shown], [row.high for row in shown]])
    axes.barh([str(row.value) for row in shown], share, color="#9bbcf0")
    error = np.maximum(np.abs(ends - share), 0.0)
    axes.errorbar(share, np.arange(len(shown)), xerr=error, fmt="none", ecolor="#1d3b6f", capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel(f"share, 95% intervals, {estimate.n:,} reports")
    return axes


def _name(estimate: Listed, position: int) -> str | int:
    return position if estimate.labels is None else estimate.labels[position]
