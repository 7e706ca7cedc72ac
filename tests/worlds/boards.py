"""The board's store as a reader: read from zero and read along, it shows the same."""

from contextlib import suppress

from aggregator.board.store.store import Store
from hubbub.kafka.settings import ALERTS, ESTIMATES, QUERIES, STATUS
from oracles.errors import ReportError

TOPICS = (ESTIMATES, ALERTS, STATUS)


def difference(world):
    """Return a text if the board that reads partition by partition differs from the one that has read along."""
    from_zero = Store(1 << 30, 1 << 30)
    for topic in (QUERIES, *TOPICS):
        for part in world.log.partitions[world.kafka.topic(topic)]:
            for record in part.records:
                _take(from_zero, topic, record)

    read_along = Store(1 << 30, 1 << 30)
    parts = [(topic, part) for topic in (QUERIES, *TOPICS) for part in world.log.partitions[world.kafka.topic(topic)]]
    records = [(record.step, topic, record) for topic, part in parts for record in part.all_records]
    for _, topic, record in sorted(records, key=lambda row: row[0]):
        _take(read_along, topic, record)

    contents = _shown(from_zero)
    contents_along = _shown(read_along)
    all_names = contents.keys() | contents_along.keys()
    names = sorted(name for name in all_names if contents.get(name) != contents_along.get(name))
    return f"the board shows another {names[0]!r} from zero than along" if names else None


def _take(store, topic, record):
    """Take a record as the board does, which skips those that it cannot read."""
    with suppress(ReportError, ValueError):
        if topic == QUERIES:
            store.define(record.key, record.value, record.timestamp)
        elif record.value is not None:
            {ESTIMATES: store.take_record, ALERTS: store.take_alert, STATUS: store.take_status}[topic](record.value)


def _shown(store):
    """Return all that a store shows, by names that can be compared."""
    contents = {"alerts": [repr(alert) for alert in store.alerts()], "definitions": sorted(store.definitions.versions)}
    for series in store._all_series():
        for group, kinds in series.by_group.items():
            for window, windows in kinds.items():
                for end, entry in windows.finals.items():
                    contents[f"{series.query} {group} {window} {end}"] = [repr(part) for part in entry.parts]
                newest = windows.newest
                contents[f"{series.query} {group} {window}"] = newest and [repr(part) for part in newest.parts]
    return contents
