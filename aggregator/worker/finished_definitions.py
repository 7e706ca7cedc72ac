"""The retired definitions that a worker may forget."""

from collections.abc import Collection, Iterable

from aggregator.counting.partition import SourcePartition
from aggregator.merging.query_state import QueryState
from aggregator.merging.snapshot_partition import SnapshotPartition
from hubbub.definitions.catalog import Definitions


def finished_definitions(
    catalog: Definitions, sources: Collection[SourcePartition], partitions: Iterable[SnapshotPartition]
) -> dict[bytes, str]:
    """Return the names, by digest, of retired definitions that this worker does not need any more.

    Their panes are closed on all these partitions, and their windows are final. A definition stays
    at least as long as all others of the same name.
    """
    states: dict[bytes, QueryState] = {}
    for partition in partitions:
        states |= partition.queries
    names = {digest: versions.query.name for digest, versions in catalog.versions.items()}

    ends: dict[bytes, int] = {}
    for digest, versions in catalog.versions.items():
        end = versions.last_window_end
        if end is not None:
            ends[digest] = end

    def is_over(digest: bytes, end: int) -> bool:
        state = states.get(digest)
        return all(source.is_over(digest, end) for source in sources) and (state is None or state.is_published(end))

    waiting = {names[digest] for digest, end in ends.items() if not is_over(digest, end)}
    return {digest: names[digest] for digest in ends if names[digest] not in waiting}
