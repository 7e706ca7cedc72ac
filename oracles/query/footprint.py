"""Size limits of a query: a tally, and the stored state of one of its windows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oracles.query.groups import Groups
from oracles.query.settings import Place, Window

if TYPE_CHECKING:
    from oracles.query import Query

LARGEST = 60 << 20
"""Bytes of the largest tally or state. It must fit one record of a topic, and brokers accept 64 MiB."""
INTEGER = 8
"""Bytes of the widest integer."""
SPACING = 4
"""Stored windows for later comparisons are at least this part of their size apart.

A hopping window of a day then needs 5 of them, not 8,640.
"""

MOST_BLOCK_VALUES = 1 << 16
"""Most values of an attribute for which blocks of several windows are compared."""
GROUP_COUNTS = 3
"""Counts of a further group beside its cells: reports, implausible reports, and reports in repeated frames."""


def tally_cells(cells: int, groups: Groups) -> int:
    """Return the integers of a tally with groups, from those of a tally without. Group 0 has its counts elsewhere."""
    return cells + len(groups.values) * (cells + GROUP_COUNTS)


def tally_size(query: "Query") -> int:
    """Return the integers of the tally of a pane."""
    return tally_cells(query.oracle.state_size, query.groups)


def stored_windows(window: Window) -> int:
    """Return the largest number of stored windows of a kind, for comparison with later ones."""
    if window.kind == "all":
        return 0
    # Windows end at steps, so their distance is rounded up to whole steps.
    apart = -(-window.size // (SPACING * window.step)) * window.step
    return 1 - (window.step - window.size) // apart


def state_bytes(window: Window, cells: int, values: int) -> int:
    """Return the most bytes that the integers in a window's state take.

    The state of `all` is its sum. Other windows store earlier windows.
    """
    return INTEGER * (cells if window.kind == "all" else stored_windows(window) * values)


def check_sizes(cells: int, values: int, windows: Iterable[Window], place: Place, domain: str) -> None:
    """Raise QueryError if a tally of `cells` integers and `values` values, or a window's state, is too large."""
    most = f"{LARGEST >> 20} MiB"
    # Brokers would refuse the record later, and then no worker could go on with the query.
    if INTEGER * cells > LARGEST:
        raise (place / domain).error(
            f"a tally can take {INTEGER * cells:,} bytes, more than {most}; use fewer values, or several queries; "
            "for unknown strings a smaller length, or fewer cells"
        )
    for window in windows:
        size = state_bytes(window, cells, values)
        if size > LARGEST:
            raise (place / "windows").error(
                f"the state of a {window.kind} window of {window.size}s/{window.step}s can take {size:,} "
                f"bytes, more than {most}; a tumbling one of these values takes {INTEGER * values:,}"
            )
