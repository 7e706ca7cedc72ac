"""The gauges of a worker: the lag of its partitions, the skew of their clocks, and the bytes of its tallies."""

import logging
from typing import Any

from aggregator.counting.app import CountingApp
from aggregator.process.metrics import Metrics
from hubbub import outside
from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from hubbub.definitions.versions import open_panes
from oracles.query.footprint import INTEGER, tally_size

log = logging.getLogger(__name__)

MAX_SKEW = 2.0
"""Seconds by which a partition's clock may be ahead before the worker raises the alarm."""


class ClockSkewAlarm:
    """The partitions whose clocks are too far ahead. The log reports each of them once."""

    def __init__(self, gauge: Any) -> None:
        self._gauge = gauge
        self._partitions: set[int] = set()

    def look(self, partition: int, seconds_ahead: float) -> None:
        """Note by how many seconds the clock of a partition is ahead of this machine's."""
        self._gauge.labels(str(partition)).set(seconds_ahead)
        if seconds_ahead > MAX_SKEW and partition not in self._partitions:
            self._partitions.add(partition)
            message = "clock of partition %s is %.0f s ahead of this machine's: reports that come in time are late"
            log.critical(message, partition, seconds_ahead)
        elif seconds_ahead <= MAX_SKEW:
            self._partitions.discard(partition)


class WorkerGauges:
    """The gauges that a worker reads from its parts: lag, skew, definitions and bytes."""

    def __init__(self, metrics: Metrics, counting: CountingApp, follower: Follower, registrar: Registrar) -> None:
        self._metrics = metrics
        self._counting = counting
        self._follower = follower
        self._alarm = ClockSkewAlarm(metrics.clock_ahead)
        # These are read when they are asked for, so that a scrape just after a change is right.
        metrics.definitions_behind.set_function(lambda: registrar.behind)
        metrics.definitions_refused.set_function(lambda: registrar.refused)
        metrics.definitions_unread.set_function(lambda: len(follower.definitions.unreadable))
        metrics.tally_bytes.set_function(self._tally_bytes)
        metrics.predicted_tally_bytes.set_function(self._predicted_bytes)

    def measure(self) -> float:
        """Set the gauges of lag and skew, and return by how many seconds the slowest partition's clock is behind."""
        lag = 0.0
        for partition, source in self._counting.sources.items():
            end = self._counting.highwater(partition)
            if end is not None:
                self._metrics.lag_records.labels(str(partition)).set(max(0, end - source.next_offset))
            if source.clock is not None:
                lag = max(lag, outside.wall() - source.clock / 1000)
                self._alarm.look(partition, source.clock / 1000 - outside.wall())
        return lag

    def _tally_bytes(self) -> int:
        sources = self._counting.sources.values()
        return sum(sum(tally.counts.nbytes for tally in source.tallies.values()) for source in sources)

    def _predicted_bytes(self) -> int:
        """Return the memory that `hubbub check` predicts for the tallies of the owned partitions."""
        cells = sum(open_panes(query) * tally_size(query) for query in self._follower.definitions.active.values())
        return len(self._counting.sources) * cells * INTEGER
