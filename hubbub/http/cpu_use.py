"""The CPU that callers of a port have used in the last seconds."""

from collections import deque
from collections.abc import Callable
from math import inf

from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.share_groups import Holder

WINDOW = 10
"""Seconds for which used CPU counts."""
NODES = 65_536
"""Limit of the groups whose CPU counts. Those that were used longest ago are forgotten first."""
_FORGOTTEN = 8_192
"""Entries that are forgotten at once, because a look for empty groups costs as much as many new ones."""


class CpuUse:
    """The microseconds of CPU, or of places, that callers have used. They are no limit, so nobody gives way."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._shares = FairShares(inf, clock)
        self.root = self._shares.root
        self.second = 0
        """The present second. Used CPU falls only between two seconds."""
        self._entries: dict[CallerPath, Holder] = {}
        """The entry of each caller for the present second."""
        self._history: deque[tuple[int, Holder]] = deque()
        """All entries with their seconds, the oldest first."""

    @property
    def groups(self) -> int:
        return self._shares.groups

    def used(self, path: CallerPath) -> int:
        """Return the microseconds of a caller."""
        return self._shares.held_by(path)

    def charge(self, path: CallerPath, size: int) -> None:
        """Count microseconds of a caller."""
        self.pass_time()
        entry = self._entries.get(path)
        if entry is not None:
            # Without a limit nobody gives way, so this needs no look at all levels.
            entry.size += size
            entry.group.change(size)
            return

        entry = self.enter(path, size)
        self._entries[path] = entry
        self._history.append((self.second, entry))
        if self.groups > NODES:
            self._forget()

    def enter(self, path: CallerPath, size: int = 0) -> Holder:
        """Return a holder of microseconds, which keeps the groups of its caller until it leaves."""
        holder = self._shares.enter(path, size, _nothing)
        if holder is None:
            raise RuntimeError("CPU was refused, although it has no limit")
        return holder

    def leave(self, holder: Holder) -> None:
        self._shares.leave(holder)

    def pass_time(self) -> None:
        """Forget what was used before the window."""
        second = int(self._clock())
        if second == self.second:
            return
        self.second = second
        self._entries.clear()
        while self._history and self._history[0][0] <= second - WINDOW:
            self._shares.leave(self._history.popleft()[1])

    def _forget(self) -> None:
        # The newest entry stays, because it belongs to the caller of now.
        for _ in range(min(_FORGOTTEN, len(self._history) - 1)):
            self._shares.leave(self._history.popleft()[1])
        self._entries = {path: entry for path, entry in self._entries.items() if entry.is_held}
        self._shares.forget()


def _nothing() -> None:
    """Do nothing, because CPU that was used cannot be given up."""
