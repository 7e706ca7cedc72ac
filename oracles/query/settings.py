"""Values of a query file: their rules, windows, thresholds and quantiles, and errors with file, key and valid range."""

import calendar
import re
import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from oracles.consistency import BASE, METHODS
from oracles.errors import QueryError
from oracles.numbers import Scale

MAX_WHOLE = (1 << 63) - 1
MAX_SECONDS = 36_500 * 86_400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,10})([smhd])")
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Place:
    """The place of a value: a file, and the keys that lead to it."""

    file: str
    keys: tuple[str, ...] = ()

    def __truediv__(self, key: str) -> "Place":
        return Place(self.file, (*self.keys, key))

    def error(self, fault: str) -> QueryError:
        path = ".".join(key if _BARE.fullmatch(key) else repr(key) for key in self.keys)
        return QueryError(": ".join(part for part in (self.file, path, fault) if part))


def shown(value: object) -> str:
    """Return a value as an error quotes it: one short line."""
    try:
        # The representation of a date of TOML is a call in Python.
        text = str(value) if hasattr(value, "isoformat") else repr(value)
    except (ValueError, RecursionError):
        # Python refuses to print integers of more than 4,300 digits.
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(word: str, words: Collection[str]) -> str:
    """Return a hint: the most similar of `words`, or all of them."""
    import difflib  # only errors need it, and it takes milliseconds

    matches = difflib.get_close_matches(word, words, 1)
    return f"did you mean {matches[0]!r}?" if matches else f"choose from {', '.join(sorted(words))}"


@dataclass(frozen=True)
class Rule:
    """A rule for values, in words and in code, with the conversion of a valid value and the way back."""

    valid: str
    holds: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value
    dump: Callable[[Any], Any] = lambda value: value
    """Function that returns a converted value as a query file has it."""

    def __call__(self, value: object, place: Place) -> Any:
        if not self.holds(value):
            raise place.error(f"must be {self.valid}, got {shown(value)}")
        return self.convert(value)


def number(valid: str, holds: Callable[[float], bool]) -> Rule:
    """Return a rule for finite numbers, which become floats."""

    def finite(value: object) -> bool:
        # TOML has integers above every float, which `float` would refuse with another error.
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max

    return Rule(f"a number {valid}", lambda value: finite(value) and holds(value), float)


def whole(valid: str, minimum: int, maximum: int = MAX_WHOLE) -> Rule:
    return Rule(valid, lambda value: type(value) is int and minimum <= value <= maximum)


