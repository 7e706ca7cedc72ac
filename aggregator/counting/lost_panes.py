"""The panes that may have lost reports, because Kafka deleted records before a worker had read them."""

from collections.abc import Iterator, Mapping

from aggregator.tallies.clock import Clock
from aggregator.tallies.keys import Pane
from hubbub.definitions.versions import Versions
from oracles.query.footprint import INTEGER, tally_size

_EMPTY_BYTES = 64 << 20
"""The most bytes of empty tallies of one query, which exist only to carry a flag."""


def lost_panes(definitions: Mapping[bytes, Versions], earlier_clock: int, clock: Clock) -> Iterator[Pane]:
    """Yield the panes that were open between an earlier clock and now, even those without a report."""
    for digest, versions in definitions.items():
        newest_time = (clock or earlier_clock) // 1000 + versions.skew
        for pane in _between(versions, versions.closed_through(earlier_clock), newest_time + 1):
            yield digest, pane


def _between(versions: Versions, start: int, end: int) -> range:
    """Return the panes between two times. If there are very many, return the newest, since each needs a tally."""
    query = versions.query
    count = max(versions.most_open, _EMPTY_BYTES // (INTEGER * tally_size(query)))
    first_pane = (end // query.pane - count) * query.pane
    return range(max(start, first_pane), end, query.pane)
