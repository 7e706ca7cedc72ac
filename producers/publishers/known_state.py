"""The age of a gateway's state, and whether it allows an answer. Pure: it reads no clock, no file and no network.

No clock of a device is trusted alone. A person can set the wall clock, and the monotonic clock stands still while a
laptop sleeps. So the age of a state is the larger of what both say.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from producers.errors import DeliveryError, NotAllowed, Stopped

FRESH = 600.0
"""The age in seconds up to which a state is enough for an answer. It bounds the time until a stop reaches a device."""


class Moment(NamedTuple):
    """The present time by both clocks of a device, in seconds."""

    wall: float
    monotonic: float


class StateOfQuery(NamedTuple):
    """The state of one name."""

    digest: str
    """The digest of its newest definition, in hexadecimal."""
    is_stopped: bool


@dataclass(frozen=True)
class KnownState:
    """A state of a gateway, with the moment before its reading."""

    queries: Mapping[str, StateOfQuery] | None
    """The state of each query. None stands for a gateway of an older release, which stops no query."""
    read_at: Moment
    is_stored: bool = False
    """Whether an earlier process read it. Its monotonic clock was another one."""

    @classmethod
    def parse(cls, body: bytes, read_at: Moment) -> "KnownState":
        """Return the state of an answer of GET /v1/state. Raise a ValueError if it is malformed."""
        try:
            queries = json.loads(body)["queries"]
            return cls({name: _state_of_query(item) for name, item in queries.items()}, read_at)
        except (AttributeError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"not a state: {error!r}") from None

    @classmethod
    def restore(cls, text: bytes) -> "KnownState":
        """Return the state that `dump` has written. Raise a ValueError if it is malformed."""
        try:
            content = json.loads(text)
            wall = content["read_at"]
            queries = content["queries"]
            if queries is not None:
                queries = {name: _state_of_query(item) for name, item in queries.items()}
            if type(wall) is not float or not -inf < wall < inf:
                raise ValueError("read_at must be a time")
        except (AttributeError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"not a stored state: {error!r}") from None
        return cls(queries, Moment(wall, 0.0), is_stored=True)

    def dump(self) -> bytes:
        """Return the state for a file."""
        queries = None
        if self.queries is not None:
            queries = {
                name: {"digest": state.digest, "stopped": state.is_stopped} for name, state in self.queries.items()
            }
        return json.dumps({"read_at": float(self.read_at.wall), "queries": queries}).encode()

    def age(self, moment: Moment) -> float:
        """Return the age in seconds by the larger of two clocks. A wall clock that went back makes it infinite."""
        wall_age = moment.wall - self.read_at.wall
        if wall_age < 0:
            return inf
        return wall_age if self.is_stored else max(wall_age, moment.monotonic - self.read_at.monotonic)

    def is_fresh(self, moment: Moment) -> bool:
        """Whether it is enough for an answer now. A stored state never is."""
        return not self.is_stored and self.age(moment) < FRESH

    def is_enough_offline(self, moment: Moment, lateness: float) -> bool:
        """Whether it is enough if no gateway answers. With an older one the report would come too late anyway."""
        return self.age(moment) < lateness

    def is_stopped(self, digest: str) -> bool:
        """Whether the query of this definition is stopped."""
        return any(state.is_stopped and state.digest == digest for state in (self.queries or {}).values())


def usable(state: KnownState | None, moment: Moment, lateness: float, trouble: str = "") -> KnownState:
    """Return a state after the try to read a newer one. Raise a DeliveryError if it is too old for an answer."""
    if state is not None and (state.is_fresh(moment) or state.is_enough_offline(moment, lateness)):
        return state
    raise DeliveryError(
        f"no gateway answered, and its last state is older than the lateness of {lateness:g} s, so a report would come "
        f"too late. Nothing was charged{trouble}"
    )


def refuse_stopped(state: KnownState, name: str, digest: str) -> None:
    """Raise Stopped or NotAllowed if a state does not let the definition of a name be answered."""
    if state.queries is None:
        return
    present = state.queries.get(name)
    if present is None:
        raise NotAllowed(f"the gateway does not count query {name!r} any more; nothing was charged")
    if present.is_stopped:
        raise Stopped(f"query {name!r} is stopped; nothing was charged, and it may go on later")
    if present.digest != digest:
        raise NotAllowed(
            f"query {name!r} has another definition now ({present.digest}, not {digest}); read it again with "
            "`HttpPublisher.query`, and make a new client. Nothing was charged"
        )


def _state_of_query(item: Any) -> StateOfQuery:
    digest, is_stopped = item["digest"], item["stopped"]
    if not isinstance(digest, str) or not isinstance(is_stopped, bool):
        raise TypeError("digest must be a text, and stopped true or false")
    return StateOfQuery(digest, is_stopped)
