"""Batches of frames: consecutive frames of one query and pane, which a tally adds in one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator.tallies import group_cells
from aggregator.tallies.clock import Clock
from aggregator.tallies.group_cells import FrameGroups
from aggregator.tallies.id_set import IdArray
from oracles.types import Flags, Ints, Reports


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatch:
    """Frames of one query and pane. Offsets, sizes and ids are arrays if the fetch was read as columns."""

    offsets: Sequence[int] | Ints
    """The offsets of the frames, ascending."""
    sizes: Sequence[int] | Ints
    """The number of reports in each frame."""
    ids: Sequence[bytes | None] | IdArray | None
    """The ids of the frames, or None if no frame has an id."""
    reports: Reports
    """The reports of all frames."""
    next_offset: int
    """The end of the stretch of the log whose frames of this query and pane are all in the batch."""
    clock: Clock
    """The partition's clock at `next_offset`."""
    groups: FrameGroups = None
    """The groups of the frames, or None if all frames are of group 0."""

    def __len__(self) -> int:
        return len(self.offsets)

    def id_at(self, index: int) -> bytes | None:
        """Return the id of a frame, or None if it has no id."""
        if self.ids is None:
            return None
        name = self.ids[index]
        if name is None or isinstance(name, bytes):
            return name
        return int(name).to_bytes(8, "little") if name else None

    def ids_from(self, start: int) -> IdArray | None:
        """Return the ids of the frames from index `start` on, or None if one of these frames has no id."""
        if isinstance(self.ids, np.ndarray):
            return self.ids[start:] if self.ids[start:].all() else None

        names = [] if self.ids is None else [name for name in self.ids[start:] if name is not None]
        return np.frombuffer(b"".join(names), "<u8") if len(names) == len(self) - start else None

    def group_numbers(self) -> NDArray[np.uint8]:
        """Return the group of each frame."""
        return group_cells.numbers_of_frames(self.groups, len(self))

    def groups_of(self, selection: slice | Flags) -> FrameGroups:
        """Return the group of each selected frame, or None if all frames are of group 0."""
        return group_cells.select_frames(self.groups, selection)

    def select(self, flags: Flags) -> "FrameBatch":
        """Return the flagged frames, of which there is at least one. `next_offset` and `clock` stay."""
        if flags.all():
            return self
        reports = self.reports[np.repeat(flags, np.asarray(self.sizes))]
        offsets = _select(self.offsets, flags)
        sizes = _select(self.sizes, flags)
        ids = None if self.ids is None else _select(self.ids, flags)
        # Without ids the tally takes the fast way, which looks at no set.
        if ids is not None and not any(name is not None and name != 0 for name in ids):
            ids = None
        return FrameBatch(offsets, sizes, ids, reports, self.next_offset, self.clock, self.groups_of(flags))

    def merge(self, other: "FrameBatch") -> "FrameBatch":
        """Return the frames of both batches of one query and pane, in the order of their offsets."""
        parts = (self, other)
        offsets = np.concatenate([np.asarray(part.offsets, np.int64) for part in parts])
        order = np.argsort(offsets, kind="stable")

        pieces: list[Reports] = []
        names: list[bytes | None] = []
        for part in parts:
            pieces += np.split(part.reports, np.cumsum(part.sizes)[:-1])
            names += [part.id_at(index) for index in range(len(part))]

        # The batch that reaches further knows the clock of the end. The other one was complete up to its own.
        longest = max(parts, key=lambda part: part.next_offset)
        groups = np.concatenate([part.group_numbers() for part in parts])[order]
        return FrameBatch(
            offsets=offsets[order].tolist(),
            sizes=[len(pieces[index]) for index in order],
            ids=[names[index] for index in order] if any(names) else None,
            reports=np.concatenate([pieces[index] for index in order]),
            next_offset=longest.next_offset,
            clock=longest.clock,
            groups=groups if groups.any() else None,
        )


def _select(column: Any, flags: Flags) -> Any:
    if isinstance(column, np.ndarray):
        return column[flags]
    return [value for value, flag in zip(column, flags, strict=True) if flag]
