"""The clock of a partition: the highest timestamp read from its log."""

Clock = int | None
"""Milliseconds since the Unix epoch."""

_NEVER = -(1 << 63)
"""The number for a clock of None in bytes."""


def advance(clock: Clock, timestamp: Clock) -> Clock:
    """Return the clock after a record with this timestamp. A timestamp of None does not move it."""
    if timestamp is None:
        return clock
    # A timestamp may lie before the last one, and a clock that goes back would open closed panes again.
    return timestamp if clock is None else max(clock, timestamp)


def max_clock(clock: Clock, other: Clock) -> Clock:
    """Return the greater clock. None is the least."""
    return other if clock is None else advance(clock, other)


def pack_clock(clock: Clock) -> int:
    return _NEVER if clock is None else clock


def unpack_clock(number: int) -> Clock:
    return None if number == _NEVER else number
