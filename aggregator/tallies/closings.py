"""The laws by which panes close. Most queries share one, so a partition need not look at every query."""

from collections.abc import Mapping

from hubbub.definitions.versions import Versions

Definitions = Mapping[bytes, Versions]


class Closings:
    """One definition for each law, by which its panes close at a clock."""

    def __init__(self, definitions: Definitions) -> None:
        by_law = {_law(versions): versions for versions in definitions.values()}
        self._laws = list(by_law.values())

    def have_moved(self, earlier_clock: int, clock: int) -> bool:
        """Whether any pane closes between two clocks."""
        return any(versions.closed_through(clock) > versions.closed_through(earlier_clock) for versions in self._laws)

    def next_close(self, clock: int) -> int:
        """Return the last clock at which no more panes are closed than at this one."""
        closes = (versions.closes_after(versions.closed_through(clock)) for versions in self._laws)
        return min(closes, default=clock)


def _law(versions: Versions) -> tuple[tuple[int, int, int], ...]:
    """Return all that decides at which clock the panes of a definition close."""
    return tuple((first, query.pane, query.lateness) for first, query, *_ in versions.versions)


class _Newest:
    """The closings of the definitions that were asked for last. All partitions of a worker share them."""

    definitions: Definitions | None = None
    closings = Closings({})


_newest = _Newest()


def closings_of(definitions: Definitions) -> Closings:
    """Return the closings of these definitions."""
    if _newest.definitions is not definitions:
        _newest.closings = Closings(definitions)
        _newest.definitions = definitions
    return _newest.closings
