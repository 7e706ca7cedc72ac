"""The changes of a simulated crowd over time, read from TOML. Each share is a function of the time.

The population decides which clients take part.
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
"""The bundled scenarios: the file of each name."""


@dataclass(frozen=True)
class Course:
    """A share of the clients over time: it rises, stays, and falls as fast as it rose.

    Times are seconds since the start.
    """

    share: float
    begins: int = 0
    rises: int = 0
    lasts: float = math.inf

    def at(self, seconds: float) -> float:
        age = seconds - self.begins
        remaining = self.begins + 2 * self.rises + self.lasts - seconds
        if age < 0 or remaining <= 0:
            return 0.0
        # Without a rise the share would be divided by 0 s.
        return self.share * min(1.0, age / self.rises, remaining / self.rises) if self.rises else self.share


@dataclass(frozen=True)
class Surge:
    """A change in which clients of all values take up one value, or a text of unknown strings."""

    course: Course
    attribute: int
    value: int | str


@dataclass(frozen=True)
class Fade:
    """A change in which clients with a value take up another. The share is of the clients with that value."""

    course: Course
    attribute: int
    value: int | str


@dataclass(frozen=True)
class Shift:
    """A change in which the numbers of clients are multiplied, for example because pages load more slowly."""

    course: Course
    attribute: int
    factor: float


@dataclass(frozen=True)
class Attack:
    """Clients that lie to push targets up. `targets` has a tuple of values per attribute."""

    course: Course
    kind: Literal["maximal_gain", "random_value"]
    targets: tuple[tuple[int | str, ...], ...]


Change = Surge | Fade | Shift | Attack


@dataclass(frozen=True)
class Conduct:
    """A share of clients with a wrong clock, or clients that send after their pane is closed; in seconds."""

    share: float
    clock: int = 0
    late: int | None = None


@dataclass(frozen=True)
class Rhythm:
    """The share of clients that answer over a day: all at the peak, and `quiet` half a day later."""

    quiet: float
    peak: int = 0
    day: int = DAY

    def at(self, moment: float) -> float:
        wave = (1.0 + math.cos(2.0 * math.pi * (moment - self.peak) / self.day)) / 2.0
        return self.quiet + (1.0 - self.quiet) * wave


@dataclass(frozen=True)
class Scenario:
    """All changes of a run. If several apply to one client, the last one wins. Attacks come last."""

    changes: tuple[Change, ...] = ()
    conducts: tuple[Conduct, ...] = ()
    """Each client has one of them at most."""
    rhythm: Rhythm | None = None
    duplicates: float = 0.0
    """The share of frames that clients send twice."""

    def activity(self, moment: float) -> float:
        """Return the rate of answers at `moment`, a Unix time, as a share of its peak."""
        return 1.0 if self.rhythm is None else self.rhythm.at(moment)


_SHARE = number("above 0 and at most 1", lambda value: 0 < value <= 1)
_TIME = duration(0)
_FOREVER = instead(duration(1), "forever", math.inf)


def _offset(text: object) -> int | None:
    """Return the seconds of a duration, which may have a minus sign."""
    length = seconds(text.removeprefix("-")) if isinstance(text, str) else None
    return -length if length and isinstance(text, str) and text.startswith("-") else length


_OFFSET = Rule(
    f'a duration other than 0 such as "30s" (ahead) or "-1h" (behind), at most {MAX_SECONDS // DAY}d',
    lambda value: bool(_offset(value)),
    _offset,
)


def read_scenario(path: str | PathLike[str], query: Query) -> Scenario:
    """Read the scenario of a TOML file for a query. A QueryError names the wrong key and the reason."""
    place = Place(fspath(path))
    return parse_scenario(read_toml(Path(path), place), place, query)


def find_scenario(name: str, query: Query) -> Scenario:
    """Return a bundled scenario by its name, or the scenario of a file."""
    # A name without a suffix is probably misspelt, and the list of names helps more than a missing file.
    if name not in BUNDLED and not Path(name).suffix and not Path(name).exists():
        raise ParameterError(f"no scenario and no file is named {name!r}; bundled scenarios: {', '.join(BUNDLED)}")
    return read_scenario(BUNDLED.get(name, name), query)


def parse_scenario(mapping: dict[str, Any], place: Place, query: Query) -> Scenario:
    scenario = table(mapping, place, ("surge", "fade", "shift", "attack", "late", "clock", "rhythm", "duplicate"))

    def read_tables(key: str, parse: Callable[[dict[str, Any], Place, Query], Any]) -> list[Any]:
        tables = scenario.get(key, [])
        if not isinstance(tables, list):
            raise (place / key).error(f"must be one or more tables [[{key}]], got {shown(tables)}")
        return [parse(item, place / key / str(index), query) for index, item in enumerate(tables)]

    def read_table(key: str, parse: Callable[[dict[str, Any], Place], Any]) -> list[Any]:
        return [parse(scenario[key], place / key)] if key in scenario else []

    changes = [
        *read_tables("surge", _surge),
        *read_tables("fade", _fade),
        *read_tables("shift", _shift),
        # Last, since an attacker replaces the whole report of a client that takes part in other changes too.
        *read_tables("attack", _attack),
    ]
    conducts = (*read_table("late", _late), *read_tables("clock", _clock))
    # The shares split one draw, so that each client has one conduct at most.
    if sum(conduct.share for conduct in conducts) > 1:
        raise place.error("the shares of late clients and of clients with a wrong clock exceed 1 together")

    rhythm = read_table("rhythm", _rhythm)
    duplicates = read_table("duplicate", _duplicate)
    return Scenario(
        changes=tuple(changes),
        conducts=conducts,
        rhythm=rhythm[0] if rhythm else None,
        duplicates=duplicates[0] if duplicates else 0.0,
    )


def _value(keys: dict[str, Any], key: str, rule: Rule, place: Place, default: Any = None) -> Any:
    """Return the value of a key. A key without a default is required."""
    if key not in keys and default is None:
        raise (place / key).error(f"is missing; it must be {rule.valid}")
    return rule(keys[key], place / key) if key in keys else default


def _course(keys: dict[str, Any], place: Place, rise: str = "rises", share: float | None = None) -> Course:
    return Course(
        _value(keys, "share", _SHARE, place, share),
        _value(keys, "begins", _TIME, place, 0),
        _value(keys, rise, _TIME, place, 0),
        _value(keys, "lasts", _FOREVER, place, math.inf),
    )


def _attribute(keys: dict[str, Any], place: Place, query: Query) -> tuple[int, Domain]:
    """Return the number of the table's attribute, and its domain."""
    names = [attribute.name for attribute in query.singles]
    if not names and "attribute" in keys:
        raise (place / "attribute").error(f"query {query.name!r} has no attributes")
    index = names.index(_value(keys, "attribute", choice(*names), place)) if names else 0
    return index, query.domains[index]


