"""The limits of one gateway for reports of a token, keyed frames of a pane, and requests of an address.

All counts are in memory only, and each gateway has its own. Callers pass the time.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from math import inf

from hubbub.http.problem import Problem
from producers.gateway.access.tokens import Caller
from producers.gateway.intake.submission import Submission

SHARE = 4
"""A gateway uses at most 1/SHARE of the ids that workers remember for a pane and partition."""
CALLERS = 1_000_000
"""Limit of the number of counts in memory."""
ADDRESSES = 100_000
"""Limit of the number of remembered addresses. The one with the oldest request is forgotten first."""
_SWEEP = 10.0
"""Seconds between two removals of closed panes."""

_Key = tuple[str, str, bytes, int]
"""Name, salt or empty, digest and pane."""


class Quotas:
    """The reports of each token, and the keyed frames of each partition, until their panes are closed.

    Reports in flight count. The caller gives back reports that Kafka has not acknowledged.
    """

    def __init__(self) -> None:
        self._reports: Counter[_Key] = Counter()
        self._ids: Counter[tuple[bytes, int, int]] = Counter()
        """The number of ids by digest, pane and partition."""
        self._closes: dict[tuple[bytes, int], float] = {}
        self._sweep = 0.0

    def take(self, caller: Caller, submissions: Iterable[Submission], now: float) -> list[tuple[_Key, int]]:
        """Count all submissions, or raise a Problem and count none."""
        self._forget(now)
        counts: list[tuple[_Key, int]] = []
        account = caller.account
        limits = [("", account.quota, f"The quota of {account.name!r}")]
        if caller.salt:
            limits.append((caller.salt, account.each, "The quota of this token"))
        for submission in submissions:
            for salt, quota, owner in limits:
                if not quota:
                    continue
                key = account.name, salt, submission.query.digest, submission.pane
                total = self._reports[key]
                if total + submission.n > quota:
                    self.give_back(counts)
                    pane = f"pane {submission.pane} of query {submission.query.name!r}"
                    rest = f"{quota - total} of {quota} reports are left, the request has {submission.n}"
                    detail = f"{owner} for {pane} is exhausted: {rest}. Wait for the next pane."
                    raise Problem(429, detail, retry_after=_next_pane(submission, now), reason="quota")
                if not total and len(self._reports) >= CALLERS:
                    self.give_back(counts)
                    detail = "Too many tokens are in use at once. Wait for the next pane."
                    raise Problem(429, detail, retry_after=_next_pane(submission, now), reason="quota")
                self._reports[key] = total + submission.n
                self._closes[submission.query.digest, submission.pane] = submission.closes / 1000
                counts.append((key, submission.n))
        return counts

    def give_back(self, counts: Iterable[tuple[_Key, int]]) -> None:
        for key, n in counts:
            self._reports[key] -= n
            if self._reports[key] <= 0:
                del self._reports[key]

    def take_ids(self, frames: Iterable[tuple[Submission, int]], now: float) -> None:
        """Count keyed frames, each with its submission and partition, or raise a Problem and count none.

        Clients choose these ids. Too many would fill the memory of the workers.
        """
        submissions: dict[tuple[bytes, int], Submission] = {}
        new: Counter[tuple[bytes, int, int]] = Counter()
        for submission, partition in frames:
            submissions[submission.query.digest, submission.pane] = submission
            new[submission.query.digest, submission.pane, partition] += 1
        for key, n in new.items():
            submission = submissions[key[:2]]
            if self._ids[key] + n > max(1, submission.query.max_ids // SHARE):
                detail = f"This gateway accepts no more requests with keys for pane {submission.pane}."
                wait = _next_pane(submission, now)
                raise Problem(429, f"{detail} Send several reports in a request.", retry_after=wait, reason="ids")
        self._ids.update(new)
        self._closes.update({key: submission.closes / 1000 for key, submission in submissions.items()})

    def _forget(self, now: float) -> None:
        if now < self._sweep:
            return
        self._sweep = now + _SWEEP
        old = {key for key, at in self._closes.items() if at < now}
        if old:
            self._reports = Counter({key: n for key, n in self._reports.items() if key[2:] not in old})
            self._ids = Counter({key: n for key, n in self._ids.items() if key[:2] not in old})
            self._closes = {key: at for key, at in self._closes.items() if key not in old}


class Rates:
    """The request rates of addresses. Each may send `rate` requests a second, and as many at once."""

    def __init__(self, rate: float, most: int = ADDRESSES) -> None:
        self._rate = rate
        self._room = max(1.0, rate)
        self._most = most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The remaining requests of each address, and the time of that number."""

    @property
    def limited(self) -> bool:
        return self._rate != inf

    def take(self, address: str, now: float) -> float:
        """Take one request and return 0, or return the seconds until the address may send again."""
        if not self.limited:
            return 0.0
        level, since = self._levels.pop(address, (self._room, now))
        level = min(self._room, level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._levels[address] = (level if wait else level - 1, now)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return wait


def _next_pane(submission: Submission, now: float) -> float:
    """Return the seconds until the next pane starts, which has a new quota."""
    return max(1.0, submission.pane + submission.query.pane - now)
