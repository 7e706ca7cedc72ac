"""The single reports that a reader of one record can read.

A hashed report adds signs to the sums of its rows. The shares of all values are an invertible linear image of these
sums, so a reader of the shares has the sums. A report that is alone in a row is read there: its row and its bit. No
rounding of the shares hides it that costs less than the noise itself, so only the noise of the report protects it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from oracles.round_up import round_up

_FEW = 1 / 20
"""The part of the reports that may be alone in their rows."""
_MOST = 1 << 60


class RowDraw(NamedTuple):
    """Equally likely rows, of which a report draws one, and the share of the reports of a window that draw there."""

    rows: float
    share: float = 1.0

    def lone_part(self, n: float) -> float:
        """Return the part of the reports here that are alone in their row, if the window has `n` reports."""
        if self.rows <= 1.0:
            return float(n * self.share <= 1.0)
        return math.exp((n * self.share - 1.0) * math.log1p(-1.0 / self.rows))


def lone_reports(draws: Sequence[RowDraw], n: float) -> float:
    """Return the number of `n` reports that are expected to be alone in their row.

    >>> round(lone_reports([RowDraw(64)], 60), 1), round(lone_reports([RowDraw(4096)], 500), 1)
    (23.7, 442.6)
    """
    return sum(n * draw.share * draw.lone_part(n) for draw in draws)


def readable_below(draws: Sequence[RowDraw]) -> int | None:
    """Return the least number of reports of which at most one in twenty is alone in its row, up to two digits.

    None without rows: such reports do not follow from the shares.

    >>> readable_below([RowDraw(64)]), readable_below([RowDraw(1024)]), readable_below([])
    (200, 3100, None)
    """
    if not draws:
        return None

    shares = sum(draw.share for draw in draws)
    low = 0
    high = 1
    while lone_reports(draws, high) > _FEW * high * shares and high < _MOST:
        low = high
        high *= 2

    # The part of the lone reports falls with n, because it does so for each draw.
    while high - low > 1:
        middle = (low + high) // 2
        if lone_reports(draws, middle) > _FEW * middle * shares:
            low = middle
        else:
            high = middle

    return round_up(high, 2)
