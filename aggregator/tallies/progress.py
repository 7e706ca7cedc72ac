"""The progress of a partition: up to which offset it is counted, and which panes are closed.

A closed pane is a function of the log, because the partition's clock is. All readers of a log
therefore find the same reports late, even in a replay years later.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from aggregator.tallies.clock import Clock, pack_clock, unpack_clock
from aggregator.tallies.keys import home
from oracles.errors import ReportError

_BARE = 1
_VERSION = 2
"""Versions of a progress record: without and with the ids of the topics."""
_HEAD = struct.Struct("<BqqI")
"""Version, next offset, clock, number of digests."""
_TOPIC_IDS = struct.Struct("<16s16sI")
"""The ids of both topics, and a number of names of 8 bytes that older releases appended. Workers skip these names."""
_CLOSED = struct.Struct("<8sq")
"""A digest and its `closed_through`."""


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
    """The end of the newest closed pane by digest. It moves only after the snapshots of the panes are acknowledged."""
    topic_ids: TopicIds = TopicIds()

    def covers(self, digest: bytes, pane: int) -> bool:
        """Whether the pane is closed for good, so that a later read or recovery of it is ignored."""
        end = self.closed.get(digest)
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
    return Progress(newest_record.next_offset, newest_record.clock, closed, newest_record.topic_ids)


def resume(progress: Progress, open_tallies: Iterable[tuple[int, Clock]]) -> tuple[int, Clock]:
    """Return the offset and the clock to continue with, given the offset and clock of each open tally.

    The clock belongs to the record that has the offset. With a newer clock, reports that were in
    time at the first reading would now be late.
    """
    points = [(progress.next_offset, progress.clock), *open_tallies]
    return min(points, key=lambda point: point[0])


def watermarks(
    closed: Mapping[bytes, int], earlier_ends: Mapping[bytes, int], partitions: int
) -> dict[int, dict[bytes, int]]:
    """Return the watermarks by snapshot partition, for those partitions in which a watermark has moved."""
    # A record replaces the one before under its key, so it repeats the watermarks that have not moved.
    targets = {home(digest, partitions) for digest, end in closed.items() if earlier_ends.get(digest) != end}
    result: dict[int, dict[bytes, int]] = {target: {} for target in targets}
    for digest, end in closed.items():
        target = home(digest, partitions)
        if target in targets:
            result[target][digest] = end
    return result


def encode(progress: Progress) -> bytes:
    """Return the progress record."""
    # Without ids the record has the form of older releases.
    topic_ids = progress.topic_ids
    is_bare = topic_ids == TopicIds()
    version = _BARE if is_bare else _VERSION
    head = _HEAD.pack(version, progress.next_offset, pack_clock(progress.clock), len(progress.closed))
    if not is_bare:
        head += _TOPIC_IDS.pack(topic_ids.reports, topic_ids.snapshots, 0)
    return head + b"".join(_CLOSED.pack(digest, end) for digest, end in sorted(progress.closed.items()))


def decode(data: bytes) -> Progress:
    """Read a progress record, or raise a ReportError."""
    if len(data) < _HEAD.size or data[0] not in (_BARE, _VERSION):
        raise ReportError(f"not a progress record ({len(data)} bytes, version {_BARE} or {_VERSION} expected)")

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
