"""Mix buffers, which shuffle the reports of many requests for one query, pane and group into frames.

A reader of the topic cannot see which reports came together, in which order, or when. It sees only that they were in
one buffer. A buffer with one request hides only the order of its reports.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.frame import HEADER_SIZE, blank
from oracles.kernels import orders
from oracles.kernels.arrays import add_integers, integers
from oracles.types import Reports
from producers.gateway.intake.submission import Submission
from producers.publishers.frames import OutgoingFrame, random_id

FULL_BUFFER = 896 << 10
"""Bytes of reports at which a buffer is sent. With one more request they still fit in a frame of 1 MiB."""
NARROW = (1, 2)
"""Widths with few different reports, in bytes. Such reports are grouped by value, in random order of the values."""


@dataclass(slots=True, eq=False)
class MixBuffer:
    """The reports for one query, pane and group that wait for more."""

    first_submission: Submission
    """The first submission. The others have the same query, pane and group."""
    n: int = 0
    pieces: list[Reports] = field(default_factory=list)

    def add(self, reports: Reports) -> None:
        self.pieces.append(reports)
        self.n += len(reports)

    @property
    def full(self) -> bool:
        """Whether the reports fill a frame. Larger frames would not be faster."""
        return self.n * self.first_submission.query.oracle.width >= FULL_BUFFER

    def frames(self, limit: int) -> Iterator[OutgoingFrame]:
        """Yield frames of all reports, in random order and with random ids, of at most `limit` bytes each."""
        digest = self.first_submission.query.digest
        pane = self.first_submission.pane
        width = self.first_submission.query.oracle.width
        group = self.first_submission.group

        capacity = max(1, (limit - HEADER_SIZE) // width)
        count = -(-self.n // capacity)

        # The usual case writes the reports straight into their frame, without a copy.
        if count == 1:
            id_ = random_id()
            data, rows = blank(digest, pane, self.n, width, id_, group=group)
            shuffle(self.pieces, rows)
            yield OutgoingFrame(id_, pane, self.n, data)
            return

        reports = np.empty((self.n, width), np.uint8)
        shuffle(self.pieces, reports)
        for start in range(count):
            # Each frame is a sample of all reports: equal reports are side by side.
            yield OutgoingFrame.of(digest, pane, reports[start::count], group)


def shuffle(pieces: Sequence[Reports], target: Reports) -> None:
    """Fill `target` with the reports in an order that reveals nothing about their order of arrival."""
    if target.shape[1] in NARROW:
        target[:] = _group(np.concatenate(pieces))
    else:
        orders.shuffle(pieces, target)


def _group(reports: Reports) -> Reports:
    """Return the reports grouped by value, in random order of the values. This is faster than any shuffling."""
    words = integers(reports)
    counts = np.zeros(int(words.max()) + 1, np.int64)
    add_integers(counts, reports)
    values = np.random.default_rng().permutation(np.flatnonzero(counts))
    return np.repeat(values.astype(words.dtype), counts[values]).view(np.uint8).reshape(reports.shape)
