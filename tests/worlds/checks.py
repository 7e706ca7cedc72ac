"""The checks after a world: everything published equals what a single process makes from the log."""

from collections import Counter, defaultdict
from typing import NamedTuple

from aggregator.merging.snapshot_records import decode_state
from aggregator.publishing.finals.final import ResultSequence
from aggregator.records.keys import provisional_key
from aggregator.tallies import keys
from hubbub.definitions.catalog import DefinitionLog, TopicRecord
from hubbub.kafka.settings import ALERTS, CHANGELOG, CLOCKS, ESTIMATES, QUERIES, REJECTS, REPORTS, SNAPSHOTS
from oracles.frame import MAX_FRAME
from tests.fold import closed_windows, finals
from tests.worlds import boards, covers, crowds, laws, leftovers, refusals, strange
from tests.worlds.counts import LogCounts

MOST_CLOCKS = 2
"""Clock records of one worker that are not deleted."""
SILENCE = 2.0
"""Seconds after which a start ends without an answer of a broker, or when it wakes after its patience."""


class Expected(NamedTuple):
    """The results that the log requires."""

    records: dict
    states: dict
    """The states of alerts after each final, by digest, window and end."""
    count: int
    """The number of finals."""


class Violation(NamedTuple):
    """One broken promise: the check, the step of the world that wrote the wrong record, and a text."""

    check: str
    step: int
    text: str


def appended(world, name):
    """Return every record that hubbub ever appended to a topic, in the order of the partitions."""
    records = []
    for part in world.log.partitions[world.kafka.topic(name)]:
        records += [record for record in part.all_records if record.writer != strange.WRITER]
    return records


def definitions(world):
    """Return the definitions that the topic `queries` holds. Records of strangers are unreadable."""
    log = DefinitionLog()
    for record in appended(world, QUERIES):
        log.take(TopicRecord(record.key, record.value, record.timestamp))
    return log.definitions


def expected(world):
    """Return all finals and alerts that the log requires, the states of alerts after each final, and their number."""
    log = [
        [(record.offset, record.timestamp, record.value) for record in part.all_records]
        for part in world.log.partitions[world.kafka.topic(REPORTS)]
    ]
    catalog = definitions(world)
    by_query = defaultdict(list)
    for final in finals(log, list(catalog.versions.values()), log_has_time=True, limit=MAX_FRAME):
        by_query[final.versions.query.digest].append(final)

    records = {}
    states = {}
    results = defaultdict(ResultSequence)
    count = 0
    for group in by_query.values():
        for definition, final in closed_windows(group):
            query = definition.at(final.span.end - definition.query.pane).query
            result = results[query.digest].next(query, final)
            records |= dict(result.window.records) | dict(result.decision.alerts)
            states[query.digest, final.span.window, final.span.end] = result.decision.states
            count += 1
    return Expected(records, states, count)


def check(world):
    """Return the violations of a world after its end, and the number of finals."""
    right = expected(world)
    versions = definitions(world).versions
    counts = LogCounts(world, versions)
    violations = list(world.violations)
    violations += _results(world, right.records)
    violations += _states(world, versions, right.states)
    violations += _counts(world, versions, counts)
    violations += _orders(world, versions)
    for look in (_provisional, _growth, _liveness):
        violations += look(world)
    for step, text in crowds.faults(appended(world, ESTIMATES), versions, counts.totals()):
        violations.append(Violation("crowd", step, text))
    fault = boards.difference(world) if world.plan.is_whole else None
    if fault is not None:
        violations.append(Violation("board", world.steps, fault))
    return violations, right.count


def _results(world, right):
    written_values = defaultdict(dict)
    for record in appended(world, ESTIMATES) + appended(world, ALERTS):
        if record.value is not None and not record.key.endswith(b"|p"):
            written_values[record.key].setdefault(record.value, record.step)

    for key, values in written_values.items():
        step = min(values.values())
        if len(values) > 1:
            yield Violation("contradicting", max(values.values()), f"{key!r} has {len(values)} contents")
        elif key not in right:
            yield Violation("extra", step, f"{key!r} is not due")
        elif right[key] not in values:
            yield Violation("wrong", step, f"{key!r} differs from the log")
    for key in right:
        if key not in written_values:
            yield Violation("missing", world.steps, f"{key!r} was never published")


def _states(world, versions, states):
    """Each state of alerts in `snapshots` is the one after the final at its end."""
    for record in appended(world, SNAPSHOTS):
        name = keys.decode(record.key)
        if record.value is None or not isinstance(name, keys.StateKey):
            continue
        alerts = decode_state(record.value, versions[name.digest]).alerts
        if states.get((name.digest, name.window, name.end)) != alerts:
            yield Violation("state", record.step, f"{record.key!r} has other states of alerts than its final")


