"""The changelog of one partition, as a recovery finds it: progress, tallies, and the ids of frames."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.counting import clock as progress_of
from aggregator.counting.clock import Progress
from aggregator.counting.ids import CountedId, decode_ids
from aggregator.counting.tally import Tally, decode_tally
from aggregator.errors import Guarantee
from aggregator.topics import keys
from aggregator.topics.keys import PaneKey, PartitionKey
from aggregator.topics.settings import ANEW
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError

Pane = tuple[bytes, int]
"""Digest and pane."""


class ChangelogUnreadable(Guarantee):
    """A record of the changelog that cannot be read, under a key of ours."""

    def __init__(self, key: bytes, fault: object, where: str = "the changelog") -> None:
        super().__init__(f"{where}: the record of {key.decode(errors='replace')} cannot be read: {fault}; {ANEW}")
        self.key = key
        self.fault = fault


@dataclass(eq=False)
class Saved:
    """One partition as the changelog holds it."""

    progress: dict[bytes, Progress] = field(default_factory=dict)
    tallies: dict[Pane, Tally] = field(default_factory=dict)
    segments: dict[Pane, dict[bytes, list[CountedId]]] = field(default_factory=dict)


def saved(records: Iterable[tuple[bytes, bytes]], definitions: Mapping[bytes, Versions]) -> dict[int, Saved]:
    """The changelog's records, sorted by partition. Those of a query that is not known stay as they are.

    An ChangelogUnreadable where a key of ours holds what cannot be read: only workers write here, and without it
    reports would be lost or counted twice. What stands under any other key is passed over.
    """
    found: dict[int, Saved] = {}
    for name, value in records:
        key = keys.decode(name)
        try:
            if isinstance(key, PartitionKey) and key.kind == "progress":
                found.setdefault(key.partition, Saved()).progress[name] = progress_of.decode(value)
            elif isinstance(key, PaneKey) and (versions := definitions.get(key.digest)):
                _put(found.setdefault(key.partition, Saved()), name, key, value, versions)
        except ReportError as error:
            raise ChangelogUnreadable(name, error) from error
    return found


def _put(of: Saved, name: bytes, key: PaneKey, value: bytes, versions: Versions) -> None:
    pane = key.digest, key.pane
    if key.kind == "tally":
        of.tallies[pane] = decode_tally(value, versions.query.oracle.state_size)
    elif key.kind == "ids":
        of.segments.setdefault(pane, {})[name] = decode_ids(value)
