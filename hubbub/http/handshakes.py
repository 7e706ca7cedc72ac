"""The TLS handshakes of a port. Only some are in progress, and the others wait for their places."""

import asyncio
import time
from dataclasses import dataclass

from hubbub.http.connections import Connection, ConnectionState
from hubbub.http.cpu_order import CpuOrder, Waiter
from hubbub.http.cpu_turns import HANDSHAKE_COST, CpuTurns
from hubbub.http.cpu_use import CpuUse
from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.share_groups import Holder, ShareGroup

HANDSHAKES = 64
"""Limit of the handshakes in progress."""
MARGIN = 1.0
"""Seconds that a caller has used more than another one before it gives way. Without them places change in circles."""
GRACE = 2.5
"""Seconds of lag before a handshake gives way to its own caller. The slowest phones have a round trip of 2 s."""
PAUSE = 0.25
"""Seconds between two looks for handshakes that give way to those that wait."""


class Handshakes:
    """The places of handshakes in progress, and the connections that wait for one.

    There are fewer places than networks in an attack, so a network shares them by time: the next place is of the caller
    whose handshakes took least time in the last seconds, level by level. If all places are taken, the caller whose
    handshakes took most gives one up, whether it is silent or drips bytes.
    """

    def __init__(self, turns: CpuTurns) -> None:
        self.shares = FairShares(HANDSHAKES, time.monotonic)
        self._turns = turns
        self._use = CpuUse(time.monotonic)
        """The microseconds that the handshakes of callers have been in progress."""
        self._order = CpuOrder(self._use)
        self._waiting: dict[Waiter, Connection] = {}
        self._progress: dict[Connection, _Progress] = {}
        """The connections with a place."""
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, connection: Connection) -> None:
        """Wait until the handshake of a connection may begin. The other side owes its part from then on."""
        connection.enter(ConnectionState.WORK, 0.0)
        if self._waiting or self.shares.held >= HANDSHAKES:
            await self._wait(connection)
        else:
            self._enter(connection)
        await self._turns.take(connection, HANDSHAKE_COST)

        # The work comes later, in callbacks of the event loop, but it belongs to this round.
        self._turns.spend(connection, HANDSHAKE_COST / 1e6)
        connection.enter(ConnectionState.HANDSHAKE, time.monotonic())
        if connection.handshake is not None and connection.place is not None:
            connection.handshake.follow(connection.place)

    def end(self, connection: Connection) -> None:
        """Give the place of a connection to another one. The second call does nothing."""
        place = connection.handshake
        if place is None:
            return
        self._leave(connection, place)
        while self._waiting and self.shares.held < HANDSHAKES:
            self._start_next()

    def _enter(self, connection: Connection) -> None:
        """Take a free place."""
        place = self.shares.enter(connection.path, 1, connection.give_way)
        if place is None:
            raise RuntimeError("a free place was refused")
        connection.handshake = place
        connection.parts.add(place)
        self._progress[connection] = _Progress(
            path=connection.path,
            use=self._use.enter(connection.path),
            charge_time=time.monotonic(),
        )

    def _leave(self, connection: Connection, place: Holder) -> None:
        connection.handshake = None
        connection.parts.discard(place)
        self.shares.leave(place)
        progress = self._progress.pop(connection)
        self._charge(progress, time.monotonic())
        self._use.leave(progress.use)

    def _charge(self, progress: "_Progress", now: float) -> None:
        self._use.charge(progress.path, int(1e6 * (now - progress.charge_time)))
        progress.charge_time = now

    async def _wait(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()

        def wake() -> None:
            if not turn.done():
                turn.set_result(None)

        waiter = self._order.wait(connection.path, 0, wake)
        self._waiting[waiter] = connection
        if self._timer is None:
            self._timer = loop.call_later(PAUSE, self._look)
        try:
            await turn
        finally:
            self._order.leave(waiter)
            self._waiting.pop(waiter, None)

    def _look(self) -> None:
        """Let handshakes give way to those that wait."""
        self._timer = None
        now = time.monotonic()
        for progress in self._progress.values():
            self._charge(progress, now)

        for _ in range(HANDSHAKES):
            if not self._waiting or not (self.shares.held < HANDSHAKES or self._end_longest(now)):
                break
            self._start_next()
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._look)

    def _start_next(self) -> None:
        """Give a free place to the next connection."""
        waiter = self._order.first()
        if waiter is None:
            return
        connection = self._waiting.pop(waiter)
        self._enter(connection)
        self._order.leave(waiter)
        waiter.wake()

    def _end_longest(self, now: float) -> bool:
        """End a handshake of the caller that has used most, and return False if the next one has to wait."""
        waiter = self._order.first()
        if waiter is None:
            return False
        connection, progress = max(self._progress.items(), key=lambda entry: _used(entry[1]))
        own_group = waiter.holder.group
        if progress.use.group is own_group:
            # Nobody else has used more, so only progress decides.
            connections = [holder for holder, entry in self._progress.items() if entry.use.group is own_group]
            connection = max(connections, key=lambda holder: _lag(holder, now))
            if _lag(connection, now) <= GRACE:
                return False
        elif _excess(progress.use.group, own_group) <= MARGIN:
            return False

        place = connection.handshake
        if place is not None:
            self._leave(connection, place)
        connection.give_way()
        return True


@dataclass(slots=True)
class _Progress:
    """A handshake in progress."""

    path: CallerPath
    use: Holder
    """A holder without a size, so that the groups of the caller stay in the tree of used time."""
    charge_time: float
    """The time up to which its caller has been charged."""


def _groups(group: ShareGroup) -> list[ShareGroup]:
    """Return the groups of a caller, the widest first."""
    groups: list[ShareGroup] = []
    while group.parent is not None:
        groups.append(group)
        group = group.parent
    return groups[::-1]


def _used(progress: _Progress) -> list[int]:
    """Return what each group of a caller has used, the widest first."""
    return [group.held for group in _groups(progress.use.group)]


def _excess(group: ShareGroup, waiting_group: ShareGroup) -> float:
    """Return the seconds that a caller has used more than one that waits, at the place at which their paths part."""
    pairs = zip(_groups(group), _groups(waiting_group), strict=False)
    return next(((level.held - branch.held) / 1e6 for level, branch in pairs if level is not branch), 0.0)


def _lag(connection: Connection, now: float) -> float:
    place = connection.handshake
    return place.lag(now) if place is not None else 0.0
