"""The cells of tables of comma-separated values."""

from typing import Any

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> str:
    """Numbers are the shortest that read back the same; a text is none that a spreadsheet would run."""
    if value is None or value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULAS) else value
    return repr(value)
