"""Retired definitions of which nothing is left to do here: their domains, mergers and windows may be forgotten."""

from collections.abc import Collection, Iterable

from aggregator.counting.partition import SourcePartition
from aggregator.merging.snapshots import Shelf
from hubbub.definitions import Definitions


def over(known: Definitions, sources: Collection[SourcePartition], shelves: Iterable[Shelf]) -> dict[bytes, str]:
    """Those whose panes are closed on all these partitions, and whose windows are final where they are merged.

    By digest their names. What replaced another under its name goes no sooner than that.
    """
    slots = {digest: slot for shelf in shelves for digest, slot in shelf.slots.items()}
    names = {digest: versions.query.name for digest, versions in known.versions.items()}
    ends = {digest: end for digest, v in known.versions.items() if (end := v.owed_until) is not None}

    def is_over(digest: bytes, end: int) -> bool:
        slot = slots.get(digest)
        return all(source.is_over(digest, end) for source in sources) and (slot is None or slot.is_over(end))

    waiting = {names[digest] for digest, end in ends.items() if not is_over(digest, end)}
    return {digest: names[digest] for digest in ends if names[digest] not in waiting}
