"""Predictions about numbers: how wide the intervals of quantiles will be, and how many clients a width needs. Pure."""

from collections.abc import Iterable, Iterator

from oracles.mechanisms import oracle
from oracles.numbers.tree import Tree
from oracles.query.settings import QUANTILES, quantile_name

WIDTHS = (0.05, 0.02, 0.01, 0.005)
"""Distances from a quantile, in rank, for which the clients are stated."""
_TABLE = 2
"""The table of clients that answer for life."""


def tree_of(bins: int, epsilon: float, answers: str) -> Tree:
    """Return the tree of clients that answer about numbers."""
    return Tree.of(oracle("haar", epsilon=epsilon, size=bins, table=_TABLE if answers == "life" else None))


def plan_lines(
    clients: int, bins: int, epsilon: float, answers: str, width: float | None = None
) -> Iterator[tuple[str, bool]]:
    """Yield the texts of `hubbub plan --number`, and whether each is a heading."""
    tree = tree_of(bins, epsilon, answers)
    way = "answers for life" if answers == "life" else f"answers {answers}"
    yield f"{clients:,} clients, a number in one of {bins:,} bins each, epsilon {epsilon:g}, {way}", True
    for text in sentences(tree, clients, QUANTILES, () if width is None else (width,)):
        yield text, False


def sentences(tree: Tree, n: int, quantiles: Iterable[float], widths: Iterable[float] = ()) -> Iterator[str]:
    """Yield in words how wide the intervals of quantiles will be, and how many reports other widths need."""
    reach = tree.resolution(n)
    yield (
        f"With {n:,} reports a quantile's 95% interval reaches {_percent(reach)} in rank to either side, on average "
        f"over all ranks, and at most {_percent(reach * 1.5**0.5)}."
    )
    for share in quantiles:
        low, high = share - reach, share + reach
        ends = [
            "the lower end of the scale" if low <= 0.0 else f"the true {quantile_name(round(low, 3))}",
            "the upper end of the scale" if high >= 1.0 else f"the true {quantile_name(round(high, 3))}",
        ]
        yield f"{quantile_name(share)}: the interval goes from about {ends[0]} to {ends[1]}."
    needs = "; ".join(f"{_percent(width)} with {tree.reports(width):,}" for width in widths or WIDTHS)
    yield f"To either side the interval reaches: {needs} reports."


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}%" if share < 0.995 else "more than 100%"