def _orders(world, versions):
    """Each record comes after those that it relies on, and takes nothing back."""
    changelog = appended(world, CHANGELOG)
    snapshots = appended(world, SNAPSHOTS)
    clocks = appended(world, CLOCKS)
    finals = appended(world, ESTIMATES)
    for name, faults in (
        ("deletion", covers.deletions(changelog, snapshots)),
        ("live clocks", covers.live_clocks(clocks)),
        ("live progress", covers.live_progress(changelog)),
        ("early", covers.early_finals(finals, clocks, versions, world.mix.partitions)),
    ):
        for step, text in faults:
            yield Violation(name, step, text)


def _counts(world, versions, counts):
    """The rejects name all refused records, and no others. Each record obeys the laws of its kind."""
    for text in covers.lost_panes(counts, appended(world, SNAPSHOTS)):
        yield Violation("lost", world.steps, text)
    for step, text in refusals.faults(world, counts.reasons, appended(world, REJECTS)):
        yield Violation("rejects", step, text)

    changelog = appended(world, CHANGELOG)
    for name, faults in (
        ("tally", laws.tallies(changelog, versions, counts)),
        ("snapshot", laws.snapshots(appended(world, SNAPSHOTS), versions, counts)),
        ("clock", laws.clocks(appended(world, CLOCKS))),
        ("progress", laws.progresses(changelog)),
    ):
        for step, text in faults:
            yield Violation(name, step, text)


def _provisional(world):
    """No provisional record follows a final of the same worker. After one of another, readers drop it."""
    for part in world.log.partitions[world.kafka.topic(ESTIMATES)]:
        final_keys = set()
        for record in part.all_records:
            if record.value is None or record.writer == strange.WRITER:
                continue
            if record.key.endswith(b"|p"):
                if (record.writer, record.key) in final_keys:
                    yield Violation("provisional", record.step, f"{record.key!r} follows its final")
            else:
                final_keys.add((record.writer, provisional_key(record.key)))


def _live(world, name):
    """Return the keys of a topic that are not deleted, with their newest records."""
    newest = {}
    for record in appended(world, name):
        newest[record.partition, record.key] = record
    return [record for record in newest.values() if record.value is not None]


def _growth(world):
    """The live keys are at most those of open panes, of windows, and of the writers that live."""
    numbers = Counter()
    for record in _live(world, CHANGELOG):
        name = keys.decode(record.key)
        if not isinstance(name, keys.PartitionKey):
            continue
        writer = name.writer.split(".")[0]
        numbers[name.partition, writer] += 1
        owner, step = world.owners[name.partition]
        # A former owner may write late. The recovery before has not read that, and the next one deletes it.
        if writer != owner and record.step < step:
            yield Violation("growth", record.step, f"the owner of partition {name.partition} leaves {record.key!r}")
    for (partition, writer), number in numbers.items():
        # The present record, and the one whose deletion goes with the next checkpoint.
        if number > 2:
            yield Violation("growth", world.steps, f"{number} records of progress of partition {partition} by {writer}")

    catalog = definitions(world)
    limits = defaultdict(int)
    for record in _live(world, CHANGELOG):
        key = keys.decode(record.key)
        if isinstance(key, keys.PaneKey) and key.kind == "tally":
            limits[key.digest, key.partition] += 1
    for (digest, partition), number in limits.items():
        versions = catalog.versions[digest]
        if number > versions.most_open + 1:
            text = f"{number} tallies of {versions.query.name} on partition {partition}"
            yield Violation("growth", world.steps, text)

    clocks = _live(world, CLOCKS)
    if len(clocks) > MOST_CLOCKS * len(world.missing):
        yield Violation("growth", world.steps, f"{len(clocks)} clock records of {len(world.missing)} workers")
    for step, text in leftovers.of_snapshots(world, appended(world, SNAPSHOTS), catalog.versions):
        yield Violation("growth", step, text)


def _liveness(world):
    for process in world.processes:
        # A worker that starts and meets no broker ends with 3, and a supervisor starts another one.
        last_silence = max(process.offline_until, process.frozen_until)
        is_silence = process.code == 3 and last_silence > process.end - SILENCE and process.end < world.mix.seconds
        if process.end is not None and process.code != 0 and not is_silence:
            reason = process.error or process.failure
            yield Violation("liveness", world.steps, f"{process.name} ended with {process.code} {reason!r}")
        elif process.loop.errors:
            yield Violation("liveness", world.steps, f"{process.name} has an unseen error: {process.loop.errors[0]}")
    if len(world.missing) < world.mix.workers:
        yield Violation("liveness", world.steps, f"only {len(world.missing)} workers run at the end")
    for name, reason in world.missing.items():
        if reason is not None:
            yield Violation("liveness", world.steps, f"{name} is not ready: {reason}")
