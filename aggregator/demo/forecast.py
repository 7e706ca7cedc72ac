"""What a demo has promised for which second, and the words if its results are late. Pure.

All times are seconds from the start. The clocks of the clients of unknown strings are behind, and the lateness of their
query allows for that. So a final is due at the end of its window plus the lateness, whatever those clocks show.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hubbub.next_window import final_step
from oracles.query import Query

PUBLISH = 3.0
"""Seconds that a demo on time takes from the moment a final is due until the terminal has it."""
START = 10.0
"""Seconds that processes take to start, on a machine that is fast enough."""
LEAST_DELAY = 10.0
"""Seconds of lateness from which the terminal says it."""
NEWS = 30.0
"""Seconds by which a promise must move before the terminal says it again."""
NEWS_PART = 0.5
"""The part of the time until a promise is kept by which it must move as well, because far forecasts are rough."""
SLOWEST = 0.02
"""A demo that moves slower than this part of real time is not forecast further."""


@dataclass(frozen=True)
class Promise:
    """Something that the demo will show."""

    query: str
    name: str
    """The value, name or number that an alert or a final will name."""
    text: str
    """The words for what appears."""
    due: float
    """When the final that shows it is due."""
    step: int
    """Seconds from this final to the next one, which shows it if this one does not."""

    def is_of(self, query: str, due: float) -> bool:
        """Whether the final that was due then, or an earlier one, should have shown it."""
        # The plan of a demo knows the start of its processes to a few seconds only.
        return self.query == query and self.due <= due + self.step / 2


class Punctuality:
    """How far the results of each query are, compared with the time, and the promises that are open."""

    def __init__(self, queries: Iterable[Query], promises: Iterable[Promise], start: float) -> None:
        """Take the start in Unix seconds."""
        self._queries = {query.name: query for query in queries}
        self._start = start
        self._next = {name: self._first_due(query) for name, query in self._queries.items()}
        """When the next final of each query is due."""
        self._open = list(promises)
        self._forecasts: dict[tuple[str, str], float] = {}
        """The moments for which the terminal has announced the open promises."""
        self._is_late = False

    def _first_due(self, query: Query) -> float:
        # No report comes before the processes have started, so windows that end sooner stay empty.
        clock = self._start + START - query.lateness
        step = shortest_step(query)
        return (clock // step + 1) * step + query.lateness - self._start

    def take_final(self, query: str, end: int) -> None:
        """Note a final that has come. Promises that it should have shown wait for the next one."""
        if query not in self._queries:
            return
        definition = self._queries[query]
        due = end + definition.lateness - self._start
        self._next[query] = max(self._next[query], due + shortest_step(definition))
        self._open = [
            replace(promise, due=due + promise.step) if promise.is_of(query, due) else promise for promise in self._open
        ]

    def fulfil(self, query: str, name: str) -> None:
        """Note that a promise has been kept."""
        self._open = [promise for promise in self._open if (promise.query, promise.name) != (query, name)]

    def lines(self, time: float) -> Iterator[str]:
        """Yield what the terminal should say: that results are late, when promises will be kept, that all is well."""
        position = min((min(time, due + PUBLISH) for due in self._next.values()), default=time)
        delay = time - position
        if delay < LEAST_DELAY / 2 and self._is_late:
            self._is_late = False
            self._forecasts.clear()
            yield "on time again: the results keep up with the crowd"
        if delay < LEAST_DELAY and not self._is_late:
            return

        changes = [
            (promise, moment)
            for promise, moment in self._moments(time, position)
            if abs(moment - self._forecast(promise)) >= max(NEWS, NEWS_PART * (moment - time))
        ]
        if not self._is_late or changes:
            yield f"late: results come {delay:.0f} s later than they should, because this machine has too little time"
        self._is_late = True
        for promise, moment in changes:
            self._forecasts[promise.query, promise.name] = moment
            yield f"late: {promise.text} appears in about {in_words(moment - time)}"

    def _forecast(self, promise: Promise) -> float:
        """Return the moment for which a promise was last announced."""
        return self._forecasts.get((promise.query, promise.name), promise.due)

    def _moments(self, time: float, position: float) -> Iterator[tuple[Promise, float]]:
        """Yield the open promises, each with the moment at which it will be kept if the demo goes on at this speed."""
        speed = max(SLOWEST, position / max(time, 1.0))
        for promise in self._open:
            yield promise, time + max(0.0, promise.due + PUBLISH - position) / speed


def shortest_step(query: Query) -> int:
    """Return the seconds between two finals of a query."""
    return min(final_step(query, window) for window in query.windows)


def in_words(seconds: float) -> str:
    """Return a length of time as a person says it."""
    if seconds < 90:
        return f"{max(10, round(seconds / 10) * 10)} seconds"
    return f"{round(seconds / 60)} minutes"
