"""A daemon that consists of the pure parts only, and all faults that it can meet.

A broker is a dictionary and a list here. A worker's writes are single steps, and faults happen between them. A worker
can die, or write on after its partition has another worker.
"""

from copy import deepcopy
from itertools import islice

from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import Gate
from aggregator.merging.merger import Merger
from aggregator.merging.pane_parts import ALL
from aggregator.merging.snapshot_records import decode_state, encode_state
from aggregator.tallies import progress
from aggregator.tallies.clock import max_clock
from aggregator.tallies.group_cells import further_groups
from aggregator.tallies.id_log import decode_ids, encode_ids
from aggregator.tallies.progress import Progress, combine, resume
from aggregator.tallies.snapshot import decode_snapshot, encode_snapshot
from aggregator.tallies.tally import Tally, decode_tally, encode_tally
from tests.logs import BY_DIGEST, LIMIT, VERSIONS


class Broker:
    """The data that survive a worker, a compacted changelog and the topic of snapshots."""

    def __init__(self):
        self.changelog = {}
        self.snapshots = []
        self.last = {}
        """The position of the last value of each key of the snapshots."""

    def write(self, key, value):
        """Keep the last value of a key in the changelog."""
        if value is None:
            self.changelog.pop(key, None)
        else:
            self.changelog[key] = value

    def publish(self, key, value):
        self.last[key] = len(self.snapshots)
        self.snapshots.append((key, value))

    def compacted(self, random):
        """Return the records of a new reader, the last one of each key and some older ones."""
        # Compaction keeps the last value of a key for sure, and any older one for a while.
        records = [pair for at, pair in enumerate(self.snapshots) if self.last[pair[0]] == at or random.random() < 0.3]
        return [(key, value) for key, value in records if value is not None]

    @property
    def present(self):
        """The keys of the snapshots, without deleted ones."""
        return [key for key, position in self.last.items() if self.snapshots[position][1] is not None]


