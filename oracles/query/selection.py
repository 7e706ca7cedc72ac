"""Keys of a query that choose its oracle: its name, the budget, the noise and the tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

from oracles.discover import Slots, Strings
from oracles.errors import ParameterError
from oracles.mechanisms import (
    ALL_ORACLES,
    EACH,
    NEWEST,
    TABLE,
    WITH_TABLE,
    automatic,
    chance,
    oracle,
    with_noise,
)
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import MOST
from oracles.multi import ADAPTIVE, multi
from oracles.multi.attributes import Multi
from oracles.query.domain import Domain
from oracles.query.draft import Draft
from oracles.query.lifetime import Make, times
from oracles.query.settings import Place, Rule, choice, number, table, whole
from oracles.query.strings import ORACLES_OF_CELLS, Discovery

AUTO = "auto"
"""The name in a file for the oracle that fits best."""
_ORACLE = choice(*ALL_ORACLES, AUTO)
_POINTS = whole(f"a whole number from 1 to {MOST}", 1, MOST)
_TEXT = Rule("the name of an oracle", lambda value: isinstance(value, str))
_EACH = Rule(
    "the name of an oracle, or a list with that of each attribute",
    lambda value: all(isinstance(name, str) for name in (value if isinstance(value, list) else [value])),
)


_SHAPE = ("buckets", "subset", "rows")
"""Keys of the buckets of a report."""
_oracle = lru_cache(maxsize=1 << 10)(oracle)
"""The oracle with these settings. Many queries share one, because an oracle does not change."""


class Selection(NamedTuple):
    """The oracle of a query, and the function that makes the oracle of other settings."""

    oracle: Oracle | Multi
    names: tuple[str, ...]
    """Names of the encoders, never `auto` or `adaptive`."""
    encoders: Sequence[Oracle]
    """Oracle of each attribute, or of the one answer."""
    make: Make


def record_epsilon(draft: Draft) -> float:
    """Return the epsilon of a whole record. That of rsfd is larger, because one attribute hides among fake ones."""
    epsilon: float = draft["epsilon"]
    return chance.amplified(epsilon, len(draft["attributes"])) if draft["solution"] == "rsfd" else epsilon


def read_budget(draft: Draft) -> float:
    """Return the epsilon that a client may spend, at least that of one record."""
    epsilon = record_epsilon(draft)
    rule = number(f"of at least the epsilon of one record ({epsilon})", lambda value: value >= epsilon)
    budget: float = draft.read("budget", rule, 4 * epsilon)
    return budget


def read_points(draft: Draft) -> int | dict[int, int] | None:
    """Return the t of the table of the one answer, or of each attribute that has one, by its number."""
    if not draft["attributes"]:
        return draft.read("table", _POINTS, None) if "table" in draft else None

    names = [*draft["attributes"], *(pair.name for pair in draft["pairs"])]
    place = draft.at("table")
    points = table(draft.table.get("table", {}), place, names)
    return {names.index(name): _POINTS(value, place / name) for name, value in points.items()}


def read_oracle(draft: Draft) -> Selection:
    """Return the oracle. It needs the domains, the budget, the noise and the tables."""
    make = _several_maker(draft) if draft["attributes"] else _one_maker(draft)
    fault = next((key for key in ("table", *_SHAPE) if key in draft), "oracle")
    with _refusals(draft.at(fault)):
        oracle = make()

    encoders = oracle.encoders
    _check_table(draft, encoders)
    return Selection(_hashed(draft, oracle), oracle.names, encoders, make)


def open_keys(draft: Draft) -> frozenset[str]:
    """Return the keys that decide about reports and that the file leaves open."""
    keys = {key for key in ("noise", "table") if key not in draft}
    if "domain" in draft and draft.table.get("oracle", AUTO) == AUTO:
        keys |= {"oracle", *_SHAPE}
    return frozenset(keys)


def _one_maker(draft: Draft) -> Make:
    """Return the function that makes the oracle of the one answer."""
    domain = draft["domain"]
    name = draft.read("oracle", _ORACLE, AUTO)
    if name not in (*domain.oracles, AUTO):
        raise draft.error("oracle", domain.wrong_oracle.format(name))
    name = domain.only_oracle or name
    epsilon = draft["epsilon"]
    budget = draft["budget"]
    is_each = draft["noise"] == EACH or (draft["noise"] is None and draft.edition == 1)
    if name == AUTO and draft["answers"] == "life" and is_each and times(budget, epsilon) < 2:
        raise draft.error(
            "answers",
            f'"life" charges at least 2 epsilon = {2 * epsilon:g}, above the budget of {budget:g}; '
            f'use budget = {2 * epsilon:g}, or epsilon = {budget / 2:g}, or answers = "once" or "fresh"',
        )
    shape = {key: draft[key] for key in _SHAPE}
    return partial(_one, draft, oracle=name, **shape, epsilon=epsilon)


def _one(draft: Draft, *, oracle: str, epsilon: float, **shape: Any) -> Oracle:
    """Return the oracle of one answer."""
    if oracle == AUTO and all(value is None for value in shape.values()):
        return _automatic(draft, epsilon)

    make = partial(_oracle, oracle, epsilon=epsilon, size=draft["domain"].size, **shape)
    return with_noise(make(), _resolved_noise(draft), draft["table"], lambda t: make(table=t))


def _automatic(draft: Draft, epsilon: float) -> Oracle:
    """Return the oracle that "auto" chooses. Answers for life must fit the budget."""
    domain = draft["domain"]
    noise = draft["noise"]
    most = draft["budget"] if draft["answers"] == "life" or noise == TABLE else None
    choose = partial(automatic, epsilon, domain.size, budget=most, table=draft["table"])
    if not draft.has_strings:
        return choose(classes=None if most is None else times(most, epsilon), edition=draft.edition, noise=noise)

    # Unknown strings are younger than edition 2, so all editions choose alike.
    noise = noise or (EACH if draft.edition == 1 else None)
    return choose(classes=None, edition=NEWEST, noise=noise, among=ORACLES_OF_CELLS)


def _hashed(draft: Draft, oracle: Oracle | Multi) -> Oracle | Multi:
    """Return the oracle of unknown strings from that of their cells. Other oracles stay."""
    if not draft.has_strings:
        return oracle
    discovery: Discovery = draft["domain"].discovery
    # The digest keys the hash, and it needs the whole query. Until then the key is zero.
    return Slots(Strings(discovery.coding, discovery.cells, bytes(8)), lambda _: cast(Oracle, oracle))


def _several_maker(draft: Draft) -> Make:
    """Return the function that makes the oracle of several attributes."""
    # A definition in a topic names the oracle that "adaptive" chose when it was written.
    names = draft.read("oracle", _EACH if draft.folder is None else _TEXT, ADAPTIVE)
    if "sub" in (names if isinstance(names, list) else [names]):
        raise draft.error("oracle", 'must be another oracle than "sub", which is for one answer')
    unsuitable = next((key for key in ("subset", "rows") if key in draft), None)
    if unsuitable is not None:
        raise draft.error(unsuitable, "must be absent: it is for the oracle sub, which is for one answer")

    domains = list(draft["attributes"].values())
    if any(domain.only_oracle for domain in domains):
        names = _names_for(domains, names, draft)
    return partial(
        multi,
        draft["solution"],
        sizes=[domain.size for domain in domains],
        epsilon=draft["epsilon"],
        oracle=names,
        buckets=draft["buckets"],
        noise=_resolved_noise(draft),
        tables=draft["table"],
        pairs=[attribute.pair for attribute in draft["pairs"]],
    )


def _resolved_noise(draft: Draft) -> str:
    """Return the noise of an oracle that can have a table."""
    by_default = TABLE if draft.edition > 1 and draft["answers"] == "life" else EACH
    return draft["noise"] or by_default


def _names_for(domains: list[Domain], names: str | list[str], draft: Draft) -> list[str]:
    """Return the oracle of each attribute, if some have no choice."""
    if draft["solution"] == "rsfd":
        raise draft.error("solution", 'must be "smp" or "spl" if an attribute is a number, got "rsfd"')
    names = [names] * len(domains) if isinstance(names, str) else names
    if len(names) != len(domains):
        raise draft.error("oracle", f"must name one oracle, or one for each of {len(domains)} attributes")
    return [domain.only_oracle or name for domain, name in zip(domains, names, strict=True)]


def _check_table(draft: Draft, encoders: Sequence[Oracle]) -> None:
    """Refuse a table for oracles that have none."""
    if any(encoder.tables is not None for encoder in encoders):
        return
    if draft["table"]:
        raise draft.error("table", f'needs noise = "{TABLE}", and an oracle with at most {MOST} buckets or values')
    if draft["noise"] == TABLE:
        names = ", ".join(dict.fromkeys(encoder.name for encoder in encoders))
        raise draft.error(
            "noise",
            f'"{TABLE}" needs an oracle with at most {MOST} buckets or values ({", ".join(sorted(WITH_TABLE))}), '
            f'got {names}; use noise = "{EACH}", or name an oracle and `buckets`',
        )


@contextmanager
def _refusals(place: Place) -> Iterator[None]:
    """Turn an oracle's ParameterError into a QueryError with file and key."""
    try:
        yield
    except ParameterError as error:
        raise place.error(str(error)) from error
