"""The verdicts on kinds of frames. Without them a frame of every query would be judged anew in each fetch."""

from typing import NamedTuple

from aggregator.tallies.clock import Clock
from oracles.query import Query

LEAST_ROOM = 1024
"""Number of verdicts up to which those of closed panes stay."""
NOWHERE = 1, 1
"""A divisor and a remainder that no id leaves."""


class KindVerdict(NamedTuple):
    """The acceptance of all frames of one kind, for as long as their pane is open."""

    query: Query
    pane: int
    divisor: int
    remainder: int
    """The remainder of the ids of frames that belong on the partition, after a division by `divisor`."""
    since: int
    """The clock at which the first of them was judged. A frame that was in the future before is not any more."""
    until: int
    """The last clock at which the pane is open."""
    group: int

    @property
    def bare(self) -> bool:
        """Whether frames may have no id."""
        return not self.query.require_id


class VerdictCache:
    """The newest verdicts by kind. It has room for all open panes of all queries and their groups.

    Strangers cannot fill it: a kind is accepted only for an open pane of a query and one of its groups.
    """

    def __init__(self) -> None:
        self._verdicts: dict[bytes, KindVerdict] = {}
        self._room = LEAST_ROOM

    def __len__(self) -> int:
        return len(self._verdicts)

    def recall(self, kind: bytes, clock: Clock) -> KindVerdict | None:
        """Return the verdict on a kind of frames, if it was accepted before and holds at this clock."""
        verdict = self._verdicts.get(kind)
        if verdict is None or clock is None or not verdict.since <= clock <= verdict.until:
            return None
        return verdict

    def remember(self, kind: bytes, verdict: KindVerdict) -> None:
        """Keep a verdict."""
        if len(self._verdicts) >= self._room:
            closed_kinds = [name for name, other in self._verdicts.items() if other.until < verdict.since]
            for name in closed_kinds:
                del self._verdicts[name]
            # The next look at all verdicts comes after as many new ones, so it costs each of them little.
            self._room = max(LEAST_ROOM, 2 * len(self._verdicts))
        self._verdicts[kind] = verdict
