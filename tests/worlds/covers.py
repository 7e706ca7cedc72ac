"""Laws of the order of records over several topics: deletions come after replacements, finals after their clocks."""

from collections import defaultdict

from aggregator.tallies import clock_record, keys, progress
from tests.fold import is_closed_on_slots
from tests.worlds import strange
from tests.worlds.crowds import window_in


def lost_panes(counts, snapshots):
    """Yield the text of each pane whose reports are in no snapshot. Then counted and refused records miss some."""
    places = set()
    for record in snapshots:
        name = keys.decode(record.key)
        if record.value is not None and isinstance(name, keys.PaneKey) and name.kind == "closed":
            places.add((name.partition, name.digest, name.pane))
    for partition, digest, pane in counts.panes():
        if (partition, digest, pane) not in places:
            yield f"pane {pane} of {digest.hex()} on partition {partition} has reports, and no snapshot"


def deletions(changelog, snapshots):
    """Yield the step and the text of each deletion before the record that replaces it."""
    closed_steps = {}
    merged_steps = {}
    state_steps = defaultdict(dict)
    for record in snapshots:
        name = keys.decode(record.key)
        if record.value is None or name is None:
            continue
        match name:
            case keys.PaneKey(kind="closed"):
                closed_steps.setdefault((name.digest, name.pane, name.partition), record.step)
            case keys.PaneKey(kind="merged"):
                merged_steps.setdefault((name.digest, name.pane), record.step)
            case keys.StateKey():
                state_steps[name.digest, name.window].setdefault(name.end, record.step)

    def has_state(digest, window, end, step):
        """Whether a state with a later end was written before."""
        for (other_digest, other), steps in state_steps.items():
            if other_digest == digest and window in (None, other):
                later_steps = [state_step for state_end, state_step in steps.items() if state_end > end]
                if min(later_steps, default=step) < step:
                    return True
        return False

    for record in changelog:
        name = keys.decode(record.key)
        if record.value is None and isinstance(name, keys.PaneKey):
            step = closed_steps.get((name.digest, name.pane, name.partition))
            if step is None or step > record.step:
                yield record.step, f"{record.key!r} is deleted before its snapshot"

    for record in snapshots:
        name = keys.decode(record.key)
        # Workers also delete states of strangers, which end in the far future.
        if record.value is not None or (isinstance(name, keys.StateKey) and name.end == strange.FAR):
            continue
        match name:
            case keys.PaneKey(kind="closed") if merged_steps.get((name.digest, name.pane), record.step) < record.step:
                pass
            case keys.PaneKey(kind="closed" | "merged"):
                if not has_state(name.digest, None, name.pane, record.step):
                    yield record.step, f"{record.key!r} is deleted before a state that covers it"
            case keys.StateKey():
                if not has_state(name.digest, name.window, name.end, record.step):
                    yield record.step, f"{record.key!r} is deleted before a newer state"


def live_clocks(records):
    """Yield the step and the text of each deletion after which the live clock records say less than before."""
    live = {}
    last_values = {}
    for record in records:
        if record.value is None:
            live.pop(record.key, None)
        else:
            live[record.key] = clock_record.decode(record.value)
        greatest = {}
        for content in live.values():
            for kind, numbers in (("clock", content.clocks), ("offset", content.offsets)):
                for number, value in zip(numbers.numbers.tolist(), numbers.values.tolist(), strict=True):
                    greatest[kind, number] = max(value, greatest.get((kind, number), value))
        for (kind, number), value in last_values.items():
            if greatest.get((kind, number), value - 1) < value:
                yield record.step, f"no record has the {kind} {value} of partition {number} after {record.key!r}"
        last_values = greatest


def live_progress(records):
    """Yield the step and the text of each record after which the live progress of its partition says less."""
    live = defaultdict(dict)
    last_values = {}
    for record in records:
        name = keys.decode(record.key)
        if not isinstance(name, keys.PartitionKey):
            continue
        own = live[name.partition]
        if record.value is None:
            own.pop(record.key, None)
        else:
            own[record.key] = progress.decode(record.value).closed_clock
        clock = max((clock for clock in own.values() if clock is not None), default=None)
        last_clock = last_values.get(name.partition)
        if last_clock is not None and (clock is None or clock < last_clock):
            yield (
                record.step,
                f"after {record.key!r} partition {name.partition} has closed clock {clock}, not {last_clock}",
            )
        last_values[name.partition] = clock


def early_finals(finals, clock_records, versions, partitions):
    """Yield the step and the text of each final before the clocks of all slots had closed its panes."""
    clocks = {}
    waiting = sorted((*finals, *clock_records), key=lambda record: record.step)
    is_final = {record.step for record in finals}
    for record in waiting:
        if record.value is None:
            continue
        if record.step not in is_final:
            content = clock_record.decode(record.value).clocks
            for number, value in zip(content.numbers.tolist(), content.values.tolist(), strict=True):
                clocks[number] = max(value, clocks.get(number, value))
            continue
        digest, _, end = window_in(record.key)
        present_clocks = [clocks.get(number) for number in range(partitions)]
        if not is_closed_on_slots(present_clocks, end, versions[digest]) and not record.key.endswith(b"|p"):
            yield record.step, f"{record.key!r} is published at the clocks {clocks}"
