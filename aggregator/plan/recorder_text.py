"""The sentence of `hubbub check` about a recorder: the notes that each device keeps, and how often it tells of them."""

from oracles.query import Query

_KEPT = {
    "count": "Each device counts on the device",
    "max": "Each device keeps the largest number on the device",
    "last": "Each device keeps the newest value on the device",
    "step": "Each device keeps the furthest step on the device",
    "days": "Each device counts its days of use on the device",
    "since": "Each device keeps the time of its last use on the device",
    "age": "Each device keeps the time of its first use on the device",
}
_LENGTHS = {3600: "hour", 86_400: "day", 7 * 86_400: "week"}
_UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_TO_NOW = {
    "since": "about the time since then, counted in periods",
    "age": "about the time since then, counted in periods",
}


def sentence(query: Query) -> str | None:
    """Return what a device keeps and tells, or None if the query has no recorder."""
    recorder = query.recorder
    if recorder is None:
        return None

    size = query.domains[0].size
    answers = _NUMBERS[size - 2] if size <= len(_NUMBERS) + 1 else f"{size:,}"
    often, before = _period(recorder.period)
    about = _TO_NOW.get(recorder.keep, f"about the {before} before")
    return f"{_KEPT[recorder.keep]}, and tells {often} one of {answers} answers {about}."


def _period(seconds: int) -> tuple[str, str]:
    """Return how often a device answers, and the name of the period."""
    name = _LENGTHS.get(seconds)
    if name is not None:
        return f"once {'an' if name == 'hour' else 'a'} {name}", name
    length, units = next(pair for pair in _UNITS if seconds % pair[0] == 0)
    return f"once in {seconds // length:,} {units}", f"{seconds // length:,} {units}"
