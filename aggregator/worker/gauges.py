"""The gauges of a worker: the lag of its partitions, the skew of their clocks, and the bytes of its tallies."""

from aggregator.counting.app import CountingApp
from aggregator.process.metrics import Metrics
from aggregator.worker.clocks import OwnClock, PartitionClocks
from hubbub import outside
from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from hubbub.definitions.versions import open_panes
from oracles.query.footprint import INTEGER, tally_size


class WorkerGauges:
    """The gauges that a worker reads from its parts: lag, skew, definitions and bytes."""

    def __init__(self, metrics: Metrics, counting: CountingApp, follower: Follower, registrar: Registrar) -> None:
        self.own_clock = OwnClock()
        metrics.registry.register(self.own_clock)
        self._metrics = metrics
        self._counting = counting
        self._follower = follower
        self._partition_clocks = PartitionClocks(metrics.clock_ahead)
        # These are read when they are asked for, so that a scrape just after a change is right.
        metrics.definitions_behind.set_function(lambda: registrar.behind)
        metrics.definitions_refused.set_function(lambda: registrar.refused)
        metrics.definitions_unread.set_function(lambda: len(follower.definitions.unreadable))
        metrics.tally_bytes.set_function(self._tally_bytes)
        metrics.predicted_tally_bytes.set_function(self._predicted_bytes)

    def measure(self) -> float:
        """Set the gauges of lag and skew, and return by how many seconds the slowest partition's clock is behind."""
        lag = 0.0
        clocks: dict[int, float] = {}
        for partition, source in self._counting.sources.items():
            end = self._counting.highwater(partition)
            if end is not None:
                self._metrics.lag_records.labels(str(partition)).set(max(0, end - source.next_offset))
            if source.clock is not None:
                lag = max(lag, outside.wall() - source.clock / 1000)
                clocks[partition] = source.clock / 1000

        self.own_clock.look()
        self._partition_clocks.look(clocks, self.own_clock.offset)
        return lag

    def _tally_bytes(self) -> int:
        sources = self._counting.sources.values()
        return sum(sum(tally.counts.nbytes for tally in source.tallies.values()) for source in sources)

    def _predicted_bytes(self) -> int:
        """Return the memory that `hubbub check` predicts for the tallies of the owned partitions."""
        cells = sum(open_panes(query) * tally_size(query) for query in self._follower.definitions.active.values())
        return len(self._counting.sources) * cells * INTEGER
