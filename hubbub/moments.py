"""Moments that a user gives: Unix seconds, or a date or time as text or as a value of Python."""

import math
from datetime import UTC, date, datetime, time
from numbers import Real
from typing import Any

from oracles.errors import ParameterError

Moment = float | str | date
"""Unix seconds, a text of an option, or a date or datetime."""
_MOST_DIGITS = 12
"""Digits of Unix seconds. With 13 the present time is one in milliseconds."""


def unix_seconds(moment: Moment) -> int:
    """Return the Unix seconds of a moment. A time without a zone is in UTC, and a date is its midnight.

    >>> unix_seconds("2026-11-01T12:30"), unix_seconds("20261101"), unix_seconds("1700000000")
    (1793536200, 1793491200, 1700000000)
    """
    moment = _whole(moment)
    if isinstance(moment, int | str) and str(moment).isascii() and str(moment).isdecimal():
        return _of_digits(moment)
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    if isinstance(moment, str):
        moment = _of_text(moment)
    if not isinstance(moment, date):
        raise ParameterError(f"must be Unix seconds, a text, a date or a datetime, got {moment!r}")
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())


def utc(seconds: int) -> str:
    """Return a moment as a person reads it, in UTC.

    >>> utc(1793536200)
    '2026-11-01 12:30:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _whole(moment: Any) -> Any:
    """Return a number as a whole one, also that of NumPy or `time.time()`, and anything else as it is."""
    is_number = isinstance(moment, Real) and not isinstance(moment, bool)
    return math.floor(moment) if is_number and math.isfinite(moment) else moment


def _of_digits(moment: int | str) -> int:
    digits = str(moment)
    if len(digits) > _MOST_DIGITS:
        raise ParameterError(f"must be Unix seconds, not milliseconds, got {digits}")
    # Eight digits that form a date are more likely a date than a second of 1970. An integer is no text of a date.
    if isinstance(moment, str) and len(digits) == len("20261101"):
        try:
            return unix_seconds(date.fromisoformat(digits))
        except ValueError:
            pass
    return int(digits)


def _of_text(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"must be a date, a time such as 2026-01-01T10:00:00Z, or Unix seconds, got {text!r}"
        ) from None
