"""The names of files. A name follows from the final alone, so no two files hold one final under different names."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Self

from aggregator.records.record import Record

FINALS = "finals"
OPEN = "open"
Period = Literal["day", "hour"]
PERIODS: tuple[Period, ...] = ("day", "hour")
HOUR = 3_600
DAY = 86_400
_MINUTE = 60

_PATH = re.compile(
    r"query=(?P<query>[A-Za-z0-9_.-]{1,64})/day=(?P<day>\d{4}-\d\d-\d\d)/"
    r"(?P<window>(?:tumbling|hopping|all)-\d+-\d+)(?:\.(?P<hour>\d\d))?(?:\.late-(?P<late>[1-9]\d{0,8}))?\.parquet",
    re.ASCII,
)


@dataclass(frozen=True, order=True, slots=True)
class FileName:
    """The name that the finals of one query, kind of window, and day or hour share."""

    query: str
    day: str
    window: str
    """Kind, size and step, with dashes between them."""
    hour: str | None = None

    @classmethod
    def of(cls, record: Record, files: Period) -> Self:
        """Return the name for a final: that of the second before the end of its window, in UTC.

        Raise ValueError if no file can have it, because the query has a slash or the year has five digits.
        """
        window = record.span.window
        moment = datetime.fromtimestamp(record.span.end - 1, UTC)
        # A day of windows shorter than a minute would be too large for one file.
        has_hours = 0 < window.step < (HOUR if files == "hour" else _MINUTE)
        name = cls(
            query=record.query,
            day=moment.strftime("%Y-%m-%d"),
            window=f"{window.kind}-{window.size}-{window.step}",
            hour=moment.strftime("%H") if has_hours else None,
        )
        # Anybody may write to the topic, and a query called ../x must not lead out of the target.
        if parse(name.path(FINALS)) != (name, 0):
            raise ValueError(f"{record.query!r} is no name of a query")
        return name

    @property
    def period(self) -> int:
        """The seconds that the file covers."""
        return DAY if self.hour is None else HOUR

    @property
    def end(self) -> int:
        """The end of its day or hour, in Unix seconds."""
        start = datetime.fromisoformat(self.day).replace(tzinfo=UTC)
        return int(start.timestamp()) + int(self.hour or 0) * HOUR + self.period

    def path(self, folder: str, number: int = 0) -> str:
        """Return the path in `finals` or `open`. `number` is that of a late file, or 0 for the first one."""
        parts = [self.window]
        if self.hour is not None:
            parts.append(self.hour)
        if number:
            parts.append(f"late-{number}")
        return f"{self.folder(folder)}/{'.'.join(parts)}.parquet"

    def folder(self, folder: str) -> str:
        return f"{folder}/query={self.query}/day={self.day}"


def parse(path: str) -> tuple[FileName, int] | None:
    """Return the name and the late number of a path below `finals` or `open`, or None if it is another file."""
    match = _PATH.fullmatch(path.partition("/")[2])
    if match is None:
        return None
    name = FileName(match["query"], match["day"], match["window"], match["hour"])
    return name, int(match["late"] or 0)