class Worker:
    """A process that owns one partition."""

    def __init__(self, broker, gate, records, name):
        self.broker, self.gate, self.records, self.name = broker, gate, records, name
        mine = [(key, value) for key, value in broker.changelog.items() if key[1] == gate.partition]
        self.settled = combine(progress.decode(value) for (kind, *_), value in mine if kind == "progress")
        self.tallies = {}
        self.segments = {}
        self.changed = set()
        self.writes = None
        for (kind, _, *pane), value in mine:
            if kind == "tally" and not self.settled.covers(VERSIONS[pane[0]], pane[1]):
                query = VERSIONS[pane[0]].at(pane[1]).query
                self.tallies[tuple(pane)] = decode_tally(value, query.oracle.state_size, further_groups(query))
            elif kind == "ids":
                self.segments.setdefault(tuple(pane[:2]), []).append(value)
        for pane, tally in self.tallies.items():
            tally.recover_ids(map(decode_ids, self.segments.get(pane, [])))
        marks = [(tally.next_offset, tally.clock) for tally in self.tallies.values() if not tally.closed]
        self.next_offset, self.clock = resume(self.settled, marks)
        self.known = max([self.settled.next_offset, *(tally.next_offset for tally in self.tallies.values())])

    def read(self, count):
        run = [record for record in self.records if record[0] >= self.next_offset][:count]
        if not run:
            return
        result = admit(self.gate, run, self.clock)
        for pane, (query, frames) in result.batches.items():
            if not self.settled.covers(VERSIONS[pane[0]], pane[1]):
                tally = self.tallies.setdefault(pane, Tally.empty(query))
                tally.add(query.oracle, frames, query.max_ids)
                self.changed.add(pane)
                assert len(tally.ids) <= query.max_ids
        self.next_offset = run[-1][0] + 1
        self.clock = result.clock

    def step(self, random):
        """Make one write of a checkpoint. After its last write the next step begins another one."""
        self.writes = self.writes or self.checkpoint(random)
        if next(self.writes, self) is self:
            self.writes = None

    def checkpoint(self, random):
        """Return the writes of a checkpoint, which all belong to this moment."""
        closed_clock = max_clock(self.settled.closed_clock, self.clock)
        present_progress = Progress(self.next_offset, self.clock, closed_clock=closed_clock)
        closing = [(digest, pane) for digest, pane in self.tallies if present_progress.covers(VERSIONS[digest], pane)]
        snapshots = [(pane, encode_snapshot(self.tallies[pane].snapshot())) for pane in closing]
        if random.random() < 0.2:  # closed ones only, at once
            present_progress = Progress(self.settled.next_offset, self.settled.clock, closed_clock=closed_clock)
            dirty = closing
        else:
            dirty = random.sample(sorted(self.changed), len(self.changed))
            self.changed = set()
        ids, tallies = [], []
        for pane in dirty:
            tally = self.tallies[pane]
            if random.random() < 0.5:
                tally.advance(self.next_offset, self.clock)
            # The ids go before the tally. If the worker dies in between, recovery drops those beyond the tally.
            segment = tally.next_segment()
            while segment:
                key = ("ids", self.gate.partition, *pane, segment[0].offset, segment[-1].offset)
                ids.append((key, encode_ids(segment)))
                segment = tally.next_segment()
            if pane in closing and random.random() < 0.5:
                tally.close()
            tallies.append((("tally", self.gate.partition, *pane), encode_tally(tally)))
        for pane in closing:
            del self.tallies[pane]
            self.changed.discard(pane)
        if self.next_offset >= self.known and self.clock is not None:
            for digest, versions in VERSIONS.items():
                assert sum(key[0] == digest for key in self.tallies) <= versions.most_open
        return self.written(ids + tallies, snapshots, present_progress)

    def written(self, writes, snapshots, now):
        for key, value in writes:
            yield self.broker.write(key, value)
        for pane, value in snapshots:
            yield self.broker.publish(("closed", *pane, self.gate.partition), value)
        yield self.broker.write(("progress", self.gate.partition, self.name), progress.encode(now))
        self.settled = now
        if now.closed_clock is not None:
            for digest, versions in VERSIONS.items():
                end = versions.closed_through(now.closed_clock)
                yield self.broker.publish(("watermark", digest, self.gate.partition, self.name), end)
        for pane, _ in snapshots:
            yield self.broker.write(("tally", self.gate.partition, *pane), None)


