"""The closed panes of a query on all its slots, while its spread may change from one version to the next."""

from collections.abc import Callable

from hubbub.definitions.versions import Versions


def closed_on_slots(versions: Versions, least_end: Callable[[int | None], int | None]) -> int | None:
    """Return the end of the newest pane that is closed on all its slots, or None if there is none yet.

    `least_end` returns the end of the newest pane that is closed on all slots of a spread, or None. Each pane waits for
    the slots of its own version, so a window over a change of the spread waits for both.
    """
    stretches = versions.spreads
    closed_end: int | None = None
    for place, (_, spread) in enumerate(stretches):
        end = least_end(spread)
        if end is None:
            return closed_end

        closed_end = end if closed_end is None else max(end, closed_end)
        if place + 1 < len(stretches):
            next_first = stretches[place + 1][0]
            if closed_end < next_first:
                return closed_end
            # The panes from here on have other slots, which may be further behind.
            closed_end = next_first
    return closed_end
