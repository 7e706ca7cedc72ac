"""The order of work that waits: the next one is of the caller who has used least CPU in the last seconds."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from hubbub.http.cpu_use import CpuUse
from hubbub.http.fair_shares import CallerPath
from hubbub.http.share_groups import Holder, ShareGroup


class Waiter:
    """Work that waits for its turn."""

    __slots__ = ("cost", "holder", "node", "path", "wake")

    def __init__(self, path: CallerPath, cost: int, wake: Callable[[], None], node: "_Node", holder: Holder) -> None:
        self.path = path
        self.cost = cost
        """Microseconds that are charged when its turn comes."""
        self.wake = wake
        self.node = node
        self.holder = holder
        """A holder without a size, so that the groups of the caller stay while the work waits."""


class _Node:
    """A group of callers with waiting work."""

    __slots__ = ("group", "order", "parent", "second", "size", "waiters")

    def __init__(self, group: ShareGroup, parent: "_Node | None") -> None:
        self.group = group
        """The group whose size is the used CPU."""
        self.parent = parent
        self.size = 0
        """Waiters in this group and below it."""
        self.waiters: dict[Waiter, None] = {}
        """The waiters of a last group, the oldest first."""
        self.order: list[tuple[int, int, _Node]] = []
        """A heap of the children. The CPU of an entry is at most that of its child, within a second."""
        self.second = 0


class CpuOrder:
    """Work that waits.

    From the root the choice goes to the child that has used least CPU, level by level, and in a last group to the
    oldest work.
    """

    def __init__(self, use: CpuUse) -> None:
        self._use = use
        self._nodes: dict[ShareGroup, _Node] = {}
        self._numbers = count()

    @property
    def is_waiting(self) -> bool:
        """Whether any work waits."""
        return bool(self._nodes)

    def wait(self, path: CallerPath, cost: int, wake: Callable[[], None]) -> Waiter:
        """Add work that waits. The owner of the order calls `wake` when its turn has come."""
        holder = self._use.enter(path)
        node = self._node(holder.group)
        waiter = Waiter(path, cost, wake, node, holder)
        node.waiters[waiter] = None
        self._count(node, 1)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Remove work that waits. After its turn this does nothing."""
        if waiter in waiter.node.waiters:
            del waiter.node.waiters[waiter]
            self._count(waiter.node, -1)
            self._use.leave(waiter.holder)

    def first(self) -> Waiter | None:
        """Return the work whose turn it is, or None if no work waits."""
        self._use.pass_time()
        node = self._nodes.get(self._use.root)
        if node is None:
            return None
        while not node.waiters:
            node = self._least(node)
        return next(iter(node.waiters))

    def next(self) -> Waiter | None:
        """Remove the work whose turn it is, and charge its cost. Return None if no work waits."""
        waiter = self.first()
        if waiter is not None:
            self.leave(waiter)
            # At once, so that the next choice knows of it. The real cost is known only after the work.
            self._use.charge(waiter.path, waiter.cost)
        return waiter

    def _node(self, group: ShareGroup) -> _Node:
        """Return the node of a group. New ones enter the orders above them."""
        node = self._nodes.get(group)
        if node is not None:
            return node
        parent = None if group.parent is None else self._node(group.parent)
        node = _Node(group, parent)
        self._nodes[group] = node
        if parent is not None:
            heappush(parent.order, (group.held, next(self._numbers), node))
        return node

    def _count(self, node: _Node, difference: int) -> None:
        level: _Node | None = node
        while level is not None:
            level.size += difference
            if not level.size:
                del self._nodes[level.group]
            level = level.parent

    def _least(self, node: _Node) -> _Node:
        """Return the child that has used least CPU of those with waiters."""
        if node.second != self._use.second:
            # Used CPU falls only between two seconds, so within one an old entry is never too high.
            node.second = self._use.second
            node.order = [(child.group.held, number, child) for _, number, child in node.order if child.size]
            heapify(node.order)

        order = node.order
        while True:
            use, number, child = order[0]
            if not child.size:  # all its waiters have left
                heappop(order)
            elif use != child.group.held:
                heapreplace(order, (child.group.held, number, child))
            else:
                return child
