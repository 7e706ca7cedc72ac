"""The log of a world: topics with partitions, which do what Kafka allows and nothing that it forbids."""

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter

_OFFSET = attrgetter("offset")


@dataclass(slots=True, eq=False)
class Record:
    """One record, with the names that hubbub reads of aiokafka's ConsumerRecord."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple
    writer: str
    """The process that wrote it."""
    step: int
    """The step of the world that wrote it."""


class Partition:
    """One partition: its records, and what its present leader shows of them."""

    def __init__(self, topic, number):
        self.topic = topic
        self.number = number
        self.records = []
        self.all_records = []
        """Every record that was ever appended, for the checks."""
        self.beginning = 0
        self.end = 0
        self.last_sequences = {}
        """The number of the last batch of each idempotent producer."""
        self.blocked_until = 0.0
        """The time until which the partition has no leader, too few replicas or no room."""
        self.hidden_until = 0.0
        self.hidden_from = 0
        """A new leader shows this end until that time."""
        self.clock_skew_ms = 0
        """The difference of the leader's clock."""

    def shown_end(self, now):
        return min(self.end, self.hidden_from) if now < self.hidden_until else self.end

    def read(self, offset, end, most):
        """Return records from an offset on, below `end`."""
        first = bisect_left(self.records, offset, key=_OFFSET)
        last = bisect_left(self.records, end, first, key=_OFFSET)
        return self.records[first : min(last, first + most)]

    def delete_before(self, offset):
        """Delete old records, as retention does."""
        self.beginning = max(self.beginning, offset)
        del self.records[: bisect_left(self.records, self.beginning, key=_OFFSET)]

    def compact(self, now_ms, lag_ms, tombstone_ms):
        """Compact the part of the log that is older than the lag, up to the first younger record."""
        young = (place for place, record in enumerate(self.records) if now_ms - record.timestamp <= lag_ms)
        cut = next(young, len(self.records))
        newest = {record.key: record.offset for record in self.records[:cut]}
        remaining = [record for record in self.records[:cut] if newest[record.key] == record.offset]

        # The values that a deletion deletes are gone by now, so an old one may go too.
        life_ms = lag_ms + tombstone_ms
        remaining = [record for record in remaining if record.value is not None or now_ms - record.timestamp <= life_ms]
        self.records[:cut] = remaining


class Log:
    """All topics of a world."""

    def __init__(self, world):
        self._world = world
        self.partitions = {}
        """The partitions of each topic."""
        self.settings = {}
        self.ids = {}
        self.waiting = {}
        """A function of each waiting consumer, to call when a partition has new records."""
        self.on_append = lambda record: None

    def create(self, name, count, settings):
        self.partitions[name] = [Partition(name, number) for number in range(count)]
        self.settings[name] = settings
        self.ids[name] = self._world.next_number().to_bytes(16, "big")

    def at(self, tp):
        return self.partitions[tp.topic][tp.partition]

    def append(self, tp, batch, *, writer, sequence=None):
        """Append a batch, and return its first offset, or -1 if the log has it already."""
        world = self._world
        part = self.at(tp)
        if sequence is not None:
            producer, number = sequence
            last_number = part.last_sequences.get(producer, -1)
            if number <= last_number:
                return -1
            assert number == last_number + 1, "a batch of an idempotent producer is missing"
            part.last_sequences[producer] = number

        stamps = self.settings[tp.topic].get("message.timestamp.type") == "LogAppendTime"
        log_time = int(1000 * world.wall()) + part.clock_skew_ms
        if world.offset_gap():
            part.end += world.random.randrange(1, 4)  # the marker of a transaction takes an offset
        first = part.end
        for key, value, timestamp, headers in batch:
            time_ms = log_time if stamps or timestamp is None else timestamp
            record = Record(*tp, part.end, time_ms, key, value, tuple(headers), writer, world.steps)
            part.end += 1
            part.records.append(record)
            part.all_records.append(record)
            self.on_append(record)
        for wake in self.waiting.pop(tp, {}).values():
            wake()
        return first

    def compact(self, name, partition):
        settings = self.settings[name]
        if "compact" in settings.get("cleanup.policy", ""):
            scale = self._world.mix.lag_scale
            lag = int(scale * int(settings.get("min.compaction.lag.ms", 0)))
            life = int(scale * int(settings.get("delete.retention.ms", 86_400_000)))
            now_ms = int(1000 * self._world.wall())
            self.partitions[name][partition].compact(now_ms, lag, life)
