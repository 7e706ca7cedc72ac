"""Panes in dispute: those of which the log's own time counts other reports than the time that a correction gives.

What is said here depends on a record alone, and on the clock before it: so a worker, wherever it
restarts from, and an audit flag the same. A correction of times that nobody went by disputes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from aggregator.counting.admission import Data, Key, Reason, Refused
from aggregator.counting.clock import Clock, is_future, is_late
from hubbub.definitions.corrections import Correction
from hubbub.definitions.versions import Versions

_EMPTY_BYTES = 64 << 20
"""Bytes of empty tallies of a query that are there for their flag only, at most."""


def is_counted_anew(corrections: Iterable[Correction], offset: int, pane: int, versions: Versions) -> bool:
    """Whether a report that counts had been late, or in the future, by the log's own time."""
    for one in _before(corrections, offset):
        ahead = one.clock is not None and not is_future(one.clock, pane, versions)
        if is_late(one.wrong, pane, versions) or (ahead and is_future(one.wrong, pane, versions)):
            return True
    return False


def let_in_early(
    corrections: Sequence[Correction],
    run: Iterable[tuple[int, int, Data]],
    refused: Iterable[tuple[int, Refused]],
    definitions: Mapping[bytes, Versions],
) -> Iterator[Key]:
    """The panes of reports that are refused as in the future, and that the log's own time had let in."""
    early = {offset: why.pane for offset, why in refused if corrections and why.reason is Reason.FUTURE and why.pane}
    for offset, timestamp, _ in run if early else ():
        if offset not in early:
            continue
        digest, pane = early[offset]
        clocks = {clock for one in _before(corrections, offset) for clock in (one.wrong, timestamp)}
        if any(definitions[digest].untimely(pane, clock) is None for clock in clocks):
            yield digest, pane  # within the stretch its own time tells, where the wrong one had still to come


def closed_early(
    corrections: Iterable[Correction], offset: int, clock: Clock, definitions: Mapping[bytes, Versions]
) -> Iterator[Key]:
    """The panes that a correction closes with this record, and that would have stayed open by the log's own time."""
    for one in _before(corrections, offset):
        if offset < one.end and one.clock is not None and one.clock > max(one.wrong, clock or 0):
            for digest, versions in definitions.items():
                since = versions.closed_through(max(one.wrong, clock or 0))
                panes = between(versions, since, versions.closed_through(one.clock))
                yield from ((digest, pane) for pane in panes)


def between(versions: Versions, since: int, through: int) -> range:
    """The panes from one moment to another; of very many only the newest, since each gets a tally of its own."""
    query = versions.query
    most = max(versions.most_open, _EMPTY_BYTES // (8 * query.oracle.state_size))
    newest = (through // query.pane - most) * query.pane
    return range(max(since, newest), through, query.pane)


def _before(corrections: Iterable[Correction], offset: int) -> Iterator[Correction]:
    """Those that begin at this offset or before, and correct what somebody may have gone by."""
    return (one for one in corrections if one.wrong and one.first <= offset)
