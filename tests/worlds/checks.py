"""The checks after a world: everything published equals what a single process makes from the log."""

from collections import Counter, defaultdict
from typing import NamedTuple

from aggregator.publishing.finals.final import ResultSequence
from aggregator.records.keys import provisional_key
from aggregator.tallies import keys
from hubbub.definitions.catalog import DefinitionLog, TopicRecord
from hubbub.kafka.settings import ALERTS, CHANGELOG, CLOCKS, ESTIMATES, QUERIES, REJECTS, REPORTS, SNAPSHOTS
from oracles.frame import MAX_FRAME
from tests.fold import closed_windows, finals
from tests.worlds import laws, refusals
from tests.worlds.counts import LogCounts


class Violation(NamedTuple):
    """One broken promise: the check, the step of the world that wrote the wrong record, and a text."""

    check: str
    step: int
    text: str


def appended(world, name):
    """Return every record that was ever appended to a topic, in the order of the partitions."""
    records = []
    for part in world.log.partitions[world.kafka.topic(name)]:
        records += part.all_records
    return records


def definitions(world):
    """Return the definitions that the topic `queries` holds."""
    log = DefinitionLog()
    for record in appended(world, QUERIES):
        log.take(TopicRecord(record.key, record.value, record.timestamp))
    return log.definitions


def expected(world):
    """Return all finals, maps and alerts that the log requires, and the number of finals."""
    log = [
        [(record.offset, record.timestamp, record.value) for record in part.all_records]
        for part in world.log.partitions[world.kafka.topic(REPORTS)]
    ]
    catalog = definitions(world)
    by_query = defaultdict(list)
    for final in finals(log, list(catalog.versions.values()), log_has_time=True, limit=MAX_FRAME):
        by_query[final.versions.query.digest].append(final)

    records = {}
    results = defaultdict(ResultSequence)
    count = 0
    for group in by_query.values():
        for definition, final in closed_windows(group):
            query = definition.at(final.span.end - definition.query.pane).query
            result = results[query.digest].next(query, final)
            records |= dict(result.window.records) | dict(result.window.maps) | dict(result.decision.alerts)
            count += 1
    return records, count


def check(world):
    """Return the violations of a world after its end, and the number of finals."""
    right, count = expected(world)
    violations = list(world.violations)
    for look in (_results, _counts, _provisional, _growth, _liveness):
        violations += look(world, right)
    return violations, count


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


def _counts(world, _):
    """The rejects name all refused records, and no others. Each record obeys the laws of its kind."""
    versions = definitions(world).versions
    counts = LogCounts(world, versions)
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


def _provisional(world, _):
    """No provisional record follows a final of the same worker. After one of another, readers drop it."""
    for part in world.log.partitions[world.kafka.topic(ESTIMATES)]:
        final_keys = set()
        for record in part.all_records:
            if record.value is None:
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


def _growth(world, _):
    """The live keys are at most those of open panes, of windows, and of the writers that live."""
    partitions = world.mix.partitions
    numbers = Counter(record.partition for record in _live(world, CHANGELOG) if record.key.startswith(b"progress"))
    for partition, number in numbers.items():
        # Two of the owner, and two of a former owner that wrote late. The next recovery deletes those.
        if number > 4:
            yield Violation("growth", world.steps, f"{number} records of progress of partition {partition}")

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
    if len(clocks) > 2 * partitions:
        yield Violation("growth", world.steps, f"{len(clocks)} clock records for {partitions} partitions")


def _liveness(world, _):
    for process in world.processes:
        # A worker that meets no broker for long ends with 3, and a supervisor starts another one.
        is_silence = process.code == 3 and process.end < world.mix.seconds
        if process.end is not None and process.code != 0 and not is_silence:
            reason = process.error or process.failure
            yield Violation("liveness", world.steps, f"{process.name} ended with {process.code} {reason!r}")
        elif process.loop.errors:
            yield Violation("liveness", world.steps, f"{process.name} has an unseen error: {process.loop.errors[0]}")
    for name, reason in world.missing.items():
        if reason is not None:
            yield Violation("liveness", world.steps, f"{name} is not ready: {reason}")
