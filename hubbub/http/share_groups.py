"""The tree behind fair shares: holders with the progress that they owe, and groups that know their largest child."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from math import inf

RATE = 500
"""Bytes a second that a holder must move while it owes them: half of the slowest uplink of GPRS."""
_SLACK = 64
"""Entries of an order in addition to twice its members, before it is made anew."""


class Holder:
    """A part of a scarce thing, with the progress that it owes.

    Its lag grows by 1 in each second of debt, and falls by 1 for each RATE bytes that move. It is never below 0.
    """

    __slots__ = ("end", "group", "is_ordered", "lag_start", "number", "size")

    def __init__(self, group: "ShareGroup", end: Callable[[], None]) -> None:
        self.size = 0
        self.end = end
        """Called after the holder has given way."""
        self.group = group
        self.number = 0
        """A number of its time in the group, or 0 after it has left."""
        self.lag_start = inf
        """The time at which the lag was 0, or infinity without a debt."""
        self.is_ordered = False
        """Whether the order of the group has an entry for this holder. Its time is at most `lag_start`."""

    @property
    def is_held(self) -> bool:
        return self.number > 0

    @property
    def owes(self) -> bool:
        return self.lag_start < inf

    def owe(self, now: float) -> None:
        """Begin a new debt with a lag of 0."""
        self.lag_start = now
        if not self.is_ordered and self.number:
            self.group.order(self)

    def rest(self) -> None:
        """End the debt, because the other side owes nothing."""
        self.lag_start = inf

    def follow(self, other: "Holder") -> None:
        """Take the lag of another holder, which belongs to the same connection."""
        self.lag_start = other.lag_start
        if other.owes and not self.is_ordered and self.number:
            self.group.order(self)

    def progress(self, size: int, now: float) -> None:
        """Note that bytes have moved."""
        if self.lag_start < now:
            self.lag_start = min(now, self.lag_start + size / RATE)

    def lag(self, now: float) -> float:
        return max(0.0, now - self.lag_start)


class ShareGroup:
    """A group of callers on one level of all paths, with the size that its holders have."""

    __slots__ = ("_order", "bound", "children", "held", "holders", "laggards", "limit", "number", "parent")

    def __init__(self, parent: "ShareGroup | None", number: int, limit: float) -> None:
        self.parent = parent
        self.number = number
        self.limit = limit
        self.held = 0
        self.children: dict[str, ShareGroup] = {}
        self.holders: dict[Holder, None] = {}
        """The holders of a last group. The first one has been in it for the longest time."""
        self.bound = 0
        """The highest entry of this group in the order of its parent. It is at least `held`."""
        self._order: list[tuple[int, int, ShareGroup]] = []
        """A heap of negative bounds. Only the first entry must be exact, so most changes need no work here."""
        self.laggards: list[tuple[float, int, Holder]] = []
        """A heap of holders, each with a time that is at most the one of its lag 0."""

    def change(self, size: int) -> None:
        """Add to what this group and all wider ones hold."""
        group = self
        parent = group.parent
        while parent is not None:
            group.held += size
            if group.held > group.bound:
                parent.raise_bound(group)
            group = parent
            parent = group.parent
        group.held += size

    def raise_bound(self, child: "ShareGroup") -> None:
        # A body grows in many pieces, so a bound above its size saves most entries.
        child.bound = child.held + child.held // 8
        heappush(self._order, (-child.bound, child.number, child))
        if len(self._order) > 2 * len(self.children) + _SLACK:
            self._order = [(-member.bound, member.number, member) for member in self.children.values()]
            heapify(self._order)

    def order(self, holder: Holder) -> None:
        """Put a holder with a debt into the order of lags."""
        holder.is_ordered = True
        heappush(self.laggards, (holder.lag_start, holder.number, holder))
        if len(self.laggards) > 2 * len(self.holders) + _SLACK:
            for member in self.holders:
                member.is_ordered = member.owes
            members = [member for member in self.holders if member.owes]
            self.laggards = [(member.lag_start, member.number, member) for member in members]
            heapify(self.laggards)

    def largest(self, preference: "ShareGroup | None" = None) -> "ShareGroup":
        """Return the child that holds most, and of equal ones the preferred. Some child must hold something."""
        order = self._order
        while True:
            bound, number, child = order[0]
            if -bound == child.held:
                break

            # The entry is too high. If it was the highest of its child, an exact one replaces it.
            if -bound != child.bound:
                heappop(order)
                continue
            child.bound = child.held
            heapreplace(order, (-child.held, number, child))

        if preference is not None and preference.held == child.held:
            return preference
        return child

    def laggard(self, now: float) -> Holder | None:
        """Return the holder with the greatest lag, of equal ones the oldest, or None if all lags are 0."""
        order = self.laggards
        while order:
            lag_start, number, holder = order[0]
            if holder.number != number:  # it has left
                heappop(order)
            elif holder.lag_start == inf:
                heappop(order)
                holder.is_ordered = False
            elif lag_start != holder.lag_start:
                heapreplace(order, (holder.lag_start, number, holder))
            else:
                return holder if lag_start < now else None
        return None

    @property
    def oldest(self) -> Holder:
        return next(iter(self.holders))
