"""A round: the due finals that a worker publishes next. The query that is furthest behind comes first."""

import heapq
import math
from collections.abc import Iterable
from itertools import count, islice
from typing import NamedTuple

from aggregator.merging.query_state import OwedFinal, QueryState

SECONDS = 0.5
"""Longest time of a round. Then the service reads new records, and the queries are ordered anew."""
FINALS = 1_000
"""Most finals of a round."""
BYTES = 32 << 20
"""Most bytes of tallies of a round. The first final is always in it."""


class Batch(NamedTuple):
    """The next finals of one query, all by the same version."""

    state: QueryState
    finals: list[OwedFinal]


def choose(states: Iterable[QueryState], *, finals: int = FINALS, size: int = BYTES) -> list[Batch]:
    """Return the next finals of these queries in the order of their ends, as many as fit into a round.

    No final leaves its query: it stays owed until it is answered.
    """
    counts: dict[int, int] = {}
    by_number = dict(zip(count(), states))
    heap = [(state.backlog[0].final.span.end, number) for number, state in by_number.items() if state.owes(1)]
    heapq.heapify(heap)
    limit: float = math.inf
    while heap and heap[0][0] <= limit and finals > 0 and size > 0:
        _, number = heap[0]
        state, at = by_number[number], counts.get(number, 0)
        counts[number] = at + 1
        finals -= 1
        size -= state.backlog[at].final.total.counts.nbytes
        next_end = state.backlog[at + 1].final.span.end if state.owes(at + 2) else None
        if next_end is not None and state.backlog[at + 1].query is state.backlog[at].query:
            heapq.heapreplace(heap, (next_end, number))
            continue
        heapq.heappop(heap)
        if next_end is not None:  # the next version waits for the next round, and no other query gets ahead of it
            limit = min(limit, next_end)
    return [Batch(by_number[number], list(islice(by_number[number].backlog, many))) for number, many in counts.items()]
