"""A round: the due finals that a worker publishes next. The query that is furthest behind comes first."""

import heapq
import math
from collections.abc import Iterable
from itertools import count, islice
from typing import NamedTuple

from aggregator.merging.query_state import OwedFinal, QueryState

SECONDS = 0.5
"""Longest time of a round. After it the service reads new records, and orders the queries anew."""
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
        state = by_number[number]
        place = counts.get(number, 0)
        counts[number] = place + 1
        chosen = state.backlog[place]
        finals -= 1
        size -= chosen.final.total.counts.nbytes

        following = state.backlog[place + 1] if state.owes(place + 2) else None
        if following is not None and following.query is chosen.query:
            heapq.heapreplace(heap, (following.final.span.end, number))
            continue

        heapq.heappop(heap)
        if following is not None:
            # The next version waits for the next round. Without the limit, other queries would get ahead of it.
            limit = min(limit, following.final.span.end)

    batches = []
    for number, most in counts.items():
        state = by_number[number]
        batches.append(Batch(state, list(islice(state.backlog, most))))
    return batches