def choice(*names: str) -> Rule:
    return Rule(f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


def instead(rule: Rule, word: str, meaning: Any) -> Rule:
    """Return a rule that also accepts one word."""
    return Rule(
        f'{rule.valid}, or "{word}"',
        lambda value: value == word or rule.holds(value),
        lambda value: meaning if value == word else rule.convert(value),
        lambda value: word if value == meaning else rule.dump(value),
    )


def seconds(text: object) -> int | None:
    """Return a duration such as "10s", "1m", "2h" or "1d" in seconds, or None if the text is none."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    length = int(match[1]) * _UNITS[match[2]] if match else None
    return length if length is not None and length <= MAX_SECONDS else None


def duration(minimum: int) -> Rule:
    def is_long_enough(value: object) -> bool:
        length = seconds(value)
        return length is not None and length >= minimum

    return Rule(
        f'a duration such as "10s", "1m", "2h" or "1d", from {minimum}s to {MAX_SECONDS // 86_400}d',
        is_long_enough,
        seconds,
        lambda length: None if length is None else f"{length}s",
    )


def instant(value: object) -> int | None:
    """Return a TOML date or date-time in whole Unix seconds, UTC without an offset. None for all other values."""
    fields = getattr(value, "utctimetuple", None) or getattr(value, "timetuple", None)
    if fields is None or getattr(value, "microsecond", None):
        return None
    try:
        return calendar.timegm(fields())
    except OverflowError:  # an offset leads out of the years 1 to 9999
        return None


FLAG = Rule("true or false", lambda value: isinstance(value, bool))
INSTANT = Rule(
    "a date such as 2026-01-01, or a date and time in whole seconds, both without quotes",
    lambda value: instant(value) is not None,
    instant,
)


def table(value: object, place: Place, allowed: Collection[str] | None = None) -> dict[str, Any]:
    """Return a table whose keys are all in `allowed`. Without `allowed` its keys are names."""
    if not isinstance(value, dict):
        raise place.error(f"must be a table, got {shown(value)}")
    for key in value:
        if allowed is None and not NAME.fullmatch(key):
            raise (place / key).error("a name must be 1 to 64 of the characters A-Z a-z 0-9 _ . -")
        if allowed is not None and key not in allowed:
            raise (place / key).error(f"unknown key; {nearest(key, allowed)}")
    return value


def several(value: object, place: Place, rule: Rule) -> tuple[Any, ...]:
    """Return a list of one or more items, each by the same rule, none twice."""
    if not isinstance(value, list) or not value:
        raise place.error(f"must be a list of one or more, each {rule.valid}; got {shown(value)}")
    items = tuple(rule(item, place) for item in value)
    repeat = repeated(items)
    if repeat is not None:
        raise place.error(f"must be a list without repeats, got {shown(value[repeat])} twice")
    return items


def repeated(items: Sequence[Hashable]) -> int | None:
    """Return the index of the first item that occurs earlier in the list, or None."""
    earlier_items: set[Hashable] = set()
    for index, item in enumerate(items):
        if item in earlier_items:
            return index
        earlier_items.add(item)
    return None


@dataclass(frozen=True)
class Window:
    """A union of consecutive panes, in seconds. `all` starts with the query and has size and step 0."""

    kind: Literal["tumbling", "hopping", "all"]
    size: int
    step: int

    @property
    def text(self) -> str:
        """The window as a query file has it."""
        if self.kind == "all":
            return "all"
        return f"{self.size}s" if self.size == self.step else f"{self.size}s/{self.step}s"


@dataclass(frozen=True)
class Threshold:
    """The limit above which a value is a heavy hitter: a share, a count, or significance (value 0)."""

    kind: Literal["significance", "share", "count"]
    value: float = 0.0

    def share(self, n: int) -> float | None:
        """Return the threshold as a share of `n` reports, or None for significance."""
        if self.kind == "significance" or not n:
            return None
        return self.value if self.kind == "share" else min(1.0, self.value / n)

    @property
    def in_file(self) -> str | float | dict[str, int]:
        """The threshold as a query file has it."""
        if self.kind == "count":
            return {"count": int(self.value)}
        return self.value if self.kind == "share" else "significance"


ANSWERS = ("life", "once", "fresh")
"""Ways in which a client repeats itself."""
_METHOD = choice(*(name for name in METHODS if name != BASE))
"""Methods that a query can name. The unbiased shares are always there."""
POSITIVE = whole("a whole number of at least 1", 1)

QUANTILES = (0.5, 0.9, 0.95, 0.99)
"""Quantiles of numbers in a record by default."""
_QUANTILE = number("above 0 and below 1", lambda value: 0 < value < 1)
_QUANTILE_NAME = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,9})?)")

_THRESHOLD = Rule(
    '"significance", a share above 0 and below 1, or { count = N } with N of at least 1',
    lambda value: value == "significance" or (isinstance(value, float) and 0 < value < 1),
    lambda value: Threshold("significance") if value == "significance" else Threshold("share", value),
)


def read_windows(value: object, place: Place, pane: int) -> tuple[Window, ...]:
    rule = Rule(
        f'"all", "SIZE" or "SIZE/STEP" such as "1m/10s": multiples of the pane ({pane}s), STEP at most SIZE',
        lambda text: _window(text, pane) is not None,
        lambda text: _window(text, pane),
    )
    return several(value, place, rule)


def _window(text: object, pane: int) -> Window | None:
    if text == "all":
        return Window("all", 0, 0)
    lengths = [seconds(part) for part in text.split("/")] if isinstance(text, str) else []
    if len(lengths) not in (1, 2):
        return None

    size = lengths[0]
    step = lengths[-1]
    if not size or not step or size % pane or step % pane or step > size:
        return None
    return Window("tumbling" if step == size else "hopping", size, step)


def read_methods(value: object, place: Place) -> tuple[str, ...]:
    return several(value, place, _METHOD)


def read_quantiles(value: object, place: Place) -> tuple[float, ...]:
    return several(value, place, _QUANTILE)


def read_limits(value: object, place: Place, scale: Scale) -> tuple[tuple[float, float], ...]:
    """Return the limits of a table such as { p95 = 2000 }, by quantile."""
    limits = []
    rule = number(f"within the scale, from {scale.low:g} to {scale.high:g}", lambda x: scale.low <= x <= scale.high)
    for name, limit in table(value, place).items():
        share = quantile_of(name)
        if share is None:
            raise (place / name).error('must be the name of a quantile, such as "p95" or "p99.9"')
        limits.append((share, rule(limit, place / name)))

    if not limits:
        raise place.error("must be a table such as { p95 = 2000 } for numbers")
    return tuple(sorted(limits))


def quantile_name(share: float) -> str:
    """Return the name of a quantile: p and the percentage, without zeros at the end.

    >>> quantile_name(0.95), quantile_name(0.999), quantile_of("p99.9")
    ('p95', 'p99.9', 0.999)
    """
    # The float 0.95 is a little less than 95%. Its shortest text is exact.
    return f"p{Decimal(repr(share)) * 100:f}".rstrip("0").rstrip(".") if share != 1 else "p100"


def quantile_of(name: str) -> float | None:
    """Return the quantile of a name, or None if it is none."""
    match = _QUANTILE_NAME.fullmatch(name)
    share = float(Decimal(match[1]) / 100) if match else 0.0
    return share if 0.0 < share < 1.0 and quantile_name(share) == name else None


def read_threshold(value: object, place: Place) -> Threshold:
    if isinstance(value, dict) and value:
        return Threshold("count", POSITIVE(table(value, place, ("count",))["count"], place / "count"))
    threshold: Threshold = _THRESHOLD(value, place)
    return threshold
