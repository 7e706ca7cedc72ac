"""Quotas: how many reports a token brought in for a pane, and how many frames with ids a pane has of one gateway.

They stand in memory only, of one gateway, until the pane is closed. What is on its way is counted;
what is not acknowledged is given back.
"""

from collections import Counter
from collections.abc import Iterable

from hubbub.problem import Problem
from producers.gateway.submission import Lot
from producers.gateway.tokens import Caller

SHARE = 4
"""One gateway fills at most this part of the ids that the workers remember of a pane and partition: a quarter."""
CALLERS = 1_000_000
"""Counts that are kept at a time."""
_SWEEP = 10.0

_Key = tuple[str, str, bytes, int]
"""Name, salt or empty, digest and pane."""


class Quotas:
    """The counts of one gateway. Time is told, not read."""

    def __init__(self) -> None:
        self._used: Counter[_Key] = Counter()
        self._ids: Counter[tuple[bytes, int, int]] = Counter()
        """By digest, pane and partition."""
        self._closes: dict[tuple[bytes, int], float] = {}
        self._sweep = 0.0

    def take(self, caller: Caller, lots: Iterable[Lot], now: float) -> list[tuple[_Key, int]]:
        """Count these; a Problem, and nothing counted, where a quota has no room for all of them."""
        self._forget(now)
        taken: list[tuple[_Key, int]] = []
        account = caller.account
        limits = [("", account.quota, f"the quota of {account.name!r}")]
        if caller.salt:
            limits.append((caller.salt, account.each, "the quota of this token"))
        for lot in lots:
            for salt, quota, what in limits:
                key = account.name, salt, lot.query.digest, lot.pane
                used = self._used[key]
                if not quota:
                    continue
                if used + lot.n > quota:
                    self.give_back(taken)
                    left = f"{quota - used} of {quota} reports are left"
                    detail = f"{what} for the pane {lot.pane} of query {lot.query.name!r}: {left}, these are {lot.n}"
                    raise Problem(429, detail, retry_after=_next(lot, now), reason="quota")
                if not used and len(self._used) >= CALLERS:
                    self.give_back(taken)
                    raise Problem(
                        429, "too many tokens are in use at once", retry_after=_next(lot, now), reason="quota"
                    )
                self._used[key] = used + lot.n
                self._closes[lot.query.digest, lot.pane] = lot.closes / 1000
                taken.append((key, lot.n))
        return taken

    def give_back(self, taken: Iterable[tuple[_Key, int]]) -> None:
        for key, n in taken:
            self._used[key] -= n
            if self._used[key] <= 0:
                del self._used[key]

    def take_ids(self, frames: Iterable[tuple[Lot, int]], now: float) -> None:
        """Count frames with ids that clients chose, of a lot and for a partition each.

        A Problem, and nothing counted, where too many would end the memory for all.
        """
        lots: dict[tuple[bytes, int], Lot] = {}
        new: Counter[tuple[bytes, int, int]] = Counter()
        for lot, partition in frames:
            lots[lot.query.digest, lot.pane] = lot
            new[lot.query.digest, lot.pane, partition] += 1
        for key, n in new.items():
            lot = lots[key[:2]]
            if self._ids[key] + n > max(1, lot.query.max_ids // SHARE):
                detail = f"this gateway has passed on as many requests with keys for the pane {lot.pane} as it may"
                wait = _next(lot, now)
                raise Problem(429, f"{detail}: send several reports a request", retry_after=wait, reason="ids")
        self._ids.update(new)
        self._closes.update({key: lot.closes / 1000 for key, lot in lots.items()})

    def _forget(self, now: float) -> None:
        if now < self._sweep:
            return
        self._sweep = now + _SWEEP
        closed = {key for key, at in self._closes.items() if at < now}
        if closed:
            self._used = Counter({key: n for key, n in self._used.items() if key[2:] not in closed})
            self._ids = Counter({key: n for key, n in self._ids.items() if key[:2] not in closed})
            self._closes = {key: at for key, at in self._closes.items() if key not in closed}


def _next(lot: Lot, now: float) -> float:
    """Seconds until the next pane begins: that one has a quota of its own."""
    return max(1.0, lot.pane + lot.query.pane - now)
