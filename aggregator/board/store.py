"""What the topics have said, as far as it is kept: windows, alerts, truth and definitions.

Pure: it takes messages and answers questions. The newest message of a key counts, so the order in
which partitions are read does not matter. What is older than the retention is dropped, and where
that is still too much, the oldest windows go first; the newest of each kind of window stays.
"""

from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from aggregator.board import entry
from aggregator.board.entry import Entry
from aggregator.publishing.truth import Truth
from aggregator.publishing.truth import read as read_truth
from hubbub import definitions
from oracles.query import Query
from oracles.query.settings import Window

ALERTS = 10_000
"""The most alerts that are kept."""


@dataclass(slots=True, eq=False)
class Windows:
    """One kind of window of a query: its finals, and what is known of the next one."""

    window: Window
    finals: dict[int, Entry] = field(default_factory=dict)
    """By end."""
    ends: list[int] = field(default_factory=list)
    """Of the finals, in order."""
    provisional: Entry | None = None

    @property
    def latest(self) -> Entry | None:
        return self.finals[self.ends[-1]] if self.ends else None

    @property
    def newest(self) -> Entry | None:
        """The provisional record where there is one, else the last final."""
        return self.provisional or self.latest

    def put(self, record: Entry) -> None:
        end = record.span.end
        if not record.final:
            if not self.ends or end > self.ends[-1]:
                self.provisional = record
            return
        if end not in self.finals:
            insort(self.ends, end)
        self.finals[end] = record
        if self.provisional and self.provisional.span.end <= self.ends[-1]:
            self.provisional = None

    def drop_oldest(self) -> int:
        """Forget one final; returns the memory that it took."""
        return self.finals.pop(self.ends.pop(0)).size

    def between(self, start: int, end: int) -> Iterator[Entry]:
        """The finals that end in [start, end), in order."""
        for at in self.ends[bisect_left(self.ends, start) : bisect_left(self.ends, end)]:
            yield self.finals[at]


@dataclass(slots=True, eq=False)
class Series:
    """All that is kept of one digest."""

    query: str
    digest: str
    kinds: dict[Window, Windows] = field(default_factory=dict)
    truth: Truth = field(default_factory=Truth)

    @property
    def newest_end(self) -> int:
        newest = [windows.newest for windows in self.kinds.values()]
        return max((record.span.end for record in newest if record), default=0)


class Store:
    """Everything, by query."""

    def __init__(self, retention: int, memory: int) -> None:
        self._retention = retention
        """Seconds."""
        self._memory = memory
        self._series: dict[str, dict[str, Series]] = defaultdict(dict)
        self._alerts: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._definitions: dict[bytes, bytes] = {}
        self._known: definitions.Definitions | None = None
        self.size = 0
        """The memory that finals and truth take, about."""

    def take_record(self, value: bytes) -> Entry:
        """A record of the topic of estimates."""
        record = entry.read(value)
        series = self._of(record.query, record.digest)
        windows = series.kinds.setdefault(record.span.window, Windows(record.span.window))
        if record.final:
            before = windows.finals.get(record.span.end)
            self.size += record.size - (before.size if before else 0)
        windows.put(record)
        while len(windows.ends) > 1 and windows.ends[0] <= windows.ends[-1] - self._retention:
            self.size -= windows.drop_oldest()
        self._fit()
        return record

    def take_alert(self, value: bytes) -> dict[str, Any] | None:
        """An alert; None where it is told again."""
        alert: dict[str, Any] = orjson.loads(value)
        known = alert["id"] in self._alerts
        self._alerts[alert["id"]] = alert
        while len(self._alerts) > ALERTS:
            self._alerts.popitem(last=False)
        return None if known else alert

    def take_truth(self, value: bytes) -> None:
        """The true counts of a pane by one source."""
        told = read_truth(value)
        known = self._of(told.query, told.digest).truth
        self.size -= known.size
        known.put(told.pane, told.source, told.counts)
        while known.oldest is not None and known.newest is not None and known.oldest < known.newest - self._retention:
            known.drop_oldest()
        self.size += known.size
        self._fit()

    def define(self, key: bytes, value: bytes | None) -> None:
        """A definition, which must be one that can be read."""
        if value is not None:
            definitions.read([(key, value)])
            self._definitions[key] = value
            self._known = None

    @property
    def definitions(self) -> definitions.Definitions:
        if self._known is None:
            self._known = definitions.read(self._definitions.items())
        return self._known

    @property
    def names(self) -> list[str]:
        """Of all queries that are counted, or were."""
        return sorted({query.name for query in self.definitions.queries.values()})

    def series(self, name: str) -> Series:
        """What is kept of a query: of the digest that is counted now or, where it is retired, was counted last."""
        active = self.definitions.active.get(name)
        if active is not None:
            return self._of(name, active.digest.hex())
        retired = [digest.hex() for digest, query in self.definitions.queries.items() if query.name == name]
        return max((self._of(name, digest) for digest in retired), key=lambda series: series.newest_end)

    def definition(self, series: Series) -> Query:
        return self.definitions.queries[bytes.fromhex(series.digest)]

    @property
    def windows(self) -> int:
        """How many finals are kept."""
        return sum(len(windows.ends) for windows in self._all())

    def alerts(self) -> list[dict[str, Any]]:
        """The newest windows first; of those that end together, the shortest."""
        return sorted(self._alerts.values(), key=_newest)

    def _of(self, query: str, digest: str) -> Series:
        of = self._series[query]
        if digest not in of:
            of[digest] = Series(query, digest)
        return of[digest]

    def _all(self) -> Iterator[Windows]:
        return (windows for of in self._series.values() for series in of.values() for windows in series.kinds.values())

    def _fit(self) -> None:
        """Forget the oldest until the rest fits."""
        while self.size > self._memory:
            windows = min((w for w in self._all() if len(w.ends) > 1), key=lambda w: w.ends[0], default=None)
            truths = (series.truth for of in self._series.values() for series in of.values())
            truth = min((t for t in truths if t.oldest != t.newest), key=lambda t: t.oldest or 0, default=None)
            if truth is not None and (windows is None or (truth.oldest or 0) < windows.ends[0]):
                self.size -= truth.size
                truth.drop_oldest()
                self.size += truth.size
            elif windows is not None:
                self.size -= windows.drop_oldest()
            else:
                return


def _newest(alert: dict[str, Any]) -> tuple[int, int, str, str, str]:
    window = alert["window"]
    return -window["end"], window["size"], alert["kind"], alert["attribute"] or "", alert["value"]
