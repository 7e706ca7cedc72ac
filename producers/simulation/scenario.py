"""The changes of a simulated crowd over time: read from TOML, each share a function of the time.

Nothing here draws anything: which clients take part, the population decides.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from oracles.errors import ParameterError
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.settings import (
    MAX_SECONDS,
    Place,
    Rule,
    choice,
    duration,
    instead,
    number,
    seconds,
    several,
    shown,
    table,
)
from oracles.query.text import read_toml

DAY = 86_400
BUNDLED = {path.stem: path for path in sorted(Path(__file__).with_name("scenarios").glob("*.toml"))}
"""The scenarios that come with the package, by name."""


@dataclass(frozen=True)
class Course:
    """A share of the clients: it rises, stays, and falls as fast as it rose. Seconds since the start."""

    share: float
    begins: int = 0
    rises: int = 0
    lasts: float = math.inf

    def at(self, elapsed: float) -> float:
        since, left = elapsed - self.begins, self.begins + 2 * self.rises + self.lasts - elapsed
        if since < 0 or left <= 0:
            return 0.0
        return self.share * min(1.0, since / self.rises, left / self.rises) if self.rises else self.share


@dataclass(frozen=True)
class Surge:
    """Clients take up a value, whatever theirs was."""

    course: Course
    attribute: int
    value: int


@dataclass(frozen=True)
class Fade:
    """Those who hold a value take up another; the share is of them."""

    course: Course
    attribute: int
    value: int


@dataclass(frozen=True)
class Attack:
    """Clients that lie to push their targets up, a tuple of them an attribute."""

    course: Course
    kind: Literal["maximal_gain", "random_value"]
    targets: tuple[tuple[int, ...], ...]


Change = Surge | Fade | Attack


@dataclass(frozen=True)
class Conduct:
    """How a share of the clients sends: with a clock that is off, or after the pane is closed; seconds."""

    share: float
    clock: int = 0
    late: int | None = None


@dataclass(frozen=True)
class Rhythm:
    """How many answer, over a day: all at the peak, the share `quiet` half a day away from it."""

    quiet: float
    peak: int = 0
    day: int = DAY

    def at(self, moment: float) -> float:
        wave = (1.0 + math.cos(2.0 * math.pi * (moment - self.peak) / self.day)) / 2.0
        return self.quiet + (1.0 - self.quiet) * wave


@dataclass(frozen=True)
class Scenario:
    """All that happens. Where changes meet in one client, the last one wins, and attacks are last."""

    changes: tuple[Change, ...] = ()
    conducts: tuple[Conduct, ...] = ()
    """No client has two of them."""
    rhythm: Rhythm | None = None
    duplicates: float = 0.0
    """The share of frames that are sent twice."""

    def activity(self, moment: float) -> float:
        """The share of its peak that the rate of answers has at `moment`, in Unix seconds."""
        return 1.0 if self.rhythm is None else self.rhythm.at(moment)


_SHARE = number("above 0 and at most 1", lambda value: 0 < value <= 1)
_TIME = duration(0)
_FOREVER = instead(duration(1), "forever", math.inf)


def _offset(text: object) -> int | None:
    """Seconds of a duration that may have a minus sign."""
    length = seconds(text.removeprefix("-")) if isinstance(text, str) else None
    return -length if length and isinstance(text, str) and text.startswith("-") else length


_OFFSET = Rule(
    f'a duration other than 0 such as "30s" (ahead) or "-1h" (behind), at most {MAX_SECONDS // DAY}d',
    lambda value: bool(_offset(value)),
    _offset,
)


def read_scenario(path: str | PathLike[str], query: Query) -> Scenario:
    """The scenario in a TOML file, for a query; QueryError says what cannot be used, where and why."""
    at = Place(fspath(path))
    return parse_scenario(read_toml(Path(path), at), at, query)


def chosen_scenario(given: str, query: Query) -> Scenario:
    """One of ours by its name, or that of a file."""
    if given not in BUNDLED and not Path(given).suffix and not Path(given).exists():
        raise ParameterError(f"there is no scenario {given!r}, of ours {', '.join(BUNDLED)}, nor a file of that name")
    return read_scenario(BUNDLED.get(given, given), query)


def parse_scenario(mapping: dict[str, Any], at: Place, query: Query) -> Scenario:
    given = table(mapping, at, ("surge", "fade", "attack", "late", "clock", "rhythm", "duplicate"))

    def each(key: str, read: Callable[[dict[str, Any], Place, Query], Any]) -> list[Any]:
        tables = given.get(key, [])
        if not isinstance(tables, list):
            raise (at / key).error(f"must be one or more tables [[{key}]], got {shown(tables)}")
        return [read(item, at / key / str(index), query) for index, item in enumerate(tables)]

    def one(key: str, read: Callable[[dict[str, Any], Place], Any]) -> list[Any]:
        return [read(given[key], at / key)] if key in given else []

    changes = (*each("surge", _surge), *each("fade", _fade), *each("attack", _attack))
    conducts = (*one("late", _late), *each("clock", _clock))
    if sum(conduct.share for conduct in conducts) > 1:
        raise at.error("the shares of late clients and of those with a wrong clock must not exceed 1 together")
    rhythm, duplicates = one("rhythm", _rhythm), one("duplicate", _duplicate)
    return Scenario(changes, conducts, rhythm[0] if rhythm else None, duplicates[0] if duplicates else 0.0)


def _of(given: dict[str, Any], key: str, rule: Rule, at: Place, default: Any = None) -> Any:
    """The value of a key; it must be there unless it has a default."""
    if key not in given and default is None:
        raise (at / key).error(f"is missing; it must be {rule.valid}")
    return rule(given[key], at / key) if key in given else default


def _course(given: dict[str, Any], at: Place, rise: str = "rises", share: float | None = None) -> Course:
    return Course(
        _of(given, "share", _SHARE, at, share),
        _of(given, "begins", _TIME, at, 0),
        _of(given, rise, _TIME, at, 0),
        _of(given, "lasts", _FOREVER, at, math.inf),
    )


def _place(given: dict[str, Any], at: Place, query: Query) -> tuple[int, Domain]:
    """The attribute that is spoken of, and its domain."""
    names = [attribute.name for attribute in query.attributes]
    if not names and "attribute" in given:
        raise (at / "attribute").error(f"{query.name} has one answer a client, and no attributes")
    index = names.index(_of(given, "attribute", choice(*names), at)) if names else 0
    return index, query.domains[index]


def _domain_value(domain: Domain) -> Rule:
    return Rule("a value of the domain", lambda value: domain.find(value) is not None, domain.find)


def _surge(given: dict[str, Any], at: Place, query: Query) -> Surge:
    given = table(given, at, ("attribute", "value", "share", "begins", "rises", "lasts"))
    attribute, domain = _place(given, at, query)
    return Surge(_course(given, at), attribute, _of(given, "value", _domain_value(domain), at))


def _fade(given: dict[str, Any], at: Place, query: Query) -> Fade:
    given = table(given, at, ("attribute", "value", "share", "begins", "falls", "lasts"))
    attribute, domain = _place(given, at, query)
    return Fade(_course(given, at, "falls", 1.0), attribute, _of(given, "value", _domain_value(domain), at))


def _attack(given: dict[str, Any], at: Place, query: Query) -> Attack:
    given = table(given, at, ("attribute", "targets", "kind", "share", "begins", "lasts"))
    attribute, domain = _place(given, at, query)
    if "targets" not in given:
        raise (at / "targets").error("is missing; it must be a list of values of the domain")
    aims = several(given["targets"], at / "targets", _domain_value(domain))
    targets = tuple(aims if index == attribute else () for index in range(len(query.domains)))
    return Attack(_course(given, at), _of(given, "kind", choice("maximal_gain", "random_value"), at), targets)


def _late(given: dict[str, Any], at: Place) -> Conduct:
    given = table(given, at, ("share", "by"))
    return Conduct(_of(given, "share", _SHARE, at), late=_of(given, "by", duration(1), at, 5))


def _clock(given: dict[str, Any], at: Place, query: Query) -> Conduct:
    del query
    given = table(given, at, ("share", "by"))
    return Conduct(_of(given, "share", _SHARE, at), clock=_of(given, "by", _OFFSET, at))


def _rhythm(given: dict[str, Any], at: Place) -> Rhythm:
    given = table(given, at, ("quiet", "peak", "day"))
    share = number("from 0 to 1", lambda value: 0 <= value <= 1)
    day = _of(given, "day", duration(1), at, DAY)
    return Rhythm(_of(given, "quiet", share, at), _of(given, "peak", _TIME, at, 0), day)


def _duplicate(given: dict[str, Any], at: Place) -> float:
    share: float = _of(table(given, at, ("share",)), "share", _SHARE, at)
    return share
