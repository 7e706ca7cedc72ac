"""The numbers of reports of each place, which is one attribute of one group. Marks follow from them."""

from operator import add

from aggregator.tallies.group_cells import further_groups, group_count, split
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query

Count = int | tuple[int, ...]
"""A number of reports, or one for each level and map of strings, or level of numbers. The smallest one counts."""


def fewest(count: Count) -> int:
    """Return the smallest number of a count."""
    return count if isinstance(count, int) else min(count)


def has_reports(count: Count) -> bool:
    """Whether any number of a count is above 0."""
    return count > 0 if isinstance(count, int) else any(count)


def sum_counts(count: Count, other: Count) -> Count:
    if isinstance(count, int):
        if isinstance(other, int):
            return count + other
        count = (count,) * len(other)  # a count that begins with 0 has no parts yet
    if isinstance(other, int):
        other = (other,) * len(count)
    return tuple(map(add, count, other))


def answer_counts(query: Query, total: Snapshot) -> list[Count]:
    """Return how many reports answer each attribute of each group. These are the places of `QueryMarks`."""
    oracle = query.oracle
    missing = 1 + further_groups(query) - group_count(total.counts, oracle.state_size)

    counts: list[Count] = []
    for part in split(total, oracle.state_size):
        counts += oracle.answer_counts(part.counts, part.n)
    return [*counts, *[0] * (missing * len(query.domains))]
