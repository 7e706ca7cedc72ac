"""Predictions about numbers: errors of ranks, the intervals of quantiles, and the clients that a width needs. Pure."""

from collections.abc import Iterable, Iterator
from typing import cast

from aggregator.plan.kinds import values
from aggregator.plan.kinds.audience import Audience
from oracles.mechanisms.haar import Haar
from oracles.numbers.tree import Tree
from oracles.query import Query
from oracles.query.settings import QUANTILES, quantile_name

WIDTHS = (0.05, 0.02, 0.01, 0.005)
"""Distances from a quantile, in rank, for which the clients are stated."""
Z = 1.959964
"""Standard errors from an estimate to the end of its 95% interval."""
_TABLE = 2
"""The table of clients that answer for life."""


def shows(subject: Audience) -> str:
    """Return how far quantiles are from the truth in rank, on average, in words."""
    reach = tree_of_query(subject).resolution(max(1, subject.n))
    return "no quantile" if reach >= 0.5 else f"quantiles to within {_percent(reach)} in rank"


def tree_of_query(subject: Audience) -> Tree:
    """Return the tree of the numbers of an attribute."""
    return Tree.of(subject.view)


def comparison(subject: Audience, n: int) -> Iterator[str]:
    """Yield a sentence about the error of numbers. All ways to answer have the same one."""
    yield (
        f"Standard error {_encoder(subject).rank_error(n):.2g} of the share of numbers up to a bin, at {n:,} "
        "reports. Answers once, for life and fresh need the same people."
    )


def _encoder(subject: Audience) -> Haar:
    """Return the oracle of the numbers. All oracles of numbers are of this class."""
    return cast(Haar, subject.encoder)


def sentences(subject: Audience) -> Iterator[str]:
    """Yield in words what a number of people will show of the distribution."""
    start = subject.start
    rank = Z * _encoder(subject).rank_error(max(1, subject.n))
    # Half of all ranks to each side is everybody.
    if rank >= 0.5:
        yield f"{start} you will not know the median{subject.of}."
        return

    yield (
        f"{start} you will know the median{subject.of} to within {100 * rank:.2g}% in rank: the 95% interval reaches "
        f"from about {50 - 100 * rank:.1f}% to {50 + 100 * rank:.1f}% of the people. Half of that needs "
        f"{4 * subject.clients:,} people."
    )


def warnings(_: Audience) -> Iterator[str]:
    """Yield nothing: answers for life need no more people than others."""
    yield from ()


# A query of numbers has the warnings, words and costs of one of values.
notices = values.notices
counts = values.counts
costs = values.costs
errors = values.errors
REPORTS = "reports of each level"
"""The reports of which `crowd` are needed, in words."""


def smallest_part(query: Query) -> float:
    """Return the part of the reports that one level has."""
    return 1.0 / small_parts(query)


def small_parts(query: Query) -> int:
    """Return the number of levels. A report draws each with the same probability."""
    return query.oracle.count_parts[0]


def table(_: Audience) -> Iterator[tuple[str, ...]]:
    """Yield nothing: all ways to answer need the same people."""
    yield from ()


def tree_of(bins: int, epsilon: float, answers: str) -> Tree:
    """Return the tree of clients that answer about numbers."""
    return Tree.of(Haar(epsilon, bins, table=_TABLE if answers == "life" else None))


def plan_lines(
    clients: int, bins: int, epsilon: float, answers: str, width: float | None = None
) -> Iterator[tuple[str, bool]]:
    """Yield the texts of `hubbub plan --number`, and whether each is a heading."""
    tree = tree_of(bins, epsilon, answers)
    way = "answers for life" if answers == "life" else f"answers {answers}"
    yield f"{clients:,} clients, a number in one of {bins:,} bins each, epsilon {epsilon:g}, {way}", True
    for text in interval_sentences(tree, clients, QUANTILES, () if width is None else (width,)):
        yield text, False


def interval_sentences(tree: Tree, n: int, quantiles: Iterable[float], widths: Iterable[float] = ()) -> Iterator[str]:
    """Yield in words how wide the intervals of quantiles will be, and how many reports other widths need."""
    reach = tree.resolution(n)
    yield (
        f"With {n:,} reports a quantile's 95% interval reaches {_percent(reach)} in rank to either side, on average "
        f"over all ranks, and at most {_percent(reach * 1.5**0.5)}."
    )

    for share in quantiles:
        low = share - reach
        high = share + reach
        ends = [
            "the lower end of the scale" if low <= 0.0 else f"the true {quantile_name(round(low, 3))}",
            "the upper end of the scale" if high >= 1.0 else f"the true {quantile_name(round(high, 3))}",
        ]
        yield f"{quantile_name(share)}: the interval goes from about {ends[0]} to {ends[1]}."

    needs = "; ".join(f"{_percent(width)} with {tree.reports(width):,}" for width in widths or WIDTHS)
    yield f"To either side the interval reaches: {needs} reports."


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}%" if share < 0.995 else "more than 100%"
