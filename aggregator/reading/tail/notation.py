"""Texts of values, shares, windows and times for a terminal. Pure, except for the time zone."""

import json
import math
import re
import time
from collections.abc import Callable, Sequence

from aggregator.records.characters import is_visible
from oracles.query.settings import Window

LENGTH = 40
"""Maximum number of characters of a value."""
_EMOJI_PARTS = frozenset("\u200d\ufe0e\ufe0f")
"""The zero width joiner and two variation selectors. All other invisible characters are escaped."""
_FOREIGN = re.compile("[^ -~]")
"""All characters but those of ASCII that are plain."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_LEAST_PLAIN = 1e-6
_MOST_PLAIN = 1e15
"""Numbers outside of these are shown with a power of ten."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def plain(text: str, length: int = LENGTH) -> str:
    r"""Return foreign text as one short line, with control and invisible characters escaped.

    Long text keeps its two ends, because related names often differ at the end.

    >>> print(plain("nice" + chr(27) + "[2J"))
    nice\x1b[2J
    >>> print(plain("shop/shoes/running/second-hand", 20))
    shop/.../second-hand
    """
    if len(text) > length:
        head = (length - 3) // 3
        text = f"{text[:head]}...{text[head + 3 - length :]}"
    return escaped(text)


def escaped(text: str) -> str:
    """Return foreign text with control and invisible characters escaped.

    Anybody may send names. Without this, an escape sequence could control the reader's terminal.
    """
    return _escaped(text, lambda character: character.encode("unicode_escape").decode())


def escaped_json(text: str) -> str:
    r"""Return JSON with the same characters escaped, which changes no value.

    >>> print(escaped_json('"left' + chr(0x202E) + chr(0x9B) + '"'))
    "left\u202e\u009b"
    """
    return _escaped(text, lambda character: json.dumps(character)[1:-1])


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    def replace(match: re.Match[str]) -> str:
        character = match[0]
        return character if character in _EMOJI_PARTS or is_visible(character) else escape(character)

    return _FOREIGN.sub(replace, text)


def label(window: Window) -> str:
    """Return a window as query files write it, such as 10s, 1m/10s or all."""
    if window.kind == "all":
        return "all"
    size = _duration(window.size)
    return size if window.kind == "tumbling" else f"{size}/{_duration(window.step)}"


def _duration(seconds: int) -> str:
    unit, letter = next(unit for unit in _UNITS if seconds % unit[0] == 0)
    return f"{seconds // unit}{letter}"


def lateness(seconds: float) -> str:
    """Return a delay in its usual unit, such as 40 s, 3 min or 2 h."""
    for unit, word in ((5_400, "h"), (90, "min")):
        if seconds >= unit:
            return f"{seconds / (3600 if word == 'h' else 60):.0f} {word}"
    return f"{seconds:.0f} s"


def clock(seconds: int) -> str:
    """Return the local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def moment(seconds: int) -> str:
    """Return the local date and time of day."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def brief(count: int) -> str:
    """Return a count in at most six characters.

    >>> brief(12_345), brief(1_234_567), brief(987_654_321)
    ('12,345', '1.23M', '988M')
    """
    for unit, letter in ((10**9, "G"), (10**6, "M")):
        if count >= unit:
            # With three digits, 999.5 and more would be written with a power of ten.
            return f"{count / unit:.3g}{letter}" if count < 999.5 * unit else f"{count / unit:.0f}{letter}"
    return f"{count:,}" if count < 100_000 else f"{count // 1000}k"


def level_text(level: float) -> str:
    """Return the level of intervals as text, with two digits of the part that misses.

    >>> level_text(0.95), level_text(0.999), level_text(1 - 0.05 / 300)
    ('95%', '99.9%', '99.983%')
    """
    places = 1 - math.floor(math.log10(100.0 * (1.0 - level)))
    return f"{f'{100.0 * level:.{max(places, 1)}f}'.rstrip('0').rstrip('.')}%"


def quantity(number: float, error: float, unit: str | None = None) -> str:
    """Return a number with its unit, so that two digits of its error are visible.

    >>> quantity(2310.4, 120.0, "ms"), quantity(0.1234, 0.02, None), quantity(1.234e20, 1e18)
    ('2,310 ms', '0.123', '1.234e+20')
    """
    size = abs(number)
    power = math.floor(math.log10(error)) if error > 0.0 else -1
    if size >= _MOST_PLAIN or (0.0 < size < _LEAST_PLAIN and error < size):
        text = f"{number:.{min(15, max(1, math.floor(math.log10(size)) - power + 2))}g}"
    else:
        text = f"{number:z,.{min(8, max(0, 1 - power))}f}"
    return f"{text} {plain(unit)}" if unit else text


def sparkline(shares: Sequence[float | None]) -> str:
    """Return a block for each share, scaled to the largest, and a blank for None.

    >>> sparkline([0.1, None, 0.4, 0.8])
    '▂ ▅█'
    """
    peak = max((share for share in shares if share is not None), default=0.0)
    steps = len(_BLOCKS) - 1

    def block(share: float) -> str:
        # An unbiased share may be below zero.
        return _BLOCKS[max(0, round(share / peak * steps)) if peak > 0.0 else 0]

    return "".join(" " if share is None else block(share) for share in shares)
