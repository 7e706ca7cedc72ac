"""The board's memory of the topics: windows, alerts, truth and definitions.

Pure. The newest record of a key counts, so the order of the partitions does not matter. The store
drops windows older than the retention. If the rest needs too much memory, it drops the oldest
windows first, but keeps the newest of each kind.
"""

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter

from aggregator.board.store.early_maps import EarlyMaps
from aggregator.board.store.entry import Entry, IncompleteWindows
from aggregator.board.store.notes import Note
from aggregator.board.store.oldest import OldestParts, Place
from aggregator.board.store.series import TRUE_COUNTS, Series, Windows
from aggregator.records.alert import Alert
from aggregator.records.alert import decode as decode_alert
from aggregator.records.decoder import decode as decode_record
from aggregator.records.maps_record import MapsKey, check_maps
from aggregator.records.status import Lack, QueryStatus, State, lack_of, state_of
from aggregator.records.status import decode as decode_status
from aggregator.records.truth import Truth
from hubbub.definitions.catalog import DefinitionLog, Definitions, TopicRecord
from hubbub.definitions.formats import Formats
from hubbub.next_window import NextWindow, next_window
from hubbub.true_counts import decode as decode_truth
from oracles.errors import ReportError
from oracles.query import Query

__all__ = ["CLOCK_MARGIN", "EARLY_BYTES", "EARLY_RECORDS", "KINDS", "MOST_ALERTS", "Series", "Store", "Windows"]

CLOCK_MARGIN = 600
"""Maximum difference of clocks, in seconds."""
EARLY_RECORDS = 256
"""Maximum number of records that wait for their definitions."""
EARLY_BYTES = 1 << 16
"""Maximum size of a record that waits for its definition, in bytes."""
KINDS = 64
"""Maximum number of kinds of windows of a query."""
MOST_ALERTS = 10_000
"""Maximum number of alerts in memory."""


