"""The answers of a gateway: which refusals are final, and how long a client should wait."""

import json

_FINAL = (400, 409, 413, 415)
"""Statuses of refusals that another try would not change."""
_FULL_REASONS = ("quota", "ids")
"""The reasons of a 429 for a pane that never gets more room."""
_LONGEST_REQUESTED_PAUSE = 3600.0
"""Longest pause that a gateway may ask for, in seconds."""


def is_final(status: int, body: bytes) -> bool:
    # A pane never gets more room. Such a frame would be tried until it is late, in one of four places.
    return status in _FINAL or (status == 429 and reason(body) in _FULL_REASONS)


def reason(body: bytes) -> object:
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return problem.get("reason") if isinstance(problem, dict) else None


def seconds(header: str | None) -> float:
    """Return the pause of a Retry-After header in seconds, at most an hour. It is 0 if the header is no number above 0.

    >>> seconds("30"), seconds("99999"), seconds("Infinity"), seconds("-5"), seconds("nan"), seconds(None)
    (30.0, 3600.0, 3600.0, 0.0, 0.0, 0.0)
    """
    try:
        seconds = float(header or 0)
    except ValueError:
        return 0.0  # a date, for example: the pauses grow without it

    # Not a number is not above 0 either.
    return min(seconds, _LONGEST_REQUESTED_PAUSE) if seconds > 0 else 0.0


def detail(body: bytes) -> str:
    """Return the start of a problem's text, short enough for a log."""
    return body[:500].decode(errors="replace")
