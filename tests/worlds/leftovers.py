"""Snapshots and states that nobody needs any more, and nobody has deleted."""

from collections import defaultdict

from aggregator.tallies import keys

ROUND_MS = 1000
"""Milliseconds after which a merger has read its own records back. It deletes those that it has read."""


def of_snapshots(world, records, versions):
    """Yield the step and the text of each live record that its merger should have deleted.

    A merger deletes panes and its own states after it has written a newer state. So the newest state of a merger that
    still has the query leaves nothing that the state a round before covered. A late record of a former merger may stay
    until somebody reads the partition again, and so may the records around the last state of a killed one.
    """
    live = {}
    states = defaultdict(list)
    for record in records:
        name = keys.decode(record.key)
        if name is None:
            continue
        if isinstance(name, keys.StateKey) and record.value is not None:
            states[name.digest].append((record, name))
        live.pop(name, None)
        if record.value is not None:
            live[name] = record

    for digest, own_states in states.items():
        own_states.sort(key=lambda row: row[0].step)
        last_record, _ = own_states[-1]
        if last_record.writer not in world.missing or last_record.step < world.rebalanced_at:
            continue
        earlier = [row for row in own_states if row[0].timestamp < last_record.timestamp - ROUND_MS]
        if not earlier or earlier[-1][0].writer != last_record.writer:
            continue
        yield from _covered(live, digest, versions[digest], earlier)


def _covered(live, digest, history, states):
    """Yield the live records of a query that these states cover."""
    ends = {}
    for _, name in states:
        ends[name.window] = max(name.end, ends.get(name.window, name.end))
    windows = {window for version in history.versions for window in version.query.windows}
    if windows - ends.keys():
        return  # the first window of a kind may need any pane

    last_record, _ = states[-1]
    needed_from = min(end + window.step - window.size for window, end in ends.items())
    for name, record in live.items():
        if record.step > last_record.step or name.digest != digest:
            continue
        is_old_pane = isinstance(name, keys.PaneKey) and name.pane < needed_from
        is_old_state = isinstance(name, keys.StateKey) and name.end < ends.get(name.window, name.end)
        is_own_state = is_old_state and record.writer == last_record.writer
        if is_old_pane or (is_own_state and not _was_late(record, name, states)):
            yield record.step, f"{record.key!r} is never deleted"


def _was_late(record, name, states):
    """Whether a newer state was there when this one was written, so that only a later reading can meet it."""
    return any(
        other.window == name.window and other.end > name.end and other_record.step < record.step
        for other_record, other in states
    )
