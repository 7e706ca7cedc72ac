"""The progress of a partition: up to which offset it is counted, and which panes are closed.

A closed pane is a function of the log, because the partition's clock is. All readers of a log
therefore find the same reports late, even in a replay years later.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from aggregator.tallies.clock import Clock, pack_clock, unpack_clock
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError

_BARE = 1
_WITH_IDS = 2
_VERSION = 3
"""Versions of a progress record: with ends by digest, without and with the ids of the topics, and with two clocks."""
_RECORD = struct.Struct("<Bqqq16s16s")
"""Version, next offset, clock, closed clock, and the ids of both topics."""
_HEAD = struct.Struct("<BqqI")
"""Version, next offset, clock, number of digests of an older record."""
_TOPIC_IDS = struct.Struct("<16s16sI")
"""The ids of both topics, and a number of names of 8 bytes that older releases appended. Workers skip these names."""
_CLOSED = struct.Struct("<8sq")
"""A digest and the end of its newest closed pane."""


@dataclass(frozen=True)
class TopicIds:
    """The ids of the topics that a count belongs to. Counts of other topics are never added to it."""

    reports: bytes = b""
    """The id of the topic `reports`: up to 16 bytes without zeros at the end. Empty if the broker gives no ids."""
    snapshots: bytes = b""
    """The id of the topic `snapshots`, in the same form."""


@dataclass(frozen=True)
class Progress:
    """The progress of one partition. All records below `next_offset` are in tallies that the broker acknowledged."""

    next_offset: int = 0
    clock: Clock = None
    """The clock at `next_offset`."""
    closed: Mapping[bytes, int] = field(default_factory=dict)
    """The end of the newest closed pane by digest, from records of older releases."""
    topic_ids: TopicIds = TopicIds()
    closed_clock: Clock = None
    """The greatest clock whose closed panes have acknowledged snapshots.

    It is a clock of its own: a checkpoint of closed panes alone moves it, and leaves `next_offset` and its clock.
    """

    def closed_through(self, versions: Versions) -> int | None:
        """Return the end of the newest pane that is closed for good, or None if no pane is."""
        # A rise of the formats version leaves ends of older releases, until a closed clock passes them.
        older_end = self.closed.get(versions.query.digest)
        if self.closed_clock is None:
            return older_end
        end = versions.closed_through(self.closed_clock)
        return end if older_end is None else max(end, older_end)

    def ends_beyond(self, closed_clock: Clock, definitions: Mapping[bytes, Versions]) -> dict[bytes, int]:
        """Return the ends of older releases that a closed clock has not passed. Those of unknown definitions go."""
        ends = {digest: end for digest, end in self.closed.items() if digest in definitions}
        if closed_clock is None:
            return ends
        return {digest: end for digest, end in ends.items() if definitions[digest].closed_through(closed_clock) < end}

    def covers(self, versions: Versions, pane: int) -> bool:
        """Whether the pane is closed for good, so that a later read or recovery of it is ignored."""
        end = self.closed_through(versions)
        return end is not None and pane < end


def combine(records: Iterable[Progress]) -> Progress:
    """Return the sum of the progress records of one partition, by any writers and in any order.

    A record stays true for ever, so an older one that a frozen worker writes late, under its own
    key, takes nothing back.
    """
    records = list(records)
    if not records:
        return Progress()
    # Offset and clock must be of one record: an offset with a later clock would refuse reports that were in time.
    newest_record = max(records, key=lambda progress: progress.next_offset)

    closed: dict[bytes, int] = {}
    for progress in records:
        for digest, end in progress.closed.items():
            closed[digest] = max(end, closed.get(digest, end))

    clocks = [progress.closed_clock for progress in records if progress.closed_clock is not None]
    return Progress(
        next_offset=newest_record.next_offset,
        clock=newest_record.clock,
        closed=closed,
        topic_ids=newest_record.topic_ids,
        closed_clock=max(clocks, default=None),
    )


def resume(progress: Progress, open_tallies: Iterable[tuple[int, Clock]]) -> tuple[int, Clock]:
    """Return the offset and the clock to continue with, given the offset and clock of each open tally.

    The clock belongs to the record that has the offset. With a newer clock, reports that were in
    time at the first reading would now be late.
    """
    points = [(progress.next_offset, progress.clock), *open_tallies]
    return min(points, key=lambda point: point[0])


def encode(progress: Progress) -> bytes:
    """Return the progress record. It has no ends by digest: they follow from the definitions and the closed clock."""
    topic_ids = progress.topic_ids
    return _RECORD.pack(
        _VERSION,
        progress.next_offset,
        pack_clock(progress.clock),
        pack_clock(progress.closed_clock),
        topic_ids.reports,
        topic_ids.snapshots,
    )


def encode_ends(progress: Progress) -> bytes:
    """Return the record of older releases, with an end for each digest and without the closed clock."""
    topic_ids = progress.topic_ids
    is_bare = topic_ids == TopicIds()
    version = _BARE if is_bare else _WITH_IDS
    head = _HEAD.pack(version, progress.next_offset, pack_clock(progress.clock), len(progress.closed))
    if not is_bare:
        head += _TOPIC_IDS.pack(topic_ids.reports, topic_ids.snapshots, 0)
    return head + b"".join(_CLOSED.pack(digest, end) for digest, end in sorted(progress.closed.items()))


def decode(data: bytes) -> Progress:
    """Read a progress record of any release, or raise a ReportError."""
    if data[:1] == bytes([_VERSION]):
        return _decode_clocks(data)
    return decode_ends(data)


def _decode_clocks(data: bytes) -> Progress:
    if len(data) != _RECORD.size:
        raise ReportError(f"a progress record of version {_VERSION} has {_RECORD.size} bytes, not {len(data)}")
    _, next_offset, clock, closed_clock, reports, snapshots = _RECORD.unpack(data)
    if next_offset < 0:
        raise ReportError(f"a progress record claims offset {next_offset}")
    return Progress(
        next_offset=next_offset,
        clock=unpack_clock(clock),
        topic_ids=TopicIds(reports.rstrip(b"\0"), snapshots.rstrip(b"\0")),
        closed_clock=unpack_clock(closed_clock),
    )


def decode_ends(data: bytes) -> Progress:
    """Read a record of older releases, or raise a ReportError."""
    if len(data) < _HEAD.size or data[0] not in (_BARE, _WITH_IDS):
        raise ReportError(f"not a progress record ({len(data)} bytes, version {_BARE} to {_VERSION} expected)")

    version, next_offset, clock, count = _HEAD.unpack_from(data)
    topic_ids, start = (TopicIds(), _HEAD.size) if version == _BARE else _read_topic_ids(data)
    if len(data) != start + count * _CLOSED.size or next_offset < 0:
        raise ReportError(f"a progress record of {len(data)} bytes claims {count} digests and offset {next_offset}")

    pairs = list(_CLOSED.iter_unpack(data[start:]))
    digests = [digest for digest, _ in pairs]
    # Of a digest that comes twice, only the second end would count.
    if any(digest >= following for digest, following in pairwise(digests)):
        raise ReportError("a progress record lists its digests out of order, or one of them twice")
    return Progress(next_offset, unpack_clock(clock), dict(pairs), topic_ids)


def _read_topic_ids(data: bytes) -> tuple[TopicIds, int]:
    """Return the ids of the topics, and the position of the first digest."""
    if len(data) < _HEAD.size + _TOPIC_IDS.size:
        raise ReportError(f"a progress record of {len(data)} bytes is too short for the ids of the topics")
    reports, snapshots, names = _TOPIC_IDS.unpack_from(data, _HEAD.size)
    start = _HEAD.size + _TOPIC_IDS.size + 8 * names
    if start > len(data):
        raise ReportError(f"a progress record of {len(data)} bytes claims {names} names of 8 bytes")
    return TopicIds(reports.rstrip(b"\0"), snapshots.rstrip(b"\0")), start
