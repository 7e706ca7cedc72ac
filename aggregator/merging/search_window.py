"""The window `all` of a query of unknown strings."""

from collections.abc import Callable, Iterable, Sequence

from aggregator.merging.pane_queue import PaneStore
from aggregator.merging.windows import CumulativeWindow, IsMark, Position
from hubbub.definitions.versions import PublicationInterval


class SearchWindow(CumulativeWindow):
    """The window `all`, which is final at each search for names before which new reports came."""

    def __init__(
        self,
        end_after: Callable[[int], int],
        interval: PublicationInterval,
        pane: int,
        cells: int,
        position: Position | None = None,
        store: PaneStore | None = None,
        is_mark: IsMark = lambda _edge, _group: True,
    ) -> None:
        super().__init__(interval, pane, cells, position, store, is_mark)
        self._end_after = end_after
        """Returns the end of the first window that holds a pane."""

    def count_due(self, through: int, later: Sequence[int]) -> int:
        """Return the number of windows that end at `through` or before, and are not yielded yet."""
        return len({end for end in self._ends(later) if end <= through})

    def next_end(self, later: Iterable[int]) -> int | None:
        """Return the end of the next window with reports, due or not, or None if there is none."""
        return min(self._ends(later), default=None)

    def _ends(self, later: Iterable[int]) -> set[int]:
        """Return the ends of the windows with reports that are not yielded. `later` are panes to come, in order."""
        at = self._position
        panes = [*self._queue.starts_with_reports(), *(later if self._has_begun or at is None else ())]
        ends = {self._end_after(pane) for pane in panes}
        return {end for end in ends if end <= self.until and (at is None or end > at.end)}

    def _next(self, pane: int | None) -> int | None:
        return None if pane is None else self._end_after(pane)
