"""The limits of one gateway for reports of a token, keyed frames of a pane, requests of an address, and decoding work.

All counts are in memory only, and each gateway has its own. Callers pass the time of quotas and rates.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable

from hubbub.http.fair_shares import CallerPath
from hubbub.http.problem import Problem
from hubbub.http.rates import Rates
from producers.gateway.access.tokens import Caller
from producers.gateway.intake.submission import Submission

SHARE = 8
"""A gateway uses at most 1/SHARE of the ids that workers remember for a pane and partition, but at least 2."""
CALLERS = 1_000_000
"""Limit of the number of counts in memory."""
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
        self._group_ids: Counter[tuple[tuple[bytes, int, int], CallerPath]] = Counter()
        """The number of ids of each group of callers, on each level of their paths."""
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
        own_limits = _limits(caller)
        if not own_limits:
            return
        limits = [(salt, quota) for salt, quota, _ in own_limits]
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

    def take_ids(self, path: CallerPath, frames: Iterable[tuple[Submission, int]]) -> None:
        """Count keyed frames, each with its submission and partition, or raise a Problem and count none.

        Clients choose these ids. Too many would fill the memory of the workers. Ids are not given back, so a caller may
        take more only while it would not hold more than is left for all others. `path` has the groups of the caller.
        """
        submissions: dict[tuple[bytes, int], Submission] = {}
        # Plain dictionaries take half of the time of counters.
        new_ids: dict[tuple[bytes, int, int], int] = {}
        groups = [path[: depth + 1] for depth in range(len(path))]
        for submission, partition in frames:
            submissions[submission.query.digest, submission.pane] = submission
            key = submission.query.digest, submission.pane, partition
            new_ids[key] = new_ids.get(key, 0) + 1

        for key, n in new_ids.items():
            submission = submissions[key[:2]]
            remainder = max(2, submission.query.max_ids // SHARE) - self._ids[key] - n
            most = max((self._group_ids[key, group] for group in groups), default=0) + n
            if most > remainder:
                detail = f"This gateway accepts no more requests with keys for pane {submission.pane}."
                advice = "Send several reports in a request. The next pane has room."
                raise Problem(429, f"{detail} {advice}", reason="ids")

        for key, n in new_ids.items():
            self._ids[key] += n
            self._closes[key[:2]] = submissions[key[:2]].closes / 1000
            for group in groups:
                self._group_ids[key, group] += n

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
            group_ids = self._group_ids.items()
            self._group_ids = Counter({key: n for key, n in group_ids if key[0][:2] not in closed_panes})
            self._closes = {pane: close for pane, close in self._closes.items() if pane not in closed_panes}


class Work:
    """The budgets of callers for decoding. A frame costs 1, and so does a KiB of a decompressed body."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = Rates(rate)
        self._clock = clock

    def check(self, caller: Caller) -> None:
        """Raise a Problem if the caller has no work left."""
        if not self._rates.limited:
            return
        wait = self._rates.wait(caller.key, self._clock())
        if wait:
            detail = "Your requests need too much decoding. Put more reports into each frame, and wait for Retry-After."
            raise Problem(429, detail, retry_after=wait, reason="work")

    def charge(self, caller: Caller, units: float) -> None:
        """Charge work, even more than the caller has left."""
        if self._rates.limited:
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
