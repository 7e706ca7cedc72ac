"""The windows of a worker that hold reports and have no acknowledged final."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from aggregator.counting.partition import SourcePartition
from aggregator.merging.query_state import QueryState
from aggregator.tallies.keys import Pane
from hubbub.definitions.versions import Versions


def oldest_due(
    definitions: Mapping[bytes, Versions], sources: Iterable[SourcePartition], states: Iterable[QueryState]
) -> dict[str, float | None]:
    """Return for each query when its oldest unpublished window was due, in Unix seconds, or None if there is none.

    A window is due when its lateness is over. The owner of a partition knows open panes, and the worker that merges
    the query knows closed ones, so only the minimum over all workers is true.
    """
    ends: defaultdict[bytes, set[int]] = defaultdict(set)
    panes: set[Pane] = set()
    for source in sources:
        panes.update(source.unsettled_panes())
    for digest, pane in panes:
        end = definitions[digest].first_window_end(pane) if digest in definitions else None
        if end is not None:
            ends[digest].add(end)
    for state in states:
        end = state.next_end()
        if end is not None:
            ends[state.versions.query.digest].add(end)

    due: dict[str, float | None] = {v.query.name: None for v in definitions.values() if not v.newest.retired}
    for digest, versions in definitions.items():
        if digest in ends:
            moment = versions.due(min(ends[digest]))
            name = versions.query.name
            # The versions of a query have one name, and the oldest window of all counts.
            earlier = due.get(name)
            due[name] = moment if earlier is None else min(earlier, moment)
    return due