class Reader:
    """A process that merges all queries."""

    def __init__(self, broker, partitions, random):
        self.broker = broker
        self.random = random
        self.at = len(broker.snapshots)
        records = broker.compacted(random)
        self.states = {}
        self.merged = set()
        """The panes whose merged snapshots it has written."""
        for (kind, *place), value in records:
            if kind == "state":
                self.note(*place[:2], decode_state(value, VERSIONS[place[0]]))
        self.partitions = partitions
        self.mergers = {digest: self.merger(digest) for digest in BY_DIGEST}
        records += random.sample(records, len(records) // 3)
        # A new reader gets partitions and old segments in any order, and some records twice.
        random.shuffle(records)
        for key, value in records:
            self.take(key, value)

    def merger(self, digest):
        """Return the merger of a query, as its acknowledged states leave it."""
        states = {
            window: state for (digest_of_state, window), state in self.states.items() if digest_of_state == digest
        }
        positions = [(window, state.position) for window, state in states.items()]
        marks = max((state.marks for state in states.values()), key=lambda marks: marks.counted_through, default=None)
        return Merger(VERSIONS[digest], self.partitions, positions, marks=marks and deepcopy(marks))

    def note(self, digest, window, state):
        last_state = self.states.get((digest, window))
        if last_state is None or last_state.position.end < state.position.end:
            self.states[digest, window] = state

    def poll(self, count):
        for key, value in self.broker.snapshots[self.at : self.at + count]:
            self.at += 1
            if value is not None:
                self.take(key, value)

    def take(self, key, value):
        kind, digest, *place = key
        merger = self.mergers[digest]
        if kind == "closed":
            merger.take(*place, decode_snapshot(value, merger.cells, further_groups(merger.versions.query)))
        elif kind == "merged":
            merger.take(*place, ALL, decode_snapshot(value, merger.cells, further_groups(merger.versions.query)))
        elif kind == "watermark":
            merger.mark(place[0], value)

    def emit(self):
        """Yield the finals, write the state after each of them, and delete the snapshots that no window needs."""
        for digest, merger in self.mergers.items():
            finals = merger.finals()
            totals = merger.take_totals()
            for pane, total in totals:
                self.broker.publish(("merged", digest, pane), total)
            self.merged |= {(digest, pane) for pane, _ in totals}
            for final in finals:
                name = BY_DIGEST[digest].name
                content = final.span.start, encode_snapshot(final.total), tuple(final.withheld)
                yield (name, final.span.window, final.span.end), content
                state = encode_state(final.position, [], merger.marks)
                self.broker.publish(("state", digest, final.span.window, final.position.end), state)
                self.note(digest, final.span.window, decode_state(state, VERSIONS[digest]))
            self.clean(digest)

    def clean(self, digest):
        """Delete the records that the acknowledged states cover."""
        first_pane = self.merger(digest).needed_from
        for key in self.broker.present:
            kind, digest_of_key, *remaining_key = key
            if digest_of_key != digest:
                continue
            covered = kind in ("closed", "merged") and first_pane is not None and remaining_key[0] < first_pane
            covered |= kind == "closed" and first_pane is not None and (digest, remaining_key[0]) in self.merged
            last_state = self.states.get((digest, remaining_key[0])) if kind == "state" else None
            is_old = last_state is not None and remaining_key[1] < last_state.position.end
            if covered or is_old:
                self.broker.publish(key, None)


class Daemon:
    """Workers and readers with their finals. A partition can have several workers, and there can be several readers."""

    def __init__(self, log, random, **gate):
        self.log = log
        self.random = random
        self.broker = Broker()
        self.finals = {}
        self.born = 0
        self.gates = [Gate(partition, len(log), VERSIONS, limit=LIMIT, **gate) for partition in range(len(log))]
        self.workers = [[self.worker(partition)] for partition in range(len(log))]
        self.readers = [self.reader()]

    def worker(self, partition):
        self.born += 1
        return Worker(self.broker, self.gates[partition], self.log[partition], self.born)

    def reader(self):
        return Reader(self.broker, len(self.log), self.random)

    def collect(self, finals):
        """Keep finals, and check that all finals of one key are equal."""
        for key, value in finals:
            assert self.finals.setdefault(key, value) == value

    def live(self):
        """Let one thing happen."""
        random = self.random
        partition = random.randrange(len(self.log))
        workers = self.workers[partition]
        worker = random.choice(workers)
        reader = random.choice(self.readers)
        act = random.choices(
            ["read", "write", "take over", "die", "poll", "emit", "join", "leave"],
            [40, 40, 6, 4, 12, 6, 2, 2],
        )[0]
        match act:
            case "read":
                worker.read(random.choice([1, 3, 10, 30]))
            case "write":
                for _ in range(random.choice([1, 3, 20])):
                    worker.step(random)
            case "take over":  # the one before may go on
                workers.append(self.worker(partition))
            case "die" if len(workers) > 1:
                workers.remove(worker)
            case "die":
                workers[0] = self.worker(partition)
            case "poll":
                reader.poll(random.choice([1, 5, 50, 1000]))
            case "emit":  # it may die in the middle of it
                # A reader that dies in the middle has written some finals, and the state after none of the others.
                whole = random.random() < 0.6
                self.collect(reader.emit() if whole else islice(reader.emit(), random.randrange(5)))
                if not whole:
                    self.readers[self.readers.index(reader)] = self.reader()
            case "join":
                self.readers.append(self.reader())
            case "leave" if len(self.readers) > 1:
                self.readers.remove(reader)

    def finish(self):
        """Let new owners read and write everything, and let every reader read that."""
        for partition in range(len(self.log)):
            worker = self.worker(partition)
            worker.read(1 << 60)
            worker.step(self.random)
            while worker.writes:
                worker.step(self.random)
        self.readers.append(self.reader())
        for reader in self.readers:
            reader.poll(1 << 60)
            self.collect(reader.emit())
