"""How large a query can become: a tally of it, and the state that one of its windows goes on from."""

from collections.abc import Iterable

from oracles.query.settings import Place, Window

LARGEST = 60 << 20
"""Bytes that a tally or a state may come to: one record of a topic holds it, and brokers take 64 MiB."""
INTEGER = 8
"""Bytes of the widest integer."""
SPACING = 4
"""Windows that later ones are compared with are kept no closer than this part of their size: a hopping one of a day
needs 5, not 8,640."""


def kept(window: Window) -> int:
    """The most windows of a kind that are kept for later ones to be compared with."""
    if window.kind == "all":
        return 0
    apart = -(-window.size // (SPACING * window.step)) * window.step
    return 1 - (window.step - window.size) // apart


def state_bytes(window: Window, cells: int, values: int, shown: int = 0) -> int:
    """The most that the integers in a window's state can take: of `all` its sum, of others the windows kept.

    `shown` are the tallies of windows last shown, for those that overlap them.
    """
    if window.kind == "all":
        return INTEGER * cells * (1 + shown)
    return INTEGER * (kept(window) * values + cells * (max(shown, 1) if window.kind == "hopping" else 0))


def bounded(cells: int, values: int, windows: Iterable[Window], at: Place, domain: str, shown: int = 0) -> None:
    """Refuse what could not be written down: `cells` are the integers of a tally, `values` those that it tells of."""
    most = f"{LARGEST >> 20} MiB"
    if INTEGER * cells > LARGEST:
        raise (at / domain).error(
            f"a tally can take {INTEGER * cells:,} bytes, more than {most}; name fewer values, or count parts of them "
            f"in queries of their own"
        )
    for window in windows:
        size = state_bytes(window, cells, values, shown)
        if size > LARGEST:
            raise (at / "windows").error(
                f"what a {window.kind} window of {window.size}s/{window.step}s is compared with can take {size:,} "
                f"bytes, more than {most}; a tumbling one of these values takes {INTEGER * values:,}"
            )
