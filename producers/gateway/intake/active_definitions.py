"""The active definitions, for which the gateway accepts reports.

They come from the topic `queries`, like those of the workers. While the topic is empty, they come from the query file.
The first worker will write that file to the topic, for all panes.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike

import orjson

from hubbub.definitions.catalog import MARGIN, Definitions
from hubbub.definitions.follower import Follower
from hubbub.definitions.stop_record import Stop
from hubbub.definitions.versions import Version, Versions
from hubbub.file_watch import FileWatch
from oracles.query import Query, load
from oracles.query.public_definition import public_definition
from producers.gateway.intake.appender import PATIENCE
from producers.gateway.intake.query_listing import Listing, RecentListing
from producers.gateway.intake.state_answer import CountedQuery, StateAnswer, state_text
from producers.gateway.intake.timeliness import untimely

LATELY = MARGIN / 2
"""Half of the seconds until a new version applies, because the clocks of brokers differ a little."""
STALE = 5.0
"""Seconds without an answer after which the gateway accepts no request."""


@dataclass(frozen=True)
class ServedDefinitions:
    """A set of definitions, and its listing for clients."""

    versions: Mapping[bytes, Versions] = field(default_factory=dict)
    """The versions by digest, including retired ones."""
    stops: Mapping[str, Stop] = field(default_factory=dict)
    """The stops of queries by name. Their reports are refused, whatever their pane."""
    _texts: dict[tuple[bytes, int], bytes] = field(default_factory=dict, compare=False)
    """The JSON of versions by digest and first pane. It is cached, because a domain may be long."""

    _listings: RecentListing = field(default_factory=RecentListing, compare=False)
    _states: dict[int, StateAnswer] = field(default_factory=dict, compare=False)
    """The state of the newest second that was asked for."""

    @classmethod
    def of(cls, queries: Mapping[str, Query]) -> "ServedDefinitions":
        return cls({query.digest: Versions.of(query) for query in queries.values()})

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "ServedDefinitions":
        """Read the definitions of a query file."""
        return cls.of(load(path))

    def names(self) -> list[str]:
        """Return the names of all queries that are not retired."""
        return sorted({v.query.name for v in self.versions.values() if not v.newest.retired})

    def listing(self, time_s: float) -> Listing:
        """Return the answer of GET /v1/queries, which is the same for a whole second."""
        return self._listings.at(int(time_s), self._listing_text)

    def _listing_text(self, second: int) -> bytes:
        """Return the present definitions. Of one name the newest is last."""
        present = (version for version in self._present(second) if not self._is_stopped(version))
        return b'{"queries":[' + b",".join(map(self._text, present)) + b"]}"

    def state(self, time_s: float) -> StateAnswer:
        """Return the answer of GET /v1/state, which is the same for a whole second."""
        second = int(time_s)
        answer = self._states.get(second)
        if answer is None:
            answer = StateAnswer.of(self._state_text(second))
            self._states.clear()
            self._states[second] = answer
        return answer

    def _state_text(self, second: int) -> bytes:
        """Return the state of each name, by its newest definition."""
        newest = {version.query.name: version for version in self._present(second)}
        return state_text(
            CountedQuery(name, public_definition(version.query), self._is_stopped(version))
            for name, version in newest.items()
        )

    def _present(self, second: int) -> list[Version]:
        """Return the versions that apply in this second, stopped ones too. Clients take the last of each name."""
        present = [v.at(second) for v in self.versions.values() if second >= v.first]
        return sorted((v for v in present if not v.retired), key=lambda v: (v.query.name, v.first))

    def _is_stopped(self, version: Version) -> bool:
        # After a resume the panes before its version are still refused, and a client would be charged for them.
        return version.is_stopped or version.query.name in self.stops

    def open_panes(self, time_s: float) -> Iterator[tuple[bytes, int]]:
        """Yield the panes whose reports count now, by digest and start."""
        time_ms = int(1000 * time_s)
        for digest, versions in self.versions.items():
            step = versions.query.pane
            start = max(0, versions.closed_through(time_ms)) // step * step
            for pane in range(start, time_ms // 1000 + versions.skew + 1, step):
                if untimely(versions, pane, time_ms) is None:
                    yield digest, pane

    def _text(self, version: Version) -> bytes:
        key = version.query.digest, version.first
        if key not in self._texts:
            # Senders to Kafka need the spread, and clients of the gateway do not, so no vector of theirs has it.
            definition = {**public_definition(version.query), "spread": version.query.spread}
            self._texts[key] = orjson.dumps(definition)
        return self._texts[key]


class ActiveDefinitions:
    """The definitions that apply now. They are the topic's, or the file's while the topic is empty."""

    def __init__(self, file: FileWatch[ServedDefinitions], follower: Follower) -> None:
        self._file = file
        self._follower = follower
        self._topic: ServedDefinitions | None = None
        follower.on_change.append(self._update)

    @property
    def value(self) -> ServedDefinitions:
        return self._file.value if self._topic is None else self._topic

    @property
    def missing(self) -> str | None:
        """Why the definitions are not up to date, or None if they are."""
        return (
            None
            if self._follower.age < STALE
            else f"The gateway could not read the definitions for {STALE:g} s. Try again."
        )

    async def read_lately(self) -> None:
        """Wait until the definitions cover every record in the log. A version applies only after `MARGIN` seconds.

        Raise TimeoutError after `PATIENCE` seconds.
        """
        if self._follower.age > LATELY:  # a timer costs more than this look, and is almost never needed
            async with asyncio.timeout(PATIENCE):
                await self._follower.within(LATELY)

    def _update(self, definitions: Definitions) -> None:
        self._topic = ServedDefinitions(definitions.versions, definitions.stops) if definitions.versions else None
