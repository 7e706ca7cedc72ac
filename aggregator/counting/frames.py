"""Frames of one query and pane, one after another: what a tally adds in one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator.counting.clock import Clock
from aggregator.counting.known import Names
from oracles.types import Flags, Ints, Reports


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Their reports are joined. Of a fetch that was read as columns, offsets, sizes and ids are arrays."""

    offsets: Sequence[int] | Ints
    """Ascending."""
    sizes: Sequence[int] | Ints
    """How many reports each holds."""
    ids: Sequence[bytes | None] | Names | None
    """None where no frame has an id."""
    reports: Reports
    next_offset: int
    """Up to here there are no others of this query and pane."""
    clock: Clock
    """The partition's at next_offset."""

    def __len__(self) -> int:
        return len(self.offsets)

    def name(self, index: int) -> bytes | None:
        """The id of a frame, where it has one."""
        if self.ids is None:
            return None
        name = self.ids[index]
        return name if name is None or isinstance(name, bytes) else int(name).to_bytes(8, "little") if name else None

    def numbers(self, first: int) -> Names | None:
        """The ids of the frames from `first` on; None where one has none."""
        if isinstance(self.ids, np.ndarray):
            return self.ids[first:] if self.ids[first:].all() else None
        names = [] if self.ids is None else [name for name in self.ids[first:] if name is not None]
        return np.frombuffer(b"".join(names), "<u8") if len(names) == len(self) - first else None

    def some(self, which: Flags) -> "Frames":
        """Some of them, of which there is one at least; what comes after all of them is as it was."""
        if which.all():
            return self
        reports = self.reports[np.repeat(which, np.asarray(self.sizes))]
        offsets, sizes = _picked(self.offsets, which), _picked(self.sizes, which)
        ids = None if self.ids is None else _picked(self.ids, which)
        if ids is not None and not any(name is not None and name != 0 for name in ids):
            ids = None
        return Frames(offsets, sizes, ids, reports, self.next_offset, self.clock)

    def merged(self, other: "Frames") -> "Frames":
        """These and others of the same query and pane, in the order of their offsets."""
        parts = (self, other)
        offsets = np.concatenate([np.asarray(part.offsets, np.int64) for part in parts])
        order = np.argsort(offsets, kind="stable")
        pieces = [piece for part in parts for piece in np.split(part.reports, np.cumsum(part.sizes)[:-1])]
        names = [part.name(index) for part in parts for index in range(len(part))]
        last = max(parts, key=lambda part: part.next_offset)
        return Frames(
            offsets[order].tolist(),
            [len(pieces[index]) for index in order],
            [names[index] for index in order] if any(names) else None,
            np.concatenate([pieces[index] for index in order]),
            last.next_offset,
            last.clock,
        )


def _picked(column: Any, which: Flags) -> Any:
    if isinstance(column, np.ndarray):
        return column[which]
    return [one for one, right in zip(column, which, strict=True) if right]
