"""The rule that shares a scarce thing among callers: who gives way if it is full, and who is refused."""

from collections.abc import Callable
from math import inf

from hubbub.http.share_groups import Holder, ShareGroup

CallerPath = tuple[str, ...]
"""The groups of a caller, the widest first. No path may be the beginning of another one."""

_EMPTY = 1_024
"""Last groups without holders that stay in memory, because most callers come again."""


class FairShares:
    """The holders of a scarce thing, in a tree of groups.

    While the thing has room, anybody may take it. If it is full, the caller that holds most gives a holder up: from the
    root the choice goes to the child that holds most, down to a last group, and there to the holder that lags most. A
    newcomer is refused if its own group would then hold more than the one that gave way. So a caller that holds less
    than 1/K of the thing beside K - 1 others never gives way, and nobody is replaced in a circle.
    """

    def __init__(
        self,
        capacity: float,
        clock: Callable[[], float],
        limit: Callable[[CallerPath], float] = lambda _: inf,
    ) -> None:
        """Share `capacity` units. `limit` gives a group, by the beginning of a path, a limit of its own."""
        self._limit = limit
        self._clock = clock
        self.root = ShareGroup(None, 0, capacity)
        self.groups = 0
        """The number of groups below the root."""
        self._last_groups: dict[CallerPath, ShareGroup] = {}
        self._empty = 0
        """The number of last groups without holders."""
        self._numbers = 0

    @property
    def capacity(self) -> float:
        return self.root.limit

    @property
    def held(self) -> int:
        return self.root.held

    @property
    def most(self) -> int:
        """The units that the largest child of the root holds."""
        return self.root.largest().held if self.root.held else 0

    def held_by(self, path: CallerPath) -> int:
        """Return the units of a last group."""
        return self._last_groups[path].held if path in self._last_groups else 0

    def enter(self, path: CallerPath, size: int, end: Callable[[], None]) -> Holder | None:
        """Return a new holder, or None if it is refused. `end` ends it when it gives way to another one."""
        group = self._group(path)
        if not self._make_room(group, size):
            return None
        holder = Holder(group, end)
        holder.size = size
        self._join(holder, group)
        return holder

    def grow(self, holder: Holder, size: int) -> bool:
        """Let a holder take more, or return False if this is refused, or if the holder had to give way."""
        if not self._make_room(holder.group, size, holder) or not holder.is_held:
            return False
        holder.size += size
        holder.group.change(size)
        return True

    def shrink(self, holder: Holder, size: int) -> None:
        if holder.is_held:
            holder.size -= size
            holder.group.change(-size)

    def leave(self, holder: Holder) -> None:
        """Hold nothing more. The second call does nothing."""
        if not holder.is_held:
            return
        group = holder.group
        group.change(-holder.size)
        del group.holders[holder]
        holder.number = 0
        holder.is_ordered = False
        if not group.holders:
            self._empty += 1

    def move(self, holder: Holder, path: CallerPath) -> None:
        """Put a holder into the group of another path. It keeps its lag."""
        if holder.is_held:
            self.leave(holder)
            self._join(holder, self._group(path))

    def _join(self, holder: Holder, group: ShareGroup) -> None:
        if not group.holders:
            self._empty -= 1
        self._numbers += 1
        holder.number = self._numbers
        holder.group = group
        group.holders[holder] = None
        group.change(holder.size)
        if holder.owes:
            group.order(holder)

    def _group(self, path: CallerPath) -> ShareGroup:
        """Return the last group of a path. It may be new, or one that has been empty for a while."""
        if path in self._last_groups:
            return self._last_groups[path]
        if self._empty > _EMPTY:
            self.forget()

        group = self.root
        for depth, name in enumerate(path):
            child = group.children.get(name)
            if child is None:
                self._numbers += 1
                child = ShareGroup(group, self._numbers, self._limit(path[: depth + 1]))
                group.children[name] = child
                self.groups += 1
            group = child
        self._last_groups[path] = group
        self._empty += 1
        return group

    def forget(self) -> None:
        """Remove the groups without holders."""
        empty = [path for path, group in self._last_groups.items() if not group.holders]
        for path in empty:
            group = self._last_groups.pop(path)
            for name in reversed(path):
                parent = group.parent
                if group.children or parent is None:
                    break
                del parent.children[name]
                self.groups -= 1
                group = parent
        self._empty = 0

    def _make_room(self, group: ShareGroup, size: int, holder: Holder | None = None) -> bool:
        """Let holders give way until a newcomer fits, and return False if it is refused."""
        level: ShareGroup | None = group
        while level is not None:
            while level.held + size > level.limit:
                victim = self._victim(level, group, size)
                if victim is None or victim is holder:
                    return False
                self.leave(victim)
                victim.end()
            level = level.parent
        return True

    def _victim(self, full: ShareGroup, newcomer: ShareGroup, size: int) -> Holder | None:
        """Return the holder that gives way in a full group, or None if the newcomer is refused."""
        if not full.held:
            return None

        own_groups: list[ShareGroup] = []
        level: ShareGroup | None = newcomer
        while level is not None and level is not full:
            own_groups.append(level)
            level = level.parent

        # Down to the place at which the two paths part, or to the newcomer's own last group.
        now = self._clock()
        own = group = full
        while own is group and group.children:
            own = own_groups.pop()
            group = group.largest(own)
        if own is group:
            return group.laggard(now)

        # Down to the holder that gives way.
        other = group
        while group.children:
            group = group.largest()
        victim = group.laggard(now) or group.oldest
        return None if own.held + size > other.held - victim.size else victim
