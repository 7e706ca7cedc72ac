"""The rejects must name each refused record with the same bytes each time, and no counted record."""

from collections import defaultdict

from aggregator.counting.admission.gate import AcceptedFrame, Gate, Refusal
from hubbub.kafka.settings import REPORTS
from oracles.frame import MAX_FRAME


def refused_records(world, versions):
    """Return the reason of each refused record of the log, by the key of its reject."""
    topic = world.kafka.topic(REPORTS)
    partitions = world.log.partitions[topic]
    reasons = {}
    for part in partitions:
        gate = Gate(part.number, len(partitions), versions, limit=MAX_FRAME)
        ids = defaultdict(set)
        clock = None
        for record in part.all_records:
            outcome, clock = gate.admit(record.value, record.timestamp, clock)
            key = f"{topic}|{part.number}|{record.offset}".encode()
            if isinstance(outcome, Refusal):
                reasons[key] = outcome.reason
            elif isinstance(outcome, AcceptedFrame) and outcome.id is not None:
                pane_ids = ids[outcome.query.digest, outcome.pane]
                if outcome.id in pane_ids:
                    reasons[key] = "duplicate"
                elif len(pane_ids) < outcome.query.max_ids:
                    pane_ids.add(outcome.id)
    return reasons


def faults(world, versions, records):
    """Yield the step and the text of each fault of the rejects."""
    reasons = refused_records(world, versions)
    contents = {}
    for record in records:
        content = record.value, record.headers
        if contents.setdefault(record.key, content) != content:
            yield record.step, f"{record.key!r} is refused in two ways"
        elif record.key not in reasons:
            yield record.step, f"{record.key!r} counts, and is named as refused"
        elif dict(record.headers)["reason"] != reasons[record.key].encode():
            yield (
                record.step,
                f"{record.key!r} is refused for {dict(record.headers)['reason']!r}, not for {reasons[record.key]}",
            )
    for key in sorted(reasons.keys() - contents.keys()):
        yield world.steps, f"{key!r} is refused for {reasons[key]}, and not named"
