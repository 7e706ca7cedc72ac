"""The changelog of one partition, as a recovery finds it: progress, tallies, and the ids of frames."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.counting import clock as progress_of
from aggregator.counting.clock import Progress
from aggregator.counting.tally import Counted, Tally, decode_ids, decode_tally
from aggregator.topics import keys
from aggregator.topics.keys import PaneKey, PartitionKey
from hubbub.definitions.versions import Versions

Pane = tuple[bytes, int]
"""Digest and pane."""
Write = tuple[bytes, bytes | None]
"""Key and value; None deletes."""


@dataclass(eq=False)
class Saved:
    """One partition as the changelog holds it."""

    progress: dict[bytes, Progress] = field(default_factory=dict)
    tallies: dict[Pane, Tally] = field(default_factory=dict)
    segments: dict[Pane, dict[bytes, list[Counted]]] = field(default_factory=dict)


def saved(records: Iterable[tuple[bytes, bytes]], definitions: Mapping[bytes, Versions]) -> dict[int, Saved]:
    """The changelog's records, sorted by partition. Those of a query that is not known stay as they are."""
    found: dict[int, Saved] = {}
    for name, value in records:
        key = keys.decode(name)
        if isinstance(key, PartitionKey):
            found.setdefault(key.partition, Saved()).progress[name] = progress_of.decode(value)
        elif isinstance(key, PaneKey) and (versions := definitions.get(key.digest)):
            of, pane = found.setdefault(key.partition, Saved()), (key.digest, key.pane)
            if key.kind == "tally":
                of.tallies[pane] = decode_tally(value, versions.query.oracle.state_size)
            else:
                of.segments.setdefault(pane, {})[name] = decode_ids(value)
    return found
