"""Shares as percentages, with as many digits as their errors allow."""

import math


def digits(error: float) -> int:
    """Return the decimals of a percentage with this error, so that two digits of the error are visible."""
    return min(8, max(0, 1 - math.floor(math.log10(100.0 * error)))) if error > 0.0 else 2


def percent(share: float, places: int) -> str:
    # Without the `z`, a small share below zero would be -0%.
    return f"{100.0 * share:z.{places}f}%"
