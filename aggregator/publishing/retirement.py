"""Retired definitions of which nothing is left to do here: their domains, mergers and windows may be forgotten."""

from collections.abc import Collection, Iterable

from aggregator.counting.partition import SourcePartition
from aggregator.merging.snapshots import Shelf
from hubbub.definitions import Definitions
from hubbub.definitions.versions import Versions


def over(known: Definitions, sources: Collection[SourcePartition], shelves: Iterable[Shelf]) -> dict[bytes, str]:
    """Those whose panes are closed on all these partitions, and whose windows are final where they are merged.

    By digest their names. What replaced another under its name goes no sooner than that.
    """
    slots = {digest: slot for shelf in shelves for digest, slot in shelf.slots.items()}
    retired = {v.query.digest: v for v in known.versions.values() if v.retired is not None}

    def is_over(digest: bytes, versions: Versions) -> bool:
        end, slot = versions.owed_until or versions.newest.first, slots.get(digest)
        return all(source.is_over(digest, end) for source in sources) and (slot is None or slot.is_over(end))

    waiting = {versions.query.name for digest, versions in retired.items() if not is_over(digest, versions)}
    return {digest: v.query.name for digest, v in retired.items() if v.query.name not in waiting}
