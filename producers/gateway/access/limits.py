"""The limits of one gateway for reports of a token, keyed frames of a pane, requests of an address, and decoding work.

All counts are in memory only, and each gateway has its own. Callers pass the time of quotas and rates.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from math import inf

from hubbub.http.problem import Problem
from producers.gateway.access.tokens import Caller
from producers.gateway.intake.submission import Submission

SHARE = 4
"""A gateway uses at most 1/SHARE of the ids that workers remember for a pane and partition."""
CALLERS = 1_000_000
"""Limit of the number of counts in memory."""
SENDERS = 100_000
"""Limit of the number of remembered senders. The one with the oldest request is forgotten first."""
WORK = 16_384
"""Default decoding work of a caller in a second: more single reports than one core can take, or 16 MiB."""
ALL_QUERIES = "(all)"
"""The name of the query in a refusal before the body was read."""
_SWEEP = 10.0
"""Seconds between two removals of closed panes."""

_Key = tuple[str, str, bytes, int]
"""Name, salt or empty, digest and pane."""


class Quotas:
    """The reports of each token, and the keyed frames of each partition, until their panes are closed.

    Reports in flight count. The caller gives back reports that Kafka has not acknowledged. `on_refusal` gets the names
    of the token and of the query.
    """

    def __init__(self, on_refusal: Callable[[str, str], None] = lambda _token, _query: None) -> None:
        self._on_refusal = on_refusal
        self._reports: Counter[_Key] = Counter()
        self._ids: Counter[tuple[bytes, int, int]] = Counter()
        """The number of ids by digest, pane and partition."""
        self._closes: dict[tuple[bytes, int], float] = {}
        self._swept = 0.0
        self._rooms: dict[tuple[str, str], tuple[bytes, int] | None] = {}
        """An open pane in which a caller had room in the present second, or None if it had none."""
        self._second = 0

    def check_room(self, caller: Caller, panes: Iterable[tuple[bytes, int]], time_s: float) -> None:
        """Raise a Problem if the caller has no room in any of the open panes, given by digest and start.

        Panes open and close at whole seconds, so an answer holds for its second, unless reports are given back.
        """
        # A caller without room sent bodies that cost 0.3 to 0.6 s each, before anything looked at the quota.
        limits = [(salt, quota) for salt, quota, _ in _limits(caller)]
        if not limits:
            return
        if int(time_s) != self._second:
            self._second = int(time_s)
            self._rooms.clear()

        name = caller.account.name
        key = caller.key

        def has_room(pane: tuple[bytes, int] | None) -> bool:
            return pane is not None and all(self._reports[name, salt, *pane] < quota for salt, quota in limits)

        if key not in self._rooms or (self._rooms[key] and not has_room(self._rooms[key])):
            self._rooms[key] = next(filter(has_room, panes), None)
        if self._rooms[key] is None:
            detail = f"The quota of {name!r} or of this token is exhausted in every open pane. The next pane has room."
            raise self._refusal(caller, ALL_QUERIES, detail)

    def take(self, caller: Caller, submissions: Iterable[Submission], time_s: float) -> list[tuple[_Key, int]]:
        """Count all submissions, or raise a Problem and count none."""
        self._forget(time_s)
        counts: list[tuple[_Key, int]] = []
        limits = _limits(caller)

        for submission in submissions:
            for salt, quota, owner in limits:
                key = caller.account.name, salt, submission.query.digest, submission.pane
                total = self._reports[key]
                # All or nothing: if one submission does not fit, those before it are given back.
                detail = None
                if total + submission.n > quota:
                    pane = f"pane {submission.pane} of query {submission.query.name!r}"
                    remainder = f"{quota - total} of {quota} reports are left, the request has {submission.n}"
                    detail = f"{owner} for {pane} is exhausted: {remainder}. The next pane has room."
                elif not total and len(self._reports) >= CALLERS:
                    detail = "Too many tokens are in use at once. The next pane has room."
                if detail is not None:
                    self.give_back(counts)
                    raise self._refusal(caller, submission.query.name, detail)
                self._reports[key] = total + submission.n
                self._closes[submission.query.digest, submission.pane] = submission.closes / 1000
                counts.append((key, submission.n))

        return counts

    def give_back(self, counts: Iterable[tuple[_Key, int]]) -> None:
        for key, n in counts:
            self._reports[key] -= n
            if self._reports[key] <= 0:
                del self._reports[key]
            self._rooms.clear()

    def take_ids(self, frames: Iterable[tuple[Submission, int]]) -> None:
        """Count keyed frames, each with its submission and partition, or raise a Problem and count none.

        Clients choose these ids. Too many would fill the memory of the workers.
        """
        submissions: dict[tuple[bytes, int], Submission] = {}
        # Plain dictionaries take half of the time of counters.
        new_ids: dict[tuple[bytes, int, int], int] = {}
        for submission, partition in frames:
            submissions[submission.query.digest, submission.pane] = submission
            key = submission.query.digest, submission.pane, partition
            new_ids[key] = new_ids.get(key, 0) + 1

        for key, n in new_ids.items():
            submission = submissions[key[:2]]
            if self._ids[key] + n > max(1, submission.query.max_ids // SHARE):
                detail = f"This gateway accepts no more requests with keys for pane {submission.pane}."
                advice = "Send several reports in a request. The next pane has room."
                raise Problem(429, f"{detail} {advice}", reason="ids")

        for key, n in new_ids.items():
            self._ids[key] += n
            self._closes[key[:2]] = submissions[key[:2]].closes / 1000

    def _refusal(self, caller: Caller, query: str, detail: str) -> Problem:
        """Return the Problem of an exhausted quota. It has no time to wait, because a pane never gets more room."""
        self._on_refusal(caller.account.name, query)
        return Problem(429, detail, reason="quota", counted="none")

    def _forget(self, time_s: float) -> None:
        if abs(time_s - self._swept) < _SWEEP:  # a clock that was set back sweeps at once
            return

        self._swept = time_s
        closed_panes = {pane for pane, close in self._closes.items() if close < time_s}
        if closed_panes:
            self._reports = Counter({key: n for key, n in self._reports.items() if key[2:] not in closed_panes})
            self._ids = Counter({key: n for key, n in self._ids.items() if key[:2] not in closed_panes})
            self._closes = {pane: close for pane, close in self._closes.items() if pane not in closed_panes}


class Rates:
    """The rates of senders. Each may use `rate` units a second, and as many at once."""

    def __init__(self, rate: float, most: int = SENDERS) -> None:
        self._rate = rate
        # With less than one unit at once nobody could ever send.
        self._room = max(1.0, rate)
        self._most = most
        self._levels: OrderedDict[object, tuple[float, float]] = OrderedDict()
        """The remaining units of each sender, and the time of that number."""

    @property
    def limited(self) -> bool:
        return self._rate != inf

    def wait(self, sender: object, time_s: float) -> float:
        """Return the seconds until the sender has a unit, or 0 if it has one."""
        if not self.limited:
            return 0.0
        level = self._refill(sender, time_s)
        return 0.0 if level >= 1 else (1 - level) / self._rate

    def take(self, sender: object, time_s: float) -> float:
        """Take a unit and return 0, or return the seconds until the sender has one."""
        wait = self.wait(sender, time_s)
        if not wait:
            self.charge(sender, time_s, 1.0)
        return wait

    def charge(self, sender: object, time_s: float, units: float) -> None:
        """Take units, even more than the sender has, which then waits longer for the next one."""
        if self.limited:
            self._levels[sender] = self._refill(sender, time_s) - units, time_s

    def _refill(self, sender: object, time_s: float) -> float:
        """Return the units of a sender, with those since its last request. A clock that was set back adds none."""
        level, charge_time = self._levels.pop(sender, (self._room, time_s))
        level = min(self._room, level + max(0.0, time_s - charge_time) * self._rate)
        self._levels[sender] = level, time_s
        # Strangers with many addresses would fill the memory. A forgotten sender starts with all its units.
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return level


class Work:
    """The budgets of callers for decoding. A frame costs 1, and so does a KiB of a decompressed body."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = Rates(rate)
        self._clock = clock

    def check(self, caller: Caller) -> None:
        """Raise a Problem if the caller has no work left."""
        wait = self._rates.wait(caller.key, self._clock())
        if wait:
            detail = "Your requests need too much decoding. Put more reports into each frame, and wait for Retry-After."
            raise Problem(429, detail, retry_after=wait, reason="work")

    def charge(self, caller: Caller, units: float) -> None:
        """Charge work, even more than the caller has left."""
        self._rates.charge(caller.key, self._clock(), units)


def _limits(caller: Caller) -> list[tuple[str, int, str]]:
    """Return the limits of a caller in each pane, if any: a salt or an empty text, the quota, and its owner."""
    account = caller.account
    limits: list[tuple[str, int, str]] = []
    if account.quota:
        limits.append(("", account.quota, f"The quota of {account.name!r}"))
    if caller.salt and account.each:
        limits.append((caller.salt, account.each, "The quota of this token"))
    return limits