def _surge(keys: dict[str, Any], place: Place, query: Query) -> Surge:
    keys = table(keys, place, ("attribute", "value", "share", "begins", "rises", "lasts"))
    attribute, domain = _attribute(keys, place, query)
    return Surge(_course(keys, place), attribute, _value(keys, "value", domain.rule, place))


def _fade(keys: dict[str, Any], place: Place, query: Query) -> Fade:
    keys = table(keys, place, ("attribute", "value", "share", "begins", "falls", "lasts"))
    attribute, domain = _attribute(keys, place, query)
    return Fade(_course(keys, place, "falls", 1.0), attribute, _value(keys, "value", domain.rule, place))


_FACTOR = number("above 0", lambda value: 0 < value < math.inf)


def _shift(keys: dict[str, Any], place: Place, query: Query) -> Shift:
    keys = table(keys, place, ("attribute", "factor", "share", "begins", "rises", "lasts"))
    attribute, domain = _attribute(keys, place, query)
    if domain.scale is None:
        raise place.error("needs a query of numbers; for values use [[surge]] or [[fade]]")
    return Shift(_course(keys, place, share=1.0), attribute, _value(keys, "factor", _FACTOR, place))


def _attack(keys: dict[str, Any], place: Place, query: Query) -> Attack:
    keys = table(keys, place, ("attribute", "targets", "kind", "share", "begins", "lasts"))
    attribute, domain = _attribute(keys, place, query)
    if "targets" not in keys:
        raise (place / "targets").error("is missing; it must be a list of values of the domain")
    aims = several(keys["targets"], place / "targets", domain.rule)
    # An empty tuple for each other attribute, whose answers the attackers leave as they are.
    targets = tuple(aims if index == attribute else () for index in range(len(query.domains)))
    return Attack(_course(keys, place), _value(keys, "kind", choice("maximal_gain", "random_value"), place), targets)


def _late(keys: dict[str, Any], place: Place) -> Conduct:
    keys = table(keys, place, ("share", "by"))
    return Conduct(_value(keys, "share", _SHARE, place), late=_value(keys, "by", duration(1), place, 5))


def _clock(keys: dict[str, Any], place: Place, query: Query) -> Conduct:
    del query
    keys = table(keys, place, ("share", "by"))
    return Conduct(_value(keys, "share", _SHARE, place), clock=_value(keys, "by", _OFFSET, place))


def _rhythm(keys: dict[str, Any], place: Place) -> Rhythm:
    keys = table(keys, place, ("quiet", "peak", "day"))
    share = number("from 0 to 1", lambda value: 0 <= value <= 1)
    day = _value(keys, "day", duration(1), place, DAY)
    return Rhythm(_value(keys, "quiet", share, place), _value(keys, "peak", _TIME, place, 0), day)


def _duplicate(keys: dict[str, Any], place: Place) -> float:
    share: float = _value(table(keys, place, ("share",)), "share", _SHARE, place)
    return share