class Store:
    """The store of all records, by query. It refuses a wrong record with a ReportError or ValueError."""

    def __init__(self, retention: int, memory: int, clock: Callable[[], float] = lambda: math.inf) -> None:
        self._retention = retention
        """How long to keep windows, in seconds."""
        self._memory = memory
        """Maximum memory of windows and true counts, in bytes."""
        self._clock = clock
        """The current Unix time in seconds."""

        self._series: dict[str, dict[str, Series]] = defaultdict(dict)
        self._incomplete = IncompleteWindows()
        self._alerts: OrderedDict[str, Alert] = OrderedDict()
        self._statuses: dict[str, QueryStatus] = {}
        """The newest status of each digest."""
        self._log_clock = 0
        """Unix seconds that the clock of the reports has reached."""
        self._definitions = DefinitionLog()
        self._early: deque[tuple[str, Callable[[bytes], object], bytes]] = deque(maxlen=EARLY_RECORDS)
        """Records that wait for their definitions, each with its digest and the method that takes it."""
        self._early_maps = EarlyMaps()
        self.maps_gap: str | None = None
        """The reason why the board gets no maps, or None if it does."""

        self.notes: Callable[[], Sequence[Note]] = tuple
        """The present notes of the operator."""

        self._numbers: dict[str, int] = {}
        """The number of each query, in the order in which the store met them."""
        self._oldest = OldestParts()
        self.size = 0
        """Approximate memory of windows and true counts, in bytes."""

    def take_record(self, value: bytes) -> Entry | None:
        """Add a record of the topic `estimates`, and return its window if the window is now complete."""
        part = decode_record(value)

        # A provisional window is still open, so its end lies ahead of the clock, but never its start.
        self._check_time(part.span.end if part.final else part.span.start)
        query = self._definition_of(self.take_record, value, part.query, part.digest)
        record = self._incomplete.put(part, query) if query else None
        if query is None or record is None:
            return None

        # The newest final of each kind stays in memory, so false kinds without a limit would fill it for good.
        series = self._series_of(record.query, record.digest)
        kinds = series.kinds_of(record.group)
        if record.span.window not in kinds and len(kinds) >= KINDS:
            raise ReportError(f"query {record.query} has more than {KINDS} kinds of windows")

        # The retention counts from the newest final, not from the clock, so the last final of a quiet query stays.
        windows = series.windows_of(record.span.window, record.group)
        with self._resized(windows.place, windows):
            windows.put(record if record.final else record.joined(windows.provisional, query))
            if record.final and windows is series.kinds.get(record.span.window):
                self._put_early_maps(windows, record)
            while len(windows.ends) > 1 and windows.ends[0] <= windows.ends[-1] - self._retention:
                windows.drop_oldest()
        return record

    def _put_early_maps(self, windows: Windows, record: Entry) -> None:
        """Add the maps of a final that came before it."""
        place = MapsKey(record.query, record.digest, record.span.window, record.span.end)
        maps = self._early_maps.pop(place)
        if maps is not None:
            windows.put_maps(place.end, maps)

    def take_maps(self, key: bytes, value: bytes) -> None:
        """Add the maps of a final of unknown strings. They may come before their final, from another topic."""
        place = MapsKey.of(key)
        query = self.definitions.queries.get(bytes.fromhex(place.digest))
        windows = self._series_of(place.query, place.digest).kinds.get(place.window) if query else None
        if query is None:
            raise ReportError("the maps belong to no query")

        # Only the answer to a request uses the maps. Damaged ones would fail there, far from their offset.
        check_maps(value, query)
        if windows is not None and place.end in windows.finals:
            with self._resized(windows.place, windows):
                windows.put_maps(place.end, value)
        elif windows is None or not windows.ends or place.end > windows.ends[-1]:
            self._check_time(place.end)
            self._early_maps.put(place, value)
        else:
            raise ReportError("the maps belong to no final")

    def take_alert(self, value: bytes) -> Alert | None:
        """Add an alert, and return it unless the store had it already."""
        alert = decode_alert(value)
        self._check_time(alert.window.end)

        # A worker that takes over may write an alert again. Listeners must see it once.
        is_duplicate = alert.id in self._alerts
        self._alerts[alert.id] = alert
        while len(self._alerts) > MOST_ALERTS:
            self._alerts.popitem(last=False)
        return None if is_duplicate else alert

    def take_truth(self, value: bytes) -> None:
        """Add the true counts of one source for a pane."""
        counts = decode_truth(value)
        self._check_time(counts.pane)
        query = self._definition_of(self.take_truth, value, counts.query, counts.digest)
        if query is None:
            return

        if [len(column) for column in counts.counts] != [domain.size for domain in query.domains]:
            raise ReportError(f"the true counts have other numbers of values than query {query.name}")

        series = self._series_of(counts.query, counts.digest)
        truth = series.truth
        with self._resized((TRUE_COUNTS, *series.place), truth):
            truth.put(counts.pane, counts.source, counts.counts)
            while (
                truth.oldest is not None and truth.newest is not None and truth.oldest < truth.newest - self._retention
            ):
                truth.drop_oldest()

    def take_status(self, value: bytes) -> None:
        """Add the status of a query."""
        status = decode_status(value)
        query = self._definition_of(self.take_status, value, status.query, status.digest)
        if query is not None:
            # A clock beyond the check says more than any other.
            self._log_clock = max(self._log_clock, status.closed_through + query.lateness)
        self._check_time(status.closed_through)
        if query is not None:
            self._statuses[status.digest] = status

    @property
    def clock_lead(self) -> float:
        """Seconds by which the clock of the reports is ahead of this machine's at least. If it is behind, below 0."""
        return self._log_clock - self._clock()

    @property
    def formats(self) -> Formats:
        """The formats version of the topics."""
        return self._definitions.formats

    def define(self, key: bytes, value: bytes | None, timestamp: int = 0) -> None:
        """Add a record of the topic `queries`. Raise ReportError if it is unreadable, which has no other effect."""
        unreadable = self._definitions.take(TopicRecord(key or b"", value, timestamp))
        if unreadable is not None:
            raise ReportError(unreadable.fault)

        # The records leave the queue before the store takes them, because it may put one back.
        digest = (key or b"").partition(b"|")[0].decode(errors="replace").lower()
        early_records = [record for record in self._early if record[0] == digest]
        for record in early_records:
            self._early.remove(record)

        # A wrong early record is no fault of the definition, so it must not refuse it.
        for _, take, early_value in early_records:
            with suppress(ReportError, ValueError):
                take(early_value)

    @property
    def definitions(self) -> Definitions:
        return self._definitions.definitions

    def _definition_of(self, take: Callable[[bytes], object], value: bytes, name: str, digest: str) -> Query | None:
        """Return the definition of a record. If it is not read yet, keep the record and return None."""
        query = self.definitions.queries.get(bytes.fromhex(digest))
        if query is None:
            # Anybody with write access can invent digests. Only few and small records may wait for a definition.
            if len(value) <= EARLY_BYTES:
                self._early.append((digest, take, value))
        elif query.name != name:
            raise ReportError(f"digest {digest} belongs to query {query.name}, not to {name}")
        return query

    def _check_time(self, time: int) -> None:
        """Refuse a time in the future, because such a window would displace all others."""
        if time > self._clock() + CLOCK_MARGIN:
            raise ReportError(f"time {time} is more than {CLOCK_MARGIN} s in the future")

    @property
    def names(self) -> list[str]:
        """Return the names of all queries, retired ones too."""
        return sorted(self.definitions.digests)

    def series(self, name: str) -> Series:
        """Return the series of a query's active digest or, if it is retired, of its last digest."""
        active = self.definitions.active.get(name)
        if active is not None:
            return self._series_of(name, active.digest.hex())

        retired = [self._series_of(name, digest.hex()) for digest in self.definitions.digests[name]]
        return max(retired, key=lambda series: series.newest_end)

    def age(self, end: int) -> float:
        """Return the seconds since `end`, at least 0, rounded to milliseconds."""
        return max(round(self._clock() - end, 3), 0.0)

    @property
    def oldest_end(self) -> float:
        """Return the end of the oldest window that the retention may keep, if the newest one ends now."""
        queries = self.definitions.queries.values()
        longest = max((window.size for query in queries for window in query.windows), default=0)
        return self._clock() - self._retention - longest

    def status(self, series: Series) -> QueryStatus | None:
        return self._statuses.get(series.digest)

    def state(self, series: Series) -> State:
        """Return the present state of a query."""
        final = self.first_kind(series).latest
        return state_of(
            self.definition(series),
            self.status(series),
            series.latest_end,
            self._clock(),
            retired=series.query not in self.definitions.active,
            withheld=final is not None and not any(final.shows(part.attribute) for part in final.parts),
        )

    def outlook(self, series: Series) -> tuple[NextWindow | None, Lack | None]:
        """Return the next window of a query that closes, and what is missing for its final."""
        state = self.state(series)
        if state == "retired":
            return None, None
        query = self.definition(series)
        time = self._clock()
        return next_window(query, time), lack_of(query, self.status(series), state, time)

    def first_kind(self, series: Series) -> Windows:
        """Return the first kind of window of a query that has a final, by default the first one."""
        kinds = self.definition(series).windows
        with_finals = (series.kinds[kind] for kind in kinds if kind in series.kinds and series.kinds[kind].ends)
        return next(with_finals, Windows(kinds[0]))

    def alert_counts(self, seconds: int) -> Counter[str]:
        """Return the number of alerts of each query in windows that ended in the last seconds, without baselines."""
        start = self._clock() - seconds
        alerts = self._alerts.values()
        return Counter(alert.query for alert in alerts if alert.window.end > start and not alert.baseline)

    def definition(self, series: Series) -> Query:
        return self.definitions.queries[bytes.fromhex(series.digest)]

    @property
    def windows(self) -> int:
        """Return the number of finals in memory."""
        return sum(len(windows.ends) for windows in self._all_windows())

    def alerts(self) -> list[Alert]:
        return sorted(self._alerts.values(), key=attrgetter("order"))

    def _series_of(self, query: str, digest: str) -> Series:
        by_digest = self._series[query]
        if digest not in by_digest:
            number = self._numbers.setdefault(query, len(self._numbers))
            by_digest[digest] = Series(query, digest, (number, len(by_digest)))
        return by_digest[digest]

    def _all_series(self) -> Iterator[Series]:
        for by_digest in self._series.values():
            yield from by_digest.values()

    def _all_windows(self) -> Iterator[Windows]:
        for series in self._all_series():
            for kinds in series.by_group.values():
                yield from kinds.values()

    @contextmanager
    def _resized(self, place: Place, part: Windows | Truth) -> Iterator[None]:
        """Count the memory of a part anew after a change, and drop the oldest data until the rest fits."""
        self.size -= part.size
        yield
        self.size += part.size
        self._oldest.update(place, part)

        while self.size > self._memory:
            size = self._oldest.drop()
            if size is None:
                return
            self.size -= size
