"""The changelog after a recovery: progress, tallies and ids of each partition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.errors import Guarantee
from aggregator.tallies import keys
from aggregator.tallies import progress as progress_codec
from aggregator.tallies.group_cells import further_groups
from aggregator.tallies.id_log import IdEntry, decode_ids
from aggregator.tallies.keys import Pane, PaneKey, PartitionKey
from aggregator.tallies.progress import Progress
from aggregator.tallies.tally import Tally, decode_tally
from aggregator.topics.layout import ANEW
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError


class ChangelogUnreadable(Guarantee):
    """The error for an unreadable record of the changelog."""

    def __init__(self, key: bytes, fault: object, place: str = "the changelog") -> None:
        super().__init__(f"{place}: the record of {key.decode(errors='replace')} cannot be read: {fault}; {ANEW}")
        self.key = key
        self.fault = fault


@dataclass(eq=False)
class RecoveredPartition:
    """The changelog records of one partition."""

    progress: dict[bytes, Progress] = field(default_factory=dict)
    """The progress of each writer by record key."""
    tallies: dict[Pane, Tally] = field(default_factory=dict)
    segments: dict[Pane, dict[bytes, list[IdEntry]]] = field(default_factory=dict)
    """The segments of ids by pane and record key."""


def sort_records(
    records: Iterable[tuple[bytes, bytes]], definitions: Mapping[bytes, Versions]
) -> dict[int, RecoveredPartition]:
    """Sort records of the changelog by partition. Records of unknown queries and unknown keys are skipped.

    An unreadable record under a key of a worker raises ChangelogUnreadable. Without this record
    reports would be lost or counted twice.
    """
    partitions: dict[int, RecoveredPartition] = {}
    for name, value in records:
        key = keys.decode(name)
        try:
            if isinstance(key, PartitionKey) and key.kind == "progress":
                partitions.setdefault(key.partition, RecoveredPartition()).progress[name] = progress_codec.decode(value)
            elif isinstance(key, PaneKey) and key.digest in definitions:
                partition = partitions.setdefault(key.partition, RecoveredPartition())
                _put(partition, name, key, value, definitions[key.digest])
        except ReportError as error:
            raise ChangelogUnreadable(name, error) from error
    return partitions


def _put(partition: RecoveredPartition, name: bytes, key: PaneKey, value: bytes, versions: Versions) -> None:
    pane = key.digest, key.pane
    if key.kind == "tally":
        query = versions.at(key.pane).query
        partition.tallies[pane] = decode_tally(value, query.oracle.state_size, further_groups(query))
    elif key.kind == "ids":
        partition.segments.setdefault(pane, {})[name] = decode_ids(value)
