"""The board's memory of the topics: windows, alerts, truth and definitions.

Pure: it takes messages and answers questions. The newest message of a key counts, so the order in
which partitions are read does not matter. What is older than the retention is dropped, and where
that is still too much, the oldest windows go first; the newest of each kind of window stays.
"""

import math
from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter

from aggregator.board.entry import Entry, Gathering
from aggregator.publishing.alert import Alert
from aggregator.publishing.alert import decode as decode_alert
from aggregator.publishing.record_reader import Record
from aggregator.publishing.record_reader import decode as decode_record
from aggregator.publishing.truth import Truth
from hubbub import definitions
from hubbub.truth import decode as decode_truth
from oracles.errors import ReportError
from oracles.query import Query
from oracles.query.settings import Window

AHEAD = 600
"""Seconds by which clocks may differ."""
EARLY, EARLY_BYTES = 256, 1 << 16
"""Records that wait for their definitions, and the largest that does."""
KINDS = 64
"""Kinds of windows that a query has, at the most."""
MOST_ALERTS = 10_000
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
    size: int = 0
    """The memory they take, about."""

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
                self._foresee(record)
            return
        if end not in self.finals:
            insort(self.ends, end)
        self.size += record.size - (self.finals[end].size if end in self.finals else 0)
        self.finals[end] = record
        if self.provisional and self.provisional.span.end <= self.ends[-1]:
            self._foresee(None)

    def _foresee(self, record: Entry | None) -> None:
        self.size += (record.size if record else 0) - (self.provisional.size if self.provisional else 0)
        self.provisional = record

    def drop_oldest(self) -> None:
        """Forget one final."""
        self.size -= self.finals.pop(self.ends.pop(0)).size

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
    def latest_end(self) -> int | None:
        """Of the newest final of any kind."""
        return max((windows.ends[-1] for windows in self.kinds.values() if windows.ends), default=None)

    @property
    def newest_end(self) -> int:
        newest = [windows.newest for windows in self.kinds.values()]
        return max((record.span.end for record in newest if record), default=0)


class Store:
    """Everything, by query; what is not as it should be is refused with a ReportError or ValueError."""

    def __init__(self, retention: int, memory: int, clock: Callable[[], float] = lambda: math.inf) -> None:
        self._retention = retention
        """Seconds."""
        self._memory = memory
        self._clock = clock
        """Seconds of Unix time."""
        self._series: dict[str, dict[str, Series]] = defaultdict(dict)
        self._gathering = Gathering()
        self._alerts: OrderedDict[str, Alert] = OrderedDict()
        self._definitions: dict[bytes, definitions.TopicRecord] = {}
        self._known = definitions.Definitions()
        self._early: deque[tuple[Callable[[bytes], object], bytes]] = deque(maxlen=EARLY)
        """Records of definitions that are not read yet."""
        self.size = 0
        """The memory that windows and truth take, about."""

    def take_record(self, value: bytes) -> Entry | None:
        """The window that a record of the estimates makes whole; None where other records are still to come."""
        entries = [self._take_record(value, record) for record in decode_record(value)]
        return entries[-1]

    def _take_record(self, value: bytes, part: Record) -> Entry | None:
        self._check_time(part.span.end if part.final else part.span.start)
        query = self._defined(self.take_record, value, part.query, part.digest)
        record = self._gathering.put(part, query) if query else None
        if record is None:
            return None
        kinds = self._of(record.query, record.digest).kinds
        if record.span.window not in kinds and len(kinds) >= KINDS:
            raise ReportError(f"more than {KINDS} kinds of windows")
        windows = kinds.setdefault(record.span.window, Windows(record.span.window))
        self.size -= windows.size
        windows.put(record)
        while len(windows.ends) > 1 and windows.ends[0] <= windows.ends[-1] - self._retention:
            windows.drop_oldest()
        self.size += windows.size
        self._fit()
        return record

    def take_alert(self, value: bytes) -> Alert | None:
        """An alert; None where it is told again."""
        alert = decode_alert(value)
        self._check_time(alert.window.end)
        known = alert.id in self._alerts
        self._alerts[alert.id] = alert
        while len(self._alerts) > MOST_ALERTS:
            self._alerts.popitem(last=False)
        return None if known else alert

    def take_truth(self, value: bytes) -> None:
        """The true counts of a pane by one source."""
        counts = decode_truth(value)
        self._check_time(counts.pane)
        query = self._defined(self.take_truth, value, counts.query, counts.digest)
        if query is None:
            return
        if [len(column) for column in counts.counts] != [domain.size for domain in query.domains]:
            raise ReportError(f"true counts of other numbers of values than {query.name} has")
        known = self._of(counts.query, counts.digest).truth
        self.size -= known.size
        known.put(counts.pane, counts.source, counts.counts)
        while known.oldest is not None and known.newest is not None and known.oldest < known.newest - self._retention:
            known.drop_oldest()
        self.size += known.size
        self._fit()

    def define(self, key: bytes, value: bytes | None, timestamp: int = 0) -> None:
        """A record of the topic of definitions; a ReportError where it cannot be read, and is passed over."""
        record = definitions.TopicRecord(key or b"", value, timestamp)
        unread = definitions.read([record]).unread
        self._definitions.pop(record.key, None)
        self._definitions[record.key] = record._replace(value=b"") if unread else record
        self._known = definitions.read(self._definitions.values())
        if unread:
            raise ReportError(unread[0].fault)
        early, self._early = self._early, deque(maxlen=EARLY)
        for take, waiting in early:
            with suppress(ReportError, ValueError):
                take(waiting)

    def _defined(self, take: Callable[[bytes], object], value: bytes, name: str, digest: str) -> Query | None:
        """The definition that a record speaks of; the record waits where it is not read yet."""
        query = self._known.queries.get(bytes.fromhex(digest))
        if query is None:
            if len(value) <= EARLY_BYTES:
                self._early.append((take, value))
        elif query.name != name:
            raise ReportError(f"digest {digest} is that of {query.name}, not of {name}")
        return query

    def _check_time(self, at: int) -> None:
        """A window from the future would push out all that are kept."""
        if at > self._clock() + AHEAD:
            raise ReportError(f"{at} is further ahead than clocks differ")

    @property
    def definitions(self) -> definitions.Definitions:
        return self._known

    @property
    def names(self) -> list[str]:
        """Of all queries that are counted, or were."""
        return sorted({query.name for query in self.definitions.queries.values()})

    def series(self, name: str) -> Series:
        """The series kept of a query: of the digest that is counted now or, where it is retired, was counted last."""
        active = self.definitions.active.get(name)
        if active is not None:
            return self._of(name, active.digest.hex())
        retired = [digest.hex() for digest, query in self.definitions.queries.items() if query.name == name]
        return max((self._of(name, digest) for digest in retired), key=lambda series: series.newest_end)

    def age(self, end: int) -> float:
        """Seconds since then, to the millisecond; 0 where that is to come."""
        return max(round(self._clock() - end, 3), 0.0)

    def definition(self, series: Series) -> Query:
        return self.definitions.queries[bytes.fromhex(series.digest)]

    @property
    def windows(self) -> int:
        """How many finals are kept."""
        return sum(len(windows.ends) for windows in self._all())

    def alerts(self) -> list[Alert]:
        return sorted(self._alerts.values(), key=attrgetter("order"))

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
                self.size -= windows.size
                windows.drop_oldest()
                self.size += windows.size
            else:
                return
