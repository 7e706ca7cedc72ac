"""A recorder that keeps each note with its time and applies the rules literally, to compare with."""

from dataclasses import dataclass, field
from math import floor

DAY = 86_400


@dataclass
class Reference:
    """The state of a recorder. Notes are pairs of a time and a value."""

    keep: str
    period: int
    first: int | None = None
    current: int | None = None
    now: list = field(default_factory=list)
    before: list = field(default_factory=list)
    newest: int | None = None

    def turn(self, time_s):
        a = floor(time_s / self.period)
        if self.current is not None and (a - self.current) * self.period > 400 * DAY:
            self.current = None
        if self.current is None:
            self.first = self.current = a
            self.now, self.before, self.newest = [], [], None
        elif a > self.current:
            self.newest = self.current if self.now else self.newest
            self.before = self.now if a == self.current + 1 else []
            self.now = []
            self.current = a
        elif a < self.current - 1:
            self.now, self.before, self.newest = [], [], None
            self.current = a
            self.first = min(self.first, a)
        return a

    def note(self, time_s, value):
        self.turn(time_s)
        self.now.append((time_s, value))

    def due(self, time_s):
        """Return the period that an answer waits for, or None."""
        a = self.turn(time_s)
        if a < self.current:
            return self.current
        return a + 1 if a == self.first and self.keep != "age" else None

    def number(self):
        """Return the number or the value that an answer gives, or None for `empty`."""
        if self.keep == "age":
            return self.current - self.first
        if self.keep == "since":
            return None if self.newest is None else self.current - self.newest
        if self.keep == "count":
            return sum(1 if value is None else value for _, value in self.before)
        if self.keep == "days":
            start = (self.current - 1) * self.period
            return len({max(floor((time_s - start) / DAY), 0) for time_s, _ in self.before})
        return self.before and (self.before[-1][1] if self.keep == "last" else [value for _, value in self.before])
